"""What got no place, told apart: a second declaration of what stands once, a text that others own, an absent one."""

from __future__ import annotations

from otel_prompt_trace.core.assignment.board import AMBIGUOUS, Board, Place, occurrences
from otel_prompt_trace.core.pieces import Placed


def tell_apart(board: Board, absent: set[str]) -> None:
    """Name duplicate and contested pieces, and offers that were not used; the others get a note at most.

    ``absent`` holds texts that are known to stand nowhere.
    """
    standing: dict[str, Place | None] = dict.fromkeys(absent)
    owned = {p.piece.text for p in board.placed if p is not None and p.state in ("located", "whole_prompt")}
    for index, piece in enumerate(board.pieces):
        if board.placed[index] is not None or piece.value is not None:
            continue
        if piece.offered:
            board.placed[index] = Placed(piece, "not_placed")
        elif piece.text is None:
            board.notes[index] = "only its digest was kept, without offsets"
        elif piece.text in owned:
            board.placed[index] = Placed(piece, "duplicate", note="declared more often than it stands")
        else:
            if piece.text not in standing:
                standing[piece.text] = _anywhere(board, piece.text)
            if (at := standing[piece.text]) is not None:
                note = f"stands only inside another piece, in segment {at[0]} at {at[1]}"
                board.placed[index] = Placed(piece, "contested", note=note)
            elif board.jumps <= 0:
                board.notes[index] = AMBIGUOUS


def _anywhere(board: Board, text: str) -> Place | None:
    """A place where all of ``text`` stands although characters of it are another piece's."""
    for place in occurrences(board.texts, text):
        if place is not None:
            return place
        board.jumps -= 1
        if board.jumps <= 0:
            return None
    return None
