"""What changed between two prompts, told by producer.

Invariants:

- Pieces are paired one to one: by producer, source id and text; then by text alone; then by producer and source id;
  then by likeness. What has no counterpart was removed, or added.
- A piece has moved if it stands under another role, or is none of the largest set of pieces that kept their order.
- Texts of which a policy kept a digest are compared by it, and never with a text.
- Where the prompts are not the same to the character, message by message, something has changed, or it can't be said.
- The cost is near linear in pieces and in characters; the text of an edit is shown in bounded length.

``pairing`` finds the counterparts, ``texts`` shows what an edit changed, ``settings`` compares what is no prompt.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
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
    """A gap that was not there before, or is no more, or stands elsewhere: ``before`` is then where it stood.

    ``piece`` is the one that held its text in the other prompt.
    """

    kind: Literal["appeared", "vanished", "moved"]
    gap: Gap
    piece: str | None = None
    before: Gap | None = None


@dataclass(frozen=True, slots=True)
class PromptDiff:
    """What changed from one call's prompt to another's; ``same`` is the number of pieces that did not.

    ``rearranged``: pieces and gaps are the same, and the prompts are not: the texts are parted into other messages, or
    what nobody declared has another order.
    """

    before: CallGrade
    after: CallGrade
    same: int
    pieces: tuple[PieceChange, ...]
    gaps: tuple[GapChange, ...]
    parts: tuple[Setting, ...]
    settings: tuple[Setting, ...]
    rearranged: bool = False

    @property
    def comparable(self) -> bool:
        """Whether both calls have a prompt, and every pair of pieces, and what was cut, could be compared."""
        censuses = self.before.census, self.after.census
        if any(change.kind == "incomparable" for change in self.pieces):
            return False
        return all(census is not None and not _is_lost(census) for census in censuses)

    @property
    def different(self) -> bool:
        """Whether anything is known to have changed."""
        known = any(change.kind != "incomparable" for change in self.pieces)
        return known or self.rearranged or bool(self.gaps or self.parts or self.settings)

    @property
    def exit_code(self) -> int:
        """0 where nothing changed, 1 where something did, 3 where that can't be said."""
        return 1 if self.different else 0 if self.comparable else 3


def diff_calls(before: CallGrade, after: CallGrade) -> PromptDiff:
    """What changed from one call's prompt to another's, of the same query or of two."""
    old, new = items_of(before.census), items_of(after.census)
    pairs = pair(old, new)
    kept = _kept(old, new, pairs)
    changes = list(_changes(old, new, pairs, kept))
    gaps = list(_gaps(_Gaps(before.census, old, list(kept)), _Gaps(after.census, new, list(kept.values()))))
    return PromptDiff(
        before=before,
        after=after,
        same=len(pairs) - sum(change.before is not None and change.after is not None for change in changes),
        pieces=tuple(changes),
        gaps=tuple(gaps),
        parts=tuple(changed_parts(before.call, after.call)),
        settings=tuple(changed_settings(before.call, after.call)),
        rearranged=not changes and not gaps and _texts(before.census) != _texts(after.census),
    )


def _texts(census: Census | None) -> list[tuple[str | None, object]] | None:
    """The prompt, message by message; of what was cut its digest."""
    if census is None:
        return None
    return [(s.role, s.text if s.stored is None else s.stored) for s in census.segments]


def _kept(old: Sequence[Item], new: Sequence[Item], pairs: dict[int, int]) -> dict[int, int]:
    """The pairs that stand in the same order in both."""
    standing = [(a, b) for a, b in sorted(pairs.items()) if old[a].located and new[b].located]
    return dict(standing[n] for n in largest_in_order([b for _, b in standing]))


def _changes(
    old: Sequence[Item], new: Sequence[Item], pairs: dict[int, int], kept: dict[int, int]
) -> Iterator[PieceChange]:
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


class _Gaps:
    """The gaps of one prompt, what each is known by, and behind how many of the pieces that stayed it stands."""

    def __init__(self, census: Census | None, items: Sequence[Item], kept: Sequence[int]) -> None:
        self.items = items
        self.gaps = census.gaps if census is not None else ()
        cut = [] if census is None else _cut_in_gaps(census)
        self.texts = [(gap.text, here) for gap, here in zip(self.gaps, cut, strict=True)]
        stays = sorted((items[n].segment or 0, items[n].start or 0) for n in kept)
        roles = [] if census is None else [census.segments[gap.segment].role for gap in self.gaps]
        places = [bisect_left(stays, (gap.segment, gap.start)) for gap in self.gaps]
        self.keys = list(zip(self.texts, roles, places, strict=True))


def _gaps(was: _Gaps, now: _Gaps) -> Iterator[GapChange]:
    """Gaps that stand in one prompt only, or elsewhere; equal ones are paired where they stand in the same place."""
    pairs: dict[int, int] = {}
    _match(was.keys, now.keys, pairs)
    stayed = set(pairs)
    _match(was.texts, now.texts, pairs)
    there = set(pairs.values())
    yield from (GapChange("vanished", gap, _holder(gap, now.items)) for n, gap in enumerate(was.gaps) if n not in pairs)
    yield from (GapChange("appeared", gap, _holder(gap, was.items)) for n, gap in enumerate(now.gaps) if n not in there)
    moved = (n for n in sorted(pairs) if n not in stayed)
    yield from (GapChange("moved", now.gaps[pairs[n]], before=was.gaps[n]) for n in moved)


def _match(old: Sequence[Hashable], new: Sequence[Hashable], pairs: dict[int, int]) -> None:
    """Pair equals in their order, but for what is paired."""
    taken = set(pairs.values())
    left: dict[Hashable, list[int]] = defaultdict(list)
    for n in range(len(new) - 1, -1, -1):
        if n not in taken:
            left[new[n]].append(n)
    for n, key in enumerate(old):
        if n not in pairs and left.get(key):
            pairs[n] = left[key].pop()


def _cut_in_gaps(census: Census) -> list[tuple[tuple[int, str | None], ...]]:
    """For each gap where in it something was cut, and the digest of it; None where none was kept."""
    cuts = [
        [] if s.stored is None else [(end, start, cut) for start, end, cut in s.stored.cuts()] for s in census.segments
    ]
    found = []
    for gap in census.gaps:
        row, here = cuts[gap.segment], []
        for _, start, cut in row[bisect_left(row, (gap.start + 1,)) :]:
            if start >= gap.end:
                break
            here.append((max(start, gap.start) - gap.start, cut.hmac_sha256))
        found.append(tuple(here))
    return found


def _is_lost(census: Census) -> bool:
    """Whether in a gap something was cut that no digest tells of."""
    return any(digest is None for here in _cut_in_gaps(census) for _, digest in here)


def _holder(gap: Gap, items: Sequence[Item]) -> str | None:
    """The piece of the other prompt that the gap's text was, or is, or the first that lies within it."""
    for item in items[:_COMPARED]:
        if item.text is not None and (item.text == gap.text or (len(item.text) >= _LEAST and item.text in gap.text)):
            return item.label
    return None
