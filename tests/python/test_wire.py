"""Messages: what is refused, with and without a token."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfmuster.net.channel import MAX_PAYLOAD, Channel, ChannelError


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
        (struct.pack(">2sBcBI", b"tm", 2, b"J", 2, 2) + b"{}", "other-protocol"),
        (struct.pack(">2sBcBI", b"tm", 2, b"O", 0, 2) + b"{}", "other-protocol"),
        (struct.pack(">2sBcBI", b"tm", 2, b"J", 0, MAX_PAYLOAD + 1), "too-long"),
        (struct.pack(">2sBcBI", b"tm", 2, b"J", 0, 2) + b"{]", "not-json"),
        (struct.pack(">2sBcBI", b"tm", 2, b"J", 0, 2) + b"[]", "not-json"),
        (struct.pack(">2sBcBI", b"tm", 2, b"J", 0, 2) + b"{}", "not-tfmuster"),
        (struct.pack(">2sBcBI", b"tm", 2, b"J", 0, 60_000) + b"[" * 60_000, "not-json"),
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
