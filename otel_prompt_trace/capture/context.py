"""Which query and which call are open here: kept in the OpenTelemetry context, as the current span is.

So they follow a request wherever its context goes, through tasks and instrumented threads, and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import context

if TYPE_CHECKING:
    from otel_prompt_trace.capture.call import Call
    from otel_prompt_trace.capture.query import Query

_QUERY = context.create_key("prompt_trace-query")
_CALL = context.create_key("prompt_trace-call")
_SLOT = context.create_key("prompt_trace-slot")


class Slot:
    """Where a middleware learns the qid of the query that was opened further in."""

    __slots__ = ("qid",)

    def __init__(self) -> None:
        self.qid: str | None = None


def current_query() -> Query | None:
    """The innermost query that is open in this context."""
    found: Any = context.get_value(_QUERY)
    return found  # type: ignore[no-any-return]


def current_call() -> Call | None:
    """The call that is open in this context, of the innermost query."""
    found: Any = context.get_value(_CALL)
    return found  # type: ignore[no-any-return]


def current_slot() -> Slot | None:
    """The slot that a middleware has put here."""
    found: Any = context.get_value(_SLOT)
    return found  # type: ignore[no-any-return]


def with_query(query: Query, scope: context.Context) -> context.Context:
    """``scope`` with ``query`` open in it; calls of an outer query are not open there."""
    return context.set_value(_CALL, None, context.set_value(_QUERY, query, scope))


def with_call(query: Query, call: Call, scope: context.Context) -> context.Context:
    """``scope`` with ``query`` and its ``call`` open in it, also in a thread that the query's context never reached."""
    return context.set_value(_CALL, call, context.set_value(_QUERY, query, scope))


def with_slot(slot: Slot) -> context.Context:
    """The current context with a slot for the qid."""
    return context.set_value(_SLOT, slot)
