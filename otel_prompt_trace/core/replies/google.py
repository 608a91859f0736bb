"""Google's ``generateContent`` and ``streamGenerateContent`` (Gemini, Vertex AI).

Each item of a stream is a whole response that holds the next parts. Text parts that follow each other are one part in
an answer that is not streamed, and become one here. There is no end mark: the finish reason is it.
"""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.core.replies.growing import Growing, settled
from otel_prompt_trace.core.replies.values import fields_of, named, objects_in, only_text, place_of, word, words

_TEXT_LIKE = frozenset({"text", "thought", "thoughtSignature"})


def read_google(body: dict[str, Any]) -> dict[str, Any] | None:
    """The fields of a response event; None for what is no such body."""
    feedback = fields_of(body.get("promptFeedback"))
    if not isinstance(body.get("candidates"), list) and not feedback:
        return None
    candidates = objects_in(body.get("candidates"))
    contents = [found for candidate in candidates if (found := fields_of(candidate.get("content"))).get("parts")]
    output: Any = contents or None
    if len(contents) == 1 and isinstance(contents[0]["parts"], list):
        parts = contents[0]["parts"]
        text = only_text(parts, None)
        output = parts if text is None else text
    reason = words([candidate.get("finishReason") for candidate in candidates]) or word(feedback.get("blockReason"))
    return named(
        body,
        output=output,
        finish_reason=reason,
        usage=body.get("usageMetadata"),
        model=word(body.get("modelVersion")),
        response_id=word(body.get("responseId")),
    )


class GoogleStream:
    """Responses, put together into one."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._candidates: dict[int, dict[str, Any]] = {}
        self._seen = False

    @property
    def ended(self) -> bool:
        """Every candidate said why it ended, or the prompt was refused."""
        if fields_of(self._head.get("promptFeedback")).get("blockReason"):
            return True
        held = self._candidates.values()
        return bool(held) and all(candidate["finishReason"] is not None for candidate in held)

    def add(self, _name: str, value: dict[str, Any], /) -> None:
        """One response."""
        self._seen = self._seen or bool(value.keys() & {"candidates", "promptFeedback", "usageMetadata"})
        for field in ("modelVersion", "responseId", "promptFeedback"):
            if value.get(field):
                self._head[field] = value[field]
        self._usage.update(fields_of(value.get("usageMetadata")))
        for told in objects_in(value.get("candidates")):
            empty: dict[str, Any] = {"content": {"parts": []}, "finishReason": None}
            candidate = self._candidates.setdefault(place_of(told.get("index")), empty)
            candidate["finishReason"] = told.get("finishReason") or candidate["finishReason"]
            content = fields_of(told.get("content"))
            if content.get("role"):
                candidate["content"]["role"] = content["role"]
            for part in objects_in(content.get("parts")):
                _append(candidate["content"]["parts"], part)

    def body(self) -> dict[str, Any] | None:
        """The response so far; None if nothing was of this API."""
        if not self._seen:
            return None
        candidates = [settled(candidate) for _, candidate in sorted(self._candidates.items())]
        return {**self._head, "candidates": candidates, "usageMetadata": self._usage}


def _append(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    last = parts[-1] if parts else {}
    if not isinstance(part.get("text"), str) or not part.keys() <= _TEXT_LIKE:
        parts.append(dict(part))
    elif (
        isinstance(last.get("text"), Growing)
        and bool(last.get("thought")) == bool(part.get("thought"))
        and "thoughtSignature" not in last
    ):
        last["text"].add(part["text"])
        if "thoughtSignature" in part:
            last["thoughtSignature"] = part["thoughtSignature"]
    elif part["text"] or "thoughtSignature" in part:
        parts.append({**part, "text": Growing(part["text"])})
