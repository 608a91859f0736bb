"""Messages that come one by one, as span events or log records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_prompt_trace.core.conventions.message_events import Carried
from otel_prompt_trace.core.conventions.projection import Projection, project
from otel_prompt_trace.core.segments import split_messages


def read(*events: Carried) -> Projection:
    """What is read from events alone."""
    return project({}, {"gen_ai.operation.name": "chat"}, events)


def test_log_records_with_bodies() -> None:
    """A conversation as log records: roles from the names, tool calls and results in their places."""
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    found = read(
        Carried("gen_ai.system.message", {}, {"content": "s"}),
        Carried("gen_ai.user.message", {}, {"content": [{"type": "text", "text": "u"}]}),
        Carried("gen_ai.assistant.message", {}, {"tool_calls": [call]}),
        Carried("gen_ai.tool.message", {}, {"content": "rain", "id": "1"}),
        Carried(
            "gen_ai.choice", {}, {"index": 0, "finish_reason": "stop", "message": {"content": "Take an umbrella."}}
        ),
    )
    assert found.request == {
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "u"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "content": "rain", "tool_call_id": "1"},
        ],
        "source": "gen_ai.system.message",
    }
    assert found.response == {"output": "Take an umbrella.", "finish_reason": "stop", "source": "gen_ai.choice"}


def test_what_one_instrumentation_writes_beside_the_message() -> None:
    """Tool definitions as a message of the user's, and tool calls beside the message of a choice."""
    tool, call = {"name": "f", "input_schema": {"type": "object"}}, {"id": "1", "function": {"name": "f"}}
    found = read(
        Carried("gen_ai.user.message", {}, {"content": "u"}),
        Carried("gen_ai.user.message", {}, {"content": {"tools": [tool]}}),
        Carried("gen_ai.choice", {}, {"index": 0, "message": {"content": None}, "tool_calls": [call]}),
    )
    assert found.request == {
        "messages": [{"role": "user", "content": "u"}],
        "tools": [tool],
        "source": "gen_ai.user.message",
    }
    assert found.response == {"output": {"role": "assistant", "tool_calls": [call]}, "source": "gen_ai.choice"}


def test_choices_that_end_differently() -> None:
    """Two choices are two messages, and both reasons are told."""
    found = read(
        Carried("gen_ai.choice", {}, {"index": 0, "finish_reason": "stop", "message": {"content": "a"}}),
        Carried("gen_ai.choice", {}, {"index": 1, "finish_reason": "length", "message": {"content": "b"}}),
    )
    assert found.response is not None
    assert [entry["content"] for entry in found.response["output"]] == ["a", "b"]
    assert found.response["finish_reason"] == "stop, length"


@pytest.mark.parametrize(
    "attributes",
    [
        {"content": "u"},
        {"content": '[{"text": "u"}]'},
        {"content": [{"type": "text", "text": "u"}]},
        {"gen_ai.event.content": '{"role": "user", "content": "u"}'},
        {"gen_ai.event.content": "u"},
        {"role": "user", "parts": [{"type": "text", "content": "u"}]},
    ],
)
def test_span_events(attributes: dict[str, Any]) -> None:
    """The same message in the forms in which span events carry it."""
    found = read(Carried("gen_ai.user.message", attributes))
    assert found.request is not None
    split = split_messages(found.request["messages"])
    assert [(segment.text, segment.role) for segment in split.segments] == [("u", "user")]


def test_tool_calls_as_json_text() -> None:
    """Tool calls in an attribute are JSON text; a bare attribute of another name stays the text that it is."""
    found = read(Carried("gen_ai.assistant.message", {"tool_calls": '[{"id": "1"}]', "refusal": '{"a": 1}'}))
    assert found.request is not None
    assert found.request["messages"] == [{"role": "assistant", "tool_calls": [{"id": "1"}], "refusal": '{"a": 1}'}]


def test_a_choice_as_attributes_of_a_span_event() -> None:
    """The message itself is JSON text under its own name, beside the reason."""
    blocks = json.dumps([{"text": "Yes."}])
    found = read(Carried("gen_ai.choice", {"message": blocks, "finish_reason": "end_turn"}))
    assert found.response is not None
    assert found.response == {"output": "Yes.", "finish_reason": "end_turn", "source": "gen_ai.choice"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Why?", {"prompt": "Why?"}),
        ('[{"role": "user", "content": "Why?"}]', {"messages": [{"role": "user", "content": "Why?"}]}),
    ],
)
def test_prompt_and_completion_events(value: str, expected: dict[str, Any]) -> None:
    """Older events hold the whole prompt, and the whole answer, in one attribute."""
    found = read(
        Carried("gen_ai.content.prompt", {"gen_ai.prompt": value}),
        Carried("gen_ai.content.completion", {"gen_ai.completion": "Because."}),
    )
    assert found.request == {**expected, "source": "gen_ai.content.prompt"}
    assert found.response == {"output": "Because.", "source": "gen_ai.content.completion"}


def test_the_details_event() -> None:
    """It repeats a span's keys, and is read as they are; what the span itself has goes first."""
    event = Carried(
        "gen_ai.client.inference.operation.details",
        {
            "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "event"}]}],
            "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "a"}]}],
        },
    )
    alone = project({}, {}, [event])
    assert alone.request is not None
    assert alone.request["messages"] == [{"role": "user", "content": "event"}]
    both = project({"gen_ai.input.messages": "span"}, {}, [event])
    assert both.request is not None
    assert both.request["prompt"] == "span"
    assert both.response is not None
    assert both.response["output"] == "a"


def test_events_that_say_nothing() -> None:
    """An event of no convention, and one of a convention without content, make no request."""
    found = read(Carried("exception", {"exception.message": "x"}), Carried("gen_ai.content.prompt", {}))
    assert found == Projection()
