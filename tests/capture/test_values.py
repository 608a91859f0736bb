"""Values that are not strings, and strings that are not UTF-8: kept with their type, or refused loudly."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.core.text import Foreign
from tests.capture.recording import Recording

_WHEN = datetime(2026, 11, 30, 12, tzinfo=timezone.utc)


class _Shown:
    def __str__(self) -> str:
        return "what str() says"

    def __repr__(self) -> str:
        return "<Shown>"


_HELD = [
    pytest.param({"a": [1, None, True]}, {"a": [1, None, True]}, id="dict"),
    pytest.param([{"a": 1}, {"b": 2.5}], [{"a": 1}, {"b": 2.5}], id="list of dicts"),
    pytest.param(b"\xff\xfe", b"\xff\xfe", id="bytes"),
    pytest.param(10**40, 10**40, id="10**40"),
    pytest.param(-(10**40), -(10**40), id="-10**40"),
    pytest.param(2**63, 2**63, id="2**63"),
    pytest.param("half \ud83d", "half \ud83d", id="lone surrogate"),
    pytest.param({"half \ud83d": "half \ud83d"}, {"half \\ud83d": "half \ud83d"}, id="lone surrogate in a key"),
    pytest.param("a\r\nb\0c\u2028\u202e🏳️‍🌈", "a\r\nb\0c\u2028\u202e🏳️‍🌈", id="odd characters"),
    pytest.param({1: "a"}, {"1": "a"}, id="number as key"),
    pytest.param((1, 2), [1, 2], id="tuple"),
    pytest.param({"base64": "x", "encoding": "y"}, {"base64": "x", "encoding": "y"}, id="looks like ours"),
]


@pytest.mark.parametrize(("value", "stored"), _HELD)
def test_values_come_back_with_their_type(recording: Recording, value: Any, stored: Any) -> None:
    """As output, as tool arguments, as a message's content, as a declared value: none is turned into its ``str``."""
    with pt.query() as q:
        q.tool_call("t", arguments={"value": value}, keep_arguments=True)
        pt.declare("p", [value])
        with q.call(prompt=[{"role": "user", "content": value}]) as call:
            call.respond([value])
    assert recording.of(q.qid, "tool_call")[0]["arguments"] == {"value": stored}
    assert recording.of(q.qid, "piece")[0]["value"] == [stored]
    assert recording.of(q.qid, "request")[0]["messages"] == [{"role": "user", "content": stored}]
    assert recording.of(q.qid, "response")[0]["output"] == [stored]
    assert pt.flush(20).lost == 0


@pytest.mark.parametrize("value", [_Shown(), _WHEN, object(), {1, 2}, range(3)], ids=lambda value: type(value).__name__)
def test_another_type_keeps_its_record(recording: Recording, value: Any) -> None:
    """An object among a tool's arguments: the event is whole, and nothing passes for a text that was none."""
    with pt.query() as q:
        q.tool_call("t", arguments={"value": value, "beside": "kept"}, keep_arguments=True)
        with q.call(prompt="p") as call:
            call.respond({"value": value, "beside": "kept"})
    for kind, name in (("tool_call", "arguments"), ("response", "output")):
        held = recording.of(q.qid, kind)[0][name]
        assert held["beside"] == "kept"
        assert not isinstance(held["value"], str)
    assert pt.flush(20).lost == 0
    assert b"what str() says" not in recording.stored_bytes()


@pytest.mark.parametrize(
    "prompt",
    [None, {"a": 1}, b"\xff\xfe", 10**40, _Shown(), _WHEN, datetime(2026, 1, 1), UUID(int=7), Decimal("1.5")],
    ids=lambda value: type(value).__name__,
)
def test_a_prompt_of_another_type_is_no_prompt(recording: Recording, prompt: Any) -> None:
    """It is kept as what it was, its ``str`` never passes for the prompt, and the verdict is open."""
    with pt.query() as q, q.call(prompt=prompt) as call:
        call.respond("o")
    assert pt.flush(20).lost == 0
    (request,) = recording.of(q.qid, "request")
    record = recording.record(q.qid)
    assert "prompt" not in request
    assert record.calls[0].prompt is None
    assert pt.grade(record).verdict == "unknown"


def test_an_object_is_named_by_its_type(recording: Recording) -> None:
    """Its class and its ``repr`` are kept, apart from any text."""
    with pt.query() as q, q.call(prompt="p") as call:
        call.respond(_Shown())
    held = recording.of(q.qid, "response")[0]["output"]
    assert isinstance(held, Foreign)
    assert held.kind.endswith("_Shown")
    assert held.repr == "<Shown>"


def test_bytes_of_a_prompt_come_back_equal(recording: Recording) -> None:
    """CRLF, NUL, emoji sequences, line separators, right-to-left marks and a lone surrogate, 100 KB of it."""
    prompt = "line\r\n\0\u2028\u200f🏳️‍🌈é" * 8_000 + "\ud83d"
    with pt.query() as q, q.call(prompt=prompt) as call:
        call.respond(prompt)
    assert recording.of(q.qid, "request")[0]["prompt"] == prompt
    assert recording.of(q.qid, "response")[0]["output"] == prompt
    (check,) = [c for c in pt.grade(recording.record(q.qid)).calls[0].checks if c.name == "payload_integrity"]
    assert check.status == "pass"
