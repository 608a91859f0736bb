"""Pieces to occurrences: which characters of a prompt each declared piece owns.

Invariants:

- A character belongs to at most one piece, and a piece takes one occurrence. (An ``inline`` piece rides inside
  another and owns its characters; the outer piece owns the rest.)
- ``segment[start:end] == piece.text`` for every located piece. Recorded offsets are verified like any other.
- The result is a function of the arguments alone; with ``ordered=False`` it does not depend on the pieces' order.

How: a piece that would be the whole prompt is set aside, and recorded offsets come first (``recorded``). Where the
declared pieces, one after another, are the prompt to the last character, nothing is to be searched. Else what the
declared order leaves no choice about is taken (``in_order``), and the others are searched for (``search``): what was
declared before what is inferred, longer before shorter, since a long text stands in few places and pins down where the
short ones between can be. Inline pieces follow (``inline``), and what got no place is told apart (``unplaced``). All of
them work on one ``Board``; ``evident`` is the short way for prompts that need none of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from otel_prompt_trace.core.assignment.board import AMBIGUOUS, JUMPS, Board, occurrences
from otel_prompt_trace.core.assignment.evident import evident
from otel_prompt_trace.core.assignment.in_order import in_a_row, in_order
from otel_prompt_trace.core.assignment.inline import InlineSearch
from otel_prompt_trace.core.assignment.rearranged import Rearrangement
from otel_prompt_trace.core.assignment.recorded import WHOLE_PROMPT, set_whole_prompts_aside, take_recorded
from otel_prompt_trace.core.assignment.search import INSIDE_A_WORD, Search
from otel_prompt_trace.core.assignment.unplaced import tell_apart
from otel_prompt_trace.core.pieces import Piece, Placed
from otel_prompt_trace.core.segments import Segment

__all__ = ["AMBIGUOUS", "INSIDE_A_WORD", "JUMPS", "WHOLE_PROMPT", "assign", "occurrences"]


def assign(segments: Sequence[Segment], pieces: Sequence[Piece], *, ordered: bool) -> tuple[Placed, ...]:
    """Place every piece that has a text: a :class:`Placed` per piece, in their order.

    Cut texts are placed by their recorded offsets alone. A JSON value stands in no text.
    """
    found = evident(segments, pieces, ordered=ordered)
    if isinstance(found, tuple):
        return found
    board, left = _begin(segments, pieces, ordered=ordered)
    row = _row(board, left)
    order = found if len(row) == len(pieces) else None
    if order is None and row:
        texts = [pieces[index].text or "" for index in row]
        order = in_a_row(board.texts, texts) or in_order(board.texts, texts)
    if order is not None:
        board.take_row(row, [place if one else None for place, one in zip(order.places, order.forced, strict=True)])
    absent = _search(board, left)
    if order is not None and any(
        place is not None and board.placed[index] is None for index, place in zip(row, order.places, strict=True)
    ):  # the declared order has room for all of them: longer before shorter was the wrong guess
        board, left = _begin(segments, pieces, ordered=ordered)
        board.take_row(row, order.places)
        absent = _search(board, left)
    tell_apart(board, absent)
    return tuple(
        placed if placed is not None else Placed(piece, "unlocatable", note=board.notes.get(index, ""))
        for index, (piece, placed) in enumerate(zip(pieces, board.placed, strict=True))
    )


def _begin(segments: Sequence[Segment], pieces: Sequence[Piece], *, ordered: bool) -> tuple[Board, list[int]]:
    """A board with all that is recorded, and the indexes of what is left, by rank."""
    board = Board(segments, pieces, ordered=ordered)
    indexes = [index for index, piece in enumerate(pieces) if piece.value is None]
    by_rank = sorted(indexes, key=board.rank)
    wholes = set_whole_prompts_aside(board, by_rank)
    for index in indexes if ordered else by_rank:
        if pieces[index].length == 0:
            board.placed[index] = Placed(pieces[index], "empty")
        elif index not in wholes:
            take_recorded(board, index)
    return board, [index for index in by_rank if board.placed[index] is None and index not in wholes]


def _row(board: Board, left: list[int]) -> list[int]:
    """The pieces whose order says something: none where some are recorded, which says more."""
    if not board.ordered or board.anchors:
        return []
    return [n for n in sorted(left) if (piece := board.pieces[n]).text and not (piece.inline or piece.offered)]


def _search(board: Board, left: list[int]) -> set[str]:
    """Search for what is not placed; the texts that stand nowhere."""
    ordinary = [index for index in left if not board.pieces[index].inline]
    search = Search(board)
    for index in ordinary:
        if board.placed[index] is None:
            search.place(index)
    search.move_fragments(ordinary)
    Rearrangement(board, ordinary, search.absent).run()
    inline = InlineSearch(board)
    for index in left:
        if board.placed[index] is None and board.pieces[index].inline:
            inline.place(index)
    return search.absent
