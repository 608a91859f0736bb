"""Disjoint intervals of characters, by segment: what is taken, and by how far to step over it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort


class Intervals:
    """Half-open intervals [start, end) of which no two overlap; whoever adds one has asked :meth:`overlap` first."""

    def __init__(self, segments: int) -> None:
        self._starts: list[list[int]] = [[] for _ in range(segments)]
        self._ends: list[dict[int, int]] = [{} for _ in range(segments)]

    def add(self, segment: int, start: int, end: int) -> None:
        """Take [start, end)."""
        starts = self._starts[segment]
        if not starts or start > starts[-1]:  # mostly from left to right
            starts.append(start)
        else:
            insort(starts, start)
        self._ends[segment][start] = end

    def remove(self, segment: int, start: int) -> None:
        """Give back an interval that was added."""
        starts = self._starts[segment]
        del starts[bisect_left(starts, start)]
        del self._ends[segment][start]

    def overlap(self, segment: int, start: int, end: int) -> int | None:
        """The end of an interval that overlaps [start, end), or None."""
        starts, ends = self._starts[segment], self._ends[segment]
        at = bisect_left(starts, end)
        if at and ends[starts[at - 1]] > start:
            return ends[starts[at - 1]]
        return None

    def starts(self, segment: int, start: int, end: int) -> list[int]:
        """Where the intervals begin that overlap [start, end), in order."""
        starts, ends = self._starts[segment], self._ends[segment]
        first = bisect_right(starts, start)
        if first and ends[starts[first - 1]] > start:
            first -= 1
        return starts[first : bisect_left(starts, end)]

    def beside(self, segment: int, start: int, end: int) -> list[tuple[int, int]]:
        """The intervals that overlap [start, end) or touch it."""
        return [(at, self._ends[segment][at]) for at in self.starts(segment, start - 1, end + 1)]

    def holds(self, segment: int, start: int, end: int) -> bool:
        """Whether one interval holds all of [start, end)."""
        starts = self._starts[segment]
        at = bisect_right(starts, start)
        return at > 0 and self._ends[segment][starts[at - 1]] >= end

    def touches(self, segment: int, start: int, end: int) -> bool:
        """Whether an interval ends at ``start`` or begins at ``end``."""
        starts, ends = self._starts[segment], self._ends[segment]
        at = bisect_left(starts, start)
        return end in ends or (at > 0 and ends[starts[at - 1]] == start)
