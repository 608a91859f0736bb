"""How bytes are cut into messages: server-sent events, JSON values, AWS event streams."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import pytest

from otel_prompt_trace.core.replies import ReplyReader, read_reply
from otel_prompt_trace.core.replies.event_stream import Messages
from otel_prompt_trace.core.replies.json_values import JsonValues
from otel_prompt_trace.core.replies.sse import EventLines
from otel_prompt_trace.core.replies.values import parsed
from tests.core.replies.by_hand import CASES
from tests.core.replies.wire_forms import FRAMES, JSON, SSE, converse, data_lines, frame, lines

_SAID = [
    ("messageStart", {"role": "assistant"}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "A"}}),
]


def events(raw: bytes) -> list[tuple[str, str]]:
    """The events of a stream."""
    return list(EventLines().feed(raw))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_in_three_ways(end: str) -> None:
    """And an event may have several lines of data, comments, fields of no meaning, and a name for itself alone."""
    told = [
        ": hi",
        "event: x",
        "data: a",
        "id: 7",
        "data:b",
        "data:  c",
        "odd",
        "",
        "data",
        "",
        "event: y",
        "",
        "data: z",
        "",
    ]
    raw = "".join(line + end for line in told).encode()
    assert events(b"\xef\xbb\xbf" + raw) == [("x", "a\nb\n c"), ("", ""), ("", "z")]


def test_a_line_end_cut_in_two_is_one_line_end() -> None:
    """Between CR and LF nothing else may be seen, not even where no bytes arrive in between."""
    lines_ = EventLines()
    found = [event for chunk in (b"data: a\r", b"", b"\ndata: b\r", b"\n\r", b"\n") for event in lines_.feed(chunk)]
    assert found == [("", "a\nb")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_wherever_the_bytes_are_cut(end: str) -> None:
    """Events of several lines and with characters of several bytes are the same in two parts, and byte by byte."""
    raw = "".join(line + end for line in ("event: x", "data: é", "data: 日本", "", "data: z", "")).encode()
    for at in range(len(raw) + 1):
        lines_ = EventLines()
        assert [*lines_.feed(raw[:at]), *lines_.feed(raw[at:])] == [("x", "é\n日本"), ("", "z")], at
    lines_ = EventLines()
    assert [event for byte in raw for event in lines_.feed(bytes([byte]))] == [("x", "é\n日本"), ("", "z")]


@pytest.mark.parametrize("tail", ["", "\n", "\r", "\n\n"])
def test_the_last_event_needs_no_end(tail: str) -> None:
    """Servers and recordings leave out the last line ends; an event that is whole JSON is whole."""
    case = CASES[0]
    raw = case.raw.rstrip() + tail.encode()
    assert read_reply(case.api, 200, SSE, raw) == case.expected


def test_events_of_several_lines_are_one_value() -> None:
    """A host may break its JSON over lines of data, as the specification allows."""
    body = {"id": "c", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}
    raw = b"".join(b"data: " + line + b"\n" for line in json.dumps(body, indent=2).encode().split(b"\n")) + b"\n"
    assert read_reply("openai.chat", 200, SSE, raw)["output"] == "x"


def test_values_are_cut_at_their_own_braces() -> None:
    """Not at those within texts, nor at line ends within values; one array around them all is opened."""
    values: list[Any] = [{"a": '}"\\{["'}, {"b": [{"c": {}}]}, {}]
    cutter = JsonValues()
    assert [json.loads(raw) for raw in cutter.feed(json.dumps(values, indent=3).encode())] == values
    assert cutter.whole
    assert [
        json.loads(raw) for raw in JsonValues().feed(b"\n\n".join(json.dumps(v).encode() for v in values))
    ] == values
    assert not list(cutter.feed(b'[{"open": "'))
    assert not cutter.whole


def test_headers_of_every_type_are_passed_over() -> None:
    """Only texts are of use; the others have lengths of their own."""
    typed = [(0, b""), (1, b""), (2, b"\1"), (3, b"\0\1"), (4, bytes(4)), (5, bytes(8)), (8, bytes(8)), (9, bytes(16))]
    packed = b"".join(b"\1h" + bytes([kind]) + value for kind, value in typed) + b"\1b\6\0\2xy" + b"\1t\7\0\2ok"
    prelude = struct.pack(">II", 16 + len(packed), len(packed))
    raw = prelude + struct.pack(">I", zlib.crc32(prelude)) + packed
    assert list(Messages().feed(raw + struct.pack(">I", zlib.crc32(raw)))) == [({"t": "ok"}, b"")]


@pytest.mark.parametrize("at", [0, 5, 9, 13, -20, -1])
def test_a_wrong_checksum_is_said(at: int) -> None:
    """What came before stands; the reply is unfinished, and what follows is not guessed at."""
    good, bad = converse(*_SAID), bytearray(converse(("messageStop", {"stopReason": "end_turn"})))
    bad[at] ^= 0x40
    found = read_reply("bedrock.converse", 200, FRAMES, good + bytes(bad) + good)
    assert (found["output"], found["unfinished"]) == ("A", True)
    assert "checksum" in found["unread"]


def test_lengths_that_cannot_be_are_not_waited_for() -> None:
    """A length beyond what the encoding allows ends the reading, though its checksum is right."""
    prelude = struct.pack(">II", 1 << 31, 0)
    messages = Messages()
    assert not list(messages.feed(prelude + struct.pack(">I", zlib.crc32(prelude)) + bytes(100)))
    assert messages.broken == "a message's lengths are impossible"


def test_a_torn_frame_is_unfinished() -> None:
    """Its last message, cut anywhere, is not read."""
    raw, last = converse(*_SAID), converse(("messageStop", {"stopReason": "end_turn"}))
    for kept in range(len(last)):
        found = read_reply("bedrock.converse", 200, FRAMES, raw + last[:kept])
        assert found == {"output": "A", "unfinished": True}


def test_exceptions_in_a_stream_are_errors() -> None:
    """With what was said before them."""
    thrown = frame(b'{"message":"slow down"}', _message_type="exception", _exception_type="throttlingException")
    told = {"error": "throttlingException", "error_message": "slow down", "unfinished": True}
    assert read_reply("bedrock.converse", 200, FRAMES, converse(*_SAID) + thrown) == {"output": "A", **told}
    failed = frame(b"", _message_type="error", _error_code="InternalFailure", _error_message="oops")
    found = read_reply("bedrock.invoke", 200, FRAMES, failed)
    assert found == {"error": "InternalFailure", "error_message": "oops"}


def test_a_mark_seen_is_told_before_the_transfer_ends() -> None:
    """A client that stops reading at the end mark has lost nothing, and its caller can know."""
    reader = ReplyReader("openai.chat", 200, SSE)
    reader.feed(CASES[0].raw[:-1])
    assert not reader.ended
    reader.feed(CASES[0].raw[-1:])
    assert reader.ended
    assert reader.fields(complete=False)["unfinished"] is True


def test_one_event_that_is_no_json_costs_only_itself() -> None:
    """And is counted."""
    raw = CASES[0].raw.replace(b"\n\n", b"\n\ndata: {oops\n\n", 1)
    found = read_reply("openai.chat", 200, SSE, raw)
    assert found == {**CASES[0].expected, "unread": "messages that cannot be read: 1"}


def test_lines_where_one_value_was_announced() -> None:
    """Several JSON values under ``application/json`` are read as the stream that they are."""
    case = next(case for case in CASES if case.name == "cohere: version 1")
    assert read_reply(case.api, 200, JSON, case.raw) == case.expected
    assert "unread" in read_reply("cohere.chat", 200, JSON, lines({"a": 1}, {"b": 2}))


def test_hosts_that_send_no_end_mark() -> None:
    """A transfer that ended well after a finish reason is whole; without one, or torn after it, it is not."""
    said = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]}
    stop = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "x_groq": {"usage": {"prompt_tokens": 3}}}
    raw = data_lines(said, stop)
    whole = {"output": "Hi", "finish_reason": "stop", "usage": {"prompt_tokens": 3}}
    assert read_reply("openai.chat", 200, SSE, raw) == whole
    assert read_reply("openai.chat", 200, SSE, raw, complete=False) == {**whole, "unfinished": True}
    assert read_reply("openai.chat", 200, SSE, raw + b'data: {"usa') == {**whole, "unfinished": True}
    assert read_reply("openai.chat", 200, SSE, data_lines(said)) == {"output": "Hi", "unfinished": True}


@pytest.mark.parametrize(
    "text",
    [
        "123456789012345678901",
        "-9223372036854775809",
        '"\\ud800"',
        "NaN",
        "[1e400, -0, 1.5]",
        '{"a": 1, "a": 2}',
        '"\u2028"',
    ],
)
def test_a_value_is_what_the_standard_library_reads(text: str) -> None:
    """Not a digit of an integer is lost, and what some hosts write against the standard is read."""
    assert repr(parsed(text)) == repr(json.loads(text))


@pytest.mark.parametrize("text", ["", "{", "1 2", "'a'", "[" * 100_000])
def test_what_is_no_value_is_one_kind_of_error(text: str) -> None:
    """Also nesting without end."""
    with pytest.raises(ValueError, match=r"."):
        parsed(text)
