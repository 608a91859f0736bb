"""What the model received, as segments: one string, or the string leaves of a message list.

A leaf is content unless its key is known to be a parameter of the message's envelope: nothing hides in a field
that we do not know. Images and files given as ``data:`` URLs are **binary**, and what is named by an id or a link
is **held by reference**: neither counts in the prompt's total; both are listed with their path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_prompt_trace.core.text import CutText

# Fields of the OpenAI, Anthropic and Google message forms that steer the request and are no text for the model.
_ENVELOPE = frozenset({"role", "type", "id", "tool_call_id", "tool_use_id", "call_id", "status", "detail", "format"})
_ENVELOPE_OBJECTS = frozenset({"cache_control"})
_LINKS = frozenset({"url", "image_url", "file_url", "fileUri", "file_uri"})
_HANDLES = frozenset({"file_id", "fileId", "previous_response_id", "cached_content", "cachedContent"})
_BINARY = frozenset({"b64_json", "encrypted_content", "signature"})


@dataclass(frozen=True, slots=True)
class Segment:
    """One string of the prompt, with the JSON path at which it stood (``messages[2].content``) and its role.

    ``text`` is as long as the original, in code points; the parts that a policy cut are listed in ``cuts`` as
    (start, end) and hold a filler.
    """

    path: str
    text: str
    role: str | None = None
    cuts: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Outside:
    """A part of a message that is not text: ``binary`` with its length, or ``reference`` with what it names."""

    path: str
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class Split:
    """A prompt taken apart."""

    segments: tuple[Segment, ...]
    outside: tuple[Outside, ...] = ()

    @property
    def total(self) -> int:
        """Characters (code points) of all segments."""
        return sum(len(segment.text) for segment in self.segments)


def split(prompt: Any) -> Split:
    """Segments of a string, a :class:`CutText`, or a list of messages.

    Raises:
        TypeError: the prompt is none of these.
    """
    if isinstance(prompt, str | CutText):
        return Split((segment("prompt", prompt),))
    if isinstance(prompt, Sequence) and not isinstance(prompt, bytes | bytearray):
        return split_messages(prompt)
    raise TypeError(f"a prompt is a str, a Prompt or a list of messages, not {type(prompt).__name__}")


def split_messages(messages: Sequence[Any], root: str = "messages") -> Split:
    """Segments of a message list, in the order in which they stand."""
    segments: list[Segment] = []
    outside: list[Outside] = []
    for position, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        for part in _leaves(message, f"{root}[{position}]", "", role if isinstance(role, str) else None):
            (outside if isinstance(part, Outside) else segments).append(part)  # type: ignore[arg-type]
    return Split(tuple(segments), tuple(outside))


def segment(path: str, value: str | CutText, role: str | None = None) -> Segment:
    """A segment from a stored text, cut or whole."""
    if isinstance(value, str):
        return Segment(path, value, role)
    return Segment(path, value.filled, role, tuple((start, end) for start, end, _ in value.cuts()))


def _leaves(value: Any, path: str, key: str, role: str | None) -> Iterator[Segment | Outside]:
    if isinstance(value, str | CutText):
        yield from _leaf(value, path, key, role)
    elif isinstance(value, bytes | bytearray):
        yield Outside(path, "binary", f"{len(value)} bytes")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if name not in _ENVELOPE_OBJECTS and not (name in _ENVELOPE and isinstance(item, str)):
                yield from _leaves(item, f"{path}.{name}", str(name), role)
    elif isinstance(value, Sequence):
        for position, item in enumerate(value):
            yield from _leaves(item, f"{path}[{position}]", key, role)


def _leaf(value: str | CutText, path: str, key: str, role: str | None) -> Iterator[Segment | Outside]:
    text = value if isinstance(value, str) else value.filled
    if key in _HANDLES:
        yield Outside(path, "reference", text[:200])
    elif text.startswith("data:") and key in _LINKS | {"data", "file_data"}:
        yield Outside(path, "binary", f"{len(text)} characters of {text[5:].partition(';')[0][:80]}")
    elif key in _LINKS:
        yield Outside(path, "reference", text.partition("?")[0][:200])  # a signed link carries a secret in its query
    elif key in _BINARY:
        yield Outside(path, "binary", f"{len(text)} characters")
    else:
        yield segment(path, value, role)
