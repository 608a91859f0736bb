"""What one request shows the model: its segments, what is held elsewhere, and the parts that are no prompt.

A prompt may stand in more than ``prompt`` and ``messages``: a system text, instructions or an input may be given as
parameters beside it. Content of ``system`` and its like stands before the messages, as the model reads it, the rest
after them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from otel_prompt_trace.core.bodies.runs import parts_of
from otel_prompt_trace.core.parameters import FIRST, NESTED, VISIBLE, content_of, is_schema
from otel_prompt_trace.core.segments import Outside, Segment, Split, child, split

_OWN_PATHS = frozenset({"prompt", "messages", "tools", "response_format"})  # of the request itself
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def split_request(request: Mapping[str, Any]) -> tuple[Split, int] | None:
    """The prompt of a request event, with the number of segments that stand before its own first one.

    None where there is no prompt, or one of a shape that nobody can take apart: kept as it was handed over.
    """
    if "body" in request:
        parts = parts_of(request["body"])
        return None if parts is None else (parts.prompt, 0)
    messages = request.get("messages")
    prompt = messages if messages is not None else request.get("prompt")
    if prompt is None:
        return None
    try:
        own = split(prompt)
    except TypeError:
        return None
    first: list[Segment | Outside] = []
    after: list[Segment | Outside] = []
    for name, path, value in _parameters(request.get("parameters")):
        found = content_of(name, path, value)
        (first if name in FIRST else after).extend(found)
    if not first and not after:
        return own, 0
    before = [part for part in first if isinstance(part, Segment)]
    segments = (*before, *own.segments, *(part for part in after if isinstance(part, Segment)))
    outside = (*own.outside, *(part for part in (*first, *after) if isinstance(part, Outside)))
    return Split(segments, outside), len(before)


def visible_parts(request: Mapping[str, Any]) -> dict[str, Any]:
    """The parts that the model may see beside the prompt, by name: tool definitions, a response schema."""
    if "body" in request:
        found = parts_of(request["body"])
        return {} if found is None else found.visible
    parts = {name: request[name] for name in ("tools", "response_format") if request.get(name)}
    for name, path, value in _parameters(request.get("parameters")):
        if value and (name in VISIBLE or (name in _OWN_PATHS - {"prompt", "messages"})):
            parts[path] = value
        elif name == "text" and is_schema(value):
            parts[f"{path}.format"] = value["format"]
    return parts


def change_parameters(parameters: Any, change: Callable[[str, Any], Any]) -> Any:
    """The parameters with each put through ``change(path, value)``; the paths are those of :func:`split_request`."""
    if not isinstance(parameters, Mapping):
        return parameters
    return {
        name: change_nested(path, item, change) if name in NESTED else change(path, item)
        for name, path, item in ((name, _path(name), item) for name, item in parameters.items())
    }


def change_nested(path: str, value: Any, change: Callable[[str, Any], Any]) -> Any:
    """The same one level below: fields of ``extra_body`` and its like."""
    if not isinstance(value, Mapping):
        return change(path, value)
    return {name: change(child(path, name), item) for name, item in value.items()}


def _parameters(parameters: Any) -> Iterator[tuple[str, str, Any]]:
    """Name, path and value of each parameter, those that are given one level below as well."""
    if not isinstance(parameters, Mapping):
        return
    for name, value in parameters.items():
        path = _path(name)
        if name in NESTED and isinstance(value, Mapping):
            for inner, item in value.items():
                yield str(inner), child(path, inner), item
        else:
            yield str(name), path, value


def _path(name: object) -> str:
    if isinstance(name, str) and _PLAIN_NAME.fullmatch(name) and name not in _OWN_PATHS:
        return name
    return child("parameters", name)
