"""What is placed so far, which characters are taken, and how much looking is left.

Invariants: ``taken`` holds just the located pieces that are not inline, ``taken_inline`` just those that are; neither
overlaps itself. ``anchors`` stand in the declared order and in the prompt's. Every occurrence that is looked at costs
one of ``jumps``; when none is left, nothing more is found.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from otel_prompt_trace.core.intervals import Intervals
from otel_prompt_trace.core.pieces import Piece, Placed
from otel_prompt_trace.core.segments import Segment
from otel_prompt_trace.core.words import is_word, splits_word

JUMPS = 8_000  # occurrences looked at before a search gives up and says "ambiguous"; and on top
JUMPS_A_PIECE, CHARS_A_JUMP = 4, 32
AMBIGUOUS = "ambiguous: too many overlapping occurrences to tell apart"

_NOTHING = (None, None, None, None)

Place: TypeAlias = "tuple[int, int]"  # segment and start


class Board:
    """One run of the assignment over one prompt."""

    def __init__(self, segments: Sequence[Segment], pieces: Sequence[Piece], *, ordered: bool) -> None:
        self.segments = segments
        self.texts = [segment.text for segment in segments]
        self.end: Place = (len(segments), 0)
        self.pieces = pieces
        self.ordered = ordered
        self.taken = Intervals(len(segments))
        self.taken_inline = Intervals(len(segments))
        self.anchors: list[tuple[int, int, int, int]] = []  # (declared index, segment, start, end), in order
        self.jumps = JUMPS + JUMPS_A_PIECE * len(pieces) + sum(map(len, self.texts)) // CHARS_A_JUMP
        self.placed: list[Placed | None] = [None] * len(pieces)
        self.notes: dict[int, str] = {}
        self.fixed: set[int] = set()  # placed as recorded: nothing moves them

    def rank(self, index: int) -> tuple[Any, ...]:
        """What was declared before what is inferred, then longer before shorter; a tie is broken by content alone."""
        piece = self.pieces[index]
        if self.ordered:
            return piece.inferred, -piece.length, piece.offered, index
        given = (piece.segment, piece.start, piece.end, piece.chars)
        numbers = () if given == _NOTHING else tuple(-1 if number is None else number for number in given)
        flags = piece.inline, piece.blank, piece.source_id is None
        names = piece.producer, piece.source_id or "", piece.trust, piece.policy, piece.hmac_sha256 or ""
        return piece.inferred, -piece.length, piece.offered, piece.text or "", names, flags, numbers, index

    def take(self, index: int, segment: int, start: int) -> None:
        """Locate a piece there; whoever asks has made sure that it stands there and that nothing else does."""
        piece = self.pieces[index]
        end = start + piece.length
        self.placed[index] = Placed(piece, "located", segment, start, end)
        if piece.inline:
            self.taken_inline.add(segment, start, end)
            return
        self.taken.add(segment, start, end)
        if self.ordered:
            self._anchor(index, segment, start, end)

    def take_row(self, indexes: Sequence[int], places: Sequence[Place | None]) -> None:
        """Locate pieces whose places follow one another in the declared order, when nothing else is placed."""
        for index, place in zip(indexes, places, strict=True):
            if place is not None:
                piece, (segment, start) = self.pieces[index], place
                end = start + piece.length
                self.placed[index] = Placed(piece, "located", segment, start, end)
                self.taken.add(segment, start, end)
                self.anchors.append((index, segment, start, end))

    def _anchor(self, index: int, segment: int, start: int, end: int) -> None:
        anchors = self.anchors
        at = len(anchors) if not anchors or anchors[-1][0] < index else bisect_left(anchors, (index,))
        before = anchors[at - 1][1:] if at else (-1, -1, -1)
        after = anchors[at][1:3] if at < len(anchors) else self.end
        if (before[0], before[2]) <= (segment, start) and (segment, start) < after:  # a moved piece is no anchor
            anchors.insert(at, (index, segment, start, end))

    def give_back(self, index: int, segment: int, start: int) -> None:
        """Undo :meth:`take` of a piece that is not inline."""
        self.placed[index] = None
        self.taken.remove(segment, start)
        at = bisect_left(self.anchors, (index,))
        if at < len(self.anchors) and self.anchors[at][0] == index:
            del self.anchors[at]

    def give_up(self, index: int) -> None:
        """Say so where the looking is at its end: what was not found may stand all the same."""
        if self.jumps <= 0:
            self.placed[index] = Placed(self.pieces[index], "unlocatable", note=AMBIGUOUS)

    def free(self, text: str, low: Place, high: Place, *, before: str = "", after: str = "") -> Iterator[Place]:
        """Places of ``text`` from ``low`` (inclusive) that end by ``high`` and overlap nothing that is taken.

        With ``before`` or ``after``, only those that stand between these texts.
        """
        pattern, ahead, behind, length = before + text + after, len(before), len(after), len(text)
        for segment in range(low[0], min(high[0] + 1, len(self.texts))):
            find, overlap = self.texts[segment].find, self.taken.overlap
            position = low[1] if segment == low[0] else 0
            stop = (high[1] if segment == high[0] else len(self.texts[segment])) + behind
            while (at := find(pattern, position - ahead if position > ahead else 0, stop)) >= 0:
                self.jumps -= 1
                if self.jumps <= 0:
                    return
                start = at + ahead
                blocked = overlap(segment, start, start + length)
                if blocked is None:
                    yield segment, start
                    position = start + 1
                else:
                    position = blocked

    def is_free(self, text: str, segment: int, start: int) -> bool:
        """Whether a text stands there, and nothing that is taken."""
        return self.texts[segment].startswith(text, start) and (
            self.taken.overlap(segment, start, start + len(text)) is None
        )

    def occurrences(self, text: str) -> Iterator[Place]:
        """Places of ``text``, taken or not, overlapping ones as well."""
        for segment, body in enumerate(self.texts):
            start = body.find(text)
            while start >= 0:
                self.jumps -= 1
                if self.jumps <= 0:
                    return
                yield segment, start
                start = body.find(text, start + 1)

    def splits_word(self, segment: int, start: int, end: int) -> bool:
        """Whether a bare word stands there as a part of a longer one."""
        body = self.texts[segment]
        return is_word(body[start:end]) and splits_word(body, start, end)


def occurrences(texts: Sequence[str], text: str) -> Iterator[Place | None]:
    """Every place of ``text``, overlapping ones as well; None for one where a bare word is part of a longer one."""
    word = is_word(text)
    for segment, body in enumerate(texts):
        position = body.find(text)
        while position >= 0:
            yield None if word and splits_word(body, position, position + len(text)) else (segment, position)
            position = body.find(text, position + 1)
