"""The small facts about a call, in every dialect."""

from __future__ import annotations

from typing import Any

import pytest

from otel_prompt_trace.core.conventions.facts import CallFacts, call_facts
from otel_prompt_trace.core.usage import normalize


def test_opentelemetry() -> None:
    """Today's names: settings of the request are parameters, each without its prefix."""
    facts = call_facts(
        {
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
            "gen_ai.response.id": "chatcmpl-1",
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.request.temperature": 0.0,
            "gen_ai.request.max_tokens": 10,
            "gen_ai.request.choice.count": 2,
            "gen_ai.request.structured_output_schema": '{"type": "object"}',
            "gen_ai.usage.input_tokens": 12,
            "gen_ai.usage.output_tokens": 5,
            "gen_ai.usage.reasoning.output_tokens": 3,
            "gen_ai.conversation.id": "c1",
        }
    )
    assert facts.of_request == {
        "model": "gpt-4o-mini",
        "temperature": 0.0,
        "parameters": {"max_tokens": 10, "choice.count": 2},
        "provider": "openai",
    }
    assert facts.of_response == {
        "model": "gpt-4o-mini-2024-07-18",
        "response_id": "chatcmpl-1",
        "finish_reason": "stop",
        "usage": {"input_tokens": 12, "output_tokens": 5, "reasoning_tokens": 3},
    }
    assert facts.conversation_id == "c1"


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 4},
        {"gen_ai.usage.prompt_tokens": 9, "gen_ai.usage.completion_tokens": 4},
        {"llm.token_count.prompt": 9, "llm.token_count.completion": 4},
        {"llm.usage.prompt_tokens": 9, "llm.usage.completion_tokens": 4},
        {"ai.usage.promptTokens": "9", "ai.usage.completionTokens": "4"},
    ],
)
def test_usage_in_every_dialect(attributes: dict[str, Any]) -> None:
    """The same two counts under five sets of names, one of which writes them as text."""
    assert call_facts(attributes).usage == {"input_tokens": 9, "output_tokens": 4}


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.usage.input_tokens": 9807, "gen_ai.usage.cache_read.input_tokens": 9800},
        {"gen_ai.usage.input_tokens": 7, "gen_ai.usage.cache_read_input_tokens": 9800},
        {"llm.token_count.prompt": 7, "llm.token_count.prompt_details.cache_read": 9800},
        {"gen_ai.usage.input_tokens": 7, "gen_ai.usage.cache_creation.input_tokens": 9800},
        {"gen_ai.usage.input_tokens": 7, "gen_ai.usage.cache_write.input_tokens": 9800},
    ],
)
def test_cached_tokens_are_counted_once(attributes: dict[str, Any]) -> None:
    """A prompt of 9,807 tokens is one, whether the cached ones were counted in or reported beside."""
    usage = call_facts(attributes).usage
    assert usage["input_tokens"] == 9807
    assert normalize(usage)["input_tokens"] == 9807


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"gen_ai.response.finish_reasons": ("stop", "stop")}, "stop"),
        ({"gen_ai.response.finish_reasons": ["stop", "length"]}, "stop, length"),
        ({"gen_ai.response.finish_reasons": '["stop"]'}, "stop"),
        ({"llm.finish_reason": "tool_calls"}, "tool_calls"),
        ({"llm.response.finish_reason": "stop"}, "stop"),
        ({"anthropic.message.stop_reason": "end_turn"}, "end_turn"),
        ({"gen_ai.response.finish_reasons": []}, None),
        ({}, None),
    ],
)
def test_finish_reasons(attributes: dict[str, Any], reason: str | None) -> None:
    """One reason for several choices that end alike; all of them where they differ."""
    assert call_facts(attributes).finish_reason == reason


def test_openinference_and_older_names() -> None:
    """OpenInference's model, OpenLLMetry's older model and its settings."""
    assert call_facts({"llm.model_name": "m", "llm.system": "openai"}).of_request == {
        "model": "m",
        "provider": "openai",
    }
    older = call_facts({"llm.request.model": "m", "llm.top_k": 3, "llm.is_streaming": False})
    assert older.of_request == {"model": "m", "parameters": {"top_k": 3, "stream": False}}


def test_nothing_and_nonsense() -> None:
    """No attributes say nothing; values of other types than they should have say nothing either."""
    assert call_facts({}) == CallFacts()
    nonsense = {
        "gen_ai.request.model": 7,
        "gen_ai.usage.input_tokens": "many",
        "gen_ai.request.temperature": "hot",
        3: 4,
    }
    assert call_facts(nonsense) == CallFacts()
