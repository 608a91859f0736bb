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


def current_query(scope: context.Context | None = None) -> Query | None:
    """The innermost query that is open in a context, by default the current one."""
    found: Any = context.get_value(_QUERY, scope)
    return found  # type: ignore[no-any-return]


def current_call(scope: context.Context | None = None) -> Call | None:
    """The call that is open in a context, by default the current one, of its innermost query."""
    found: Any = context.get_value(_CALL, scope)
    return found  # type: ignore[no-any-return]


def open_in(scope: context.Context) -> tuple[Query | None, Call | None]:
    """Query and call that are open in a context, in two look-ups: it is asked at the start of every span."""
    return scope.get(_QUERY), scope.get(_CALL)  # type: ignore[return-value]


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
