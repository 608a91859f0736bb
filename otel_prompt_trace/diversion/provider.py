"""Putting diversion on a tracer provider, and taking it off again.

The provider's sampler is wrapped and a processor added; the order of processors does not matter, since content is
taken when it is set. Where a part does not fit (a provider that is not the SDK's, a proxy, an SDK laid out otherwise)
it is left out and named in :attr:`Diversion.notes`, which ``doctor`` shows.
"""

from __future__ import annotations

import contextlib
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import SpanKind

from otel_prompt_trace.capture.context import open_in
from otel_prompt_trace.diversion.doors import DoorMaker, divert_attributes
from otel_prompt_trace.diversion.entry import DroppedEntries, Entry
from otel_prompt_trace.diversion.kinds import LONG
from otel_prompt_trace.diversion.sampler import LOT, PARKED, DivertingSampler
from otel_prompt_trace.diversion.state import STATE, SpanState, state_of
from otel_prompt_trace.diversion.writing import finish_span
from otel_prompt_trace.runtime import Runtime

_ENTRIES = (SpanKind.SERVER, SpanKind.CONSUMER)


class DivertingProcessor(SpanProcessor):
    """Gives every started span its doors; flush and shutdown reach the payloads."""

    def __init__(self, runtime: Runtime, provider: object, *, keep: bool) -> None:
        self.runtime = runtime
        self.provider = provider
        self.active = True
        self.sampled = True  # whether our sampler saw the start attributes of every span
        self._doors = DoorMaker(self._finish, keep=keep)
        self._dropped = DroppedEntries()

    def on_start(self, span: Any, parent_context: otel_context.Context | None = None) -> None:
        """Never raises: a span that can't be given doors goes out as it is, and that is said."""
        if not self.active:
            return
        try:
            self._start(span, parent_context)
        except Exception as error:  # noqa: BLE001 - telemetry never raises into the application
            self.runtime.accounts.warn("doors", "A span was left as it is: %s", type(error).__name__)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Whether every payload is in the store within the time given, none waiting and none lost."""
        return self.runtime.flush(timeout_millis / 1000).ok if self.active else True

    def shutdown(self) -> None:
        """Deliver once; what can't be delivered stays in the spool. Recording goes on until the process ends."""
        if self.active:
            self.runtime.settle()

    def _start(self, span: Any, parent_context: otel_context.Context | None) -> None:
        scope = otel_context.get_current() if parent_context is None else parent_context
        parent = state_of(trace.get_current_span(scope))
        above = span.parent
        if above is None or above.is_remote or span.kind in _ENTRIES:
            own = span.context
            entry = Entry(own.trace_id, own.span_id)
        elif parent is not None:
            entry = parent.entry
        else:
            entry = self._dropped.entry(above.trace_id, above.span_id)
        query, call = open_in(scope)
        state = SpanState(entry, parent, query, call, span.instrumentation_scope)
        setattr(span, STATE, state)
        span.__class__ = self._doors.subclass(span.__class__)
        if LOT or not self.sampled:
            self._take_start(span, state)
        name = span.name
        if len(name) > LONG:
            span.update_name(name)

    def _take_start(self, span: Any, state: SpanState) -> None:
        attributes = span.attributes
        if not attributes:
            return
        if next(iter(attributes)) == PARKED:
            parked = LOT.redeem(attributes[PARKED])
            if parked is not None:
                state.take(parked.values, parked.facts)
            with contextlib.suppress(AttributeError, KeyError, TypeError):
                del span._attributes[PARKED]  # noqa: SLF001 - there is no public way; left in place it does no harm
        elif not self.sampled:  # as the SDK cut them, if it has a limit
            for key, value in divert_attributes(state, dict(attributes)).items():
                if value != attributes[key]:
                    span.set_attribute(key, value)
            for key, _ in state.values:
                with contextlib.suppress(AttributeError, KeyError, TypeError):
                    del span._attributes[key]  # noqa: SLF001 - as above

    def _finish(self, span: Any, state: SpanState) -> None:
        if self.active:
            finish_span(self.runtime, span, state)


class Diversion:
    """Diversion on one provider."""

    def __init__(self, runtime: Runtime, provider: Any, *, keep: bool) -> None:
        self.provider = provider
        self.notes: list[str] = []
        self.processor = DivertingProcessor(runtime, provider, keep=keep)
        self._sampler: DivertingSampler | None = None
        provider.add_span_processor(self.processor)
        self._wrap_sampler(provider, keep=keep)

    def remove(self) -> None:
        """Undo it. The SDK has no way to take a processor out: it stays, and does nothing."""
        self.processor.active = False
        sampler = self._sampler
        self._sampler = None
        if sampler is None:
            return
        sampler.active = False
        inner = sampler.inner
        for holder in (self.provider, *(_tracers(self.provider) or ())):
            if getattr(holder, "sampler", None) is sampler:
                holder.sampler = inner

    def _wrap_sampler(self, provider: Any, *, keep: bool) -> None:
        inner = getattr(provider, "sampler", None)
        if not isinstance(inner, Sampler):
            self.processor.sampled = False
            self.notes.append("the provider has no sampler to wrap: start attributes are seen as the SDK cut them")
            return
        if isinstance(inner, DivertingSampler) and inner.active:
            return  # configured by name: it parks already
        ours = DivertingSampler(inner, LOT, keep=keep)
        self._sampler = ours
        provider.sampler = ours
        tracers = _tracers(provider)
        if tracers is None:
            self.processor.sampled = False
            self.notes.append("tracers made before install() keep their sampler")
            return
        for tracer in tracers:
            if getattr(tracer, "sampler", None) is inner:
                tracer.sampler = ours


def _tracers(provider: Any) -> list[Any] | None:
    """The tracers that a provider has made; None where it does not keep them."""
    made = getattr(provider, "_tracers", None)
    return list(made.values()) if isinstance(made, dict) else None
