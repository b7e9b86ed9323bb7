"""Messages between tasks: length-prefixed JSON, bounded, and sealed by an HMAC when the job has a token.

A frame is ``b"tm"``, a version byte, a flag byte, the payload's length (4 bytes, big-endian), the seal (32
bytes, present when the flag is 1) and the payload: one JSON object of at most 64 KiB. Nothing is ever
unpickled.

The listening side speaks first (a challenge with a nonce), the caller answers with a nonce of its own. Each
seal is ``HMAC-SHA256(token, direction, sequence number, both nonces, payload)``, so that a frame that is
altered, repeated, left out, sent back to its sender, or recorded on another connection is refused. Frames
are authentic, not secret.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from typing import Any, Final

import orjson

#: Largest payload, bytes. A cluster of 1,000 tasks takes about 25 KiB.
MAX_PAYLOAD: Final = 64 * 1024
PROTOCOL: Final = 1

Message = dict[str, Any]

_HEADER = struct.Struct(">2sBBI")
_MAGIC = b"tm"
_SEAL_BYTES = 32
_SEALED = 1


class ChannelError(Exception):
    """What arrived is no frame of this job. ``reason`` is the short code that tests and texts go by."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Channel:
    """The two directions of one connection, without the socket: messages to bytes and bytes to messages.

    Parameters
    ----------
    caller : bool
        True for the side that called, False for the side that listens (and so sends the challenge).
    token : str, optional
        The job's secret. Both sides have it, or neither.
    """

    def __init__(self, *, caller: bool, token: str | None) -> None:
        self._key = token.encode() if token else None
        self._directions = (b">", b"<") if caller else (b"<", b">")
        self._counts = [0, 0]
        self._nonces = {True: b"", False: b""}
        self._caller = caller
        self._buffer = bytearray()

    @property
    def established(self) -> bool:
        """True once both sides have sent their nonce."""
        return all(self._nonces.values())

    def key(self, purpose: bytes) -> bytes:
        """A key of this connection alone, for something else that goes over it once it is established."""
        assert self._key is not None and self.established
        parts = (b"tfmuster-1 key ", purpose, self._nonces[False], self._nonces[True])
        return hmac.digest(self._key, b"".join(parts), hashlib.sha256)

    def encode(self, message: Message) -> bytes:
        """One frame. The first one of each side carries its nonce."""
        nonce = b""
        if not self._nonces[self._caller]:
            nonce = os.urandom(16)
            message = {**message, "nonce": nonce.hex()}
        payload = orjson.dumps(message)
        if len(payload) > MAX_PAYLOAD:
            raise ChannelError("too-long")
        header = _HEADER.pack(_MAGIC, PROTOCOL, _SEALED if self._key else 0, len(payload))
        frame = header + self._seal(0, payload) + payload
        self._counts[0] += 1
        if nonce:
            self._nonces[self._caller] = nonce
        return frame

    def decode(self, data: bytes) -> list[Message]:
        """The messages that `data` completes; raises WireError at the first frame that is not this job's."""
        self._buffer += data
        messages: list[Message] = []
        while (payload := self._next_payload()) is not None:
            try:
                message = orjson.loads(payload)
            except orjson.JSONDecodeError as error:
                raise ChannelError("not-json") from error
            if not isinstance(message, dict):
                raise ChannelError("not-json")
            if not self._nonces[not self._caller]:
                self._nonces[not self._caller] = _nonce(message.pop("nonce", None))
            messages.append(message)
        return messages

    def _next_payload(self) -> bytes | None:
        start = bytes(self._buffer[: _HEADER.size])
        if not _MAGIC.startswith(start[:2]):
            raise ChannelError("not-tfmuster")
        if len(start) < _HEADER.size:
            return None
        _, protocol, flags, length = _HEADER.unpack(start)
        if protocol != PROTOCOL or flags not in (0, _SEALED):
            raise ChannelError("other-protocol")
        if length > MAX_PAYLOAD:
            raise ChannelError("too-long")
        if bool(flags) != bool(self._key):
            raise ChannelError("no-token" if self._key else "needs-token")
        seal_end = _HEADER.size + (_SEAL_BYTES if flags else 0)
        if len(self._buffer) < seal_end + length:
            return None
        seal = bytes(self._buffer[_HEADER.size : seal_end])
        payload = bytes(self._buffer[seal_end : seal_end + length])
        del self._buffer[: seal_end + length]
        if not hmac.compare_digest(seal, self._seal(1, payload)):
            raise ChannelError("wrong-token")
        self._counts[1] += 1
        return payload

    def _seal(self, way: int, payload: bytes) -> bytes:
        if self._key is None:
            return b""
        # The listener's nonce comes first on both sides; all parts before the payload have a fixed length
        # once set, and the sequence number tells which of them are set.
        parts = (
            self._directions[way],
            struct.pack(">Q", self._counts[way]),
            self._nonces[False],
            self._nonces[True],
        )
        return hmac.digest(self._key, b"tfmuster-1" + b"".join(parts) + payload, hashlib.sha256)


def _nonce(text: Any) -> bytes:
    try:
        nonce = bytes.fromhex(text)
    except (TypeError, ValueError):
        nonce = b""
    if len(nonce) != 16:
        raise ChannelError("not-tfmuster")
    return nonce
