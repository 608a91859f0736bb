"""The small facts about a call that stay on its span: model, settings, token usage, finish reason, ids.

Every dialect says the same under other names. Token counts that a provider reports beside the cached ones are summed,
so that ``input_tokens`` is always what the model was given; the conventions ask for that, and not every one does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from otel_prompt_trace.core.conventions.keys import content_key
from otel_prompt_trace.core.conventions.response_bodies import one_reason
from otel_prompt_trace.core.conventions.values import first_of, given, number, text

_MODEL = ("gen_ai.request.model", "llm.request.model_name", "llm.request.model", "ai.model.id", "llm.model_name")
_RESPONSE_MODEL = ("gen_ai.response.model", "llm.response.model_name", "llm.response.model", "ai.response.model")
_PROVIDER = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system", "ai.model.provider")
_REASONS = (
    "gen_ai.response.finish_reasons",
    "llm.finish_reason",
    "llm.response.finish_reason",
    "llm.response.stop_reason",
    "anthropic.message.stop_reason",
    "ai.response.finishReason",
)
_RESPONSE_ID = ("gen_ai.response.id", "ai.response.id")
_INPUT = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
)
_OUTPUT = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
)
_TOTAL = ("gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total", "ai.usage.totalTokens")
_CACHE_READ = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "llm.token_count.prompt_details.cache_read",
    "llm.token_count.prompt_details.cache_input",
    "ai.usage.cachedInputTokens",
)
_CACHE_WRITE = (
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "llm.token_count.prompt_details.cache_write",
)
_REASONING = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
    "ai.usage.reasoningTokens",
)
_SETTINGS = "gen_ai.request."
_OTHER_SETTINGS = {
    "llm.top_k": "top_k",
    "llm.frequency_penalty": "frequency_penalty",
    "llm.presence_penalty": "presence_penalty",
    "llm.chat.stop_sequences": "stop_sequences",
    "llm.is_streaming": "stream",
    "gen_ai.is_streaming": "stream",
    "gen_ai.openai.request.seed": "seed",
    "gen_ai.openai.request.service_tier": "service_tier",
    "openai.request.service_tier": "service_tier",
    "gen_ai.output.type": "output_type",
    "anthropic.thinking.type": "thinking_type",
    "anthropic.thinking.budget_tokens": "thinking_budget_tokens",
}


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What a span's ordinary attributes say of its call. ``usage`` is in tokens; empty where nothing was reported."""

    model: str | None = None
    temperature: float | int | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    provider: str | None = None
    response_model: str | None = None
    response_id: str | None = None
    finish_reason: str | None = None
    usage: dict[str, int] = field(default_factory=dict)
    conversation_id: str | None = None

    @property
    def of_request(self) -> dict[str, Any]:
        """The fields of a request event."""
        named = {"model": self.model, "temperature": self.temperature, "parameters": self.parameters or None}
        return given({**named, "provider": self.provider})

    @property
    def of_response(self) -> dict[str, Any]:
        """The fields of a response event."""
        named = {"model": self.response_model, "response_id": self.response_id, "finish_reason": self.finish_reason}
        return given({**named, "usage": self.usage or None})


def call_facts(attributes: Mapping[Any, Any]) -> CallFacts:
    """The facts that these attributes of a span give. Never raises."""
    parameters = {
        known: attributes[name] for name, known in _OTHER_SETTINGS.items() if attributes.get(name) is not None
    }
    for name, value in attributes.items():
        if isinstance(name, str) and name.startswith(_SETTINGS) and value is not None and content_key(name) is None:
            parameters[name[len(_SETTINGS) :]] = value
    parameters.pop("model", None)
    temperature = parameters.pop("temperature", None)
    return CallFacts(
        model=text(first_of(attributes, _MODEL)),
        temperature=temperature if isinstance(temperature, int | float) else None,
        parameters=parameters,
        provider=text(first_of(attributes, _PROVIDER)),
        response_model=text(first_of(attributes, _RESPONSE_MODEL)),
        response_id=text(first_of(attributes, _RESPONSE_ID)),
        finish_reason=one_reason(first_of(attributes, _REASONS)),
        usage=_usage(attributes),
        conversation_id=text(attributes.get("gen_ai.conversation.id")),
    )


def _usage(attributes: Mapping[str, Any]) -> dict[str, int]:
    read, written = _count(attributes, _CACHE_READ), _count(attributes, _CACHE_WRITE)
    named: dict[str, int | None] = {
        "input_tokens": _count(attributes, _INPUT),
        "output_tokens": _count(attributes, _OUTPUT),
        "total_tokens": _count(attributes, _TOTAL),
        "cached_tokens": read,
        "cache_write_tokens": written,
        "reasoning_tokens": _count(attributes, _REASONING),
    }
    given_in, cached = named["input_tokens"], (read or 0) + (written or 0)
    if given_in is not None and given_in < cached:  # a count that includes them can't be less than they are
        named |= {"input_tokens": given_in + cached, "reported_input_tokens": given_in}
    return {name: count for name, count in named.items() if count is not None}


def _count(attributes: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    return next((found for name in names if (found := number(attributes.get(name))) is not None), None)
