"""What a span stands for."""

from __future__ import annotations

from typing import Any

import pytest

from otel_prompt_trace.core.conventions import is_model_call, span_role


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.operation.name": "chat"},
        {"gen_ai.operation.name": "text_completion"},
        {"gen_ai.operation.name": "generate_content"},
        {"openinference.span.kind": "LLM"},
        {"llm.request.type": "chat"},
        {"llm.request.type": "completion"},
        {"gen_ai.operation.name": "a_new_one", "llm.request.type": "chat"},
    ],
)
def test_calls(attributes: dict[str, Any]) -> None:
    """Each sign of a model call, by itself."""
    assert is_model_call(attributes)


@pytest.mark.parametrize(
    ("attributes", "role"),
    [
        ({"gen_ai.operation.name": "embeddings"}, "embedding"),
        ({"gen_ai.operation.name": "retrieval"}, "retrieval"),
        ({"gen_ai.operation.name": "execute_tool"}, "tool"),
        ({"gen_ai.operation.name": "invoke_agent"}, "agent"),
        ({"gen_ai.operation.name": "create_agent"}, "agent"),
        ({"gen_ai.operation.name": "invoke_workflow"}, "workflow"),
        ({"openinference.span.kind": "AGENT"}, "agent"),
        ({"openinference.span.kind": "CHAIN"}, "chain"),
        ({"openinference.span.kind": "TOOL"}, "tool"),
        ({"openinference.span.kind": "RETRIEVER"}, "retrieval"),
        ({"openinference.span.kind": "RERANKER"}, "rerank"),
        ({"openinference.span.kind": "EMBEDDING"}, "embedding"),
        ({"llm.request.type": "embedding"}, "embedding"),
        ({"llm.request.type": "rerank"}, "rerank"),
        ({"traceloop.span.kind": "workflow"}, "workflow"),
        ({}, None),
        ({"http.method": "POST"}, None),
        ({"gen_ai.operation.name": "a_new_one"}, None),
        ({"gen_ai.operation.name": ["chat"], "openinference.span.kind": 7}, None),
    ],
)
def test_no_calls(attributes: dict[str, Any], role: str | None) -> None:
    """Everything else has a role of its own, or none, and is no call."""
    assert span_role(attributes) == role
    assert not is_model_call(attributes)


def test_an_agent_that_names_its_operation_chat() -> None:
    """Where two signs differ, the one that says it is no call wins: a call must not be counted twice."""
    assert span_role({"gen_ai.operation.name": "chat", "openinference.span.kind": "AGENT"}) == "agent"
    assert span_role({"openinference.span.kind": "LLM", "traceloop.span.kind": "tool"}) == "tool"


def test_flat_messages_on_a_span_that_says_nothing() -> None:
    """An older OpenLLMetry leaves spans of the Responses API unnamed: their flat messages say what they are."""
    assert is_model_call({"gen_ai.request.model": "m"}, ["gen_ai.prompt.0.content", "gen_ai.prompt.0.role"])
    assert not is_model_call(
        {"gen_ai.request.model": "m"}, ["gen_ai.prompt", "gen_ai.prompt.variable.x", "input.value"]
    )
    assert not is_model_call({"llm.request.type": "embedding"}, ["gen_ai.prompt.0.content"])
