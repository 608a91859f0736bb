"""The parts of a gap: what always stands there, what earlier turns left, and what is new.

Within a conversation a unit of a gap is **carried** where an earlier turn declared it, answered it or had it in its own
gap; it is **fixed** where the conversation's first call had it after the same producer, or other groups have it too;
else it is **new**. A gap is cut where this changes, but for the frames between two carried texts (``user:``), which go
with them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from otel_prompt_trace.core.residuals.sketch import Run, Sketch
from otel_prompt_trace.core.residuals.units import BLANK, Unit, solid

Kind = Literal["fixed", "carried", "new"]

SHORT = 24  # characters that are no white space: a frame, not a text
SHARE, LATELY = 0.3, 0.8  # of the calls since a unit first stood: less is a text that some calls share
FEW = 0.1  # of all calls: a text in fewer is new, and stands in most of those since, or it is of no account
LIMIT = 1_000_000  # digests kept of a window, and of the conversations that are under way in it
_TOGETHER = 0.8  # how much two units' numbers of calls may differ within one text


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of one gap: ``segment[start:end]``, all of one kind.

    ``key`` names its most telling unit; ``declared`` says whether an earlier turn declared or answered any of it.
    """

    kind: Kind
    run: Run
    start: int
    end: int
    key: int
    units: tuple[Unit, ...]
    declared: bool = False

    @property
    def chars(self) -> int:
        """Characters (code points)."""
        return self.end - self.start

    @property
    def solid(self) -> int:
        """Characters that are no white space."""
        return solid(self.units)


@dataclass(slots=True)
class _Known:
    """In how many calls a unit or a gap's whole text stood, and since which.

    ``shared``: in more than one group; ``again``: in more than one call of a group.
    """

    group: str
    first: int
    calls: int = 0
    last: int = -1
    shared: bool = False
    again: bool = False
    latest: str = ""


@dataclass(slots=True)
class _Group:
    """What a group has said so far: what its first call's gaps stood after, its pieces and answers, its gaps."""

    first: dict[int, str] = field(default_factory=dict)
    past: set[int] = field(default_factory=set)
    gaps: set[int] = field(default_factory=set)
    calls: int = 0


class UnitCounts:
    """How often each unit of a gap stands in a window: the first of two passes."""

    def __init__(self) -> None:
        self.calls = 0
        self.partial = False
        self._units: dict[int, _Known] = {}
        self._texts: dict[int, _Known] = {}

    def see(self, call: Sketch) -> None:
        """Count one call; calls come in the order of time."""
        for gap in call.gaps:
            self._count(self._texts, gap.key, call.group)
            for unit in gap.units:
                if unit.key != BLANK:
                    self._count(self._units, unit.key, call.group)
        self.calls += 1

    def count(self, key: int) -> int:
        """The number of calls in which a unit stands."""
        known = self._units.get(key)
        return 0 if known is None else known.calls

    def stays(self, unit: Unit) -> bool:
        """Whether it stands in several calls of one group."""
        known = self._units.get(unit.key)
        return known is not None and known.again

    def fixed(self, gap: Run, unit: Unit) -> bool:
        """Whether more than one group has it: the whole gap, or the unit in a good share of the calls."""
        text = self._texts.get(gap.key)
        if text is not None and text.shared:
            return True
        known = self._units.get(unit.key)
        if known is None or not known.shared:
            return False
        since = self.calls - known.first
        share = SHARE if known.calls >= FEW * self.calls else LATELY
        return known.calls >= share * since

    def _count(self, counts: dict[int, _Known], key: int, group: str) -> None:
        known = counts.get(key)
        if known is None:
            if len(counts) >= LIMIT:
                self.partial = True
                return
            known = counts[key] = _Known(group, self.calls)
        known.shared = known.shared or known.group != group
        if known.last != self.calls:
            known.again = known.again or known.latest == group
            known.latest = group
            known.last, known.calls = self.calls, known.calls + 1


class Parts:
    """Cuts the gaps of calls into parts: the second pass, over the same calls in the same order."""

    def __init__(self, counted: UnitCounts) -> None:
        self._counted = counted
        self._groups: OrderedDict[str, _Group] = OrderedDict()
        self._kept = 0

    def cut(self, call: Sketch) -> tuple[bool, list[list[Part]]]:
        """Whether this is the first call of its group, and the parts of each of its gaps, in order."""
        group = self._groups.setdefault(call.group, _Group())
        self._groups.move_to_end(call.group)
        opening = group.calls == 0
        found = [list(self._parts(gap, group, opening=opening)) for gap in call.gaps]
        self._learn(call, group)
        return opening, found

    def _parts(self, gap: Run, group: _Group, *, opening: bool) -> Iterator[Part]:
        row = _smooth([(self._kind(gap, unit, group, opening=opening), unit) for unit in gap.units])
        at = begun = gap.start
        taken: list[Unit] = []
        kind: Kind | None = None
        calls = 0
        for what, unit in row:
            count = self._counted.count(unit.key) if unit.solid >= SHORT else 0
            apart = kind == "fixed" and count and calls and min(count, calls) < _TOGETHER * max(count, calls)
            if kind is not None and (what != kind or apart):
                yield _part(kind, gap, begun, at, taken, group)
                begun, taken, calls = at, [], 0
            kind = what
            calls = calls or count
            taken.append(unit)
            at += unit.chars
        if kind is not None:
            yield _part(kind, gap, begun, at, taken, group)

    def _kind(self, gap: Run, unit: Unit, group: _Group, *, opening: bool) -> Kind | None:
        if unit.key == BLANK:
            return None
        if opening:
            if self._counted.fixed(gap, unit):
                return "fixed"
            if gap.message or not self._counted.stays(unit):
                return "new"
            return "carried" if gap.dialogue else "fixed"
        if group.first.get(unit.key) == gap.after:
            return "fixed"
        if unit.key in group.past:
            return "carried"
        if self._counted.fixed(gap, unit):
            return "fixed"
        return "carried" if unit.key in group.gaps else "new"

    def _learn(self, call: Sketch, group: _Group) -> None:
        for run in call.runs:
            for unit in run.units:
                if unit.key == BLANK:
                    continue
                if run.producer is not None:
                    group.past.add(unit.key)
                    continue
                if not group.calls and not run.message and not run.dialogue:
                    group.first.setdefault(unit.key, run.after)
                group.gaps.add(unit.key)
        group.past.update(unit.key for unit in call.said if unit.key != BLANK)
        group.calls += 1
        self._kept += sum(len(run.units) for run in call.runs)  # an upper bound: many are known already
        if self._kept > LIMIT:
            self._kept = sum(len(g.past) + len(g.gaps) for g in self._groups.values())
            while self._kept > LIMIT // 2 and len(self._groups) > 1:
                _, gone = self._groups.popitem(last=False)
                self._kept -= len(gone.past) + len(gone.gaps)


def _smooth(row: list[tuple[Kind | None, Unit]]) -> list[tuple[Kind, Unit]]:
    """Blanks go with what stands before them, and frames and news that touch a carried text go with it."""
    kinds: list[Kind | None] = [kind for kind, _ in row]
    latest: Kind = next((kind for kind in kinds if kind is not None), "fixed")
    for n, kind in enumerate(kinds):
        kinds[n] = latest = kind or latest
    stretches: list[list[int]] = []
    for n, kind in enumerate(kinds):
        if stretches and kinds[stretches[-1][0]] == kind:
            stretches[-1].append(n)
        else:
            stretches.append([n])
    for order in (range(len(stretches)), range(len(stretches) - 1, -1, -1)):
        touching = False
        for number in order:
            stretch = stretches[number]
            if kinds[stretch[0]] != "carried":
                small = sum(row[n][1].solid for n in stretch) < SHORT
                if touching and (small or kinds[stretch[0]] == "new"):
                    for n in stretch:
                        kinds[n] = "carried"
                else:
                    touching = False
                    continue
            touching = True
    return [(kind or "fixed", unit) for kind, (_, unit) in zip(kinds, row, strict=True)]


def _part(kind: Kind, gap: Run, start: int, end: int, taken: list[Unit], group: _Group) -> Part:
    telling = max(taken, key=lambda unit: unit.solid)
    declared = kind == "carried" and any(unit.key in group.past for unit in taken)
    return Part(kind, gap, start, end, telling.key or gap.key, tuple(taken), declared)
