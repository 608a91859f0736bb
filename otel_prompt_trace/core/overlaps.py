"""Nested texts: of the characters that a producer owns, those that are the text of another declared piece as well.

A history that embeds the history before it, or a chunk that holds the question, is no second declaration: each piece
has a place of its own, and every character counts once, for its owner. How much of what a producer owns only says again
what other pieces say is another number, and it is this one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from otel_prompt_trace.core.pieces import Piece, Placed
from otel_prompt_trace.core.words import is_word, splits_word

LOOKS = 20_000  # occurrences
CHARS = 100_000_000  # characters searched through; then the shortest texts are left out


@dataclass(frozen=True, slots=True)
class Overlaps:
    """Characters of each producer's pieces that stand inside texts of other, shorter pieces; producers without are not.

    ``complete`` is False where the texts were too many to look for all of them: there may be more.
    """

    by_producer: dict[str, int]
    complete: bool = True


class _Outer:
    """Located pieces of one segment, by their start; none overlaps another."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.pieces: list[Piece] = []
        self.nested: dict[int, list[tuple[int, int]]] = {}  # by position in these lists

    def note(self, start: int, end: int) -> None:
        """A text stands at [start, end): inside a longer piece, or it is no matter."""
        at = bisect_right(self.starts, start) - 1
        if at < 0:
            return
        begins, length = self.starts[at], self.pieces[at].length
        if end <= begins + length and end - start < length:
            self.nested.setdefault(at, []).append((start, end))


def overlaps(texts: Sequence[str], placed: Sequence[Placed]) -> Overlaps:
    """Look for every declared text inside the located pieces that are longer than it."""
    outer = [_Outer() for _ in texts]
    located = [p for p in placed if p.state == "located" and not p.piece.inline]
    for p in sorted(located, key=lambda p: (p.segment or 0, p.start or 0)):
        outer[p.segment or 0].starts.append(p.start or 0)
        outer[p.segment or 0].pieces.append(p.piece)
    longest = max((p.piece.length for p in located), default=0)
    others = (p.piece.text for p in placed if not p.piece.inline)  # those that ride inside own their characters
    declared = {text for text in others if text and len(text) < longest and not text.isspace()}
    looks, chars = LOOKS, CHARS
    for text in sorted(declared, key=lambda text: (-len(text), text)):
        word = is_word(text)
        for body, pieces in zip(texts, outer, strict=True):
            start = body.find(text)
            while start >= 0 and looks > 0:
                looks -= 1
                end = start + len(text)
                if not (word and splits_word(body, start, end)):
                    pieces.note(start, end)
                start = body.find(text, start + 1)
            chars -= len(body)
        if looks <= 0 or chars <= 0:
            break
    found: dict[str, int] = {}
    for pieces in outer:
        for at, spans in pieces.nested.items():
            producer = pieces.pieces[at].producer
            found[producer] = found.get(producer, 0) + _union(spans)
    return Overlaps(found, complete=looks > 0 and chars > 0)


def _union(spans: list[tuple[int, int]]) -> int:
    """Characters in at least one of the spans."""
    count, reached = 0, 0
    for start, end in sorted(spans):
        count += max(0, end - max(start, reached))
        reached = max(reached, end)
    return count
