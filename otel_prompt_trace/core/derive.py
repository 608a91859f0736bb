"""Derive: the prompt by the application's own placement, and the census of every call.

Where the application built its prompt with :class:`Prompt`, the recorded placement is replayed: the same pieces in
the same places must give the prompt that was recorded. Where it registered a placement of its own, and that is at
hand, it is asked again. One rule for what sends and what grades.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

from otel_prompt_trace.core.again import Again, ask_again
from otel_prompt_trace.core.assignment import JUMPS, occurrences
from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.census import REASON_OF_STATE, Census, explained, take
from otel_prompt_trace.core.pieces import Piece, Placed, State
from otel_prompt_trace.core.placement import Placement
from otel_prompt_trace.core.prompt import replay
from otel_prompt_trace.core.record import OfferKey, Record, offer_key
from otel_prompt_trace.core.segments import Split
from otel_prompt_trace.core.verdict import in_order

_NOTES: dict[State, str] = {
    "duplicate": "offered more often than it stands",
    "contested": "stands only inside another piece",
    "unlocatable": "offered to the query, and no call of it holds it",
}


@dataclass(frozen=True, slots=True)
class Derivation:
    """One call, derived.

    ``census`` is None where the call has no prompt to take it of. ``rendered`` says whether replaying the recorded
    placement gives the prompt as recorded: None where the application gave no placement. ``again`` says what came of
    asking the function by which the application rendered it: None where it named none.
    """

    call: Call
    census: Census | None
    rendered: bool | None
    again: Again | None = None


def derive(record: Record, placements: Mapping[str, Placement] | None = None) -> tuple[Derivation, ...]:
    """The census of every call of the record, in order.

    Args:
        record: as :meth:`PayloadStore.get` returns it.
        placements: functions that render prompts, as :func:`placements` gives them: a call that one of them rendered
            is rendered once more, and where that gives the same prompt, the offsets are those of that rendering. None
            calls nothing, and the recorded offsets count.

    A piece that was offered to the query and that some call holds is ``not_placed`` in the others. One that no call
    holds is ``duplicate`` where another piece has its text, ``contested`` where its text stands inside another's, and
    unlocatable, in each call, only if its text stands in none of them.
    """
    asked = [ask_again(call, placements) for call in record.calls]
    taken = [(call, _census(_placed_anew(call, again))) for call, again in zip(record.calls, asked, strict=True)]
    censuses = [census for _, census in taken if census is not None]
    found = (p for census in censuses for p in census.pieces if p.state in ("located", "visible", "whole_prompt"))
    held = {offer_key(p.piece) for p in found if p.piece.offered}
    settled = iter([explained(census) for census in _settle_offers(censuses, held)])
    return tuple(
        Derivation(call, None if census is None else next(settled), _rendered(call), again)
        for (call, census), again in zip(taken, asked, strict=True)
    )


def _placed_anew(call: Call, again: Again | None) -> Call:
    return call if again is None or again.pieces is None else replace(call, pieces=again.pieces)


def _census(call: Call) -> Census | None:
    if call.prompt is None:
        return None
    return take(call.prompt, call.declared, visible=call.visible)


def _settle_offers(censuses: list[Census], held: set[OfferKey]) -> list[Census]:
    standing = [_Standing(census) for census in censuses]
    settled = []
    for census, here in zip(censuses, standing, strict=True):
        pieces = list(census.pieces)
        for n, p in enumerate(pieces):
            if p.state != "not_placed" or p.piece.inferred or offer_key(p.piece) in held:
                continue
            state = here.state(p.piece)
            if state is not None:
                pieces[n] = Placed(p.piece, state, note=_NOTES[state])
            elif not any(other.state(p.piece) for other in standing):
                pieces[n] = Placed(p.piece, "unlocatable", note=_NOTES["unlocatable"])
        changed = {p.state for p, before in zip(pieces, census.pieces, strict=True) if p is not before}
        if changed:
            reasons = {*census.reasons, *(REASON_OF_STATE[state] for state in changed)} - {"no_pieces"}
            census = replace(census, pieces=tuple(pieces), reasons=in_order(reasons))  # noqa: PLW2901
        settled.append(census)
    return settled


class _Standing:
    """Which texts stand in a call's prompt although the offer of them got no place there."""

    def __init__(self, census: Census) -> None:
        self._texts = [segment.text for segment in census.segments]
        self._owned = {_identity(p.piece) for p in census.pieces if p.state in ("located", "whole_prompt", "visible")}
        self._found: dict[str, bool] = {}

    def state(self, piece: Piece) -> State | None:
        """``duplicate``, ``contested``, or None where it does not stand here."""
        if _identity(piece) in self._owned:
            return "duplicate"
        text = piece.text
        if not text:
            return None
        if text not in self._found:
            looked_at = islice(occurrences(self._texts, text), JUMPS)
            self._found[text] = any(place is not None for place in looked_at)
        return "contested" if self._found[text] else None


def _identity(piece: Piece) -> tuple[str, object]:
    """What two pieces of one text have in common, also where only its digest was kept."""
    _, _, text, digest, value = offer_key(piece)
    return ("text", text) if text is not None else ("digest", digest) if digest is not None else ("value", value)


def _rendered(call: Call) -> bool | None:
    prompt: Split | None = call.prompt
    if prompt is None:
        return None
    built = replay(call.pieces, len(prompt.segments))
    if built is None:
        return None
    texts = [segment.text for segment in prompt.segments]
    if any(len(part) < len(text) and text.startswith(part) for part, text in zip(built, texts, strict=True)):
        return None  # what follows the last placed piece is a gap like any other: the census names it
    return list(built) == texts
