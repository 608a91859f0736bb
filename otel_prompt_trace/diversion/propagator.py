"""The qid in the response of an instrumented web framework: a response propagator beside any already set.

The instrumentation of a framework (ASGI, WSGI, Flask …) asks the global response propagator for headers while its
server span is current. That span is the entry of the request, and knows its qid.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace

from otel_prompt_trace.capture.context import current_query
from otel_prompt_trace.capture.middleware import HEADER
from otel_prompt_trace.diversion.state import state_of

_PROPAGATORS = "opentelemetry.instrumentation.propagators"


class QidPropagator:
    """Injects ``x-prompt-trace-qid``, after the propagator that was set before."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.active = True

    def remove(self) -> None:
        """Put the one of before back, or where another was set meanwhile, fall silent."""
        self.active = False
        propagators = import_module(_PROPAGATORS)
        if propagators.get_global_response_propagator() is self:
            propagators.set_global_response_propagator(self.inner)

    def inject(self, carrier: Any, context: otel_context.Context | None = None, setter: Any = None) -> None:
        """Set the header of the request whose span is current in ``context``. Never raises."""
        setter_given = {} if setter is None else {"setter": setter}
        if self.inner is not None:
            self.inner.inject(carrier, context=context, **setter_given)
        if not self.active:
            return
        try:
            query = current_query(context)
            state = state_of(trace.get_current_span(context))
            qid = query.qid if query is not None else None if state is None else state.entry.qid
            if qid is not None:
                _set(carrier, setter, HEADER, qid)
        except Exception:  # noqa: BLE001 - a response goes out whatever becomes of our header
            return


def compose_propagator() -> QidPropagator | None:
    """Compose ours with the one in force; None where no web instrumentation is installed."""
    try:
        propagators = import_module(_PROPAGATORS)
    except ImportError:
        return None
    current = propagators.get_global_response_propagator()
    if isinstance(current, QidPropagator) and current.active:
        return current
    ours = QidPropagator(current)
    propagators.set_global_response_propagator(ours)
    return ours


def _set(carrier: Any, setter: Any, key: str, value: str) -> None:
    if setter is not None and hasattr(setter, "set"):
        setter.set(carrier, key, value)
    else:
        carrier[key] = value
