"""Places that are found by a search, with the declared order as evidence.

A piece is looked for between its nearest neighbours that are placed already, and elsewhere only if it does not stand
there. Among several places between the neighbours one that touches a neighbour is preferred, since what is declared in
a row is mostly rendered in a row.

A piece that is one bare word is not located inside a longer word ("ok" in "book"), unless it touches another piece.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from otel_prompt_trace.core.assignment.board import Board, Place
from otel_prompt_trace.core.assignment.in_order import Letters
from otel_prompt_trace.core.words import is_word, splits_word

INSIDE_A_WORD = "stands only inside a longer word"


class Search:
    """Searches for one piece after another; what was found in vain for one is not looked at again for its like."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._places: dict[str, Iterator[Place]] = {}  # by text: the free ones that were not looked at yet
        self._exhausted: set[str] = set()  # texts of which no place is left
        self.absent: set[str] = set()  # texts that stand nowhere
        self._letters: Letters | None = None  # of the prompt, when a first text was not found
        row = [index for index, piece in enumerate(board.pieces) if piece.text and not piece.inline]
        self._left = {index: before for before, index in pairwise(row)}
        self._right = dict(pairwise(row))

    def place(self, index: int) -> None:
        """Take a place for an ordinary piece, where there is one that is free."""
        board = self._board
        text = board.pieces[index].text
        if text is None:
            return
        found: Place | None = None
        if text not in self._exhausted and (self._letters is None or not self._is_absent(text)):
            found = self._between_neighbours(index, text) if board.ordered else None
            found = found or self._anywhere(text)
        if found is not None:
            board.take(index, *found)
        else:
            board.give_up(index)

    def _between_neighbours(self, index: int, text: str) -> Place | None:
        """The first place beside the text declared before or after; else the first whole word; else the first."""
        board = self._board
        at = bisect_left(board.anchors, (index,))
        low, high = (0, 0), board.end
        left, right = self._left.get(index), self._right.get(index)
        if at < len(board.anchors):
            high = board.anchors[at][1:3]
        if at:
            before, segment, _, end = board.anchors[at - 1]
            low = (segment, end)
            if before == left and board.is_free(text, segment, end) and (segment, end + len(text)) <= high:
                return low
        if next(board.free(text, low, high), None) is None:
            return None
        beside = [
            None if left is None else next(board.free(text, low, high, before=board.pieces[left].text or ""), None),
            None if right is None else next(board.free(text, low, high, after=board.pieces[right].text or ""), None),
        ]
        first = min((place for place in beside if place is not None), default=None)
        return first if first is not None else self._first_word(text, board.free(text, low, high))

    def _first_word(self, text: str, places: Iterator[Place]) -> Place | None:
        """The first place that is no part of a longer word; else the first. Only a bare word is that choosy."""
        first: Place | None = None
        word = is_word(text)
        for segment, start in places:
            if not (word and splits_word(self._board.texts[segment], start, start + len(text))):
                return segment, start
            first = first or (segment, start)
        return first

    def _is_absent(self, text: str) -> bool:
        if text in self._places or self._letters is None or not self._letters.lack(text):
            return False
        self.absent.add(text)
        self._exhausted.add(text)
        return True

    def _anywhere(self, text: str) -> Place | None:
        """The first free place; what was looked at for one piece is not looked at again for its like."""
        board, jumps = self._board, self._board.jumps
        fresh = text not in self._places
        if fresh:
            free = board.free(text, (0, 0), board.end)
            self._places[text] = self._in_turn(text, free) if is_word(text) else free
        found = next(self._places[text], None)
        if found is None:
            self._exhausted.add(text)
            if fresh and board.jumps == jumps:  # not even a place that is taken
                self.absent.add(text)
                self._letters = self._letters or Letters(board.texts)
        return found

    def _in_turn(self, word: str, places: Iterator[Place]) -> Iterator[Place]:
        """The free places of a bare word, those last where it is a part of a longer one."""
        board, fragments = self._board, []
        for segment, start in places:
            if splits_word(board.texts[segment], start, start + len(word)):
                fragments.append((segment, start))
            else:
                yield segment, start
        for segment, start in fragments:
            if board.is_free(word, segment, start):
                yield segment, start

    def move_fragments(self, searched: list[int]) -> None:
        """Bare words that were found only inside longer words and touch no other piece stand elsewhere, or nowhere."""
        board, moved = self._board, []
        for index in searched:
            placed = board.placed[index]
            if placed is None or placed.state != "located" or not is_word(board.pieces[index].text or " "):
                continue
            segment, start, end = placed.segment or 0, placed.start or 0, placed.end or 0
            if board.splits_word(segment, start, end) and not board.taken.touches(segment, start, end):
                moved.append((index, segment, start))
        for index, segment, start in moved:
            board.taken.remove(segment, start)
            board.placed[index] = None
            board.notes[index] = INSIDE_A_WORD
        if moved:  # what they had taken is free again, for others as well
            self._search_again([n for n in searched if board.placed[n] is None])

    def _search_again(self, indexes: list[int]) -> None:
        """Until nothing changes: each piece that finds a place may be the neighbour that the next one needs."""
        board, found = self._board, True
        while found:
            found, failed = False, set[str]()
            for index in indexes:
                text = board.pieces[index].text
                if text is None or text in failed or board.placed[index] is not None:
                    continue
                places = board.free(text, (0, 0), board.end)
                place = next((at for at in places if self._may_stand(text, *at)), None)
                if place is None:
                    failed.add(text)
                else:
                    board.take(index, *place)
                    found = True

    def _may_stand(self, text: str, segment: int, start: int) -> bool:
        """A bare word stands as a word, or beside another piece."""
        end = start + len(text)
        return not self._board.splits_word(segment, start, end) or self._board.taken.touches(segment, start, end)
