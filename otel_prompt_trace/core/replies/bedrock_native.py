"""Bedrock's InvokeModel: each model family answers in its own form, told apart by its fields.

Anthropic, Nova (the form of Converse), Cohere, and what speaks OpenAI's form (Mistral, DeepSeek, gpt-oss) are read as
elsewhere; Llama, Titan, Mistral's ``outputs`` and Cohere's ``generations`` here. A stream's last chunk carries
Bedrock's own counts, which stand for the usage where the model tells none.
"""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.core.conventions.messages import output_of
from otel_prompt_trace.core.replies.anthropic import AnthropicStream, read_anthropic
from otel_prompt_trace.core.replies.bedrock import ConverseStream, read_converse
from otel_prompt_trace.core.replies.cohere import CohereStream, read_cohere
from otel_prompt_trace.core.replies.growing import grow, settled
from otel_prompt_trace.core.replies.openai_chat import ChatStream, read_chat
from otel_prompt_trace.core.replies.values import fields_of, named, objects_in, place_of, words

METRICS = "amazon-bedrock-invocationMetrics"
_CONVERSE = ("messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata")
# Per list of answers: the field of the text, and that of the reason.
_LISTS = {
    "results": ("outputText", "completionReason"),
    "outputs": ("text", "stop_reason"),
    "generations": ("text", "finish_reason"),
}
_COUNTS = {
    "input_tokens": ("prompt_token_count", "inputTextTokenCount", "inputTokenCount"),
    "output_tokens": ("generation_token_count", "totalOutputTextTokenCount", "outputTokenCount"),
}

_Stream = AnthropicStream | ConverseStream | CohereStream | ChatStream


def read_native(body: dict[str, Any]) -> dict[str, Any] | None:
    """The fields of a response event; None for a body of no known family."""
    for read in (read_anthropic, read_converse, read_chat, _read_simple, read_cohere):
        found = read(body)
        if found is not None:
            usage = found.get("usage") or _usage(body)
            return {**found, "usage": usage} if usage else found
    return None


def _read_simple(body: dict[str, Any]) -> dict[str, Any] | None:
    if isinstance(body.get("generation"), str):
        return named(body, output=body["generation"], finish_reason=words([body.get("stop_reason")]))
    for name, (text, reason) in _LISTS.items():
        if isinstance(body.get(name), list):
            answers = objects_in(body[name])
            texts = [answer[text] for answer in answers if isinstance(answer.get(text), str)]
            reasons = words([answer.get(reason) for answer in answers])
            return named(body, output=output_of(texts), finish_reason=reasons)
    return None


def _usage(body: dict[str, Any]) -> dict[str, Any]:
    told = {**fields_of(body.get(METRICS)), **{name: body[name] for name in _names() if name in body}}
    for result in objects_in(body.get("results")):
        if isinstance(result.get("tokenCount"), int):
            told["totalOutputTextTokenCount"] = told.get("totalOutputTextTokenCount", 0) + result["tokenCount"]
    found = {ours: told[name] for ours, names in _COUNTS.items() for name in names if isinstance(told.get(name), int)}
    return {**told, **found} if found else {}


def _names() -> tuple[str, ...]:
    return tuple(name for names in _COUNTS.values() for name in names)


class NativeStream:
    """Chunks of a model's own form, put together into its own body."""

    def __init__(self) -> None:
        self._inner: _Stream | None = None
        self._simple: dict[str, Any] = {}  # of Llama and Titan: one answer
        self._lists: dict[str, dict[int, dict[str, Any]]] = {}
        self._counts: dict[str, Any] = {}
        self._finished = False

    @property
    def ended(self) -> bool:
        """The model's own end, or Bedrock's counts, which come last."""
        return self._finished or (self._inner is not None and self._inner.ended)

    def add(self, _name: str, value: dict[str, Any], /) -> None:
        """One chunk, decoded."""
        if isinstance(value.get(METRICS), dict):
            self._counts[METRICS] = value[METRICS]
            self._finished = True
        self._counts.update({field: value[field] for field in _names() if value.get(field) is not None})
        if isinstance(value.get("generation"), str):
            self._one(value, "generation", "stop_reason")
        elif isinstance(value.get("outputText"), str):
            self._one(value, "outputText", "completionReason")
        elif any(isinstance(value.get(field), list) for field in _LISTS):
            self._several(value)
        else:
            self._hand_on(value)

    def _one(self, value: dict[str, Any], text: str, reason: str) -> None:
        grow(self._simple, {text: value[text]})
        if value.get(reason):
            self._simple[reason] = value[reason]
            self._finished = True

    def _several(self, value: dict[str, Any]) -> None:
        for field, (text, reason) in _LISTS.items():
            for place, answer in enumerate(objects_in(value.get(field))):
                held = self._lists.setdefault(field, {}).setdefault(place_of(answer.get("index", place)), {})
                grow(held, {text: answer[text]} if isinstance(answer.get(text), str) else {})
                if answer.get(reason):
                    held[reason] = answer[reason]
                    self._finished = True

    def _hand_on(self, value: dict[str, Any]) -> None:
        event = next((kind for kind in _CONVERSE if isinstance(value.get(kind), dict)), None)
        if self._inner is None:
            if event is not None:
                self._inner = ConverseStream()
            elif isinstance(value.get("choices"), list):
                self._inner = ChatStream()
            elif "is_finished" in value or "event_type" in value:
                self._inner = CohereStream()
            elif "completion" in value or isinstance(value.get("type"), str):
                self._inner = AnthropicStream()
        if self._inner is not None:
            self._inner.add(event or "", value if event is None else value[event])

    def body(self) -> dict[str, Any] | None:
        """The body so far; None if no chunk was of a known family."""
        body = self._inner.body() if self._inner is not None else None
        if self._simple:
            body = settled(self._simple)
            if "outputText" in body:
                body = {"results": [body]}
        for field, answers in self._lists.items():
            body = {**(body or {}), field: [settled(answer) for _, answer in sorted(answers.items())]}
        return None if body is None else {**self._counts, **body}
