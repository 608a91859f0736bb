"""Derive: the prompt by the application's own placement, and the census of every call.

Where the application built its prompt with :class:`Prompt`, the recorded placement is replayed: the same pieces in
the same places must give the prompt that was recorded. One rule for what sends and what grades.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from otel_prompt_trace.core.census import Census, take
from otel_prompt_trace.core.pieces import Placed
from otel_prompt_trace.core.prompt import replay
from otel_prompt_trace.core.record import Call, OfferKey, Record, offer_key
from otel_prompt_trace.core.segments import Split
from otel_prompt_trace.core.verdict import in_order


@dataclass(frozen=True, slots=True)
class Derivation:
    """One call, derived.

    ``census`` is None where the call has no prompt to take it of. ``rendered`` says whether replaying the recorded
    placement gives the prompt as recorded: None where the application gave no placement.
    """

    call: Call
    census: Census | None
    rendered: bool | None


def derive(record: Record) -> tuple[Derivation, ...]:
    """The census of every call of the record, in order.

    A piece that was offered to the query and that none of its calls holds is unlocatable in each of them; where
    some call holds it, it is ``not_placed`` in the others.
    """
    taken = [(call, _census(call)) for call in record.calls]
    found = (p for _, census in taken if census for p in census.pieces if p.state in ("located", "visible"))
    held = {offer_key(p.piece) for p in found if p.piece.offered}
    return tuple(
        Derivation(call, None if census is None else _settle_offers(census, held), _rendered(call))
        for call, census in taken
    )


def _census(call: Call) -> Census | None:
    if call.prompt is None:
        return None
    return take(call.prompt, call.declared, visible=call.visible)


def _settle_offers(census: Census, held: set[OfferKey]) -> Census:
    lost = [
        p for p in census.pieces if p.state == "not_placed" and not p.piece.inferred and offer_key(p.piece) not in held
    ]
    if not lost:
        return census
    note = "offered to the query, and no call of it holds it"
    pieces = tuple(Placed(p.piece, "unlocatable", note=note) if p in lost else p for p in census.pieces)
    reasons = {*census.reasons, "unlocatable_piece"} - {"no_pieces"}
    return replace(census, pieces=pieces, reasons=in_order(reasons))


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
