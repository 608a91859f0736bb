"""The projection as a whole: what it prefers, what it leaves alone, and that it never raises."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.core.conventions import content_key, known_keys, projection, span_role
from otel_prompt_trace.core.conventions.facts import call_facts
from otel_prompt_trace.core.conventions.message_events import Carried
from otel_prompt_trace.core.conventions.projection import Projection, project
from otel_prompt_trace.core.segments import split

CHAT = {"gen_ai.operation.name": "chat"}
MESSAGES = "gen_ai.input.messages"


def test_request_and_response_of_one_span() -> None:
    """Content and the small facts of the span come together under the names that events have."""
    found = project(
        {MESSAGES: '[{"role": "user", "parts": [{"type": "text", "content": "u"}]}]', "gen_ai.output.messages": "a"},
        {
            **CHAT,
            "gen_ai.request.model": "m",
            "gen_ai.request.temperature": 0.2,
            "gen_ai.request.top_p": 1,
            "gen_ai.response.model": "m-1",
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.usage.input_tokens": 1,
        },
    )
    assert found.request == {
        "messages": [{"role": "user", "content": "u"}],
        "model": "m",
        "temperature": 0.2,
        "parameters": {"top_p": 1},
        "source": MESSAGES,
    }
    assert found.response == {
        "output": "a",
        "model": "m-1",
        "finish_reason": "stop",
        "usage": {"input_tokens": 1},
        "source": "gen_ai.output.messages",
    }
    assert found.retrieval is None


def test_an_answer_without_content() -> None:
    """Where content capture is off, the facts of the answer are there all the same; no request is made up."""
    found = project({}, {**CHAT, "gen_ai.usage.output_tokens": 5, "gen_ai.request.model": "m"})
    assert found.request is None
    assert found.response == {"usage": {"output_tokens": 5}}


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.operation.name": "invoke_agent"},
        {"gen_ai.operation.name": "embeddings"},
        {"openinference.span.kind": "CHAIN"},
        {"openinference.span.kind": "TOOL"},
        {"traceloop.span.kind": "workflow"},
    ],
)
def test_a_span_that_is_no_call_has_no_request(attributes: dict[str, Any]) -> None:
    """An agent's span repeats the messages of its calls: they are not counted a second time."""
    content = {MESSAGES: '[{"role": "user", "content": "u"}]', "input.value": '{"model": "m", "prompt": "p"}'}
    assert project(content, attributes) == Projection()


def test_the_whole_prompt_is_preferred_to_one_with_a_hole() -> None:
    """Two conventions on one span: the one that lost messages is not believed."""
    holed = {"llm.input_messages.1.message.role": "user", "llm.input_messages.1.message.content": "u" * 100}
    found = project({**holed, MESSAGES: '[{"role": "user", "content": "u"}]'}).request
    assert found is not None
    assert found["source"] == MESSAGES
    assert project(holed).request == {
        "messages": [{"role": "user", "content": "u" * 100}],
        "source": "llm.input_messages",
        "missing": ["llm.input_messages.0"],
    }


@pytest.mark.parametrize(
    "content",
    [
        {"pydantic_ai.all_messages": '[{"role": "user", "parts": []}]', "final_result": "a"},
        {"gcp.vertex.agent.llm_request": '{"contents": []}', "gcp.vertex.agent.llm_response": "{}"},
        {"ai.prompt.messages": '[{"role": "user", "content": "u"}]', "ai.response.text": "a"},
        {"langfuse.observation.input": "u", "langfuse.observation.output": "a"},
        {"mlflow.spanInputs": '{"messages": []}', "request_data": {"messages": [{"role": "user", "content": "u"}]}},
        {"lk.chat_ctx": "u", "genkit:input": "u", "traceloop.entity.input": "u"},
    ],
)
def test_other_conventions_stay_content(content: dict[str, Any]) -> None:
    """What came under the keys of any other convention is not read as a request."""
    assert project(content, CHAT) == Projection()


def test_an_unforeseen_error_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong is told by its name, without a word of the content, and never raised."""

    def broken(_: object) -> NoReturn:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(projection.otel_genai, "request", broken)
    assert project({MESSAGES: "u"}, CHAT) == Projection(problem="ZeroDivisionError")


def test_a_value_that_holds_itself() -> None:
    """A list within itself ends in a problem or a prompt, not in an error."""
    endless: list[Any] = []
    endless.append({"role": "user", "content": endless})
    found = project({MESSAGES: endless}, CHAT)
    assert found.request is not None or found.problem is not None


def test_json_nested_beyond_reason() -> None:
    """JSON that no parser takes stays text."""
    deep = "[" * 100_000
    found = project({MESSAGES: deep}, CHAT)
    assert found.request is not None
    assert found.request["prompt"] == deep


_names = st.sampled_from(
    [
        *(key.rstrip(".") for key in known_keys()),
        "llm.input_messages.0.message.role",
        "llm.input_messages.0.message.content",
        "llm.input_messages.2.message.contents.0.message_content.text",
        "llm.input_messages.2.message.contents.0.message_content.image",
        "llm.input_messages.0.message.tool_calls.1.tool_call.function.arguments",
        "llm.output_messages.0.message",
        "llm.output_messages.0.message.content.0",
        "llm.prompts.0.prompt.text",
        "llm.choices.1.completion",
        "llm.tools.0.tool.json_schema",
        "gen_ai.prompt.0.content",
        "gen_ai.prompt.0.role",
        "gen_ai.prompt.3.tool_calls.0.name",
        "gen_ai.prompt.0",
        "gen_ai.completion.0.content",
        "gen_ai.input.messages.1.parts",
        "retrieval.documents.1.document.score",
        "retrieval.documents.1.document",
        "llm.request.functions.0",
        "gen_ai.usage.input_tokens",
        "gen_ai.response.finish_reasons",
        "gen_ai.request.temperature",
    ]
) | st.text(max_size=12)
_FIELDS = [
    "role",
    "content",
    "parts",
    "type",
    "text",
    "name",
    "message",
    "messages",
    "input",
    "prompt",
    "system",
    "tools",
    "model",
    "choices",
    "output",
    "data",
    "uri",
    "response",
    "result",
    "tool_calls",
    "function",
    "arguments",
    "document",
    "metadata",
    "id",
    "score",
    "finish_reason",
    "usage",
    "candidates",
]
_fields = st.sampled_from(_FIELDS) | st.text(max_size=4)
_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.binary(max_size=6)
    | st.text(max_size=12)
    | st.sampled_from(
        ["user", "text", "blob", "tool_call", "tool_call_response", "message", "[]", "{}", '[{"role": "user"}]']
    )
    | st.sampled_from(["\ud83d", '["\\ud83d"]', '[{"type": "text", "text": "\\ud83d"}]', "1" * 5000])
    | st.builds(object)
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_fields, inner, max_size=5) | st.tuples(inner),
    max_leaves=12,
)
_content = st.dictionaries(_names, _values, max_size=8)
_events = st.lists(
    st.builds(
        Carried,
        st.sampled_from(
            ["gen_ai.user.message", "gen_ai.choice", "gen_ai.content.prompt", "db.query.result", "exception"]
        ),
        _content | st.dictionaries(_fields, _values, max_size=4),
        _values,
    ),
    max_size=3,
)


@given(_content, _content, _events)
def test_no_value_raises_or_is_a_problem(
    content: dict[str, Any], attributes: dict[str, Any], events: list[Carried]
) -> None:
    """Arbitrary values under keys of the table: no error, none swallowed, and every prompt can be taken apart."""
    found = project(content, attributes, events)
    assert found.problem is None
    if found.request is not None:
        prompt = found.request.get("messages", found.request.get("prompt"))
        assert prompt is not None
        split(prompt)
    call_facts(attributes)
    span_role(attributes, content)


@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant", "system", "tool"]), st.text(max_size=40)),
        min_size=1,
        max_size=6,
    )
)
def test_every_text_survives_in_every_flat_form(messages: list[tuple[str, str]]) -> None:
    """Any texts, any roles: what went in flat comes out in order, character for character."""
    openinference = {
        f"llm.input_messages.{n}.message.{name}": value
        for n, message in enumerate(messages)
        for name, value in zip(("role", "content"), message, strict=True)
    }
    openllmetry = {
        f"gen_ai.prompt.{n}.{name}": value
        for n, message in enumerate(messages)
        for name, value in zip(("role", "content"), message, strict=True)
    }
    for content in (openinference, openllmetry):
        assert all(content_key(key) is not None for key in content)
        found = project(content).request
        assert found is not None
        assert "missing" not in found
        assert [(m["role"], m["content"]) for m in found["messages"]] == messages
