"""Places that are recorded, verified; and pieces that may have no place, since each would be the whole prompt.

Invariant: no offset counts unless the text stands there; those of a lost text only where characters were cut.
"""

from __future__ import annotations

from bisect import bisect_left

from otel_prompt_trace.core.assignment.board import Board
from otel_prompt_trace.core.pieces import Placed

WHOLE_PROMPT = "one piece is the whole prompt: that says nothing about its parts"


def set_whole_prompts_aside(board: Board, by_rank: list[int]) -> set[int]:
    """No producer may be the whole prompt: such a piece owns nothing, so that the true parts can be found."""
    filled = [number for number, text in enumerate(board.texts) if text]
    if len(filled) != 1:
        return set()
    whole = board.texts[filled[0]]
    place = (filled[0], 0, len(whole))
    wholes = [
        index
        for index in by_rank
        if (piece := board.pieces[index]).text == whole
        or (piece.text is None and (piece.segment, piece.start, piece.end) == place)
    ]
    for index in wholes[:1]:
        board.placed[index] = Placed(board.pieces[index], "whole_prompt", note=WHOLE_PROMPT)
    return set(wholes)


def take_recorded(board: Board, index: int) -> None:
    """Take a piece's recorded place, if it has one that holds."""
    piece = board.pieces[index]
    segment, start, end = piece.segment, piece.start, piece.end
    if segment is None or start is None or end is None:
        return
    if not (0 <= segment < len(board.texts) and 0 <= start < end <= len(board.texts[segment])):
        return
    if piece.text is not None and board.texts[segment][start:end] != piece.text:
        return
    if piece.text is None and (end - start != piece.length or not _was_cut(board, segment, start, end)):
        return
    taken = board.taken_inline if piece.inline else board.taken
    if taken.overlap(segment, start, end) is None:
        board.take(index, segment, start)
        board.fixed.add(index)


def _was_cut(board: Board, segment: int, start: int, end: int) -> bool:
    """Whether any of these characters was cut; offsets of a lost text can't be checked where all can be read."""
    cuts = board.segments[segment].cuts
    at = bisect_left(cuts, (end,))
    return at > 0 and cuts[at - 1][1] > start
