"""Putting diversion on a tracer provider, and taking it off again.

The provider's sampler is wrapped and a processor added; the order of processors does not matter, since content is
taken when it is set. Where a part does not fit (a provider that is not the SDK's, a proxy, an SDK laid out otherwise)
it is left out and named in :attr:`Diversion.notes`, which ``doctor`` shows.

Behind a proxy it is the SDK's provider that is diverted, and every other that the proxy is given later. A vendor whose
own processor reads content off spans as they end gets none of it in mode ``divert``: that is a note, and one warning
when the first content is taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import INVALID_SPAN

from otel_prompt_trace.capture.context import open_in
from otel_prompt_trace.diversion.doors import DoorMaker, divert_attributes
from otel_prompt_trace.diversion.entry import dropped_entries
from otel_prompt_trace.diversion.kinds import LONG, nothing_to_take
from otel_prompt_trace.diversion.sampler import LOT, PARKED, DivertingSampler
from otel_prompt_trace.diversion.state import AROUND, OPEN, SpanState, state_of
from otel_prompt_trace.diversion.unended import UNENDED
from otel_prompt_trace.diversion.writing import finish_span, record_unended
from otel_prompt_trace.runtime import Runtime

(_SPAN,) = trace.set_span_in_context(INVALID_SPAN, otel_context.Context())  # where a context keeps its current span
_NOTHING = (None, None)
_VENDORS = {"langfuse": "Langfuse", "logfire": "Logfire"}  # by the package that a processor is defined in


class DivertingProcessor(SpanProcessor):
    """Gives every started span its doors; flush and shutdown reach the payloads."""

    def __init__(self, runtime: Runtime, provider: object, *, keep: bool) -> None:
        self.runtime = runtime
        self.provider = provider
        self.active = True
        self.sampled = True  # whether our sampler saw the start attributes of every span
        self._told = keep  # whether it was said which vendors get no content
        self._doors = DoorMaker(self._finish, keep=keep)
        self._dropped = dropped_entries(runtime)

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
        above = span.parent
        if above is not None and not above.is_remote:
            around = state_of(scope.get(_SPAN)) or self._dropped.entry(above.trace_id, above.span_id)
            setattr(span, AROUND, around)
        span.__class__ = self._doors[span.__class__]
        opened = open_in(scope)
        if opened != _NOTHING:  # kept for its state, which is made when there is something to keep in it
            setattr(span, OPEN, opened)
        if LOT.parked or not self.sampled:
            self._take_start(span)
        name = span.name
        if len(name) > LONG:
            span.update_name(name)

    def _take_start(self, span: Any) -> None:
        attributes = span.attributes
        if not attributes:
            return
        if next(iter(attributes)) == PARKED:
            parked = LOT.redeem(attributes[PARKED])
            state = state_of(span)
            if parked is not None and state is not None:
                state.take(parked.values, parked.facts)
            with contextlib.suppress(AttributeError, KeyError, TypeError):
                del span._attributes[PARKED]  # noqa: SLF001 - there is no public way; left in place it does no harm
        elif not self.sampled and not nothing_to_take(attributes):  # as the SDK cut them, if it has a limit
            state = state_of(span)
            if state is None:
                return
            state.dropped = span.dropped_attributes
            for key, value in divert_attributes(state, dict(attributes)).items():
                if value != attributes[key]:
                    span.set_attribute(key, value)
            for key, _ in state.values:
                with contextlib.suppress(AttributeError, KeyError, TypeError):
                    del span._attributes[key]  # noqa: SLF001 - as above

    def _finish(self, span: Any, state: SpanState) -> None:
        if not self.active:
            return
        carries = state.values or state.events
        finish_span(self.runtime, span, state)
        if not self._told and carries:
            self._told = True
            for note in emptied(self.provider):
                self.runtime.accounts.warn(note, "%s", note)


class Diversion:
    """Diversion on one provider, or on what stands behind a proxy."""

    def __init__(self, runtime: Runtime, provider: Any, *, keep: bool) -> None:
        self.provider = provider
        self.processor = DivertingProcessor(runtime, provider, keep=keep)
        self._keep = keep
        self._notes: list[str] = []
        self._wrapped: list[tuple[Any, DivertingSampler]] = []
        self._set_provider: Callable[[Any], None] | None = None
        UNENDED.begin(runtime, partial(record_unended, runtime))
        runtime.before_close.append(UNENDED.stop)
        real = behind(provider)
        self._divert(real)
        if real is not provider:
            self._follow(provider)

    @property
    def notes(self) -> list[str]:
        """What does not fit, as things stand now: a vendor's processor may have been added since."""
        return [*self._notes, *([] if self._keep else emptied(self.provider))]

    def remove(self) -> None:
        """Undo it. The SDK has no way to take a processor out: it stays, and does nothing."""
        self.processor.active = False
        UNENDED.stop()
        if self._set_provider is not None and vars(self.provider).get("set_provider") is self._set_provider:
            del self.provider.set_provider
        while self._wrapped:
            provider, sampler = self._wrapped.pop()
            sampler.active = False
            for holder in (provider, *(_tracers(provider) or ())):
                if getattr(holder, "sampler", None) is sampler:
                    holder.sampler = sampler.inner

    def _divert(self, provider: Any) -> None:
        self._notes.clear()
        self.processor.sampled = True
        provider.add_span_processor(self.processor)
        self._wrap_sampler(provider)

    def _follow(self, proxy: Any) -> None:
        """Divert every provider that a proxy is given from now on: configured again, it gets a new one."""
        original = getattr(proxy, "set_provider", None)
        if not callable(original):
            self._notes.append("a provider that this proxy is given later is not diverted")
            return

        def set_provider(provider: Any) -> None:
            original(provider)
            if not self.processor.active:
                return
            try:
                self._divert(provider)
            except Exception as error:  # noqa: BLE001 - telemetry never raises into the application
                self._notes.append(f"the provider now behind the proxy is not diverted: {type(error).__name__}")

        try:
            proxy.set_provider = self._set_provider = set_provider
        except AttributeError:
            self._notes.append("a provider that this proxy is given later is not diverted")

    def _wrap_sampler(self, provider: Any) -> None:
        inner = getattr(provider, "sampler", None)
        if not isinstance(inner, Sampler):
            self.processor.sampled = False
            self._notes.append("the provider has no sampler to wrap: start attributes are seen as the SDK cut them")
            return
        if isinstance(inner, DivertingSampler) and inner.active:
            return  # configured by name: it parks already
        ours = DivertingSampler(inner, LOT, keep=self._keep)
        self._wrapped.append((provider, ours))
        provider.sampler = ours
        tracers = _tracers(provider)
        if tracers is None:
            self.processor.sampled = False
            self._notes.append("tracers made before install() keep their sampler")
            return
        for tracer in tracers:
            if getattr(tracer, "sampler", None) is inner:
                tracer.sampler = ours


def behind(provider: Any) -> Any:
    """The SDK's provider behind a proxy that holds it as ``provider``; any other provider stands for itself."""
    inner = getattr(provider, "provider", None)
    return inner if isinstance(inner, TracerProvider) else provider


def emptied(provider: Any) -> list[str]:
    """A note for each vendor whose processor on this provider gets no content in mode ``divert``."""
    processors = getattr(getattr(behind(provider), "_active_span_processor", None), "_span_processors", ())
    packages = [type(processor).__module__.partition(".")[0] for processor in processors]
    return [
        f"{_VENDORS[package]} reads spans of this process as they end and finds no prompts and answers on them:"
        " PROMPT_TRACE_SPANS=copy leaves them there"
        for package in dict.fromkeys(packages)
        if package in _VENDORS
    ]


def _tracers(provider: Any) -> list[Any] | None:
    """The tracers that a provider has made; None where it does not keep them."""
    made = getattr(provider, "_tracers", None)
    return list(made.values()) if isinstance(made, dict) else None
