"""Pieces to occurrences: which characters of a prompt each declared piece owns.

Invariants:

- A character belongs to at most one piece, and a piece takes one occurrence. (An ``inline`` piece rides inside
  another and owns its characters; the outer piece owns the rest.)
- ``segment[start:end] == piece.text`` for every located piece. Recorded offsets are verified like any other.
- The result is a function of the arguments alone; with ``ordered=False`` it does not depend on the pieces' order.

How: a piece that would be the whole prompt is set aside, and recorded offsets come first (``recorded``). Where the
declared pieces, one after another, are the prompt to the last character, nothing is to be searched. Else the others are
searched for (``search``): what was declared before what is inferred, longer before shorter, since a long text stands
in few places and pins down where the short ones between can be. Inline pieces follow (``inline``), and what got no
place is told apart (``unplaced``). All of them work on one ``Board``.
"""

from __future__ import annotations

from collections.abc import Sequence

from otel_prompt_trace.core.assignment.board import AMBIGUOUS, JUMPS, Board, occurrences
from otel_prompt_trace.core.assignment.inline import InlineSearch
from otel_prompt_trace.core.assignment.recorded import (
    WHOLE_PROMPT,
    set_whole_prompts_aside,
    take_in_a_row,
    take_recorded,
)
from otel_prompt_trace.core.assignment.search import INSIDE_A_WORD, Search
from otel_prompt_trace.core.assignment.unplaced import tell_apart
from otel_prompt_trace.core.pieces import Piece, Placed
from otel_prompt_trace.core.segments import Segment

__all__ = ["AMBIGUOUS", "INSIDE_A_WORD", "JUMPS", "WHOLE_PROMPT", "assign", "occurrences"]


def assign(segments: Sequence[Segment], pieces: Sequence[Piece], *, ordered: bool) -> tuple[Placed, ...]:
    """Place every piece that has a text: a :class:`Placed` per piece, in their order.

    Cut texts are placed by their recorded offsets alone. A JSON value stands in no text.
    """
    board = Board(segments, pieces, ordered=ordered)
    indexes = [index for index, piece in enumerate(pieces) if piece.value is None]
    by_rank = sorted(indexes, key=board.rank)
    wholes = set_whole_prompts_aside(board, by_rank)
    for index in indexes if ordered else by_rank:
        if pieces[index].length == 0:
            board.placed[index] = Placed(pieces[index], "empty")
        elif index not in wholes:
            take_recorded(board, index)
    left = [index for index in by_rank if board.placed[index] is None and index not in wholes]
    if ordered:
        take_in_a_row(board, sorted(left))
    ordinary = [index for index in left if not pieces[index].inline]
    search = Search(board)
    for index in ordinary:
        if board.placed[index] is None:
            search.place(index)
    search.move_fragments(ordinary)
    inline = InlineSearch(board)
    for index in left:
        if board.placed[index] is None and pieces[index].inline:
            inline.place(index)
    tell_apart(board, search.absent)
    return tuple(
        placed if placed is not None else Placed(piece, "unlocatable", note=board.notes.get(index, ""))
        for index, (piece, placed) in enumerate(zip(pieces, board.placed, strict=True))
    )
