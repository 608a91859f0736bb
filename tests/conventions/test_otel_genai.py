"""OpenTelemetry's own form: messages of parts, as structures or as JSON text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_prompt_trace.core.conventions.projection import project
from otel_prompt_trace.core.segments import split_messages

INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"
SYSTEM = "gen_ai.system_instructions"


def request(content: dict[str, Any]) -> dict[str, Any]:
    """The projected request, which must be there."""
    found = project(content).request
    assert found is not None
    return found


def text_part(text: str) -> dict[str, str]:
    """A part of the convention."""
    return {"type": "text", "content": text}


def test_escaped_json_is_decoded_once() -> None:
    """The text is what the model got, not its spelling in JSON; JSON inside the text stays the text."""
    said = 'Árvíz 日本語\n"q" \\u00e9 {"a": 1}'
    value = json.dumps([{"role": "user", "parts": [text_part(said)], "name": None}])
    assert "\\u65e5" in value
    assert request({INPUT: value})["messages"] == [{"role": "user", "content": said}]


def test_structures_are_read_as_json_text_is() -> None:
    """An SDK that carries lists and objects hands the same over undecoded, in tuples as well."""
    messages = ({"role": "user", "parts": (text_part("a"), text_part("b"))},)
    expected = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    assert request({INPUT: messages})["messages"] == [expected]


@pytest.mark.parametrize("value", [[text_part("Be brief.")], json.dumps([text_part("Be brief.")]), "Be brief."])
def test_system_instructions_stand_first(value: Any) -> None:
    """Instructions that are kept apart are the first message, whatever form they come in."""
    messages = request({INPUT: [{"role": "user", "parts": [text_part("Why?")]}], SYSTEM: value})["messages"]
    assert messages == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]


def test_tools_and_schema_are_parts_of_their_own() -> None:
    """Definitions of tools and the schema of the answer are no part of the prompt."""
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    found = request(
        {
            INPUT: [{"role": "user", "parts": [text_part("x")]}],
            "gen_ai.tool.definitions": json.dumps(tools),
            "gen_ai.request.structured_output_schema": json.dumps(schema),
        }
    )
    assert found["tools"] == tools
    assert found["response_format"] == schema
    assert found["messages"] == [{"role": "user", "content": "x"}]


def test_every_text_is_found_and_nothing_binary_is_taken_for_one() -> None:
    """Texts of all parts are segments; images, links and files are outside; roles, ids and types are neither."""
    parts = [
        text_part("look"),
        {"type": "reasoning", "content": "hm"},
        {"type": "tool_call", "id": "call_1", "name": "weather", "arguments": {"city": "Oslo", "type": "now"}},
        {"type": "tool_call_response", "id": "call_1", "response": "rain"},
        {"type": "tool_call_response", "id": "call_2", "response": [{"type": "text", "text": "sun"}]},
        {"type": "tool_call_response", "id": "call_3", "result": {"type": "cold"}},
        {"type": "blob", "mime_type": "image/png", "modality": "image", "content": "aGVsbG8="},
        {"type": "blob", "modality": "image", "content": "aGVsbG8="},
        {"type": "blob", "modality": "audio", "content": b"\xff\xfe"},
        {"type": "uri", "modality": "image", "uri": "https://example.org/a.png?sig=s"},
        {"type": "file", "modality": "image", "file_id": "file-1"},
    ]
    found = split_messages(request({INPUT: [{"role": "user", "parts": parts}]})["messages"])
    texts = [segment.text for segment in found.segments]
    assert texts == ["look", "hm", "weather", "Oslo", "now", "rain", "sun", "cold"]
    assert [part.kind for part in found.outside] == ["binary", "binary", "binary", "reference", "reference"]


def test_a_part_of_an_unknown_type_hides_nothing() -> None:
    """What a later convention adds is kept as it is, and its texts are counted."""
    part = {"type": "hologram", "caption": "a cat", "depth": {"note": "near"}}
    messages = request({INPUT: [{"role": "user", "parts": [part]}]})["messages"]
    assert messages == [{"role": "user", "content": [part]}]
    assert [segment.text for segment in split_messages(messages).segments] == ["a cat", "near"]


@pytest.mark.parametrize("value", ["Hello", '{"role": "user"', "[1, 2", "NaN", '"quoted"'])
def test_what_is_no_json_stays_text(value: str) -> None:
    """A value that is not the convention's JSON is the prompt as it stands, not an error."""
    assert request({INPUT: value})["prompt"] == value


def test_messages_in_the_chat_form() -> None:
    """Some write chat messages under the key: they are kept as they are."""
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}]
    kept = [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"id": "1"}]}]
    assert request({INPUT: json.dumps(messages)})["messages"] == kept


def test_flattened_messages_with_a_hole() -> None:
    """An exporter that flattens loses what a limit takes: the hole is named."""
    content = {f"{INPUT}.{n}.content": f"m{n}" for n in (0, 1, 4, 6)} | {f"{INPUT}.0.role": "user"}
    found = request(content)
    assert [entry["content"] for entry in found["messages"]] == ["m0", "m1", "m4", "m6"]
    assert found["missing"] == [f"{INPUT}.2-3", f"{INPUT}.5"]


def test_a_message_whose_parts_were_left_out() -> None:
    """Content that an instrumentation does not know how to tell leaves an empty message: that is a hole."""
    found = request(
        {INPUT: '[{"role": "system", "parts": [{"type": "text", "content": "s"}]}, {"role": "user", "parts": []}]'}
    )
    assert found["missing"] == [f"{INPUT}[1].parts"]


@pytest.mark.parametrize(
    ("messages", "output"),
    [
        ([{"role": "assistant", "parts": [text_part("Yes.")], "finish_reason": "stop"}], "Yes."),
        (
            [{"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "f", "arguments": {"x": 1}}]}],
            {"role": "assistant", "content": [{"type": "tool_call", "id": "1", "name": "f", "arguments": {"x": 1}}]},
        ),
        (
            [{"role": "assistant", "parts": [text_part("a")]}, {"role": "assistant", "parts": [text_part("b")]}],
            [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}],
        ),
    ],
)
def test_output(messages: list[Any], output: Any) -> None:
    """An answer that is one text is that text; tool calls and several choices keep their form."""
    response = project({OUTPUT: json.dumps(messages)}).response
    assert response is not None
    assert response["output"] == output
    assert response["source"] == OUTPUT


def test_finish_reason_of_the_output() -> None:
    """Where no attribute tells the finish reason, the output message does."""
    response = project({OUTPUT: [{"role": "assistant", "parts": [text_part("x")], "finish_reason": "length"}]}).response
    assert response == {"output": "x", "finish_reason": "length", "source": OUTPUT}
