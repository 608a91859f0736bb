"""Values as instrumentations hand them over, decoded as far as it can be done without guessing.

A value is text, a number, a list, an object, or JSON text of one of the latter two. JSON is decoded once: what is
JSON inside a message's text is that message's text. A value that is no JSON stays text. Nothing here raises for any
value that JSON can carry, however deep.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from otel_prompt_trace.core.conventions.cut_json import decode_cut
from otel_prompt_trace.core.text import CutText

_LEADING = 64  # characters of white space before JSON text; more of it is no JSON that a serializer wrote

# Types of a message's parts in the forms of OpenAI, Anthropic, OpenTelemetry and OpenInference.
PART_TYPES = frozenset(
    {
        "text",
        "input_text",
        "output_text",
        "image",
        "image_url",
        "input_image",
        "audio",
        "input_audio",
        "file",
        "input_file",
        "document",
        "blob",
        "uri",
        "tool_use",
        "tool_call",
        "tool_result",
        "tool_call_response",
        "thinking",
        "redacted_thinking",
        "reasoning",
        "refusal",
        "search_result",
        "server_tool_use",
        "server_tool_call",
        "server_tool_call_response",
        "compaction",
    }
)
# Parts of Bedrock and Google have no type: the one field says what they are.
_PART_FIELDS = frozenset({"text", "toolUse", "toolResult", "reasoningContent", "image", "document", "video"})


def decoded(value: Any) -> Any:
    """The list or object that a JSON text stands for; any other value as it is."""
    if isinstance(value, CutText):
        return decode_cut(value)
    if not isinstance(value, str) or value[:_LEADING].lstrip()[:1] not in ("[", "{"):
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found if isinstance(found, list | dict) else value


def items(value: Any) -> list[Any] | None:
    """The items of a list in any form; None for what is no list."""
    value = decoded(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        return list(value)
    return None


def mapping(value: Any) -> dict[str, Any] | None:
    """The object in any form, its names as text; None for what is no object."""
    value = decoded(value)
    return {str(name): item for name, item in value.items()} if isinstance(value, Mapping) else None


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: item for name, item in fields.items() if item is not None}


def parts_in(value: Any) -> list[dict[str, Any]] | None:
    """The parts of a message, where the value is a list of nothing else, or JSON text of one.

    Some conventions hand a message's parts over as JSON text under the same key as its plain text. Only a list all of
    whose items are parts of a known form is taken for that: a text that merely happens to be JSON stays text.
    """
    found = items(value)
    if not found or not all(isinstance(item, Mapping) and _is_part(item) for item in found):
        return None
    return [{str(name): field for name, field in item.items()} for item in found]


def first_of(fields: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The first of the named fields that has a value."""
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def text(value: Any) -> str | None:
    """The value if it is a text that is not empty."""
    return value if isinstance(value, str) and value else None


def number(value: Any) -> int | None:
    """The value as a whole number that is not negative; exporters write some of them as text."""
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _is_part(item: Mapping[Any, Any]) -> bool:
    kind = item.get("type")
    return kind in PART_TYPES if isinstance(kind, str) else len(item) == 1 and next(iter(item)) in _PART_FIELDS
