"""Inline pieces: each rides inside a piece that is placed, or, failing that, stands where nothing is placed."""

from __future__ import annotations

from collections.abc import Iterator

from otel_prompt_trace.core.assignment.board import Board, Place
from otel_prompt_trace.core.words import is_word, splits_word


class InlineSearch:
    """Searches for one inline piece after another, when all others are placed."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._reached: dict[str, Place] = {}  # by text: no other inline piece leaves room before this place

    def place(self, index: int) -> None:
        """Take a place inside one piece, as a whole word if it can be; else one where nothing is placed."""
        board = self._board
        text = board.pieces[index].text
        if text is None:
            return
        word = is_word(text)
        fragment: Place | None = None
        free: Place | None = None
        for segment, start in self._free(text):
            end = start + len(text)
            whole = not (word and splits_word(board.texts[segment], start, end))
            if board.taken.holds(segment, start, end):
                if whole:
                    board.take(index, segment, start)
                    return
                fragment = fragment or (segment, start)
            elif whole and free is None and board.taken.overlap(segment, start, end) is None:
                free = (segment, start)
        found = fragment or free
        if found is not None:
            board.take(index, *found)
        else:
            board.give_up(index)

    def _free(self, text: str) -> Iterator[Place]:
        board = self._board
        first, low = self._reached.get(text, (0, 0))
        self._reached[text] = board.end
        fresh = True
        for segment in range(first, len(board.texts)):
            body = board.texts[segment]
            position = low if segment == first else 0
            while (start := body.find(text, position)) >= 0:
                board.jumps -= 1
                if board.jumps <= 0:
                    return
                blocked = board.taken_inline.overlap(segment, start, start + len(text))
                if blocked is None:
                    if fresh:
                        self._reached[text], fresh = (segment, start), False
                    yield segment, start
                position = start + 1 if blocked is None else blocked
