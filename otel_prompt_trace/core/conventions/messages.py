"""One form for messages: ``{"role", "content": text or parts, …}``, in which every text can be found.

What an instrumentation handed over stays as it was handed over in the ``content`` events; here it is only brought into
the form that :func:`otel_prompt_trace.core.segments.split_messages` takes apart. Texts are never changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from otel_prompt_trace.core.conventions.values import given, items, mapping, parts_in
from otel_prompt_trace.core.segments import split_messages

_UNNAMED_TYPE = "application/octet-stream"
_BESIDE_TEXT = frozenset({"role", "content", "name", "finish_reason"})


def message(role: Any, content: Any, **rest: Any) -> dict[str, Any]:
    """A message; ``content`` is a text, or parts, of which a single plain text stands for itself."""
    named = {"role": role} if isinstance(role, str) else {}
    return {**named, **given({"content": _tidy(content), **rest})}


def otel_messages(value: Any) -> list[Any] | None:
    """Messages of the OpenTelemetry form (``[{role, parts: […]}]``), or of the chat form, whatever they come as."""
    found = items(value)
    if found is None:
        one = mapping(value)
        found = None if one is None else [one]
    return None if found is None else [otel_message(item) for item in found]


def otel_message(value: Any) -> Any:
    """One message; what is none (a bare text) stays as it is."""
    fields = mapping(value) if isinstance(value, Mapping) else None
    if fields is None:
        return value
    parts = items(fields.get("parts"))
    if parts is None:
        return given(fields)
    rest = {name: item for name, item in fields.items() if name not in ("role", "parts", "content")}
    content = [otel_part(part) for part in parts]
    return message(fields.get("role"), content, **rest)


def otel_part(value: Any) -> Any:
    """One part of a message of the OpenTelemetry form."""
    part = mapping(value) if isinstance(value, Mapping) else None
    if part is None:
        return {"type": "text", "text": value} if isinstance(value, str) else value
    part = given(part)
    kind = part.get("type")
    if kind in ("blob", "uri", "file"):
        return _media(part)
    if kind == "tool_call_response":
        return _tool_response(part)
    if isinstance(kind, str) and isinstance(part.get("content"), str) and "text" not in part:
        return {"type": kind, "text": part.pop("content"), **part}
    return part


def output_of(messages: Sequence[Any]) -> Any:
    """What a response event holds as ``output``: a text where the answer is one, else the message or messages."""
    kept = [
        {name: item for name, item in entry.items() if name != "finish_reason"} if isinstance(entry, Mapping) else entry
        for entry in messages
    ]
    if len(kept) != 1:
        return kept or None
    only = kept[0]
    if isinstance(only, Mapping) and isinstance(only.get("content"), str) and _BESIDE_TEXT.issuperset(only):
        return only["content"]
    return only


def characters(messages: Any) -> int:
    """Characters of all texts of a prompt: a measure of how much of it is there."""
    if isinstance(messages, str):
        return len(messages)
    return split_messages(messages).total if isinstance(messages, list) else 0


def _tidy(content: Any) -> Any:
    if isinstance(content, list) and len(content) == 1:
        only = content[0]
        if isinstance(only, Mapping) and only.keys() <= {"type", "text"} and only.get("type", "text") == "text":
            return only.get("text", content)
    return content


def _media(part: dict[str, Any]) -> dict[str, Any]:
    """Binary content and links under the names by which they are told from text."""
    kind, modality = part.pop("type"), part.pop("modality", None)
    shaped: dict[str, Any] = {"type": modality if isinstance(modality, str) else kind}
    if kind == "blob" and "content" in part:
        shaped["mime_type"] = part.pop("mime_type", None) or _UNNAMED_TYPE
        shaped["data"] = part.pop("content")
    if kind == "uri" and "uri" in part:
        shaped["url"] = part.pop("uri")
    return {**shaped, **part}


def _tool_response(part: dict[str, Any]) -> dict[str, Any]:
    """A tool's result given as parts of a message is content; given as an object, its fields are the tool's own."""
    given_back = part.pop("response", part.pop("result", None))
    parts = parts_in(given_back) if not isinstance(given_back, str) else None
    if parts is not None:
        return {**part, "content": [otel_part(item) for item in parts]}
    return given({**part, "response": given_back})
