"""Frame messages for a connection: length-prefixed, bounded, and with a shared secret sealed by an HMAC.

A frame is ``b"tm"``, a version byte, a byte for its kind, a flag byte, the payload's length (4 bytes,
big-endian), the seal (32 bytes, present when the flag is 1) and the payload. The kinds are ``J``, one JSON
object; ``O``, output of a worker; and ``F``, a piece of a file. Nothing is ever unpickled.

The rendezvous sends JSON only, at most 64 KiB per message. Its listening side speaks first and sends a
challenge with a nonce; the caller answers with its own nonce. Each seal is ``HMAC-SHA256(token, direction,
sequence number, both nonces, kind, payload)``. A frame is therefore refused if it was altered, repeated, left
out, sent back to its sender, or recorded on another connection. Frames are authenticated, not encrypted.

Agents on other machines (:mod:`tfmuster.launcher.remote`) use all kinds, with larger payloads. Over ssh they
send no seals; over their own connections they seal with its `Channel.key`.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import struct
from typing import Any, Final, NamedTuple

import orjson

#: Largest payload of the rendezvous, bytes. A cluster of 1,000 tasks takes about 25 KiB.
MAX_PAYLOAD: Final = 64 * 1024
PROTOCOL: Final = 3
JSON, OUTPUT, FILE = b"J", b"O", b"F"

Message = dict[str, Any]

_HEADER = struct.Struct(">2sBcBI")
_MAGIC = b"tm"
_SEAL_BYTES = 32
_SEALED = 1
_NONCE_BYTES = 16
#: Bytes that may arrive before the preamble; after more, the connection is refused.
_MOST_NOISE = 64 * 1024


class ChannelError(Exception):
    """The data that arrived is not a frame of this job. ``reason`` is a short code for tests and messages."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Frame(NamedTuple):
    """One frame: its kind, which is `JSON`, `OUTPUT` or `FILE`, and its payload."""

    kind: bytes
    payload: bytes


def message(type: str, **fields: object) -> Frame:
    """Make the frame of a JSON object with a ``type``."""
    return Frame(JSON, orjson.dumps({"type": type, **fields}))


def read_message(payload: bytes) -> Message:
    """Read the JSON object of a frame. Raises ChannelError if the payload is not a JSON object."""
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise ChannelError("not-json") from error
    if not isinstance(value, dict):
        raise ChannelError("not-json")
    return value


class Channel:
    """Both directions of one connection, without its socket: turns frames into bytes and bytes into frames.

    The side that called (`caller`) answers the challenge of the side that listens. Either both have the
    secret `token`, or neither. `kinds` are the kinds of frames to accept, and `limit` the largest payload in
    bytes, in either direction. The other side sends `preamble` before its first frame; bytes before it are
    kept in `noise`.
    """

    def __init__(
        self,
        *,
        caller: bool,
        token: str | bytes | None,
        kinds: bytes = JSON,
        limit: int = MAX_PAYLOAD,
        preamble: bytes = b"",
    ) -> None:
        self._key = token.encode() if isinstance(token, str) else token
        self._directions = (b">", b"<") if caller else (b"<", b">")
        self._counts = [0, 0]
        self._nonces = {True: b"", False: b""}
        self._caller = caller
        self._kinds, self._limit, self._preamble = kinds, limit, preamble
        self._buffer = bytearray()
        self.noise = b""

    @property
    def established(self) -> bool:
        """True once both sides have sent their nonce."""
        return all(self._nonces.values())

    def key(self, purpose: bytes) -> bytes:
        """Derive a key of this connection, which seals other data once the connection is established."""
        assert self._key is not None and self.established
        parts = (b"tfmuster-2 key ", purpose, self._nonces[False], self._nonces[True])
        return hmac.digest(self._key, b"".join(parts), hashlib.sha256)

    def encode(self, message: Message) -> bytes:
        """Encode one message of the rendezvous. The first message of each side carries its nonce."""
        nonce = b""
        if not self._nonces[self._caller]:
            nonce = os.urandom(_NONCE_BYTES)
            message = {**message, "nonce": nonce.hex()}
        data = self.pack(Frame(JSON, orjson.dumps(message)))
        if nonce:
            self._nonces[self._caller] = nonce
        return data

    def decode(self, data: bytes) -> list[Message]:
        """Decode the messages of the rendezvous that `data` completes. Raises ChannelError like `unpack`."""
        self._buffer += data
        messages: list[Message] = []
        while (frame := self._next_frame()) is not None:
            message = read_message(frame.payload)
            if not self._nonces[not self._caller]:
                self._nonces[not self._caller] = _nonce(message.pop("nonce", None))
            messages.append(message)
        return messages

    def pack(self, frame: Frame) -> bytes:
        """Encode one frame. Raises ChannelError if its payload is too long."""
        kind, payload = frame
        if len(payload) > self._limit:
            raise ChannelError("too-long")
        header = _HEADER.pack(_MAGIC, PROTOCOL, kind, _SEALED if self._key else 0, len(payload))
        data = header + self._seal(0, frame) + payload
        self._counts[0] += 1
        return data

    def unpack(self, data: bytes) -> list[Frame]:
        """Decode the frames that `data` completes. Raises ChannelError if one does not belong to this job."""
        self._buffer += data
        if self._preamble:
            before, preamble, after = self._buffer.partition(self._preamble)
            if not preamble:
                if len(self._buffer) > _MOST_NOISE:
                    raise ChannelError("no-preamble")
                self.noise = bytes(self._buffer)
                return []
            self.noise, self._preamble, self._buffer = bytes(before), b"", after
        frames = []
        while (frame := self._next_frame()) is not None:
            frames.append(frame)
        return frames

    def _next_frame(self) -> Frame | None:
        start = bytes(self._buffer[: _HEADER.size])
        if not _MAGIC.startswith(start[:2]):
            raise ChannelError("not-tfmuster")
        if len(start) < _HEADER.size:
            return None
        _, protocol, kind, flags, length = _HEADER.unpack(start)
        if protocol != PROTOCOL or flags not in (0, _SEALED) or kind not in self._kinds:
            raise ChannelError("other-protocol")
        if length > self._limit:
            raise ChannelError("too-long")
        if bool(flags) != bool(self._key):
            raise ChannelError("no-token" if self._key else "needs-token")
        seal_end = _HEADER.size + (_SEAL_BYTES if flags else 0)
        if len(self._buffer) < seal_end + length:
            return None
        seal = bytes(self._buffer[_HEADER.size : seal_end])
        frame = Frame(kind, bytes(self._buffer[seal_end : seal_end + length]))
        del self._buffer[: seal_end + length]
        if not hmac.compare_digest(seal, self._seal(1, frame)):
            raise ChannelError("wrong-token")
        self._counts[1] += 1
        return frame

    def _seal(self, way: int, frame: Frame) -> bytes:
        if self._key is None:
            return b""
        # The listener's nonce comes first on both sides. All parts before the payload have a fixed length
        # once they are set, and the sequence number tells which of them are set.
        parts = (
            b"tfmuster-2",
            self._directions[way],
            struct.pack(">Q", self._counts[way]),
            self._nonces[False],
            self._nonces[True],
            frame.kind,
            frame.payload,
        )
        return hmac.digest(self._key, b"".join(parts), hashlib.sha256)


def _nonce(text: object) -> bytes:
    with contextlib.suppress(ValueError):
        if isinstance(text, str) and len(nonce := bytes.fromhex(text)) == _NONCE_BYTES:
            return nonce
    raise ChannelError("not-tfmuster")
