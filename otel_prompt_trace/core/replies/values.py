"""Looking into JSON of unknown shape: each function answers for any value, and none decodes a text.

The wire gives exact values. A text that happens to be JSON is that text here, other than where instrumentations write
JSON into attributes (:mod:`otel_prompt_trace.core.conventions.values`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from otel_prompt_trace.core.conventions.values import given

_MARK = b"\xef\xbb\xbf"  # of byte order, as some hosts begin with it
_decode = msgspec.json.Decoder().decode  # keeps each digit of an integer beyond 64 bits, as Python's own does


def parsed(raw: bytes | str) -> Any:
    """The JSON value of a text.

    Raises:
        ValueError: it is no JSON, or nested deeper than any host nests.
    """
    # A codec that knows the byte order mark would be imported here, while others of the process may fork.
    text = raw.removeprefix(_MARK).decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    try:
        return _decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):  # perhaps a lone surrogate, or NaN, as Python writes them
        pass
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def fields_of(value: Any) -> dict[str, Any]:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def objects_in(value: Any) -> list[dict[str, Any]]:
    """The objects among the items of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def place_of(value: Any) -> int:
    """An index as hosts give it; the first place where there is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def word(value: Any) -> str | None:
    """A name or code: a text that is not empty, or a number as text."""
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def words(values: list[Any]) -> str | None:
    """The finish reason of one or several choices; several that differ are all named."""
    return ", ".join(dict.fromkeys(found for value in values if (found := word(value)) is not None)) or None


def listed(output: Any) -> Any:
    """An output as a text or as a list."""
    return output if output is None or isinstance(output, str | list) else [output]


def only_text(parts: Any, kind: str | None = "text") -> str | None:
    """The text of a message that is one plain text part; None if there is more to it."""
    if not isinstance(parts, list) or len(parts) != 1 or not isinstance(parts[0], dict):
        return None
    part = {name: item for name, item in parts[0].items() if item is not None and item != []}
    plain = {"text"} if kind is None else {"type", "text"}
    fits = part.keys() == plain and (kind is None or part["type"] == kind)
    return part["text"] if fits and isinstance(part["text"], str) else None


def named(body: Mapping[str, Any], **found: Any) -> dict[str, Any]:
    """The fields of a response event that have a value: ``found``, and model and id under their usual names."""
    usage = found.pop("usage", body.get("usage"))
    fields = {"model": word(body.get("model")), "response_id": word(body.get("id")), **found}
    return given({**fields, "usage": usage if isinstance(usage, dict) and usage else None})
