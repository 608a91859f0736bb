"""Delivery through a process: whether one can be made here, and opens the store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from otel_prompt_trace.doctor.finding import Finding
from otel_prompt_trace.settings import Settings

if TYPE_CHECKING:
    from otel_prompt_trace.pipeline.delivery.together import Batches, Outcome


def look_at_delivery(settings: Settings) -> Iterator[Finding]:
    """One is made, asked for nothing, and ended; nothing is looked at where a thread delivers."""
    if settings.delivery != "process":
        return
    from otel_prompt_trace.pipeline.delivery.process import DeliveryProcess
    from otel_prompt_trace.store.opening import settled

    said: list[str] = []
    outcomes: list[Outcome] = []
    process = DeliveryProcess(settled(settings.store), _nowhere, lambda _key, message: said.append(message))
    try:
        process.write_all([], datetime.now(timezone.utc), lambda _, outcome: outcomes.append(outcome))
        pid = process.pid
    finally:
        process.close()
    failure = next((outcome.error for outcome in outcomes if outcome.error is not None), None)
    if pid is not None:
        yield Finding("delivery", "ok", "a process delivers: one was made here, and opened the store")
    else:
        seen = " ".join(said) or str(failure)
        advice = "the application's own thread delivers in its place; PROMPT_TRACE_DELIVERY=thread says so at once"
        yield Finding("delivery", "warn", seen, advice)


def _nowhere() -> Batches:
    raise RuntimeError("doctor delivers nothing")
