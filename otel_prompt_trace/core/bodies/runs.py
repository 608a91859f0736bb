"""A body as it is stored: a list of runs whose concatenation is the body, byte for byte.

=========================================================  ==========================================================
a string                                                   its UTF-8
bytes                                                      themselves: a body that is no UTF-8
``{"blob": sha256, "bytes": n}``                           stored once a query under ``blobs/<sha256>``
``{"cut": n, "chars": m, "policy", "hmac_sha256"}``        ``n`` bytes that are not kept, which stood for ``m``
                                                           characters of a string, or for a number (``number``)
=========================================================  ==========================================================
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from otel_prompt_trace.core.bodies.blobs import filler
from otel_prompt_trace.core.bodies.parts import BodyParts, take_apart
from otel_prompt_trace.core.bodies.scan import At, NotJson, scan
from otel_prompt_trace.core.cutting import Digest, without
from otel_prompt_trace.core.secret_places import POLICY as SECRET
from otel_prompt_trace.core.segments import Segment, Split
from otel_prompt_trace.core.text import FILLER, Cut, CutText, utf8

_LARGE = 2**18  # characters


class RawPlace(NamedTuple):
    """A stretch of a body's text, in code points, and the policy by which it is not kept."""

    start: int
    end: int
    policy: str


class ReadBody(NamedTuple):
    """A body as JSON (of :func:`..scan.scan`, not to be changed) and what it is made of."""

    value: Any
    parts: BodyParts


def as_runs(body: bytes) -> list[Any]:
    """A body that is kept whole."""
    try:
        return [body.decode()]
    except UnicodeDecodeError:
        return [body]


def cut_runs(text: str, places: Iterable[RawPlace], digest: Digest) -> list[Any]:
    """A body without what stands at ``places``, each within one string; what is cut twice is cut once."""

    def cut(raw: str, policy: str, place: int) -> dict[str, Any]:
        quoted = policy != SECRET or text[place - 1 : place] == '"'  # of numbers, only those that are secret are cut
        decoded = _decoded(raw) if quoted else raw
        run = {"cut": len(utf8(raw)), "chars": len(decoded), "policy": policy, "hmac_sha256": digest(decoded)}
        return run if quoted else {**run, "number": True}

    return list(without(text, places, cut))


def rebuild(runs: Sequence[Any], blob: Callable[[str], bytes]) -> tuple[bytes, int]:
    """The bytes of a body, and how many of them were not kept: an asterisk stands for each.

    Raises:
        Whatever ``blob`` raises where it has no such bytes (KeyError, NotFound).
    """
    found: list[bytes] = []
    missing = 0
    for run in runs:
        if isinstance(run, str):
            found.append(utf8(run))
        elif isinstance(run, bytes):
            found.append(run)
        elif "blob" in run:
            found.append(blob(str(run["blob"])))
        else:
            missing += _count(run, "cut")
            found.append(b"*" * _count(run, "cut"))
    return b"".join(found), missing


def parts_of(runs: Any) -> BodyParts | None:
    """The parts of a stored body; None for what can't be read. What was cut stands in a segment's ``cuts``."""
    text, cuts = _filled(runs)
    read = None if text is None else read_body(text)
    if read is None or not cuts:
        return None if read is None else read.parts
    parts = read.parts
    starts = [start for start, _, _ in cuts]
    segments = tuple(_with_cuts(segment, cuts, starts, text or "") for segment in parts.prompt.segments)
    return BodyParts(Split(segments, parts.prompt.outside), parts.visible)


def value_of(runs: Any) -> Any:
    """A stored body as JSON, with fillers for what was cut (not to be changed); None for what can't be read."""
    text, _ = _filled(runs)
    read = None if text is None else read_body(text)
    return None if read is None else read.value


def read_body(text: str) -> ReadBody | None:
    """A body's value and parts; None for what is no JSON. Kept for the few bodies that are being looked at.

    Whoever seals a body, cuts it, or asks for a record's prompt comes for the same one again and again.
    """
    return (_read if len(text) < _LARGE else _read_large)(text)


def _read_anew(text: str) -> ReadBody | None:
    try:
        value = scan(text)
    except NotJson:
        return None
    return ReadBody(value, take_apart(value))


_read = lru_cache(maxsize=16)(_read_anew)
_read_large = lru_cache(maxsize=1)(_read_anew)  # what is kept is some times as large as the body


def _filled(runs: Any) -> tuple[str | None, list[tuple[int, int, Cut]]]:
    """A text that splits as the body does, and where in it something was cut."""
    if not isinstance(runs, list):
        return None, []
    if len(runs) == 1 and isinstance(runs[0], str):
        return runs[0], []
    found: list[str] = []
    cuts: list[tuple[int, int, Cut]] = []
    position = 0
    for run in runs:
        if isinstance(run, str):
            text = run
        elif isinstance(run, Mapping) and "blob" in run:
            text = filler(str(run["blob"]), _count(run, "bytes"))
        elif isinstance(run, Mapping) and "cut" in run:
            chars, digest = _count(run, "chars"), run.get("hmac_sha256")
            text = ("1" if run.get("number") else FILLER) * chars
            cuts.append((position, position + chars, Cut(chars, str(run.get("policy")), digest)))
        else:
            return None, []
        found.append(text)
        position += len(text)
    return "".join(found), cuts


def _with_cuts(segment: Segment, cuts: Sequence[tuple[int, int, Cut]], starts: Sequence[int], text: str) -> Segment:
    place = segment.text
    if not isinstance(place, At):
        return segment
    inside = [cut for cut in cuts[bisect_left(starts, place.start) : bisect_left(starts, place.end)] if cut[0] < cut[1]]
    if not inside:
        return segment
    runs: list[str | Cut] = []
    here: list[tuple[int, int]] = []
    reached, decoded = place.start, 0
    for start, end, cut in inside:
        before = _decoded(text[reached:start])
        decoded += len(before)
        here.append((decoded, decoded + cut.chars))
        runs += [before, cut] if before else [cut]
        decoded, reached = decoded + cut.chars, end
    rest = _decoded(text[reached : place.end])
    stored = CutText((*runs, rest) if rest else tuple(runs))
    return Segment(segment.path, segment.text, segment.role, tuple(here), stored)


def _decoded(raw: str) -> str:
    decoded: str = json.loads(f'"{raw}"', strict=False)
    return decoded


def _count(run: Mapping[str, Any], name: str) -> int:
    number = run.get(name)
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**32 else 0
