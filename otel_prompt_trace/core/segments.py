"""What the model received, as segments: one string, or the string leaves of a message list.

A leaf is content unless its key is known to be a parameter of the message's envelope: nothing hides in a field
that we do not know, and below a tool's arguments or result every field is the application's own. Images and files
given as ``data:`` URLs or in base64 are **binary**; what is named by an id or a link, and a value that is not
JSON, is **held by reference**: neither counts in the prompt's total; both are listed with their path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_prompt_trace.core.text import CutText, Foreign

# Fields of the OpenAI, Anthropic and Google message forms that steer the request and are no text for the model.
_MEDIA_TYPES = ("media_type", "mimeType", "mime_type")
_ENVELOPE = frozenset(
    {"role", "type", "id", "tool_call_id", "tool_use_id", "call_id", "status", "detail", "format", *_MEDIA_TYPES}
)
_ENVELOPE_OBJECTS = frozenset({"cache_control"})
_LINKS = frozenset({"url", "image_url", "file_url", "fileUri", "file_uri"})
_HANDLES = frozenset({"file_id", "fileId", "previous_response_id", "cached_content", "cachedContent"})
_CHECKSUMS = frozenset({"signature"})
_BINARY = frozenset({"b64_json", "encrypted_content", *_CHECKSUMS})
_ARGUMENTS = frozenset({"input", "args", "arguments", "parameters", "response", "json"})

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9.+-]{1,60}/[A-Za-z0-9.+-]{1,60}")
LONGEST_SETTING = 1024  # characters; a longer one may be text for the model, whatever it is called
DEPTH = 100  # as deep as a value is stored; a guard against one that holds itself


@dataclass(frozen=True, slots=True)
class Segment:
    """One string of the prompt, with the JSON path at which it stood (``messages[2].content``) and its role.

    ``text`` is as long as the original, in code points; the parts that a policy cut are listed in ``cuts`` as
    (start, end) and hold a filler. ``stored`` is then the text as it was stored.
    """

    path: str
    text: str
    role: str | None = None
    cuts: tuple[tuple[int, int], ...] = ()
    stored: CutText | None = None


@dataclass(frozen=True, slots=True)
class Outside:
    """A part of a message that is not text: ``binary`` with its length, or ``reference`` with what it names.

    ``value`` is what stands at the path. ``around`` are the objects that it stands in, innermost first: an image may
    be declared as its string or as the part of the message that holds it.
    """

    path: str
    kind: str
    detail: str
    value: Any = field(default=None, repr=False, compare=False)
    around: tuple[Any, ...] = field(default=(), repr=False, compare=False)
    checksum: bool = False  # binary that vouches for a text beside it, and is nothing to account for


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
    if isinstance(prompt, Sequence) and not isinstance(prompt, bytes | bytearray | memoryview):
        return split_messages(prompt)
    raise TypeError(f"a prompt is a str, a Prompt or a list of messages, not {type(prompt).__name__}")


def split_messages(messages: Sequence[Any], root: str = "messages") -> Split:
    """Segments of a message list, in the order in which they stand."""
    segments: list[Segment] = []
    outside: list[Outside] = []
    for position, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        for part in leaves(message, f"{root}[{position}]", "", role if isinstance(role, str) else None):
            (outside if isinstance(part, Outside) else segments).append(part)  # type: ignore[arg-type]
    return Split(tuple(segments), tuple(outside))


def segment(path: str, value: str | CutText, role: str | None = None) -> Segment:
    """A segment from a stored text, cut or whole."""
    if isinstance(value, str):
        return Segment(path, value, role)
    return Segment(path, value.filled, role, tuple((start, end) for start, end, _ in value.cuts()), value)


def child(path: str, name: object) -> str:
    """The path of a field: ``path.name``, or ``path["odd.name"]``, so that no two fields share a path."""
    if isinstance(name, str) and _PLAIN_NAME.fullmatch(name):
        return f"{path}.{name}"
    return f"{path}[{json.dumps(name if isinstance(name, str | int | float) else str(name))}]"


def leaves(
    value: Any, path: str, key: str | None, role: str | None, around: tuple[Any, ...] = ()
) -> Iterator[Segment | Outside]:
    """The segments below a value, and what is no text.

    ``key`` is the field below which the value stands; None below a tool's arguments, where names say nothing.
    ``around`` are the objects that hold it, innermost first.
    """
    if isinstance(value, str | CutText):
        yield from _leaf(value, path, key, role, around)
    elif value is None or isinstance(value, bool | int | float):
        return
    elif isinstance(value, bytes | bytearray | memoryview):
        yield Outside(path, "binary", f"{len(value)} bytes", value, around)
    elif len(around) >= DEPTH:
        yield Outside(path, "reference", "nested too deeply", value)
    elif isinstance(value, Mapping):
        yield from _fields(value, path, key, role, around)
    elif isinstance(value, Sequence):
        for position, item in enumerate(value):
            yield from leaves(item, f"{path}[{position}]", key, role, (value, *around))
    else:
        kind = type(value)
        named = value.kind if isinstance(value, Foreign) else f"{kind.__module__}.{kind.__qualname__}"
        yield Outside(path, "reference", f"a value of {named}", value)


def _fields(
    value: Mapping[Any, Any], path: str, key: str | None, role: str | None, around: tuple[Any, ...]
) -> Iterator[Segment | Outside]:
    media = None if key is None else _encoded_media(value, key)
    for name, item in value.items():
        if key is not None and (name in _ENVELOPE_OBJECTS or _is_envelope(name, item)):
            continue
        if media is not None and name == "data":
            yield Outside(child(path, name), "binary", f"{len(item)} characters of {media}", item, (value, *around))
            continue
        below = None if key is None or (name in _ARGUMENTS and not isinstance(item, str)) else str(name)
        yield from leaves(item, child(path, name), below, role, (value, *around))


def _is_envelope(name: Any, item: Any) -> bool:
    return name in _ENVELOPE and isinstance(item, str) and len(item) <= LONGEST_SETTING


def _encoded_media(value: Mapping[Any, Any], key: str) -> str | None:
    """The media type of an object that carries base64, as Anthropic, Google and OpenAI (audio) have it."""
    if not isinstance(value.get("data"), str | CutText):
        return None
    media = next((value[name] for name in _MEDIA_TYPES if isinstance(value.get(name), str)), "")
    if value.get("type") == "base64" or (media and value.get("type") != "text") or key == "input_audio":
        return media if _MEDIA_TYPE.fullmatch(media) else "an unknown type"
    return None


def _leaf(
    value: str | CutText, path: str, key: str | None, role: str | None, around: tuple[Any, ...]
) -> Iterator[Segment | Outside]:
    text = value if isinstance(value, str) else value.filled
    if key in _HANDLES:
        yield Outside(path, "reference", text[:200], value)
    elif text.startswith("data:") and key in _LINKS | {"data", "file_data"}:
        media = _MEDIA_TYPE.match(text, 5)
        named = media[0] if media else "an unknown type"
        yield Outside(path, "binary", f"{len(text)} characters of {named}", value, around)
    elif key in _LINKS:  # a signed link carries a secret in its query
        yield Outside(path, "reference", text.partition("?")[0][:200], value)
    elif key in _BINARY:
        yield Outside(path, "binary", f"{len(text)} characters", value, around, checksum=key in _CHECKSUMS)
    else:
        yield segment(path, value, role)
