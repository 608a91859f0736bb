"""What can be said of a call while it is still open: digest, length, provisional verdict.

Computed on the shipper's thread from the frame that was recorded, so that the calling thread hashes nothing and
searches nothing. If the call ends sooner the span goes without; the batch says it again from the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from otel_prompt_trace.core.census import take
from otel_prompt_trace.core.events import Problem
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.record import project
from otel_prompt_trace.core.seal import prompt_digest, seal
from otel_prompt_trace.pipeline.flags import LINES
from otel_prompt_trace.pipeline.frames import Frame, expand


@dataclass(frozen=True, slots=True)
class Provisional:
    """Small enough for a span."""

    digest: str | None
    chars: int
    unaccounted: int
    verdict: str


def take_stock(frame: Frame, writer: str, call: str, offers: Sequence[Piece]) -> Provisional | None:
    """The provisional census of one call, from its own frame and the pieces offered to its query so far."""
    events = [item for item in expand(frame, writer, "spool") if not isinstance(item, Problem)]
    sealed = events if frame.flags & LINES else seal(events)
    record = project(frame.qid, sealed)
    found = next((c for c in record.calls if c.id == call), None)
    if found is None or found.request is None or found.prompt is None:
        return None
    pieces = (*found.pieces, *(found.offered or offers))
    census = take(found.prompt, pieces, visible=found.visible)
    return Provisional(prompt_digest(found.request), census.total, census.unaccounted, census.verdict)
