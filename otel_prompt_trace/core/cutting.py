"""Cutting: taking text out of a value and leaving its place, its length and a keyed digest.

Nothing here decides what is cut; :mod:`otel_prompt_trace.core.seal` does. A value keeps its structure and its
numbers, so that a body that was cut still splits into the same segments with the same lengths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from otel_prompt_trace.core.segments import child
from otel_prompt_trace.core.text import Cut, CutText, Foreign

T = TypeVar("T")
Digest = Callable[[str], str]
Place = tuple[int, int, str]  # start and end in code points of the original, and the policy that cuts it

_IDENTIFYING = ("rank", "chunk_id", "score")  # of a hit: without them nobody could say which chunk it was
_DATA_URL = re.compile(r"data:(?:[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+;base64,)?")


def cut_text(text: str, places: Iterable[Place], digest: Digest) -> CutText:
    """The text without the characters at ``places``, which may overlap: what is cut twice is cut once."""
    return CutText(tuple(without(text, places, lambda cut, policy, _: Cut(len(cut), policy, digest(cut)))))


def without(text: str, places: Iterable[Place], stand_in: Callable[[str, str, int], T]) -> Iterator[str | T]:
    """What is left of a text, in its order, with ``stand_in(characters, policy, start of the place)`` for the rest.

    Of places that overlap, the later one is cut from where the one before it ended.
    """
    reached = 0
    for first, end, policy in sorted(places):
        start = max(first, reached)
        if end <= start:
            continue
        if start > reached:
            yield text[reached:start]
        yield stand_in(text[start:end], policy, first)
        reached = end
    if reached < len(text):
        yield text[reached:]


def cut_value(value: Any, policy: str, digest: Digest) -> Any:
    """The value with every string below it cut whole; numbers, names of fields and structure stay."""
    if isinstance(value, str):
        return cut_text(value, [(0, len(value), policy)], digest) if value else value
    if isinstance(value, CutText):
        return CutText(tuple(run for part in value.runs for run in _cut_run(part, policy, digest)))
    if isinstance(value, Mapping):
        return {
            name: item
            if name in _IDENTIFYING and isinstance(item, str | int | float)
            else cut_value(item, policy, digest)
            for name, item in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [cut_value(item, policy, digest) for item in value]
    return value if value is None or isinstance(value, bool | int | float) else nameless(value)


def cut_names(value: Any, digest: Digest) -> Any:
    """The value with the name of every field below it replaced by its digest."""
    if isinstance(value, Mapping):
        return {f"hmac_sha256:{digest(str(name))}": cut_names(item, digest) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        return [cut_names(item, digest) for item in value]
    return value


def cut_outside(value: Any, policy: str, digest: Digest) -> Any:
    """A part that is no text, cut: what shows it to be an image or a link stays."""
    if not isinstance(value, str):
        return cut_value(value, policy, digest)
    head = _DATA_URL.match(value)
    return cut_text(value, [(head.end() if head else 0, len(value), policy)], digest)


def replace_at(value: Any, path: str, cut: Mapping[str, Callable[[Any], Any]]) -> Any:
    """The value with what stands at the paths in ``cut`` put through the function that is given for it."""
    if path in cut:
        return cut[path](value)
    if isinstance(value, Mapping):
        return {name: replace_at(item, child(path, name), cut) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        return [replace_at(item, f"{path}[{number}]", cut) for number, item in enumerate(value)]
    return value


def nameless(value: object) -> Foreign:
    """What is left of a value of another type: its class."""
    if isinstance(value, Foreign):
        return Foreign(value.kind, "")
    kind = type(value)
    return Foreign(f"{kind.__module__}.{kind.__qualname__}", "")


def _cut_run(run: str | Cut, policy: str, digest: Digest) -> tuple[str | Cut, ...]:
    if isinstance(run, Cut) or not run:
        return (run,)
    return cut_text(run, [(0, len(run), policy)], digest).runs
