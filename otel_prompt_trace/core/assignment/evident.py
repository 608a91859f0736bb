"""The short way: prompts whose pieces need no weighing, which are most of them.

Invariant: where this answers, the long way comes to the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from otel_prompt_trace.core.assignment.board import Place
from otel_prompt_trace.core.assignment.in_order import leftmost, without_choice
from otel_prompt_trace.core.assignment.recorded import in_a_row
from otel_prompt_trace.core.pieces import Piece, Placed
from otel_prompt_trace.core.segments import Segment


def evident(segments: Sequence[Segment], pieces: Sequence[Piece], *, ordered: bool) -> tuple[Placed, ...] | None:
    """The assignment where each piece stands as recorded, or where the declared order leaves no choice; else None."""
    if pieces and pieces[0].segment is not None:
        return _as_recorded(segments, pieces)
    if not ordered:
        return None
    for piece in pieces:
        if not piece.text or piece.inline or piece.offered or piece.value is not None or piece.segment is not None:
            return None
    texts = [segment.text for segment in segments]
    places: Sequence[Place | None] | None = in_a_row(texts, pieces)
    if places is None and (places := _in_order(texts, [piece.text or "" for piece in pieces])) is None:
        return None
    whole = sum(map(len, texts))
    placed = []
    for piece, place in zip(pieces, places, strict=True):
        if place is None:
            placed.append(Placed(piece, "unlocatable"))
            continue
        segment, start = place
        length = len(piece.text or "")
        if length == whole:
            return None  # the whole prompt: it has no place
        placed.append(Placed(piece, "located", segment, start, start + length))
    return tuple(placed)


def _as_recorded(segments: Sequence[Segment], pieces: Sequence[Piece]) -> tuple[Placed, ...] | None:
    """Each piece as recorded, if the places follow one another and each holds its text. One loop: it is the usual."""
    placed = []
    at, reached, body = -1, 0, ""
    for piece in pieces:
        text, segment, start = piece.text, piece.segment, piece.start
        if not text or segment is None or start is None or piece.inline or piece.value is not None:
            return None
        if segment != at:
            if not at < segment < len(segments):
                return None
            at, reached, body = segment, 0, segments[segment].text
        end = start + len(text)
        if start < reached or piece.end != end or not body.startswith(text, start):
            return None
        reached = end
        placed.append(Placed(piece, "located", at, start, end))
    if len(placed) == 1 and len(pieces[0].text or "") == sum(len(segment.text) for segment in segments):
        return None  # the whole prompt: it has no place
    return tuple(placed)


def _in_order(texts: Sequence[str], row: Sequence[str]) -> list[Place | None] | None:
    """The places that follow from the order, if every text that stands has just one."""
    places = leftmost(texts, row)
    if places is None:
        return None
    if None in places:
        found = {text for text, place in zip(row, places, strict=True) if place is not None}
        if any(place is None and text in found for text, place in zip(row, places, strict=True)):
            return None  # declared more often than it stands
    forced = without_choice(texts, row, places)
    return places if all(one or place is None for one, place in zip(forced, places, strict=True)) else None
