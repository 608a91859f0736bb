"""What can be said of a call while it is still open: digest, length, provisional verdict.

Computed on the shipper's thread from what was recorded, so that the calling thread hashes nothing and searches nothing.
If the call ends sooner the span goes without; the batch says it again from the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from otel_prompt_trace.core.census import take
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.record import project
from otel_prompt_trace.core.seal import prompt_digest


@dataclass(frozen=True, slots=True)
class Provisional:
    """Small enough for a span; ``as_sent`` where it is of what left, and no longer of what was declared."""

    digest: str | None
    chars: int
    unaccounted: int
    verdict: str
    as_sent: bool


def take_stock(qid: str, events: Sequence[Event], call: str, offers: Sequence[Piece]) -> Provisional | None:
    """The provisional census of one call, from its own sealed events and the pieces offered to its query so far."""
    record = project(qid, events)
    found = next((c for c in record.calls if c.id == call), None)
    if found is None or found.request is None or found.prompt is None:
        return None
    pieces = (*found.pieces, *(found.offered or offers))
    census = take(found.prompt, pieces, visible=found.visible)
    digest = prompt_digest(found.request)
    return Provisional(digest, census.total, census.unaccounted, census.verdict, found.evidence == "wire")
