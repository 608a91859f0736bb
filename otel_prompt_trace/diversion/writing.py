"""From a span that ends to events.

What the span carried becomes one ``content`` event, value by value as handed over, with the small attributes that say
what it is about. Nothing is decoded here: requests and responses are read out of it when the record is read.
"""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.capture.context import OpenQuery
from otel_prompt_trace.core import attributes as ours
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.keys import qid_prefix
from otel_prompt_trace.core.qid import partition_date
from otel_prompt_trace.diversion.calls import call_told
from otel_prompt_trace.diversion.entry import Entry
from otel_prompt_trace.diversion.state import SpanState
from otel_prompt_trace.diversion.unended import UNENDED
from otel_prompt_trace.pipeline.accounting import Ticket, Watcher
from otel_prompt_trace.pipeline.flags import END
from otel_prompt_trace.runtime import Runtime


def finish_span(runtime: Runtime, span: Any, state: SpanState) -> None:
    """Record what a span carried, just before it ends. Never raises."""
    UNENDED.ended(state)
    try:
        if state.telling:
            _finish(runtime, span, state)
        entry, context = state.entry, span.get_span_context()
        if entry.opened and entry.span_id == context.span_id:
            span.set_attribute(ours.QID, entry.qid)
            runtime.append(entry.qid, [{"kind": "end"}], flags=END, **entry.ids)
    except Exception as error:  # noqa: BLE001 - telemetry never raises into the application
        runtime.accounts.miss(1, "not_captured", f"A span's content was not recorded: {type(error).__name__}.")


def record_unended(runtime: Runtime, state: SpanState) -> None:
    """Record what a span has carried so far, which may never end. Never raises."""
    try:
        span = None if state.span is None else state.span()
        _tell(runtime, state, "" if span is None else span.name, model=state.model_call, unfinished=True)
    except Exception as error:  # noqa: BLE001 - telemetry never raises into the application
        runtime.accounts.miss(1, "not_captured", f"A span's content was not recorded: {type(error).__name__}.")


def record_content(runtime: Runtime, state: SpanState, event: Event, context: Any) -> Ticket:
    """Append a ``content`` event to the record it belongs to, after the ``query`` event where it is the first."""
    return record_in(runtime, state.query, state.entry, [event], context)


def record_in(
    runtime: Runtime,
    query: OpenQuery | None,
    entry: Entry,
    events: list[Event],
    context: Any,
    *,
    flags: int = 0,
    watcher: Watcher | None = None,
) -> Ticket:
    """Append events of a span to the record of its query, or else of its entry."""
    for event in events:
        event.update(_ids(context))
    if query is not None and query.runtime is runtime:
        ticket = query.append(events, flags, watcher=watcher)
        if ticket is not None:
            return ticket
    return runtime.append(
        entry.qid,
        [*_opening(runtime, entry), *events],
        flags=flags,
        policy=runtime.settings.policy,
        watcher=watcher,
        **entry.ids,
    )


def qid_of(state: SpanState) -> str:
    """The query id under which a span's content is recorded."""
    return state.entry.qid if state.query is None else state.query.qid


def reference(runtime: Runtime, state: SpanState) -> str:
    """The folder in the store under which a span's content is, or will be."""
    if state.query is not None:
        return state.query.reference
    entry = state.entry
    if entry.reference is None:
        entry.reference = qid_prefix(partition_date(entry.qid, runtime.sources.now()), entry.qid)
    return entry.reference


def told(name: str, attributes: dict[str, Any], body: Any) -> dict[str, Any]:
    """A span event or log record as a ``content`` event holds it: by its name, which no policy cuts."""
    return {name: {"attributes": attributes, "body": body}}


def _finish(runtime: Runtime, span: Any, state: SpanState) -> None:
    model = state.model_call
    ticket = _tell(runtime, state, span.name, model=model)
    if ticket is None:
        return
    span.set_attribute(ours.QID, qid_of(state))
    if model and ticket.state != "lost":
        span.set_attribute(ours.REF, reference(runtime, state))
        if state.as_sent is not None:
            span.set_attributes(dict(zip((ours.SHA256, ours.CHARS), state.as_sent, strict=True)))


def _tell(runtime: Runtime, state: SpanState, name: str, *, model: bool, unfinished: bool = False) -> Ticket | None:
    """Append what a span carries, a model call's or another's; None where that is nothing."""
    if not (model or state.values or state.events):
        return None
    values, events = state.give()
    event: Event = {
        "kind": "content",
        "route": "attributes",
        "scope": getattr(state.scope, "name", ""),
        "name": name[:120],
        "values": values,
        "attributes": state.facts or {},
    }
    if model:
        event["call"], event["sighting"] = call_told(state, state.id)
    if events:
        event["events"] = [told(*carried) for carried in events]
    if state.dropped:
        event["dropped_attributes"] = state.dropped
    if unfinished:
        event["unfinished"] = True
    return record_content(runtime, state, event, state.context)


def _opening(runtime: Runtime, entry: Entry) -> list[Event]:
    if entry.opened:
        return []
    entry.opened = True
    return [{"kind": "query", "origin": entry.origin, "policy": runtime.settings.policy}]


def _ids(context: Any) -> dict[str, str]:
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
