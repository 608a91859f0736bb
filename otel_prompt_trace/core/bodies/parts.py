"""What of a request body is content, what the model sees besides, what is binary, and what is envelope.

Every string leaf that is not a known parameter is content, and a known parameter that is longer than any setting is
content too: nothing hides in an envelope. The four parts add up to the body's length, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from otel_prompt_trace.core.bodies.scan import At, Fields, Items
from otel_prompt_trace.core.parameters import (
    FIRST,
    NESTED,
    SETTINGS,
    VISIBLE,
    content_of,
    is_schema,
    named,
)
from otel_prompt_trace.core.segments import DEPTH, LONGEST_SETTING, Outside, Segment, Split, child, split_messages
from otel_prompt_trace.core.text import utf8

# Settings that stand in bodies and in no client's parameters.
_ENVELOPE = SETTINGS | named(
    """anthropic_version anthropic_beta keep_alive raw schemaVersion num_generations return_likelihoods
    prompt_truncation citation_quality citation_options search_queries_only safety_mode
    additionalModelResponseFieldPaths max_tool_calls ignore_eos"""
)
_LISTED = named("tools response_format") | VISIBLE
_MESSAGES = "messages"
_TOKEN_IDS = named("prompt input context")  # given as numbers, they say a text that nobody here can read
_CONFIGS = NESTED | named("textGenerationConfig options")


@dataclass(frozen=True, slots=True)
class BodyParts:
    """A body taken apart.

    ``prompt`` are its segments and what is no text, ``visible`` the parts that the model may see beside it, by path.
    """

    prompt: Split
    visible: dict[str, Any]

    def sizes(self, text: str) -> dict[str, int]:
        """The bytes of each part, of the text that the body was scanned from; they add up to those of the body."""
        content = sum(_size(text, segment.text) for segment in self.prompt.segments)
        binary = sum(_size(text, part.value) for part in self.prompt.outside if part.kind == "binary")
        visible = sum(_size(text, value) for value in self.visible.values())
        envelope = len(utf8(text)) - content - binary - visible
        return {"envelope": envelope, "content": content, "model_visible": visible, "binary": binary}


def take_apart(body: Any) -> BodyParts:
    """The parts of a body, as :func:`otel_prompt_trace.core.bodies.scan.scan` gives it."""
    visible: dict[str, Any] = {}
    if not isinstance(body, Mapping):
        return BodyParts(Split(()), visible)
    first: list[Segment | Outside] = []
    after: list[Segment | Outside] = []
    for name, path, value in _fields(body):
        (first if name in FIRST else after).extend(_parts(name, path, value, visible))
    parts = [*first, *after]
    segments = tuple(part for part in parts if isinstance(part, Segment))
    return BodyParts(Split(segments, tuple(part for part in parts if isinstance(part, Outside))), visible)


def _fields(body: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for name, value in body.items():
        path = name if name.isidentifier() and name != "body" else child("body", name)
        if name in _CONFIGS and isinstance(value, Mapping):
            for inner, item in value.items():
                yield str(inner), child(path, inner), item
        else:
            yield str(name), path, value


def _parts(name: str, path: str, value: Any, visible: dict[str, Any]) -> Iterator[Segment | Outside]:
    if value is None or isinstance(value, bool | int | float):
        return
    if name in _LISTED or (name == "format" and isinstance(value, Mapping)):  # Ollama's is a schema, or a word
        if value:
            visible[path] = value
    elif name == "text" and isinstance(value, Mapping):
        if is_schema(value):
            visible[f"{path}.format"] = value["format"]
        settings = ("verbosity",) if is_schema(value) else ("verbosity", "format")
        yield from _oversized({key: value[key] for key in settings if key in value}, path)
        yield from content_of(name, path, value)
    elif name == "format" or name in _ENVELOPE:
        yield from _oversized(value, path)
    elif name in _TOKEN_IDS and _are_numbers(value):
        yield Outside(path, "reference", "token ids", value)
    elif name == "images" and isinstance(value, list):
        for number, item in enumerate(value):
            place = f"{path}[{number}]"
            if isinstance(item, str):
                yield Outside(place, "binary", f"{len(item)} characters", item, (value,))
            else:
                yield from content_of(name, place, item)
    elif name == _MESSAGES and isinstance(value, list):
        taken = split_messages(value, path)
        yield from taken.segments
        yield from taken.outside
    else:
        yield from content_of(name, path, value)


def _oversized(value: Any, path: str, depth: int = 0) -> Iterator[Segment | Outside]:
    """Strings in a known parameter that are too long to be a setting."""
    if isinstance(value, str):
        if len(value) > LONGEST_SETTING:
            yield Segment(path, value)
    elif isinstance(value, Mapping | list) and depth > DEPTH:
        yield Outside(path, "reference", "nested too deeply", value)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _oversized(item, child(path, name), depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _oversized(item, f"{path}[{number}]", depth + 1)


def _are_numbers(value: Any) -> bool:
    """Whether it is a list of token ids, or of several such lists."""
    if not isinstance(value, list) or not value:
        return False
    lists = value if all(isinstance(item, list) and item for item in value) else [value]
    return all(isinstance(item, int) for listed in lists for item in listed)


def _size(text: str, value: Any) -> int:
    return len(utf8(text[value.start : value.end])) if isinstance(value, At | Fields | Items) else 0
