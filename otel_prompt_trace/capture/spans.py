"""Spans of ours, opened and ended so that a fault there costs neither the record nor the application.

A tracer, a span processor or a span class may be anybody's. What fails there is a span's alone: it is said once a
minute, and the record goes on without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry import context, trace

from otel_prompt_trace.capture.guard import span_never_raises
from otel_prompt_trace.core import attributes

if TYPE_CHECKING:
    from otel_prompt_trace.runtime import Runtime


class SpanScope:
    """One span that is current between :meth:`enter` and :meth:`leave`; an invalid one where it can't be made."""

    __slots__ = ("_token", "ids", "recording", "span")

    def __init__(self) -> None:
        self.span: trace.Span = trace.INVALID_SPAN
        self.ids: dict[str, str] = {}  # trace and span id as events carry them
        self.recording = False
        self._token: Any = None

    @span_never_raises
    def open(self, runtime: Runtime, name: str, qid: str) -> None:
        """Start the span, below the one that is current here."""
        self.span = runtime.tracer.start_span(name, attributes={attributes.QID: qid})
        self.recording = self.span.is_recording()
        here = self.span.get_span_context()
        if here.is_valid:
            self.ids = {"trace_id": f"{here.trace_id:032x}", "span_id": f"{here.span_id:016x}"}

    def here(self) -> context.Context:
        """The context in which the span is current: the one of here where there is no span."""
        return context.get_current() if self.span is trace.INVALID_SPAN else trace.set_span_in_context(self.span)

    def enter(self, scope: context.Context) -> None:
        """Make ``scope`` the context of what follows."""
        self._token = context.attach(scope)

    def leave(self, error: BaseException | None) -> None:
        """End the span and go back to the context of before."""
        try:
            self._end(error)
        finally:
            if self._token is not None:
                context.detach(self._token)
                self._token = None

    @span_never_raises
    def describe(self, values: Mapping[str, Any]) -> None:
        """Put attributes on the span."""
        self.span.set_attributes(values)

    @span_never_raises
    def _end(self, error: BaseException | None) -> None:
        try:
            if error is not None:
                self.span.set_status(trace.StatusCode.ERROR, type(error).__name__)
        finally:
            self.span.end()
