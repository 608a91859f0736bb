"""What changed between two prompts, told by producer.

Invariants:

- Pieces are paired one to one: by producer, source id and text; then by text alone; then by producer and source id;
  then by likeness. What has no counterpart was removed, or added.
- A piece has moved if it stands under another role, or is none of the largest set of pieces that kept their order.
- Texts of which a policy kept a digest are compared by it, and never with a text.
- The cost is near linear in pieces and in characters; the text of an edit is shown in bounded length.

``pairing`` finds the counterparts, ``texts`` shows what an edit changed, ``settings`` compares what is no prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from otel_prompt_trace.core.census import Census, Gap
from otel_prompt_trace.core.diff.pairing import Item, items_of, largest_in_order, pair
from otel_prompt_trace.core.diff.settings import Setting, changed_parts, changed_settings
from otel_prompt_trace.core.diff.texts import edits
from otel_prompt_trace.core.grade import CallGrade

__all__ = ["GapChange", "Item", "PieceChange", "PromptDiff", "Setting", "diff_calls"]

PieceKind = Literal["added", "removed", "moved", "edited", "relabelled", "state", "incomparable"]
_LEAST = 20  # characters of a gap by which it is known again as a piece
_COMPARED = 200  # pieces that are looked through for that


@dataclass(frozen=True, slots=True)
class PieceChange:
    """One piece that is not as it was.

    ``relabelled``: the same text by another producer or from another source. ``state``: the same text, located here
    and not there. ``incomparable``: a text there and a digest here. An edited piece has ``lines``, as of a unified
    diff, and may have ``moved`` as well.
    """

    kind: PieceKind
    before: Item | None
    after: Item | None
    lines: tuple[str, ...] = ()
    moved: bool = False

    @property
    def label(self) -> str:
        """The piece as reports name it: as it is now, else as it was."""
        item = self.after or self.before
        return "" if item is None else item.label


@dataclass(frozen=True, slots=True)
class GapChange:
    """A gap that was not there before, or is no more. ``piece`` is the one that held its text in the other prompt."""

    kind: Literal["appeared", "vanished"]
    gap: Gap
    piece: str | None


@dataclass(frozen=True, slots=True)
class PromptDiff:
    """What changed from one call's prompt to another's; ``same`` is the number of pieces that did not."""

    before: CallGrade
    after: CallGrade
    same: int
    pieces: tuple[PieceChange, ...]
    gaps: tuple[GapChange, ...]
    parts: tuple[Setting, ...]
    settings: tuple[Setting, ...]

    @property
    def comparable(self) -> bool:
        """Whether both calls have a prompt, and every pair of pieces could be compared."""
        both = self.before.census is not None and self.after.census is not None
        return both and not any(change.kind == "incomparable" for change in self.pieces)

    @property
    def different(self) -> bool:
        """Whether anything is known to have changed."""
        known = any(change.kind != "incomparable" for change in self.pieces)
        return known or bool(self.gaps or self.parts or self.settings)

    @property
    def exit_code(self) -> int:
        """0 where nothing changed, 1 where something did, 3 where that can't be said."""
        return 1 if self.different else 0 if self.comparable else 3


def diff_calls(before: CallGrade, after: CallGrade) -> PromptDiff:
    """What changed from one call's prompt to another's, of the same query or of two."""
    old, new = items_of(before.census), items_of(after.census)
    pairs = pair(old, new)
    changes = list(_changes(old, new, pairs))
    return PromptDiff(
        before=before,
        after=after,
        same=len(pairs) - sum(change.before is not None and change.after is not None for change in changes),
        pieces=tuple(changes),
        gaps=tuple(_gaps(before.census, after.census, old, new)),
        parts=tuple(changed_parts(before.call, after.call)),
        settings=tuple(changed_settings(before.call, after.call)),
    )


def _changes(old: Sequence[Item], new: Sequence[Item], pairs: dict[int, int]) -> Iterator[PieceChange]:
    standing = [(a, b) for a, b in sorted(pairs.items()) if old[a].located and new[b].located]
    kept = {standing[n][0] for n in largest_in_order([b for _, b in standing])}
    for number, item in enumerate(old):
        if number not in pairs:
            yield PieceChange("removed", item, None)
            continue
        other = new[pairs[number]]
        both = item.located and other.located
        moved = both and (number not in kept or item.role != other.role)
        if not item.comparable_with(other):
            yield PieceChange("incomparable", item, other, moved=moved)
        elif item.identity != other.identity:
            lines = edits(item.text, other.text) if item.text is not None and other.text is not None else ()
            yield PieceChange("edited", item, other, lines, moved)
        elif item.state != other.state:
            yield PieceChange("state", item, other)
        elif (item.producer, item.source_id) != (other.producer, other.source_id):
            yield PieceChange("relabelled", item, other, moved=moved)
        elif moved:
            yield PieceChange("moved", item, other, moved=True)
    there = set(pairs.values())
    yield from (PieceChange("added", None, item) for number, item in enumerate(new) if number not in there)


def _gaps(before: Census | None, after: Census | None, old: Sequence[Item], new: Sequence[Item]) -> Iterator[GapChange]:
    """Gaps that stand in one prompt only; equal ones are told apart by their number."""
    was, now = (census.gaps if census is not None else () for census in (before, after))
    yield from (GapChange("vanished", gap, _holder(gap, new)) for gap in _without(was, now))
    yield from (GapChange("appeared", gap, _holder(gap, old)) for gap in _without(now, was))


def _without(gaps: Sequence[Gap], others: Sequence[Gap]) -> list[Gap]:
    left = Counter(gap.text for gap in others)
    found = []
    for gap in gaps:
        if left[gap.text] > 0:
            left[gap.text] -= 1
        else:
            found.append(gap)
    return found


def _holder(gap: Gap, items: Sequence[Item]) -> str | None:
    """The piece of the other prompt that the gap's text was, or is, or the first that lies within it."""
    for item in items[:_COMPARED]:
        if item.text is not None and (item.text == gap.text or (len(item.text) >= _LEAST and item.text in gap.text)):
            return item.label
    return None
