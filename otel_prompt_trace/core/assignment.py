"""Pieces to occurrences: which characters of a prompt each declared piece owns.

Invariants:

- A character belongs to at most one piece, and a piece takes one occurrence. (An ``inline`` piece rides inside
  another and owns its characters; the outer piece owns the rest.)
- ``segment[start:end] == piece.text`` for every located piece. Recorded offsets are verified like any other.
- The result is a function of the arguments alone; with ``ordered=False`` it does not depend on the pieces' order.

How: recorded offsets first. The others are searched for, longer before shorter, since a long text stands in few
places and pins down where the short ones between can be. The declared order is evidence: a piece is looked for
between its nearest neighbours that are placed already, and elsewhere only if it does not stand there. Among
several places between the neighbours one that touches a neighbour is preferred, since what is declared in a row
is mostly rendered in a row.

A piece that is one bare word is not located inside a longer word ("ok" in "book"), unless it touches another piece.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from otel_prompt_trace.core.pieces import Piece, Placed
from otel_prompt_trace.core.segments import Segment

JUMPS = 50_000  # occurrences looked at, and ten a piece on top, before a search gives up and says "ambiguous"
AMBIGUOUS = "ambiguous: too many overlapping occurrences to tell apart"


class Assignment:
    """One run of the assignment over one prompt; :meth:`run` gives a :class:`Placed` per piece, in their order."""

    def __init__(self, segments: Sequence[Segment], pieces: Sequence[Piece], *, ordered: bool) -> None:
        self._texts = [segment.text for segment in segments]
        self._pieces = pieces
        self._ordered = ordered
        self._taken = _Taken(len(segments))
        self._anchors: list[tuple[int, int, int, int]] = []  # (declared index, segment, start, end), in order
        self._jumps = JUMPS + 10 * len(pieces)
        self._placed: list[Placed | None] = [None] * len(pieces)

    def run(self) -> tuple[Placed, ...]:
        """Place every piece that has a text; cut texts are placed by their recorded offsets alone."""
        searched: list[int] = []
        for index, piece in enumerate(self._pieces):
            if piece.value is not None:
                continue
            if piece.length == 0:
                self._placed[index] = Placed(piece, "empty")
            elif not self._take_recorded(index, piece):
                searched.append(index)
        inline = [index for index in searched if self._pieces[index].inline]
        outer = [index for index in searched if not self._pieces[index].inline]
        for index in sorted(outer, key=self._rank):
            self._search(index)
        self._drop_fragments()
        for index in sorted(inline, key=self._rank):
            self._search_inline(index)
        self._explain_missing()
        return tuple(
            placed if placed is not None else Placed(piece, "unlocatable")
            for piece, placed in zip(self._pieces, self._placed, strict=True)
        )

    def _rank(self, index: int) -> tuple[int, bool, str, str, str, int]:
        piece = self._pieces[index]
        if self._ordered:
            return -piece.length, piece.offered, "", "", "", index
        return -piece.length, piece.offered, piece.text or "", piece.producer, piece.source_id or "", index

    def _take_recorded(self, index: int, piece: Piece) -> bool:
        segment, start, end = piece.segment, piece.start, piece.end
        if segment is None or start is None or end is None:
            return False
        if not (0 <= segment < len(self._texts) and 0 <= start < end <= len(self._texts[segment])):
            return False
        if piece.text is not None and self._texts[segment][start:end] != piece.text:
            return False
        if not piece.inline:
            if self._taken.overlap(segment, start, end) is not None:
                return False
            self._take(index, segment, start, end)
        self._placed[index] = Placed(piece, "located", segment, start, end)
        return True

    def _take(self, index: int, segment: int, start: int, end: int) -> None:
        self._taken.add(segment, start, end)
        if self._ordered:
            at = bisect_left(self._anchors, (index,))
            before = self._anchors[at - 1][1:] if at else (-1, -1, -1)
            after = self._anchors[at][1:3] if at < len(self._anchors) else (len(self._texts), 0)
            if (before[0], before[2]) <= (segment, start) and (segment, start) < after:  # a moved piece is no anchor
                self._anchors.insert(at, (index, segment, start, end))

    def _search(self, index: int) -> None:
        piece = self._pieces[index]
        if piece.text is None:
            return
        found = self._find_between_neighbours(index, piece.text) if self._ordered else None
        if found is None:
            found = self._best(piece.text, self._free(piece.text, (0, 0), (len(self._texts), 0)), None, None)
        if found is not None:
            segment, start = found
            end = start + len(piece.text)
            self._take(index, segment, start, end)
            self._placed[index] = Placed(piece, "located", segment, start, end)
        elif self._jumps <= 0:
            self._placed[index] = Placed(piece, "unlocatable", note=AMBIGUOUS)

    def _find_between_neighbours(self, index: int, text: str) -> tuple[int, int] | None:
        at = bisect_left(self._anchors, (index,))
        before = self._anchors[at - 1] if at else None
        after = self._anchors[at] if at < len(self._anchors) else None
        low = (before[1], before[3]) if before else (0, 0)
        high = (after[1], after[2]) if after else (len(self._texts), 0)
        left = self._pieces[index - 1].text if index else None
        right = self._pieces[index + 1].text if index + 1 < len(self._pieces) else None
        return self._best(text, self._free(text, low, high), left or None, right or None)

    def _best(
        self, text: str, places: Iterator[tuple[int, int]], left: str | None, right: str | None
    ) -> tuple[int, int] | None:
        """The first place beside the text declared before or after; else the first whole word; else the first."""
        word = _is_word(text)
        first: tuple[int, int] | None = None
        whole: tuple[int, int] | None = None
        for segment, start in places:
            body, end = self._texts[segment], start + len(text)
            if left and start >= len(left) and body.startswith(left, start - len(left)):
                return segment, start
            if right and body.startswith(right, end):
                return segment, start
            if first is None:
                first = (segment, start)
            if whole is None and not (word and self._fragment(segment, start, end)):
                whole = (segment, start)
            if whole is not None and not left and not right:
                return whole
        return whole or first

    def _free(self, text: str, low: tuple[int, int], high: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Places of ``text`` from ``low`` (inclusive) that end by ``high`` and overlap nothing that is taken."""
        for segment in range(low[0], min(high[0] + 1, len(self._texts))):
            body = self._texts[segment]
            position = low[1] if segment == low[0] else 0
            stop = high[1] if segment == high[0] else len(body)
            while (position := body.find(text, position, stop)) >= 0:
                self._jumps -= 1
                if self._jumps <= 0:
                    return
                blocked = self._taken.overlap(segment, position, position + len(text))
                if blocked is None:
                    yield segment, position
                    position += 1
                else:
                    position = blocked

    def _fragment(self, segment: int, start: int, end: int) -> bool:
        """Whether a place begins or ends in the middle of a word."""
        body = self._texts[segment]
        return (start > 0 and _joins(body[start - 1], body[start])) or (
            end < len(body) and _joins(body[end - 1], body[end])
        )

    def _drop_fragments(self) -> None:
        """Give up bare words that were found only inside longer words and that touch no other piece."""
        for index, placed in enumerate(self._placed):
            if placed is None or placed.state != "located" or placed.piece.segment is not None:
                continue
            segment, start, end = placed.segment or 0, placed.start or 0, placed.end or 0
            if not _is_word(self._texts[segment][start:end]) or not self._fragment(segment, start, end):
                continue
            if self._taken.touches(segment, start, end):
                continue
            self._taken.remove(segment, start, end)
            self._placed[index] = Placed(placed.piece, "unlocatable", note="stands only inside a longer word")

    def _search_inline(self, index: int) -> None:
        """An inline piece stands inside one that is placed, or, failing that, where nothing is placed."""
        piece = self._pieces[index]
        if piece.text is None:
            return
        for segment, body in enumerate(self._texts):
            position = body.find(piece.text)
            while position >= 0:
                end = position + len(piece.text)
                if not self._inside_inline(segment, position, end):
                    self._placed[index] = Placed(piece, "located", segment, position, end)
                    return
                position = body.find(piece.text, end)

    def _inside_inline(self, segment: int, start: int, end: int) -> bool:
        return any(
            placed is not None
            and placed.piece.inline
            and placed.state == "located"
            and placed.segment == segment
            and (placed.start or 0) < end
            and start < (placed.end or 0)
            for placed in self._placed
        )

    def _explain_missing(self) -> None:
        """Tell a second declaration (duplicate) and a text that others own (contested) from one that is not there."""
        located = {p.piece.text for p in self._placed if p is not None and p.state == "located"}
        for index, piece in enumerate(self._pieces):
            if self._placed[index] is not None or piece.value is not None:
                continue
            if piece.offered:
                self._placed[index] = Placed(piece, "not_placed")
            elif piece.text is None:
                self._placed[index] = Placed(piece, "unlocatable", note="only its digest was kept, without offsets")
            elif piece.text in located:
                self._placed[index] = Placed(piece, "duplicate", note="declared more often than it stands")
            elif (at := self._anywhere(piece.text)) is not None:
                self._placed[index] = Placed(
                    piece, "contested", note=f"stands only inside another piece, in segment {at[0]} at {at[1]}"
                )

    def _anywhere(self, text: str) -> tuple[int, int] | None:
        """A place where all of ``text`` stands although characters of it are another piece's."""
        word = _is_word(text)
        for segment, body in enumerate(self._texts):
            position = body.find(text)
            while position >= 0:
                if not (word and self._fragment(segment, position, position + len(text))):
                    return segment, position
                position = body.find(text, position + 1)
        return None


class _Taken:
    """Disjoint intervals that pieces own, by segment."""

    def __init__(self, segments: int) -> None:
        self._starts: list[list[int]] = [[] for _ in range(segments)]
        self._ends: list[dict[int, int]] = [{} for _ in range(segments)]
        self._closing: list[set[int]] = [set() for _ in range(segments)]

    def add(self, segment: int, start: int, end: int) -> None:
        insort(self._starts[segment], start)
        self._ends[segment][start] = end
        self._closing[segment].add(end)

    def remove(self, segment: int, start: int, end: int) -> None:
        starts = self._starts[segment]
        del starts[bisect_left(starts, start)]
        del self._ends[segment][start]
        self._closing[segment].discard(end)

    def overlap(self, segment: int, start: int, end: int) -> int | None:
        """The end of an interval that overlaps [start, end), or None."""
        starts, ends = self._starts[segment], self._ends[segment]
        at = bisect_left(starts, end)
        if at and ends[starts[at - 1]] > start:
            return ends[starts[at - 1]]
        return None

    def touches(self, segment: int, start: int, end: int) -> bool:
        """Whether an interval ends at ``start`` or begins at ``end``."""
        return start in self._closing[segment] or end in self._ends[segment]


def _is_word(text: str) -> bool:
    return all(_in_word(char) for char in text)


def _in_word(char: str) -> bool:
    return char == "_" or char.isalnum()


def _joins(left: str, right: str) -> bool:
    """Whether two neighbouring characters are in one word. Scripts without spaces have no such thing."""
    return _in_word(left) and _in_word(right) and not (_unspaced(left) or _unspaced(right))


def _unspaced(char: str) -> bool:
    code = ord(char)
    return 0x0E00 <= code < 0x0F00 or 0x1000 <= code < 0x10A0 or 0x1780 <= code < 0x1800 or code >= 0x2E80
