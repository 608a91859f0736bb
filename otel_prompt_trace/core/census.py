"""The census: which characters of a prompt no declared producer accounts for.

The residual is the total less the located offsets, never a sum that is taken from the pieces' own lengths:
a piece that is declared twice and stands once, or that stands nowhere, can't hide a character.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from otel_prompt_trace.core.assignment import AMBIGUOUS, WHOLE_PROMPT, assign
from otel_prompt_trace.core.bodies.blobs import same
from otel_prompt_trace.core.overlaps import Overlaps, overlaps
from otel_prompt_trace.core.pieces import Declared, Piece, Placed, as_pieces
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.core.segments import Outside, Segment, Split, split
from otel_prompt_trace.core.verdict import Verdict, in_order, verdict

REASON_OF_STATE = {
    "duplicate": "duplicate_piece",
    "contested": "contested_piece",
    "unlocatable": "unlocatable_piece",
    "whole_prompt": "whole_prompt_piece",
}


@dataclass(slots=True, unsafe_hash=True)  # nobody changes one; a frozen one takes three times as long to make
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
    """A part of the request that the model may see beside the prompt: tool definitions, a response schema, an image.

    ``name`` is the field, or the path of what is binary. Only the provider knows how it is rendered, so its length is
    never added to the prompt's total.
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
        for owner, _, start, end in _owners(self.pieces):
            owned[owner.producer] = owned.get(owner.producer, 0) + end - start
        return owned

    def overlaps(self) -> Overlaps:
        """Of these, the characters that are the text of another declared piece as well: history inside history."""
        return overlaps([segment.text for segment in self.segments], self.pieces)


def census(
    prompt: Any, pieces: Iterable[Declared] | None = None, *, ordered: bool = True, explain: bool = True
) -> Census:
    """Account for every character of ``prompt``.

    Args:
        prompt: a str, a :class:`Prompt`, or a list of messages.
        pieces: :class:`Piece` objects or ``(producer, text)`` pairs in declared order; None takes those of a
            :class:`Prompt`.
        ordered: whether the declared order is evidence of the order in the prompt.
        explain: whether to look for the likely reason why a piece was not found (:func:`explained`).

    Raises:
        TypeError: the prompt or a piece is of another type.
    """
    if isinstance(prompt, Prompt):
        declared = prompt.pieces if pieces is None else as_pieces(pieces)
        found = take(Split(prompt.segments), declared, ordered=ordered)
    else:
        found = take(split(prompt), as_pieces(pieces or ()), ordered=ordered)
    return explained(found) if explain else found


def explained(found: Census) -> Census:
    """The same census, with a hint and a note on each unlocatable piece that most likely stands in another form.

    This searches the prompt again, for longer than the census took: not where an application waits.
    """
    from otel_prompt_trace.core.missing.explain import why  # here: a process that only records has no use for it

    missing = [n for n, p in enumerate(found.pieces) if p.state == "unlocatable" and p.note != AMBIGUOUS]
    owned = ((p.segment, p.start, p.end) for p in found.located)
    places = [(segment, start, end) for segment, start, end in owned if None not in (segment, start, end)]
    hints = why(found.segments, [found.pieces[n].piece.text for n in missing], places)  # type: ignore[arg-type]
    pieces = list(found.pieces)
    for n, hint in zip(missing, hints, strict=True):
        if hint is not None:
            said = hint.words(found.segments[hint.segment].path)
            note = f"{pieces[n].note}; {said}" if pieces[n].note else said
            pieces[n] = replace(pieces[n], note=note, hint=hint)
    return replace(found, pieces=tuple(pieces))


def take(
    prompt: Split,
    pieces: Sequence[Piece],
    *,
    ordered: bool = True,
    visible: Mapping[str, Any] = MappingProxyType({}),
) -> Census:
    """The census of a prompt that is split already, beside the JSON values that the model may see."""
    placed = _assign(prompt.segments, pieces, ordered=ordered)
    states = {p.state for p in placed}
    parts: tuple[Visible, ...] = ()
    if visible or prompt.outside or "unlocatable" in states:  # a JSON value stands in no text, and may be one of these
        placed, parts = _match_visible(placed, _visible(prompt, visible))
        states = {p.state for p in placed}
    gaps = _gaps(prompt.segments, placed)
    unaccounted = sum([gap.end - gap.start for gap in gaps])
    reasons = {REASON_OF_STATE[state] for state in states if state in REASON_OF_STATE}
    if reasons and any(p.note == AMBIGUOUS for p in placed):
        reasons.add("ambiguous_piece")
    if states <= ({"empty", "not_placed", "visible"} if prompt.total else {"empty", "not_placed"}):
        reasons.add("no_pieces")
    if any(part.kind == "reference" for part in prompt.outside):
        reasons.add("held_by_reference")
    if gaps and _cut_without_offsets(prompt.segments, gaps):
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


def _assign(segments: tuple[Segment, ...], pieces: Sequence[Piece], *, ordered: bool) -> tuple[Placed, ...]:
    """Place the pieces; a producer whose pieces are all there is owns nothing, so that the true parts can be found."""
    placed = assign(segments, pieces, ordered=ordered)
    whole = _sole_producer(segments, placed)
    if whole is None:
        return placed
    found, left = list(placed), list(range(len(pieces)))
    while whole is not None:
        for n in left:
            if found[n].producer == whole and found[n].state == "located":
                found[n] = Placed(pieces[n], "whole_prompt", note=WHOLE_PROMPT)
        left = [n for n in left if pieces[n].producer != whole]
        placed = assign(segments, [pieces[n] for n in left], ordered=ordered)
        whole = _sole_producer(segments, placed)
        for n, p in zip(left, placed, strict=True):
            found[n] = p
    return tuple(found)


def _sole_producer(segments: tuple[Segment, ...], placed: tuple[Placed, ...]) -> str | None:
    """The one producer that owns every character but whitespace, or every character where there is nothing else."""
    alone = [p for p in placed if _holds_all(segments, p)]
    if alone:  # one may ride inside another; which it is must not depend on the order of the pieces
        return min(alone, key=lambda p: (-p.piece.length, p.piece.inline, p.producer)).producer
    owners = set()
    for piece, segment, start, end in _owners(placed):
        if not piece.blank and piece.producer not in owners and _is_solid(segments[segment].text, start, end):
            owners.add(piece.producer)
            if len(owners) > 1:  # nearly always: nothing is to be counted
                return None
    content = sum(_solid(segment.text) for segment in segments)
    owned = 0
    for piece, segment, start, end in _owners(placed):
        count = _solid(segments[segment].text[start:end])
        if piece.blank:
            content -= count
        else:
            owned += count
    if owners:
        return owners.pop() if owned == content else None
    if content:
        return None
    total = sum(len(segment.text) for segment in segments)
    others = {p.producer for p in placed if p.state == "located"}
    covered = sum(end - start for _, _, start, end in _owners(placed))
    return others.pop() if len(others) == 1 and 0 < total == covered else None


def _holds_all(segments: tuple[Segment, ...], p: Placed) -> bool:
    """Whether one piece holds all that is no whitespace, whatever rides inside it; mostly one look tells that not."""
    if p.segment is None or p.start is None or p.end is None:
        return False
    text = segments[p.segment].text
    if _is_solid(text, 0, p.start) or _is_solid(text, p.end, len(text)) or not _is_solid(text, p.start, p.end):
        return False
    return not any(_is_solid(s.text, 0, len(s.text)) for n, s in enumerate(segments) if n != p.segment)


def _is_solid(text: str, start: int, end: int) -> bool:
    """Whether any of these characters is no whitespace; mostly the first is none, and nothing is copied."""
    return start < end and not (text[start].isspace() and text[start:end].isspace())


def _solid(text: str) -> int:
    """The number of characters that are no whitespace."""
    return sum(map(len, text.split()))


def _visible(prompt: Split, visible: Mapping[str, Any]) -> list[tuple[str, tuple[Any, ...]]]:
    """Name of each part, and the values that it may be declared as: what is binary also by what it stands in."""
    binary = [part for part in prompt.outside if part.kind == "binary" and not part.checksum]
    return [
        *((name, (value,)) for name, value in visible.items()),
        *((part.path, (part.value, *part.around)) for part in binary),
    ]


def _match_visible(
    placed: tuple[Placed, ...], parts: list[tuple[str, tuple[Any, ...]]]
) -> tuple[tuple[Placed, ...], tuple[Visible, ...]]:
    """A piece that is a JSON value, or the string of an image, stands in no text: it accounts for an equal part."""
    declared: set[int] = set()
    matched = []
    for p in placed:
        value = p.piece.text if p.piece.value is None else p.piece.value
        if p.piece.value is not None or (value and p.state in ("unlocatable", "not_placed")):
            equal = [n for n, (_, values) in enumerate(parts) if any(same(value, part) for part in values)]
            declared.update([n for n in equal if n not in declared][:1])  # one declaration, one part
            if equal:
                p = Placed(p.piece, "visible")  # noqa: PLW2901
            elif p.piece.value is not None:
                p = Placed(p.piece, "not_placed" if p.piece.offered else "unlocatable")  # noqa: PLW2901
        matched.append(p)
    return tuple(matched), tuple(Visible(name, n in declared) for n, (name, _) in enumerate(parts))


def _gaps(segments: tuple[Segment, ...], placed: tuple[Placed, ...]) -> tuple[Gap, ...]:
    spans: list[list[tuple[int, int]]] = [[] for _ in segments]
    for p in placed:
        if p.state == "located" and p.segment is not None and p.start is not None and p.end is not None:
            spans[p.segment].append((p.start, p.end))
    gaps = []
    for number, segment in enumerate(segments):
        reached = 0
        spans[number].sort()
        for start, end in spans[number]:
            if start > reached:
                gaps.append(Gap(number, reached, start, segment.text[reached:start], segment.path))
            if end > reached:
                reached = end
        if reached < len(segment.text):
            gaps.append(Gap(number, reached, len(segment.text), segment.text[reached:], segment.path))
    return tuple(gaps)


def _owners(placed: tuple[Placed, ...]) -> Iterable[tuple[Piece, int, int, int]]:
    """Each located piece's own characters: an outer piece gives way where an inline one rides inside it."""
    inner: dict[int | None, list[tuple[int, int]]] = {}
    for p in placed:
        if p.piece.inline and p.state == "located" and p.start is not None and p.end is not None:
            inner.setdefault(p.segment, []).append((p.start, p.end))
    for spans in inner.values():
        spans.sort()
    for p in placed:
        if p.state != "located" or p.segment is None or p.start is None or p.end is None:
            continue
        if p.piece.inline:
            yield p.piece, p.segment, p.start, p.end
            continue
        reached = p.start
        spans = inner.get(p.segment, [])
        for start, end in spans[max(0, bisect_left(spans, (p.start,)) - 1) :]:  # they do not overlap each other
            if start >= p.end:
                break
            yield p.piece, p.segment, reached, max(reached, start)
            reached = max(reached, min(end, p.end))
        yield p.piece, p.segment, reached, p.end


def _cut_without_offsets(segments: tuple[Segment, ...], gaps: tuple[Gap, ...]) -> bool:
    """Whether a cut part of the prompt lies outside every located piece: nobody can say whose it was."""
    if not any(segment.cuts for segment in segments):
        return False
    for gap in gaps:
        cuts = segments[gap.segment].cuts
        at = bisect_left(cuts, (gap.end,))
        if at and cuts[at - 1][1] > gap.start:
            return True
    return False
