"""The short way: prompts whose pieces need no weighing, which are most of them.

Invariant: where this answers, the long way comes to the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from otel_prompt_trace.core.assignment.in_order import Order, in_a_row, in_order
from otel_prompt_trace.core.pieces import Piece, Placed
from otel_prompt_trace.core.segments import Segment


def evident(
    segments: Sequence[Segment], pieces: Sequence[Piece], *, ordered: bool
) -> tuple[Placed, ...] | Order | None:
    """The assignment where each piece stands as recorded, or where the declared order leaves no choice.

    Else what the order says of all of the pieces, so that nobody has to ask again; None where it says nothing.
    """
    if pieces and pieces[0].segment is not None:
        return _as_recorded(segments, pieces)
    if not ordered:
        return None
    row = []
    for piece in pieces:
        if not piece.text or piece.inline or piece.offered or piece.value is not None or piece.segment is not None:
            return None
        row.append(piece.text)
    texts = [segment.text for segment in segments]
    order = in_a_row(texts, row) or in_order(texts, row)
    if order is None:
        return None
    return _settled(pieces, row, order, sum(map(len, texts))) or order


def _settled(pieces: Sequence[Piece], row: Sequence[str], order: Order, whole: int) -> tuple[Placed, ...] | None:
    if None in order.places:
        found = {text for text, place in zip(row, order.places, strict=True) if place is not None}
        if any(place is None and text in found for text, place in zip(row, order.places, strict=True)):
            return None  # declared more often than it stands
    placed = []
    for piece, text, place, forced in zip(pieces, row, order.places, order.forced, strict=True):
        if place is None:
            placed.append(Placed(piece, "unlocatable"))
        elif forced and len(text) != whole:  # one that is the whole prompt has no place
            placed.append(Placed(piece, "located", place[0], place[1], place[1] + len(text)))
        else:
            return None
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
