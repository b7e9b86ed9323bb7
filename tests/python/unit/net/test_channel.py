"""Messages, frames and seals: what is refused, with and without a token."""

from __future__ import annotations

import os
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfmuster.launcher.remote.agent_connection import PREAMBLE, agent_channel, channel_problem
from tfmuster.launcher.remote.agents.call_home import KEY_PURPOSE
from tfmuster.net.channel import (
    FILE,
    MAX_PAYLOAD,
    OUTPUT,
    PROTOCOL,
    Channel,
    ChannelError,
    Frame,
    message,
    read_message,
)


def pair(listener_token=None, caller_token=None):
    return Channel(caller=False, token=listener_token), Channel(caller=True, token=caller_token)


def introduced(token):
    listener, caller = pair(token, token)
    assert caller.decode(listener.encode({"type": "challenge"})) == [{"type": "challenge"}]
    assert listener.decode(caller.encode({"type": "hello"})) == [{"type": "hello"}]
    assert listener.established and caller.established
    return listener, caller


@pytest.mark.parametrize("token", [None, "secret"])
def test_both_ways_and_in_any_pieces(token):
    listener, caller = introduced(token)
    frames = b"".join(caller.encode({"n": n}) for n in range(3))
    got = [m for i in range(len(frames)) for m in listener.decode(frames[i : i + 1])]
    assert got == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert caller.decode(listener.encode({"x": "é"})) == [{"x": "é"}]


@pytest.mark.parametrize(
    ("listener_token", "caller_token", "reason"),
    [("a", "b", "wrong-token"), ("a", None, "needs-token"), (None, "b", "no-token")],
)
def test_tokens_that_differ(listener_token, caller_token, reason):
    listener, caller = pair(listener_token, caller_token)
    with pytest.raises(ChannelError) as caught:
        caller.decode(listener.encode({"type": "challenge"}))
    assert caught.value.reason == reason


def refused(channel: Channel, data: bytes) -> str:
    with pytest.raises(ChannelError) as caught:
        channel.decode(data)
    return caught.value.reason


def test_a_frame_said_twice_is_refused():
    listener, caller = introduced("secret")
    frame = caller.encode({"type": "done"})
    listener.decode(frame)
    assert refused(listener, frame) == "wrong-token"


def test_a_frame_left_out_is_noticed():
    listener, caller = introduced("secret")
    caller.encode({"n": 1})
    assert refused(listener, caller.encode({"n": 2})) == "wrong-token"


def test_a_frame_of_another_connection_is_refused():
    listener, _ = introduced("secret")
    _, other_caller = introduced("secret")
    assert refused(listener, other_caller.encode({"type": "done"})) == "wrong-token"


def test_a_recorded_introduction_is_refused():
    first, caller = pair("secret", "secret")
    caller.decode(first.encode({"type": "challenge"}))
    hello = caller.encode({"type": "hello"})
    first.decode(hello)
    again = Channel(caller=False, token="secret")
    again.encode({"type": "challenge"})
    assert refused(again, hello) == "wrong-token"


def test_a_frame_sent_back_is_refused():
    listener, caller = introduced("secret")
    assert refused(caller, caller.encode({"type": "failed"})) == "wrong-token"
    assert listener.established


def test_a_changed_bit_is_noticed():
    listener, caller = introduced("secret")
    frame = bytearray(caller.encode({"type": "done"}))
    frame[-2] ^= 1
    assert refused(listener, bytes(frame)) == "wrong-token"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "not-tfmuster"),
        (b"\x16\x03\x01\x02\x00\x01", "not-tfmuster"),
        (b"t", None),
        (b"tx", "not-tfmuster"),
        (struct.pack(">2sBcBI", b"tm", 1, b"J", 0, 2) + b"{}", "other-protocol"),
        (struct.pack(">2sBcBI", b"tm", PROTOCOL, b"J", 2, 2) + b"{}", "other-protocol"),
        (struct.pack(">2sBcBI", b"tm", PROTOCOL, b"O", 0, 2) + b"{}", "other-protocol"),
        (struct.pack(">2sBcBI", b"tm", PROTOCOL, b"J", 0, MAX_PAYLOAD + 1), "too-long"),
        (struct.pack(">2sBcBI", b"tm", PROTOCOL, b"J", 0, 2) + b"{]", "not-json"),
        (struct.pack(">2sBcBI", b"tm", PROTOCOL, b"J", 0, 2) + b"[]", "not-json"),
        (struct.pack(">2sBcBI", b"tm", PROTOCOL, b"J", 0, 2) + b"{}", "not-tfmuster"),
        (struct.pack(">2sBcBI", b"tm", PROTOCOL, b"J", 0, 60_000) + b"[" * 60_000, "not-json"),
    ],
)
def test_strangers(data, reason):
    channel = Channel(caller=False, token=None)
    channel.encode({"type": "challenge"})
    if reason is None:
        assert channel.decode(data) == []
    else:
        assert refused(channel, data) == reason


def test_a_message_too_long_is_never_sent():
    listener, _ = introduced(None)
    with pytest.raises(ChannelError, match="too-long"):
        listener.encode({"x": "y" * MAX_PAYLOAD})


@settings(deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_refused_or_awaited(data, sealed):
    channel = Channel(caller=False, token="secret" if sealed else None)
    channel.encode({"type": "challenge"})
    try:
        assert channel.decode(data) == []
    except ChannelError as error:
        assert error.reason in {
            "not-tfmuster",
            "other-protocol",
            "too-long",
            "no-token",
            "needs-token",
            "not-json",
        } | {"wrong-token"}


class TestFrames:
    def test_what_a_login_shell_prints_is_no_frame(self) -> None:
        sender, receiver = agent_channel(caller=False), agent_channel(caller=True, preamble=PREAMBLE)
        noise = b"Welcome!\n" + sender.pack(Frame(OUTPUT, b"x"))
        data = noise + PREAMBLE + sender.pack(message("hello", port=1)) + sender.pack(Frame(OUTPUT, b"out"))
        seen = [each for i in range(len(data)) for each in receiver.unpack(data[i : i + 1])]
        assert receiver.noise == noise
        assert [kind for kind, _ in seen] == [b"J", b"O"]
        assert read_message(seen[0].payload) == {"type": "hello", "port": 1}

    @pytest.mark.parametrize(
        "data",
        [
            b"HTTP/1.1 400",
            struct.pack(">2sBcBI", b"tm", PROTOCOL, b"J", 0, 0xFFFFFFFF),
            struct.pack(">2sBcBI", b"tm", PROTOCOL, b"O", 0, (32 << 20) + 1),
            struct.pack(">2sBcBI", b"tm", PROTOCOL, b"X", 0, 1),
        ],
    )
    def test_what_is_no_frame_is_refused(self, data: bytes) -> None:
        with pytest.raises(ChannelError):
            agent_channel(caller=True).unpack(data)

    def test_text_without_end_is_refused(self) -> None:
        with pytest.raises(ChannelError) as caught:
            agent_channel(caller=True, preamble=PREAMBLE).unpack(b"y\n" * 40_000)
        assert channel_problem(caught.value) == "no agent answers, only text"

    @given(st.lists(st.tuples(st.sampled_from([b"J", b"O", b"F"]), st.binary())), st.integers(1, 9))
    def test_frames_arrive_as_they_were_sent(self, sent: list[tuple[bytes, bytes]], size: int) -> None:
        sender, receiver = agent_channel(caller=True), agent_channel(caller=False)
        data = b"".join(sender.pack(Frame(*each)) for each in sent)
        assert [
            each for i in range(0, len(data), size) for each in receiver.unpack(data[i : i + size])
        ] == sent

    @given(st.binary(max_size=40))
    def test_any_bytes_are_frames_or_refused(self, data: bytes) -> None:
        try:
            for kind, payload in agent_channel(caller=True).unpack(data):
                if kind == b"J":
                    read_message(payload)
        except ChannelError:
            pass


def channels(token: str = "secret") -> tuple[Channel, Channel]:
    """Both ends of a connection, introduced to each other."""
    ours, theirs = Channel(caller=False, token=token), Channel(caller=True, token=token)
    theirs.decode(ours.encode({"type": "challenge"}))
    ours.decode(theirs.encode({"type": "here"}))
    return ours, theirs


class TestSeals:
    def test_whatever_the_pieces_the_same_comes_out(self) -> None:
        ours, theirs = channels()
        key = ours.key(KEY_PURPOSE)
        assert key == theirs.key(KEY_PURPOSE) != theirs.key(b"other")
        sender, receiver = agent_channel(caller=True, key=key), agent_channel(caller=False, key=key)
        frames = [Frame(FILE, os.urandom(700_000)), Frame(FILE, b"more")]
        sent = b"".join(map(sender.pack, frames))
        got = [
            frame for at in range(0, len(sent), 60_001) for frame in receiver.unpack(sent[at : at + 60_001])
        ]
        assert got == frames

    def test_every_connection_has_its_own_key(self) -> None:
        assert channels()[0].key(KEY_PURPOSE) != channels()[0].key(KEY_PURPOSE)

    @pytest.mark.parametrize(
        "change",
        [
            lambda one, two: (one[:-1] + b"!", two),
            lambda one, two: (two, one),
            lambda one, two: (two,),
            lambda one, two: (one, one),
            lambda one, two: (b"\xff" + one[1:], two),
            lambda one, two: (one.replace(b"F", b"O", 1), two),
        ],
        ids=["altered", "in another order", "one left out", "repeated", "endless", "of another kind"],
    )
    def test_what_was_tampered_with_is_refused(self, change: object) -> None:
        key = b"k" * 32
        sender, receiver = agent_channel(caller=True, key=key), agent_channel(caller=False, key=key)
        one, two = (sender.pack(Frame(FILE, text)) for text in (b"one", b"two"))
        with pytest.raises(ChannelError):
            for piece in change(one, two):  # type: ignore[operator]
                receiver.unpack(piece)

    def test_what_is_sent_back_is_refused(self) -> None:
        sender = agent_channel(caller=True, key=b"k" * 32)
        with pytest.raises(ChannelError):
            sender.unpack(sender.pack(Frame(FILE, b"text")))
