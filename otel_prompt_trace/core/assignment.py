"""Pieces to occurrences: which characters of a prompt each declared piece owns.

Invariants:

- A character belongs to at most one piece, and a piece takes one occurrence. (An ``inline`` piece rides inside
  another and owns its characters; the outer piece owns the rest.)
- ``segment[start:end] == piece.text`` for every located piece. Recorded offsets are verified like any other.
- The result is a function of the arguments alone; with ``ordered=False`` it does not depend on the pieces' order.

How: a piece that would be the whole prompt is set aside, and recorded offsets come first. Where the declared pieces,
one after another, are the prompt to the last character, nothing is to be searched. Else the others are searched for:
what was declared before what is inferred, longer before shorter, since a long text stands in few places and pins down
where the short ones between can be. The declared order is evidence: a piece is looked for between its nearest
neighbours that are placed already, and elsewhere only if it does not stand there. Among several places between the
neighbours one that touches a neighbour is preferred, since what is declared in a row is mostly rendered in a row.

A piece that is one bare word is not located inside a longer word ("ok" in "book"), unless it touches another piece.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from otel_prompt_trace.core.intervals import Intervals
from otel_prompt_trace.core.pieces import Piece, Placed
from otel_prompt_trace.core.segments import Segment
from otel_prompt_trace.core.words import is_word, splits_word

JUMPS = 50_000  # occurrences looked at, and ten a piece on top, before a search gives up and says "ambiguous"
AMBIGUOUS = "ambiguous: too many overlapping occurrences to tell apart"
WHOLE_PROMPT = "one piece is the whole prompt: that says nothing about its parts"
INSIDE_A_WORD = "stands only inside a longer word"

_Place = tuple[int, int]  # segment and start


class Assignment:
    """One run of the assignment over one prompt; :meth:`run` gives a :class:`Placed` per piece, in their order."""

    def __init__(self, segments: Sequence[Segment], pieces: Sequence[Piece], *, ordered: bool) -> None:
        self._segments = segments
        self._texts = [segment.text for segment in segments]
        self._end: _Place = (len(segments), 0)
        self._pieces = pieces
        self._ordered = ordered
        self._taken = Intervals(len(segments))
        self._taken_inline = Intervals(len(segments))
        self._anchors: list[tuple[int, int, int, int]] = []  # (declared index, segment, start, end), in order
        self._reached: dict[str, _Place] = {}  # by text: nothing is free before this place
        self._absent: set[str] = set()  # texts that stand nowhere
        self._reached_inline: dict[str, _Place] = {}
        self._jumps = JUMPS + 10 * len(pieces)
        self._placed: list[Placed | None] = [None] * len(pieces)
        self._notes: dict[int, str] = {}
        row = [index for index, piece in enumerate(pieces) if piece.text and not piece.inline]
        self._left = {index: pieces[before].text for before, index in pairwise(row)}
        self._right = {index: pieces[after].text for index, after in pairwise(row)}

    def run(self) -> tuple[Placed, ...]:
        """Place every piece that has a text; cut texts are placed by their recorded offsets alone."""
        indexes = [index for index, piece in enumerate(self._pieces) if piece.value is None]
        by_rank = sorted(indexes, key=self._rank)
        wholes = self._set_whole_prompts_aside(by_rank)
        for index in indexes if self._ordered else by_rank:
            if self._pieces[index].length == 0:
                self._placed[index] = Placed(self._pieces[index], "empty")
            elif index not in wholes:
                self._take_recorded(index)
        left = [index for index in by_rank if self._placed[index] is None and index not in wholes]
        if self._ordered:
            self._take_in_a_row(sorted(left))
        for index in left:
            if self._placed[index] is None and not self._pieces[index].inline:
                self._search(index)
        self._move_fragments(left)
        for index in left:
            if self._placed[index] is None and self._pieces[index].inline:
                self._search_inline(index)
        self._explain_missing()
        return tuple(
            placed if placed is not None else Placed(piece, "unlocatable", note=self._notes.get(index, ""))
            for index, (piece, placed) in enumerate(zip(self._pieces, self._placed, strict=True))
        )

    def _rank(self, index: int) -> tuple[bool, int, bool, str, int]:
        """What was declared before what is inferred, then longer before shorter; a tie is broken by content alone."""
        piece = self._pieces[index]
        content = "" if self._ordered else repr(piece)
        return piece.inferred, -piece.length, piece.offered, content, index

    def _set_whole_prompts_aside(self, by_rank: list[int]) -> set[int]:
        """No producer may be the whole prompt: such a piece owns nothing, so that the true parts can be found."""
        filled = [number for number, text in enumerate(self._texts) if text]
        if len(filled) != 1:
            return set()
        whole = self._texts[filled[0]]
        place = (filled[0], 0, len(whole))
        wholes = [
            index
            for index in by_rank
            if (piece := self._pieces[index]).text == whole
            or (piece.text is None and (piece.segment, piece.start, piece.end) == place)
        ]
        for index in wholes[:1]:
            self._placed[index] = Placed(self._pieces[index], "whole_prompt", note=WHOLE_PROMPT)
        return set(wholes)

    def _take_recorded(self, index: int) -> None:
        piece = self._pieces[index]
        segment, start, end = piece.segment, piece.start, piece.end
        if segment is None or start is None or end is None:
            return
        if not (0 <= segment < len(self._texts) and 0 <= start < end <= len(self._texts[segment])):
            return
        if piece.text is not None and self._texts[segment][start:end] != piece.text:
            return
        if piece.text is None and (end - start != piece.length or not self._was_cut(segment, start, end)):
            return
        taken = self._taken_inline if piece.inline else self._taken
        if taken.overlap(segment, start, end) is None:
            self._take(index, segment, start)

    def _was_cut(self, segment: int, start: int, end: int) -> bool:
        """Whether any of these characters was cut; offsets of a lost text can't be checked where all can be read."""
        cuts = self._segments[segment].cuts
        at = bisect_left(cuts, (end,))
        return at > 0 and cuts[at - 1][1] > start

    def _take_in_a_row(self, indexes: list[int]) -> None:
        """Where the pieces, one after another, are the prompt to the last character, nothing is to be searched."""
        row = [index for index in indexes if not (self._pieces[index].inline or self._pieces[index].offered)]
        if self._anchors or sum(self._pieces[index].length for index in row) != sum(map(len, self._texts)):
            return
        places = []
        segment, position = 0, 0
        for index in row:
            text = self._pieces[index].text or ""
            while segment < len(self._texts) and position == len(self._texts[segment]):
                segment, position = segment + 1, 0
            if not text or segment == len(self._texts) or not self._texts[segment].startswith(text, position):
                return
            places.append((index, segment, position))
            position += len(text)
        for index, number, start in places:
            self._take(index, number, start)

    def _take(self, index: int, segment: int, start: int) -> None:
        piece = self._pieces[index]
        end = start + piece.length
        self._placed[index] = Placed(piece, "located", segment, start, end)
        if piece.inline:
            self._taken_inline.add(segment, start, end)
            return
        self._taken.add(segment, start, end)
        if self._ordered:
            at = bisect_left(self._anchors, (index,))
            before = self._anchors[at - 1][1:] if at else (-1, -1, -1)
            after = self._anchors[at][1:3] if at < len(self._anchors) else self._end
            if (before[0], before[2]) <= (segment, start) and (segment, start) < after:  # a moved piece is no anchor
                self._anchors.insert(at, (index, segment, start, end))

    def _search(self, index: int) -> None:
        text = self._pieces[index].text
        if text is None:
            return
        found: _Place | None = None
        if self._reached.get(text) != self._end:  # else its like was searched for in vain, and nothing was freed since
            found = self._find_between_neighbours(index, text) if self._ordered else None
            if found is None and not any(text in body for body in self._texts):
                self._absent.add(text)
                self._reached[text] = self._end
            found = found or self._first_word(text, self._free_anywhere(text))
        if found is not None:
            self._take(index, *found)
        elif self._jumps <= 0:
            self._placed[index] = Placed(self._pieces[index], "unlocatable", note=AMBIGUOUS)

    def _find_between_neighbours(self, index: int, text: str) -> _Place | None:
        """The first place beside the text declared before or after; else the first whole word; else the first."""
        at = bisect_left(self._anchors, (index,))
        low, high = (0, 0), self._end
        if at:
            _, segment, _, end = self._anchors[at - 1]
            low = (segment, end)
        if at < len(self._anchors):
            high = self._anchors[at][1:3]
        if next(self._free(text, low, high), None) is None:
            return None
        left, right = self._left.get(index), self._right.get(index)
        beside = [
            next(self._free(text, low, high, before=left), None) if left else None,
            next(self._free(text, low, high, after=right), None) if right else None,
        ]
        first = min((place for place in beside if place is not None), default=None)
        return first if first is not None else self._first_word(text, self._free(text, low, high))

    def _first_word(self, text: str, places: Iterator[_Place]) -> _Place | None:
        """The first place that is no part of a longer word; else the first. Only a bare word is that choosy."""
        first: _Place | None = None
        word = is_word(text)
        for segment, start in places:
            if not (word and splits_word(self._texts[segment], start, start + len(text))):
                return segment, start
            first = first or (segment, start)
        return first

    def _free(self, text: str, low: _Place, high: _Place, *, before: str = "", after: str = "") -> Iterator[_Place]:
        """Places of ``text`` from ``low`` (inclusive) that end by ``high`` and overlap nothing that is taken.

        With ``before`` or ``after``, only those that stand between these texts.
        """
        pattern = before + text + after
        for segment in range(low[0], min(high[0] + 1, len(self._texts))):
            body = self._texts[segment]
            position = low[1] if segment == low[0] else 0
            stop = high[1] if segment == high[0] else len(body)
            while (at := body.find(pattern, max(0, position - len(before)), stop + len(after))) >= 0:
                self._jumps -= 1
                if self._jumps <= 0:
                    return
                start = at + len(before)
                blocked = self._taken.overlap(segment, start, start + len(text))
                if blocked is None:
                    yield segment, start
                    position = start + 1
                else:
                    position = blocked

    def _free_anywhere(self, text: str) -> Iterator[_Place]:
        """Free places in all of the prompt; what was found taken for one piece is not looked at again for the next."""
        start = self._reached.get(text, (0, 0))
        self._reached[text] = self._end
        for number, place in enumerate(self._free(text, start, self._end)):
            if number == 0:
                self._reached[text] = place
            yield place

    def _move_fragments(self, searched: list[int]) -> None:
        """Bare words that were found only inside longer words and touch no other piece stand elsewhere, or nowhere."""
        moved = []
        for index in searched:
            placed = self._placed[index]
            if placed is None or placed.state != "located":
                continue
            segment, start, end = placed.segment or 0, placed.start or 0, placed.end or 0
            if not is_word(self._texts[segment][start:end]) or not splits_word(self._texts[segment], start, end):
                continue
            if not self._taken.touches(segment, start, end):
                moved.append((index, segment, start, end))
        for index, segment, start, end in moved:
            self._taken.remove(segment, start, end)
            self._placed[index] = None
            self._notes[index] = INSIDE_A_WORD
        if moved:  # what they had taken is free again, for others as well
            self._search_again([n for n in searched if self._placed[n] is None and not self._pieces[n].inline])

    def _search_again(self, indexes: list[int]) -> None:
        """Until nothing changes: each piece that finds a place may be the neighbour that the next one needs."""
        found = True
        while found:
            found, failed = False, set[str]()
            for index in indexes:
                text = self._pieces[index].text
                if text is None or text in failed or self._placed[index] is not None:
                    continue
                place = next((at for at in self._free(text, (0, 0), self._end) if self._may_stand(text, *at)), None)
                if place is None:
                    failed.add(text)
                else:
                    self._take(index, *place)
                    found = True

    def _may_stand(self, text: str, segment: int, start: int) -> bool:
        """A bare word stands as a word, or beside another piece."""
        end = start + len(text)
        if not is_word(text) or not splits_word(self._texts[segment], start, end):
            return True
        return self._taken.touches(segment, start, end)

    def _search_inline(self, index: int) -> None:
        """An inline piece stands inside one that is placed, or, failing that, where nothing is placed."""
        text = self._pieces[index].text
        if text is None:
            return
        word = is_word(text)
        fragment: _Place | None = None
        free: _Place | None = None
        for segment, start in self._free_of_inline(text):
            end = start + len(text)
            whole = not (word and splits_word(self._texts[segment], start, end))
            if self._taken.holds(segment, start, end):
                if whole:
                    self._take(index, segment, start)
                    return
                fragment = fragment or (segment, start)
            elif whole and free is None and self._taken.overlap(segment, start, end) is None:
                free = (segment, start)
        found = fragment or free
        if found is not None:
            self._take(index, *found)
        elif self._jumps <= 0:
            self._placed[index] = Placed(self._pieces[index], "unlocatable", note=AMBIGUOUS)

    def _free_of_inline(self, text: str) -> Iterator[_Place]:
        first, low = self._reached_inline.get(text, (0, 0))
        self._reached_inline[text] = self._end
        fresh = True
        for segment in range(first, len(self._texts)):
            body = self._texts[segment]
            position = low if segment == first else 0
            while (start := body.find(text, position)) >= 0:
                self._jumps -= 1
                if self._jumps <= 0:
                    return
                blocked = self._taken_inline.overlap(segment, start, start + len(text))
                if blocked is None:
                    if fresh:
                        self._reached_inline[text], fresh = (segment, start), False
                    yield segment, start
                position = start + 1 if blocked is None else blocked

    def _explain_missing(self) -> None:
        """Tell a second declaration (duplicate) and a text that others own (contested) from one that is not there."""
        standing: dict[str, _Place | None] = dict.fromkeys(self._absent)
        owned = {p.piece.text for p in self._placed if p is not None and p.state in ("located", "whole_prompt")}
        for index, piece in enumerate(self._pieces):
            if self._placed[index] is not None or piece.value is not None:
                continue
            if piece.offered:
                self._placed[index] = Placed(piece, "not_placed")
            elif piece.text is None:
                self._notes[index] = "only its digest was kept, without offsets"
            elif piece.text in owned:
                self._placed[index] = Placed(piece, "duplicate", note="declared more often than it stands")
            else:
                if piece.text not in standing:
                    standing[piece.text] = self._anywhere(piece.text)
                if (at := standing[piece.text]) is not None:
                    note = f"stands only inside another piece, in segment {at[0]} at {at[1]}"
                    self._placed[index] = Placed(piece, "contested", note=note)
                elif self._jumps <= 0:
                    self._notes[index] = AMBIGUOUS

    def _anywhere(self, text: str) -> _Place | None:
        """A place where all of ``text`` stands although characters of it are another piece's."""
        for place in occurrences(self._texts, text):
            if place is not None:
                return place
            self._jumps -= 1
            if self._jumps <= 0:
                return None
        return None


def occurrences(texts: Sequence[str], text: str) -> Iterator[_Place | None]:
    """Every place of ``text``, overlapping ones as well; None for one where a bare word is part of a longer one."""
    word = is_word(text)
    for segment, body in enumerate(texts):
        position = body.find(text)
        while position >= 0:
            yield None if word and splits_word(body, position, position + len(text)) else (segment, position)
            position = body.find(text, position + 1)
