"""OpenLLMetry's flat form, and its newer one that writes OpenTelemetry's keys."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_prompt_trace.core.conventions.projection import project
from otel_prompt_trace.core.segments import split_messages


def request(content: dict[str, Any]) -> dict[str, Any]:
    """The projected request, which must be there."""
    found = project(content).request
    assert found is not None
    return found


def test_flat_messages_with_tools() -> None:
    """Messages, tool calls, tool results and the definitions of tools."""
    found = request(
        {
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.0.content": "s",
            "gen_ai.prompt.1.role": "assistant",
            "gen_ai.prompt.1.tool_calls.0.id": "1",
            "gen_ai.prompt.1.tool_calls.0.name": "f",
            "gen_ai.prompt.1.tool_calls.0.arguments": '{"x": 1}',
            "gen_ai.prompt.2.role": "tool",
            "gen_ai.prompt.2.content": "rain",
            "gen_ai.prompt.2.tool_call_id": "1",
            "llm.request.functions.0.name": "f",
            "llm.request.functions.0.description": "d",
            "llm.request.functions.0.parameters": '{"type": "object"}',
        }
    )
    call = {"type": "function", "id": "1", "function": {"name": "f", "arguments": '{"x": 1}'}}
    assert found == {
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "content": "rain", "tool_call_id": "1"},
        ],
        "tools": [{"name": "f", "description": "d", "parameters": {"type": "object"}}],
        "source": "gen_ai.prompt",
    }
    texts = [segment.text for segment in split_messages(found["messages"]).segments]
    assert texts == ["s", "f", '{"x": 1}', "rain"]


def test_the_prompt_that_stops_at_an_index() -> None:
    """Messages 3 to 7 never came: the hole is named. That 9 and later ones are missing can't be seen from here."""
    content = {f"gen_ai.prompt.{n}.{name}": f"{name}{n}" for n in (0, 1, 2, 8) for name in ("role", "content")}
    assert request(content)["missing"] == ["gen_ai.prompt.3-7"]


def test_a_message_that_lost_its_content() -> None:
    """A role without content and without tool calls is a hole."""
    found = request({"gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "s", "gen_ai.prompt.1.role": "user"})
    assert found["missing"] == ["gen_ai.prompt.1.content"]


def test_parts_written_as_json_text() -> None:
    """A list of parts under the key of the content is read as parts; an image in it is no text."""
    parts = [{"type": "text", "text": "é"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]
    found = request({"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": json.dumps(parts)})
    split = split_messages(found["messages"])
    assert [segment.text for segment in split.segments] == ["é"]
    assert len(split.outside) == 1


@pytest.mark.parametrize(
    "said", ["[1, 2]", '["a"]', '[{"name": "Ada"}]', '[{"type": "order", "text": "x"}]', '{"type": "text"}', "[]"]
)
def test_json_that_a_user_sent_stays_text(said: str) -> None:
    """A message whose text happens to be JSON is that text."""
    found = request({"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": said})
    assert found["messages"] == [{"role": "user", "content": said}]


def test_legacy_completions_name_the_key_by_the_role() -> None:
    """A completion's prompt stands under the name of its role."""
    assert request({"gen_ai.prompt.0.user": "Once"})["messages"] == [{"role": "user", "content": "Once"}]


def test_the_answer() -> None:
    """Text, finish reason and tool calls of the answer."""
    said = project(
        {
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "Yes.",
            "gen_ai.completion.0.finish_reason": "stop",
        }
    ).response
    assert said == {"output": "Yes.", "finish_reason": "stop", "source": "gen_ai.completion"}
    called = project({"gen_ai.completion.0.tool_calls.0.name": "f", "gen_ai.completion.0.finish_reason": "tool_calls"})
    assert called.response is not None
    assert called.response["output"] == {"tool_calls": [{"type": "function", "function": {"name": "f"}}]}


def test_newer_releases() -> None:
    """They write OpenTelemetry's keys, with the tool definitions beside them."""
    found = request(
        {
            "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "u"}]}]',
            "llm.request.functions.0.name": "f",
        }
    )
    assert found == {
        "messages": [{"role": "user", "content": "u"}],
        "tools": [{"name": "f"}],
        "source": "gen_ai.input.messages",
    }


def test_unindexed_keys_are_somebody_elses() -> None:
    """``gen_ai.prompt`` without an index is LangSmith's, and stays content only."""
    found = project({"gen_ai.prompt": "u", "gen_ai.completion": "a", "gen_ai.prompt.variable.city": "Oslo"})
    assert (found.request, found.response, found.problem) == (None, None, None)
