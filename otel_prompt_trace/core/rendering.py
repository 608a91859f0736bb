"""The declared prompt in the request as sent: where each text of the one stands in the other, and what was added.

Client libraries merge, move and wrap messages. A text that still stands unchanged is found again: at its own path, as a
whole segment, or within one; never a folded copy of it. What no declared text covers is what was added on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.segments import Segment, Split

Position = tuple[int, int]  # segment and offset in the request as sent


@dataclass(frozen=True, slots=True)
class Added:
    """Characters of a segment as sent that nobody declared as part of the prompt."""

    path: str
    chars: int


@dataclass(frozen=True, slots=True)
class Rendering:
    """Where the declared segments stand, in their order (None: changed or gone), and what was added."""

    places: tuple[Position | None, ...]
    added: tuple[Added, ...]
    moved: bool  # whether they stand in another order


def compare(declared: Split, sent: Split) -> Rendering:
    """Find every declared segment in what was sent; each stretch of it holds one."""
    free: list[list[tuple[int, int]]] = [[(0, len(segment.text))] for segment in sent.segments]
    places: list[Position | None] = [None] * len(declared.segments)
    by_path = {segment.path: number for number, segment in enumerate(sent.segments)}
    for number, segment in enumerate(declared.segments):  # at its own path first: equal texts stay apart
        there = by_path.get(segment.path)
        if there is not None and sent.segments[there].text == segment.text and _take(free[there], 0, len(segment.text)):
            places[number] = (there, 0)
    for whole in (True, False):  # segments of their own before stretches of others': a short text is in many
        after = 0
        for number, segment in enumerate(declared.segments):
            if places[number] is None and segment.text:
                places[number] = _find(segment.text, sent.segments, free, after, whole=whole)
            found = places[number]
            after = after if found is None else found[0]
    standing = [place for place in places if place is not None]
    added = tuple(
        Added(segment.path, left)
        for segment, stretches in zip(sent.segments, free, strict=True)
        if (left := sum(end - start for start, end in stretches))
    )
    return Rendering(tuple(places), added, standing != sorted(standing))


def carry_over(pieces: Sequence[Piece], rendering: Rendering) -> tuple[Piece, ...]:
    """Pieces that were placed in the declared prompt, placed in the request as sent.

    A piece of a segment that does not stand there loses its place, and is searched for.
    """
    return tuple(_carried(piece, rendering) for piece in pieces)


def _carried(piece: Piece, rendering: Rendering) -> Piece:
    if piece.segment is None or piece.start is None or piece.end is None:
        return piece
    place = rendering.places[piece.segment] if piece.segment < len(rendering.places) else None
    if place is None:
        return replace(piece, segment=None, start=None, end=None)
    segment, offset = place
    return replace(piece, segment=segment, start=piece.start + offset, end=piece.end + offset)


def _find(
    text: str, segments: Sequence[Segment], free: list[list[tuple[int, int]]], after: int, *, whole: bool
) -> Position | None:
    for number in (*range(after, len(segments)), *range(after)):
        found = _stands(text, segments[number].text, free[number], whole=whole)
        if found is not None and _take(free[number], found, found + len(text)):
            return number, found
    return None


def _stands(text: str, segment: str, free: list[tuple[int, int]], *, whole: bool) -> int | None:
    if whole:
        return 0 if segment == text and free == [(0, len(text))] else None
    for start, end in free:
        if end - start >= len(text):
            found = segment.find(text, start, end)
            if found >= 0:
                return found
    return None


def _take(free: list[tuple[int, int]], start: int, end: int) -> bool:
    for number, (first, last) in enumerate(free):
        if first <= start and end <= last:
            free[number : number + 1] = [part for part in ((first, start), (end, last)) if part[0] < part[1]]
            return True
    return start == end
