"""Whose a request on the wire is: found in the context that it is sent in, and in no other.

The query and the call that are open there; the innermost model-call span around it, which names the call; the entry
of the request, where nobody opened a query. Without any of these it is recorded by itself, under an id of its own, and
never under another's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace

from otel_prompt_trace.capture.context import OpenCall, OpenQuery, open_in
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.diversion.calls import name_call, sent_outside
from otel_prompt_trace.diversion.entry import Entry, entry_here
from otel_prompt_trace.diversion.state import SpanState, state_of
from otel_prompt_trace.diversion.writing import record_in
from otel_prompt_trace.pipeline.accounting import Ticket, Watcher
from otel_prompt_trace.pipeline.forks import RenewedLock
from otel_prompt_trace.runtime import Runtime
from otel_prompt_trace.wire.sent import SentCalls

_lock = RenewedLock()


@dataclass(slots=True)
class Place:
    """Where a request is sent, kept until its response is recorded: that may happen in quite another context."""

    runtime: Runtime
    query: OpenQuery | None
    call: OpenCall | None
    model: SpanState | None
    around: SpanState | None  # of the current span, within the same query
    entry: Entry
    context: Any  # of the current span

    @property
    def minted(self) -> bool:
        """Whether there is neither a query nor a span: the request stands by itself."""
        return self.query is None and self.entry.origin == "minted"

    def calls(self) -> SentCalls:
        """The calls that were sent from here: a client tries again inside the span in which it tried before."""
        owner: Any = self.call or self.model or self.around or self.query or self.entry
        with _lock():  # two threads that were each given one of their own would both send its first call
            if owner.sent is None:
                base = self.call.id if self.call is not None else self.model.id if self.model is not None else None
                owner.sent = SentCalls(base or None)
            sent: SentCalls = owner.sent
        return sent

    def name(self, call: str) -> None:
        """Let the model-call spans around know which call was sent inside them, or those that may prove to be such."""
        if self.model is not None:
            name_call(self.model, call)
        elif self.call is None:
            sent_outside(self.entry, self.around, call, self.context.span_id, self.runtime.sources.now_ns())

    def take_stock(self, events: list[Event], *, digests: bool) -> None:
        """Tell the spans of its call of a request that was sent, sealed: digest and length of the first one stay.

        No bare digest goes anywhere under a policy: without ``digests``.
        """
        if self.call is not None:
            self.call.told(events)
        if self.model is not None and digests:
            for event in events:
                if event["kind"] == "request" and "chars" in event:
                    self.model.as_sent = self.model.as_sent or (event["sha256"], event["chars"])

    def record(self, events: list[Event], *, flags: int = 0, watcher: Watcher | None = None) -> Ticket:
        """Append events to the record that the request belongs to."""
        return record_in(self.runtime, self.query, self.entry, events, self.context, flags=flags, watcher=watcher)


def place_here(runtime: Runtime) -> Place:
    """The place of what is sent here and now."""
    scope = otel_context.get_current()
    span: Any = trace.get_current_span(scope)
    query, call = open_in(scope)
    if query is not None and query.runtime is not runtime:
        query = call = None
    state = state_of(span)
    entry = state.entry if state is not None else entry_here(runtime, span)
    around = state if state is not None and state.query is query else None
    return Place(runtime, query, call, _innermost(state, entry, query), around, entry, span.get_span_context())


def _innermost(state: SpanState | None, entry: Entry, query: OpenQuery | None) -> SpanState | None:
    """The innermost model-call span around, within the same entry and query.

    A query may be opened inside a model-call span, as by a tool that asks an agent: that span tells of the outer one.
    """
    while state is not None and state.entry is entry and state.query is query:
        if state.model_call:
            return state
        state = state.parent
    return None
