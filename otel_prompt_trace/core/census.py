"""The census: which characters of a prompt no declared producer accounts for.

The residual is the total less the located offsets, never a sum that is taken from the pieces' own lengths:
a piece that is declared twice and stands once, or that stands nowhere, can't hide a character.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from otel_prompt_trace.core.assignment import AMBIGUOUS, Assignment
from otel_prompt_trace.core.pieces import Declared, Piece, Placed, State, as_pieces
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.core.segments import Outside, Segment, Split, split
from otel_prompt_trace.core.verdict import Verdict, in_order, verdict

_REASON_OF_STATE = {
    "duplicate": "duplicate_piece",
    "contested": "contested_piece",
    "unlocatable": "unlocatable_piece",
    "whole_prompt": "whole_prompt_piece",
}


@dataclass(frozen=True, slots=True)
class Gap:
    """A maximal run of characters that no piece covers: ``segment[start:end] == text``, in code points."""

    segment: int
    start: int
    end: int
    text: str
    path: str

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Visible:
    """A part of the request that the model may see beside the prompt: tool definitions, a response schema.

    Only the provider knows how it is rendered, so its length is never added to the prompt's total.
    """

    name: str
    declared: bool


@dataclass(frozen=True, slots=True)
class Census:
    """What a census found. All counts are code points of the original text.

    ``total`` is ``covered + unaccounted``. ``pieces`` holds every declared piece in its order with its state.
    ``unlocatable`` holds the pieces that stand nowhere.
    """

    segments: tuple[Segment, ...]
    pieces: tuple[Placed, ...]
    gaps: tuple[Gap, ...]
    total: int
    covered: int
    reasons: tuple[str, ...]
    outside: tuple[Outside, ...] = ()
    visible: tuple[Visible, ...] = ()

    @property
    def unaccounted(self) -> int:
        """Characters that no piece covers."""
        return self.total - self.covered

    @property
    def unlocatable(self) -> tuple[Placed, ...]:
        """The pieces that were declared for this prompt and stand nowhere in it."""
        return tuple(placed for placed in self.pieces if placed.state == "unlocatable")

    @property
    def located(self) -> tuple[Placed, ...]:
        """The pieces with an occurrence of their own."""
        return tuple(placed for placed in self.pieces if placed.state == "located")

    @property
    def verdict(self) -> Verdict:
        """exact, mismatch or unknown, of this census alone; a record's grade may add reasons."""
        return verdict(self.reasons)

    def by_producer(self) -> dict[str, int]:
        """Characters that each producer owns, in the order of first appearance; inline pieces own theirs."""
        owned: dict[str, int] = {}
        for owner, start, end in _owners(self.pieces):
            owned[owner.producer] = owned.get(owner.producer, 0) + end - start
        return owned


def census(prompt: Any, pieces: Iterable[Declared] | None = None, *, ordered: bool = True) -> Census:
    """Account for every character of ``prompt``.

    Args:
        prompt: a str, a :class:`Prompt`, or a list of messages.
        pieces: :class:`Piece` objects or ``(producer, text)`` pairs in declared order; None takes those of a
            :class:`Prompt`.
        ordered: whether the declared order is evidence of the order in the prompt.

    Raises:
        TypeError: the prompt or a piece is of another type.
    """
    if isinstance(prompt, Prompt):
        declared = prompt.pieces if pieces is None else as_pieces(pieces)
        return take(Split(prompt.segments), declared, ordered=ordered)
    return take(split(prompt), as_pieces(pieces or ()), ordered=ordered)


def take(
    prompt: Split,
    pieces: Sequence[Piece],
    *,
    ordered: bool = True,
    visible: Mapping[str, Any] = MappingProxyType({}),
) -> Census:
    """The census of a prompt that is split already, beside the JSON values that the model may see."""
    placed = Assignment(prompt.segments, pieces, ordered=ordered).run()
    placed = _match_visible(placed, visible)
    parts = tuple(
        Visible(name, any(p.state == "visible" and p.piece.value == value for p in placed))
        for name, value in visible.items()
    )
    gaps = _gaps(prompt.segments, placed)
    unaccounted = sum(len(gap) for gap in gaps)
    reasons = {_REASON_OF_STATE[p.state] for p in placed if p.state in _REASON_OF_STATE}
    if any(p.note == AMBIGUOUS for p in placed):
        reasons.add("ambiguous_piece")
    silent = ("empty", "not_placed", "visible") if prompt.total else ("empty", "not_placed")
    if all(p.state in silent for p in placed):
        reasons.add("no_pieces")
    if any(part.kind == "reference" for part in prompt.outside):
        reasons.add("held_by_reference")
    if _cut_without_offsets(prompt.segments, gaps):
        reasons.add("cut_without_offsets")
    if not all(part.declared for part in parts):
        reasons.add("undeclared_model_visible_part")
    if unaccounted:
        reasons.add("gap")
    return Census(
        segments=prompt.segments,
        pieces=placed,
        gaps=gaps,
        total=prompt.total,
        covered=prompt.total - unaccounted,
        reasons=in_order(reasons),
        outside=prompt.outside,
        visible=parts,
    )


def _match_visible(placed: tuple[Placed, ...], visible: Mapping[str, Any]) -> tuple[Placed, ...]:
    """A piece that is a JSON value stands in no text: it accounts for the part that it equals."""
    values = list(visible.values())
    return tuple(p if p.piece.value is None else Placed(p.piece, _state_of_value(p.piece, values)) for p in placed)


def _state_of_value(piece: Piece, values: list[Any]) -> State:
    if piece.value in values:
        return "visible"
    return "not_placed" if piece.offered else "unlocatable"


def _gaps(segments: tuple[Segment, ...], placed: tuple[Placed, ...]) -> tuple[Gap, ...]:
    spans: list[list[tuple[int, int]]] = [[] for _ in segments]
    for p in placed:
        if p.state == "located" and p.segment is not None and p.start is not None and p.end is not None:
            spans[p.segment].append((p.start, p.end))
    gaps = []
    for number, segment in enumerate(segments):
        reached = 0
        for start, end in [*sorted(spans[number]), (len(segment.text), len(segment.text))]:
            if start > reached:
                gaps.append(Gap(number, reached, start, segment.text[reached:start], segment.path))
            reached = max(reached, end)
    return tuple(gaps)


def _owners(placed: tuple[Placed, ...]) -> Iterable[tuple[Piece, int, int]]:
    """Each located piece's own characters: an outer piece gives way where an inline one rides inside it."""
    inner: dict[int | None, list[tuple[int, int]]] = {}
    for p in placed:
        if p.state == "located" and p.piece.inline and p.start is not None and p.end is not None:
            inner.setdefault(p.segment, []).append((p.start, p.end))
    for spans in inner.values():
        spans.sort()
    for p in placed:
        if p.state != "located" or p.start is None or p.end is None:
            continue
        if p.piece.inline:
            yield p.piece, p.start, p.end
            continue
        reached = p.start
        spans = inner.get(p.segment, [])
        for start, end in spans[max(0, bisect_left(spans, (p.start,)) - 1) :]:  # they do not overlap each other
            if start >= p.end:
                break
            yield p.piece, reached, max(reached, start)
            reached = max(reached, min(end, p.end))
        yield p.piece, reached, p.end


def _cut_without_offsets(segments: tuple[Segment, ...], gaps: tuple[Gap, ...]) -> bool:
    """Whether a cut part of the prompt lies outside every located piece: nobody can say whose it was."""
    for gap in gaps:
        cuts = segments[gap.segment].cuts
        at = bisect_left(cuts, (gap.end,))
        if at and cuts[at - 1][1] > gap.start:
            return True
    return False
