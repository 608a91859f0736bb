"""Spans of ours, opened and ended so that a fault there costs neither the record nor the application.

A tracer, a span processor or a span class may be anybody's. What fails there is a span's alone: it is said once a
minute, and the record goes on without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry import context, trace

from otel_prompt_trace.capture.context import Attached, attach, detach, is_current
from otel_prompt_trace.capture.guard import span_failed

if TYPE_CHECKING:
    from otel_prompt_trace.runtime import Runtime

_OWNER = context.create_key("prompt_trace-scope")
(_SPAN,) = trace.set_span_in_context(trace.INVALID_SPAN, context.Context())  # where a context keeps its current span


class SpanScope:
    """One span that is current between :meth:`enter` and :meth:`leave`; an invalid one where it can't be made."""

    __slots__ = ("_attached", "_before", "abandoned", "ids", "recording", "span")

    def __init__(self) -> None:
        self.span: trace.Span = trace.INVALID_SPAN
        self.ids: dict[str, str] = {}  # trace and span id as events carry them
        self.recording = False
        self.abandoned = False
        self._before: context.Context | None = None
        self._attached: Attached | None = None

    def open(self, runtime: Runtime, name: str, values: Mapping[str, Any] | None = None) -> None:
        """Start the span with these attributes, below the one that is current here."""
        try:
            span = self.span = runtime.tracer.start_span(name, attributes=values)
            self.recording = span.is_recording()
            here = span.get_span_context()
            if here.is_valid:
                self.ids = {"trace_id": f"{here.trace_id:032x}", "span_id": f"{here.span_id:016x}"}
        except Exception as error:  # noqa: BLE001 - see the module docstring
            span_failed("SpanScope.open", error)

    def enter(self, held: Mapping[str, Any]) -> None:
        """Make the span the current one of what follows, and put ``held`` into its context as well."""
        # One context made at once: each value that is set by OpenTelemetry's own function copies it twice.
        before = self._before = context.get_current()
        ours: dict[str, Any] = {_OWNER: self}
        if self.span is not trace.INVALID_SPAN:  # else the span around stays the current one
            ours[_SPAN] = self.span
        self._attached = attach(context.Context({**before, **held, **ours}))

    def leave(self, error: BaseException | None) -> None:
        """End the span and go back to the context of before.

        A generator may be stepped by one context and closed by another, or interleaved with others, so that ours is
        not the current one: there is nothing to go back to then. Ours is ``abandoned``; whoever finds it in a context
        passes it over, and whoever goes back to it goes on to the one before it.
        """
        try:
            self._end(error)
        except Exception as failure:  # noqa: BLE001 - see the module docstring
            span_failed("SpanScope.leave", failure)
        finally:
            attached, self._attached = self._attached, None
            if attached is not None and is_current(attached):
                detach(attached)
                _pass_abandoned()
            elif attached is not None:
                self.abandoned = True

    @property
    def before(self) -> context.Context | None:
        """The context in which this one was entered."""
        return self._before

    def _end(self, error: BaseException | None) -> None:
        try:
            if error is not None:
                self.span.set_status(trace.StatusCode.ERROR, type(error).__name__)
        finally:
            self.span.end()


def _pass_abandoned() -> None:
    """Go on to a context whose scope is still open, or is none of ours."""
    owner: Any = context.get_value(_OWNER)
    while owner is not None and owner.abandoned and owner.before is not None:
        context.attach(owner.before)
        owner = context.get_value(_OWNER)
