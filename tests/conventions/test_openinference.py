"""OpenInference: flat indexed messages, and the request body beside them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_prompt_trace.core.conventions.projection import project
from otel_prompt_trace.core.segments import split_messages

IN = "llm.input_messages"
LLM = {"openinference.span.kind": "LLM"}


def flat(messages: list[tuple[str, str]], prefix: str = IN) -> dict[str, Any]:
    """Messages as the instrumentations write them."""
    content: dict[str, Any] = {}
    for number, (role, text) in enumerate(messages):
        content[f"{prefix}.{number}.message.role"] = role
        content[f"{prefix}.{number}.message.content"] = text
    return content


def request(content: dict[str, Any]) -> dict[str, Any]:
    """The projected request, which must be there."""
    found = project(content, LLM).request
    assert found is not None
    return found


def test_flat_messages_in_the_order_of_their_index() -> None:
    """Index 10 comes after index 9, in whatever order the attributes were set."""
    messages = [("user" if n % 2 else "assistant", f"m{n}") for n in range(12)]
    content = dict(reversed(flat(messages).items()))
    found = request(content)
    assert [(m["role"], m["content"]) for m in found["messages"]] == messages
    assert "missing" not in found


@pytest.mark.parametrize(
    ("gone", "missing"),
    [
        (range(42), [f"{IN}.0-41"]),
        ([3], [f"{IN}.3"]),
        ([3, 4, 5, 80], [f"{IN}.3-5", f"{IN}.80"]),
    ],
)
def test_holes_are_reported(gone: Any, missing: list[str]) -> None:
    """A conversation of 101 messages of which a limit took some: the rest is there, and the holes are named."""
    content = {
        k: v for k, v in flat([("user", f"m{n}") for n in range(101)]).items() if int(k.split(".")[2]) not in gone
    }
    found = request(content)
    assert found["missing"] == missing
    assert len(found["messages"]) == 101 - len(gone)


def test_half_a_message_is_a_hole() -> None:
    """A role without its text, and a text without its role."""
    content = flat([("system", "s"), ("user", "u")])
    del content[f"{IN}.0.message.content"], content[f"{IN}.1.message.role"]
    found = request(content)
    assert found["missing"] == [f"{IN}.0.message.content", f"{IN}.1.message.role"]
    assert found["messages"] == [{"role": "system"}, {"content": "u"}]


def test_the_body_is_preferred() -> None:
    """The request body says more than the flat keys, and it is there whole when they are not."""
    body = {
        "model": "gpt-4o",
        "temperature": 0.5,
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "u"}]}],
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x"}},
        "stream": False,
        "extra_headers": {"authorization": "secret"},
        "extra_body": {"seed": 7},
    }
    content = {"input.value": json.dumps(body), **flat([("system", "s"), ("user", "u")])}
    del content[f"{IN}.0.message.role"], content[f"{IN}.0.message.content"]
    found = request(content)
    assert found == {
        "messages": body["messages"],
        "model": "gpt-4o",
        "temperature": 0.5,
        "tools": body["tools"],
        "response_format": body["response_format"],
        "parameters": {"stream": False, "seed": 7},
        "source": "input.value",
    }


@pytest.mark.parametrize(
    "value",
    [
        '{"messages": ["ChatMessage(role=<MessageRole.SYSTEM>)"]}',
        '{"messages": [[{"lc": 1, "type": "constructor", "kwargs": {"content": "u"}}]]}',
        "__REDACTED__",
        "what is it?",
        '{"query": "what is it?"}',
        "{broken",
        None,
    ],
)
def test_what_is_no_body_is_not_read_as_one(value: Any) -> None:
    """The repr of somebody's objects is not passed off as the prompt: the flat messages are."""
    content = {"input.value": value, **flat([("user", "u")])}
    found = request(content)
    assert found["messages"] == [{"role": "user", "content": "u"}]
    assert found["source"] == IN


def test_a_body_that_lacks_the_instructions() -> None:
    """An agent framework writes the conversation as the body and its instructions only flat: the fuller one counts."""
    content = {
        "input.value": json.dumps([{"role": "user", "content": "u"}]),
        **flat([("system", "You are an agent."), ("user", "u")]),
    }
    assert [m["content"] for m in request(content)["messages"]] == ["You are an agent.", "u"]


def test_parts_images_and_reasoning() -> None:
    """Every text is found; an image is none, nor is what only the vendor can read."""
    message = f"{IN}.0.message"
    content = {
        f"{message}.role": "user",
        f"{message}.contents.0.message_content.type": "text",
        f"{message}.contents.0.message_content.text": "what is this",
        f"{message}.contents.1.message_content.type": "image",
        f"{message}.contents.1.message_content.image.image.url": "data:image/png;base64,aGVsbG8=",
        f"{message}.contents.2.message_content.type": "reasoning",
        f"{message}.contents.2.message_content.text": "hm",
        f"{message}.contents.2.message_content.encrypted_content": "gAAAA",
        f"{message}.contents.2.message_content.signature": "ErUB",
        f"{message}.contents.3.message_content.type": "reasoning",
        f"{message}.contents.3.message_content.data": "EmwK",
    }
    found = split_messages(request(content)["messages"])
    assert [segment.text for segment in found.segments] == ["what is this", "hm"]
    assert [part.kind for part in found.outside] == ["binary"] * 4


def test_the_first_text_beside_the_other_parts() -> None:
    """Some instrumentations write the first part as the plain content, and only the others as parts: no hole."""
    message = f"{IN}.0.message"
    content = {
        f"{message}.role": "user",
        f"{message}.content": "what is this",
        f"{message}.contents.1.message_content.type": "image",
        f"{message}.contents.1.message_content.image.image.url": "data:image/png;base64,aGVsbG8=",
    }
    found = request(content)
    assert "missing" not in found
    assert [part["type"] for part in found["messages"][0]["content"]] == ["text", "image_url"]


def test_a_text_that_is_written_twice_counts_once() -> None:
    """The same text as plain content and as a part is one text."""
    message = f"{IN}.0.message"
    content = {
        f"{message}.role": "user",
        f"{message}.content": "u",
        f"{message}.contents.0.message_content.type": "text",
        f"{message}.contents.0.message_content.text": "u",
    }
    assert split_messages(request(content)["messages"]).total == 1


def test_tool_calls_and_their_results() -> None:
    """Name and arguments of a call are found, once where they are written in two places; ids are no text."""
    call, result = f"{IN}.0.message", f"{IN}.1.message"
    content = {
        f"{call}.role": "assistant",
        f"{call}.contents.0.message_content.type": "tool_use",
        f"{call}.contents.0.tool_call.id": "1",
        f"{call}.contents.0.tool_call.function.name": "f",
        f"{call}.contents.0.tool_call.function.arguments": '{"x": 1}',
        f"{call}.tool_calls.0.tool_call.id": "1",
        f"{call}.tool_calls.0.tool_call.function.name": "f",
        f"{call}.tool_calls.0.tool_call.function.arguments": '{"x": 1}',
        f"{call}.tool_calls.1.tool_call.id": "2",
        f"{call}.tool_calls.1.tool_call.function.name": "g",
        f"{call}.tool_calls.1.tool_call.function.arguments": "{}",
        f"{result}.role": "tool",
        f"{result}.tool_call_id": "1",
        f"{result}.content": "rain",
    }
    found = request(content)
    assert "missing" not in found
    texts = [segment.text for segment in split_messages(found["messages"]).segments]
    assert texts == ["f", '{"x": 1}', "g", "{}", "rain"]


@pytest.mark.parametrize(
    "content",
    [
        {"llm.prompts.0.prompt.text": "Once"},
        {"llm.prompts": ["Once"]},
        {"llm.prompts": '["Once"]'},
        {"llm.prompts": "Once"},
        {"input.value": '{"model": "davinci-002", "prompt": "Once"}'},
        {"input.value": '{"model": "davinci-002", "prompt": ["Once"]}'},
    ],
)
def test_legacy_prompts(content: dict[str, Any]) -> None:
    """A completion's prompt is one string, in every form it is written in."""
    assert request(content)["prompt"] == "Once"


def test_several_legacy_prompts() -> None:
    """Several prompts of one request are all there."""
    found = request({"llm.prompts.0.prompt.text": "a", "llm.prompts.1.prompt.text": "b"})
    assert [segment.text for segment in split_messages(found["messages"]).segments] == ["a", "b"]


def test_tools_and_parameters() -> None:
    """Definitions and settings come with the flat messages; what is prompt in the settings is not kept twice."""
    content = {
        **flat([("user", "u")]),
        "llm.tools.0.tool.json_schema": '{"name": "f"}',
        "llm.tools.1.tool.json_schema": "no JSON",
        "llm.invocation_parameters": json.dumps({"model": "m", "temperature": 0, "top_p": 1, "instructions": "long"}),
    }
    found = request(content)
    assert found["tools"] == [{"name": "f"}, "no JSON"]
    assert (found["model"], found["temperature"], found["parameters"]) == ("m", 0, {"top_p": 1})


@pytest.mark.parametrize(
    ("content", "output"),
    [
        (flat([("assistant", "Yes.")], "llm.output_messages"), "Yes."),
        ({"llm.choices.0.completion.text": " there was"}, " there was"),
        ({"output.value": "Yes."}, "Yes."),
        ({"output.value": '{"answer": 42}'}, {"answer": 42}),
        ({"output.value": "<object at 0x1>", **flat([("assistant", "Yes.")], "llm.output_messages")}, "Yes."),
        ({"llm.function_call": '{"name": "f"}'}, {"name": "f"}),
    ],
)
def test_outputs(content: dict[str, Any], output: Any) -> None:
    """The answer, from the messages first, then from whatever text was written."""
    response = project(content, LLM).response
    assert response is not None
    assert response["output"] == output


def test_odd_indexes() -> None:
    """An index that is no number, an absurd one, and a key that goes on below a text."""
    content = {
        **flat([("user", "u")]),
        f"{IN}.x.message.content": "no index",
        f"{IN}.999999999.message.content": "far",
        f"{IN}.{'9' * 5000}.message.content": "no index either",
        f"{IN}.0.message.content.0": "below",
        f"{IN}.0" + ".a" * 500: "deep",
    }
    found = request(content)
    texts = [segment.text for segment in split_messages(found["messages"]).segments]
    assert {"u", "below", "far"} <= set(texts)
    assert f"{IN}.1-999999998" in found["missing"]
