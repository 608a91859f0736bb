"""Texts of which only a part stands, or that stand in two parts with something between them.

A part is the longest beginning or end of the text that stands in what nobody owns. A short one stands anywhere by
accident, and is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from otel_prompt_trace.core.intervals import Intervals
from otel_prompt_trace.core.missing.changes import between, common
from otel_prompt_trace.core.missing.folding import Folded
from otel_prompt_trace.core.missing.haystack import WALL, Haystack
from otel_prompt_trace.core.missing.hint import Hint

LEAST = 16  # folded characters of a part
SURE = 48  # with so many it may stand in the midst of a sentence; else something begins or ends with it
SHARE = 20  # and one in so many of the text,
ENOUGH = 200  # or this many
REST = 8  # folded characters of the smaller of two parts,
NEAR = 200  # which stands so near the larger, unless it is a part of its own
TRIES = 16  # places looked at for one part
WIDE = 8  # folded characters that a part may be shorter than what was found, so as to end between two letters

_IN_A_SENTENCE = re.compile(r"[\w.,;!?)(]")
_MARK = re.compile(
    r"\s{0,2}(?:…|\.{3}|\[(?:…|\.{3})|[\[(<{]{1,2} ?(?:…|\.{3})? ?(?:truncated|cut|omitted|shortened|snip))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Part:
    """``[start, end)`` of the text, its head or its tail, stands at ``[low, high)`` of a segment.

    ``at`` and ``length`` are where that is in the folding.
    """

    start: int
    end: int
    segment: int
    low: int
    high: int
    at: int
    length: int
    head: bool


def find_parts(haystack: Haystack, piece: Folded, claimed: Intervals) -> Hint | None:
    """The hint for a text that does not stand as a whole in any form. Its parts are claimed."""
    needle = piece.text
    least = max(LEAST, min(len(needle) // SHARE, ENOUGH))
    if len(needle) < least or needle in haystack.free:  # all of it stands, and nothing explains how
        return None
    search = _Parts(haystack, piece, claimed)
    head = search.head(least)
    tail = search.tail(least) if head is None else search.beyond(head, least)
    if head is None and tail is not None:
        head = search.before(tail)
    parts = [part for part in (head, tail) if part is not None]
    for part in parts:
        claimed.add(part.segment, part.low, part.high)
    return _describe(piece, haystack.bodies[parts[0].segment], parts) if parts else None


class _Parts:
    def __init__(self, haystack: Haystack, piece: Folded, claimed: Intervals) -> None:
        self._haystack = haystack
        self._free = haystack.free
        self._piece = piece
        self._needle = piece.text
        self._claimed = claimed

    def head(self, least: int) -> _Part | None:
        """The longest beginning that stands."""
        most = len(self._needle) - 1
        return self._first(_longest(lambda n: self._needle[:n] in self._free, least, most), head=True)

    def tail(self, least: int) -> _Part | None:
        """The longest end that stands."""
        most = len(self._needle) - 1
        return self._first(_longest(lambda n: self._needle[-n:] in self._free, least, most), head=False)

    def beyond(self, head: _Part, least: int) -> _Part | None:
        """What follows the head, behind it in the same segment: all the rest, else the longest end of it."""
        low, high = head.at + head.length, self._haystack.bounds(head.segment)[1]
        rest = len(self._needle) - head.length
        if rest >= REST:
            near = high if rest >= LEAST else min(high, low + NEAR + rest)
            found = self._part(self._free.find(self._needle[-rest:], low, near), rest, head=False)
            if found is not None:
                return found
        length = _longest(lambda n: self._free.find(self._needle[-n:], low, high) >= 0, least, rest - 1)
        return self._part(self._free.find(self._needle[-length:], low, high), length, head=False) if length else None

    def before(self, tail: _Part) -> _Part | None:
        """All that comes before the tail, near it."""
        rest = len(self._needle) - tail.length
        if rest < REST:
            return None
        low = max(self._haystack.bounds(tail.segment)[0], tail.at - NEAR - rest)
        return self._part(self._free.rfind(self._needle[:rest], low, tail.at), rest, head=True)

    def _first(self, length: int, *, head: bool) -> _Part | None:
        """The first free place of so long a beginning or end."""
        if not length:
            return None
        part, at = self._needle[:length] if head else self._needle[-length:], -1
        for _ in range(TRIES):
            at = self._free.find(part, at + 1)
            if at < 0:
                return None
            found = self._part(at, length, head=head)
            if found is not None and (length >= SURE or self._is_apart(found)):
                return found
        return None

    def _is_apart(self, part: _Part) -> bool:
        """Whether what is before it, or what follows, is another producer's or no sentence that goes on."""
        free, body = self._free, self._haystack.bodies[part.segment]
        before = body[max(0, part.low - NEAR) : part.low].rstrip(" \t")[-1:]
        behind = body[part.high : part.high + NEAR].lstrip(" \t")[:1]
        walls = part.at == 0 or free[part.at - 1] == WALL or free[part.at + part.length] == WALL
        return walls or not _IN_A_SENTENCE.match(before) or not _IN_A_SENTENCE.match(behind)

    def _part(self, at: int, length: int, *, head: bool) -> _Part | None:
        """The part as it stands at ``at``, a little shorter where it would end within a letter or an escape."""
        piece, whole = self._piece, len(self._needle)
        for less in range(min(WIDE, length) if at >= 0 else 0):
            first = at if head else at + less
            place = self._haystack.place(first, length - less)
            start = piece.start(0 if head else whole - length + less)
            end = piece.stop(length - less if head else whole)
            if place is not None and start is not None and end is not None:
                free = self._claimed.overlap(*place) is None
                return _Part(start, end, *place, first, length - less, head) if free else None
        return None


def _longest(stands: Callable[[int], bool], low: int, high: int) -> int:
    """The largest length from ``low`` to ``high`` that stands, 0 if none does: what is shorter stands as well."""
    if low > high or not stands(low):
        return 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if stands(middle) else (low, middle - 1)
    return low


def _widened(part: _Part, text: str, body: str, behind: _Part | None) -> _Part:
    """With the white space beside it, which has no folding, where that stands too; as far as a part before allows."""
    floor, bottom = (behind.end, behind.high) if behind is not None else (0, 0)
    left = common(reversed(text[floor : part.start]), reversed(body[bottom : part.low][floor - part.start :]))
    right = common(text[part.end :], body[part.high : part.high + len(text) - part.end])
    return replace(part, start=part.start - left, end=part.end + right, low=part.low - left, high=part.high + right)


def _describe(piece: Folded, body: str, parts: list[_Part]) -> Hint:
    text = piece.original
    changes = [between(text[part.start : part.end], body[part.low : part.high]) for part in parts]
    changed = next((name for name in changes if name != ""), "")  # None: in a way that has no name
    first = last = _widened(parts[0], text, body, None)
    if len(parts) > 1:
        last = _widened(parts[1], text, body, first)
    reason, detail = "truncated", _counts(first, last, len(text))
    if sum(part.length for part in parts) == len(piece):
        reason = "split"
    elif first.head and _MARK.match(body, first.high):
        detail += "; a mark of the cut follows"
    named = reason if changed == "" else f"{changed or 'several_changes'}+{reason}"
    return Hint(named, first.segment, first.low, last.high, detail)


def _counts(first: _Part, last: _Part, whole: int) -> str:
    """How much stands, of how much, and what does not; for two parts also what is between them."""
    head, tail, total = f"its first {first.end:,}", f"its last {whole - last.start:,}", f"of {whole:,} characters"
    if first is last:
        missing = whole - (first.end - first.start)
        return f"{head if first.head else tail} {total} stand, {missing:,} are missing"
    between = f"with {last.low - first.high:,} at {first.high}..{last.low} between them"
    missing = last.start - first.end
    return f"{head} and {tail} {total} stand, {between}" + (f", {missing:,} are missing" if missing else "")
