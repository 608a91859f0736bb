"""The prompt as it is searched: all segments folded, once, and what of them nobody owns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias
from unicodedata import combining

from otel_prompt_trace.core.missing.folding import Folded
from otel_prompt_trace.core.segments import Segment
from otel_prompt_trace.core.words import splits_word

WALL = "\0"  # in no folded text, and so in nothing that is looked for

Place: TypeAlias = tuple[int, int, int]  # segment, start, end


class Haystack:
    """``text`` is the folding of all segments, with a wall after each; ``free`` has walls where somebody owns it."""

    def __init__(self, segments: Sequence[Segment], owned: Iterable[Place]) -> None:
        self.bodies = [segment.text for segment in segments]
        self._folded = [Folded(body) for body in self.bodies]
        self._bases = list(accumulate((len(folded) + 1 for folded in self._folded), initial=0))
        whole = "".join(folded.text + WALL for folded in self._folded)
        cut = [(number, start, end) for number, segment in enumerate(segments) for start, end in segment.cuts]
        self.text = self._walled(whole, cut)
        self.free = self._walled(self.text, owned)

    def take(self, places: Iterable[Place]) -> None:
        """What stands there is no longer free."""
        self.free = self._walled(self.free, places)

    def bounds(self, segment: int) -> tuple[int, int]:
        """Where a segment begins and ends in ``text``."""
        return self._bases[segment], self._bases[segment + 1] - 1

    def place(self, at: int, length: int) -> Place | None:
        """The place of ``text[at:at + length]``; None where it begins or ends inside a letter or an escape."""
        if combining(self.text[at]) or combining(self.text[at + length]):
            return None
        segment = self._segment(at)
        at -= self._bases[segment]
        folded = self._folded[segment]
        start, stop = folded.start(at), folded.stop(at + length)
        return None if start is None or stop is None else (segment, start, stop)

    def room(self, at: int, length: int) -> tuple[int, int]:
        """How far what has no place reaches around what stands there: to the characters before and behind."""
        segment = self._segment(at)
        folded, at = self._folded[segment], at - self._bases[segment]
        low = folded.stop(at) if at else 0
        high = folded.start(at + length) if at + length < len(folded) else len(folded.original)
        return low or 0, high or 0

    def after(self, segment: int, offset: int) -> int:
        """The first place in ``text`` that is at ``offset`` of a segment, or behind it."""
        return self._bases[segment] + self._folded[segment].reach(offset, whole=False)

    def cuts_word(self, at: int, length: int) -> bool:
        """Whether what stands there is part of a longer word; an escape beside it is no part of a word."""
        place = self.place(at, length)
        if place is None:
            return True
        segment, start, end = place
        body, folded, at = self.bodies[segment], self._folded[segment], at - self._bases[segment]
        before = at > 0 and folded.stop(at) == start
        behind = at + length < len(folded) and folded.start(at + length) == end
        return splits_word(body[start - before : end + behind], int(before), end - start + before)

    def _segment(self, at: int) -> int:
        return bisect_right(self._bases, at) - 1

    def _walled(self, text: str, places: Iterable[Place]) -> str:
        parts, reached = [], 0
        for start, end in sorted(self._folded_places(places)):
            if end > max(start, reached):
                parts += [text[reached:start], WALL * (end - max(start, reached))]
                reached = end
        return "".join([*parts, text[reached:]]) if parts else text

    def _folded_places(self, places: Iterable[Place]) -> Iterator[tuple[int, int]]:
        for segment, start, end in places:
            base, folded = self._bases[segment], self._folded[segment]
            yield base + folded.reach(start, whole=True), base + folded.reach(end, whole=False)
