"""``doctor``: whether everything that a record and its spans need works from here.

Each finding is ``ok``, ``warn``, ``fail`` or ``unknown``, says what was seen, and what to do where it is not ok.
Nothing that is looked at is changed, but for the store, which is tried with one object that is deleted again; and
nothing secret is shown: of an endpoint its host and port, of headers none.

One module for each thing that is looked at: ``recording`` (switches, the provider), ``storing`` (the store and its
clock), ``spooling`` (what waits, the file system), ``delivering`` (a process that does), ``clients`` (the wire),
``instrumentations``, ``limits`` (of spans) and ``exporting`` (where spans go).
"""

from __future__ import annotations

from collections.abc import Iterator

from otel_prompt_trace.doctor.clients import look_at_clients
from otel_prompt_trace.doctor.delivering import look_at_delivery
from otel_prompt_trace.doctor.exporting import look_at_endpoint
from otel_prompt_trace.doctor.finding import Finding, Status
from otel_prompt_trace.doctor.instrumentations import look_at_instrumentations
from otel_prompt_trace.doctor.limits import look_at_limits, look_at_sdk
from otel_prompt_trace.doctor.recording import look_at_provider, look_at_switches
from otel_prompt_trace.doctor.spooling import look_at_spool
from otel_prompt_trace.doctor.storing import look_at_store
from otel_prompt_trace.settings import Settings
from otel_prompt_trace.sources import Sources

__all__ = ["Finding", "Status", "examine"]


def examine(settings: Settings, sources: Sources | None = None) -> Iterator[Finding]:
    """Everything that can be seen from this process, one finding after another."""
    sources = sources or Sources()
    yield from look_at_switches(settings)
    yield from look_at_store(settings, sources)
    yield from look_at_spool(settings, sources)
    yield from look_at_delivery(settings)
    yield from look_at_clients(settings)
    yield from look_at_instrumentations()
    faults = list(look_at_sdk())
    yield from faults
    if not faults:
        yield from look_at_provider(settings)
        yield from look_at_limits(settings)
    yield from look_at_endpoint()
