"""Response bodies of model APIs, where an instrumentation hands one over as a value.

OpenAI (chat, responses, completions), Anthropic, Google and Bedrock Converse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_prompt_trace.core.conventions.messages import message, output_of
from otel_prompt_trace.core.conventions.request_bodies import are_messages
from otel_prompt_trace.core.conventions.values import first_of, given, items, mapping, text


def response_of(value: Any) -> dict[str, Any] | None:
    """The fields of a response event from a response body; None for anything else."""
    body = mapping(value)
    if body is None:
        return None
    for read in (_chat_choices, _responses_output, _content_blocks, _google_candidates):
        found = read(body)
        if found is not None:
            usage = first_of(body, ("usage", "usageMetadata", "usage_metadata"))
            named = {
                "usage": mapping(usage),
                "model": text(first_of(body, ("model", "modelVersion", "model_version"))),
                "response_id": text(body.get("id")),
            }
            return given({**found, **named})
    return None


def _chat_choices(body: dict[str, Any]) -> dict[str, Any] | None:
    choices = [found for entry in items(body.get("choices")) or () if (found := mapping(entry)) is not None]
    if not choices:
        return None
    answers = [_answer(choice) for choice in choices]
    return {"output": output_of(answers), "finish_reason": one_reason([c.get("finish_reason") for c in choices])}


def _answer(choice: dict[str, Any]) -> Any:
    found = mapping(choice.get("message"))
    return choice.get("text") if found is None else {name: item for name, item in given(found).items() if item != []}


def _responses_output(body: dict[str, Any]) -> dict[str, Any] | None:
    listed = items(body.get("output"))
    if listed is None or not are_messages(listed):
        return None
    reason = body.get("status")
    if len(listed) == 1 and isinstance(listed[0], Mapping) and listed[0].get("type") == "message":
        blocks = items(listed[0].get("content")) or []
        only = mapping(blocks[0]) if len(blocks) == 1 else None
        if only is not None and isinstance(only.get("text"), str):
            return {"output": only["text"], "finish_reason": text(reason)}
    return {"output": listed, "finish_reason": text(reason)}


def _content_blocks(body: dict[str, Any]) -> dict[str, Any] | None:
    if body.get("role") != "assistant" and "stop_reason" not in body:
        return None
    content = body.get("content")
    blocks = [given(found) for entry in items(content) or () if (found := mapping(entry)) is not None]
    reason = text(first_of(body, ("stop_reason", "finish_reason")))
    if isinstance(content, str) and content:
        return {"output": content, "finish_reason": reason}
    if len(blocks) == 1 and blocks[0].get("type") == "text" and isinstance(blocks[0].get("text"), str):
        return {"output": blocks[0]["text"], "finish_reason": reason}
    return {"output": message("assistant", blocks), "finish_reason": reason} if blocks else None


def _google_candidates(body: dict[str, Any]) -> dict[str, Any] | None:
    candidates = items(body.get("candidates"))
    first = mapping(candidates[0]) if candidates else body
    content = mapping((first or {}).get("content"))
    parts = items((content or {}).get("parts"))
    if first is None or content is None or not parts:
        return None
    only = mapping(parts[0]) if len(parts) == 1 else None
    output = only["text"] if only is not None and only.keys() == {"text"} else content
    return {"output": output, "finish_reason": text(first_of(first, ("finishReason", "finish_reason")))}


def one_reason(reasons: Any) -> str | None:
    """The finish reason of one or several choices; several that differ are all named."""
    listed = items(reasons)
    if listed is None:
        return text(reasons)
    return ", ".join(dict.fromkeys(reason for reason in listed if text(reason) is not None)) or None
