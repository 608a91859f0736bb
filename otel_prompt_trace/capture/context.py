"""Which query and which call are open here: kept in the OpenTelemetry context, as the current span is.

So they follow a request wherever its context goes, through tasks and instrumented threads, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from opentelemetry import context

if TYPE_CHECKING:
    from otel_prompt_trace.capture.offers import Offers
    from otel_prompt_trace.capture.spans import SpanScope
    from otel_prompt_trace.core.events import Event
    from otel_prompt_trace.pipeline.accounting import Ticket, Watcher
    from otel_prompt_trace.runtime import Runtime


class OpenQuery(Protocol):
    """What others need of a query that is open."""

    qid: str
    policy: str
    offers: Offers
    withheld: list[str]  # texts to be cut out of whatever is recorded, here and in queries within
    outer: OpenQuery | None

    @property
    def abandoned(self) -> bool:
        """Whether it ended where its context could not be left: it is found there still, and is not open."""

    @property
    def runtime(self) -> Runtime | None:
        """The runtime that records; None where nothing does."""

    @property
    def reference(self) -> str:
        """The folder in the store under which its payload is, or will be."""

    def note(self, event: Event, scope: SpanScope | None = None) -> None:
        """Keep an event until the next append."""

    def append(
        self, events: list[Event], flags: int = 0, scope: SpanScope | None = None, watcher: Watcher | None = None
    ) -> Ticket | None:
        """Append what was kept, and ``events`` after it."""

    def withhold(self, texts: Iterable[str]) -> None:
        """Cut these texts out of whatever is recorded from now on."""

    def add_ms(self, stage: str, milliseconds: int) -> None:
        """Add a measured stage."""


class OpenCall(Protocol):
    """What others need of a call that is open."""

    id: str

    @property
    def abandoned(self) -> bool:
        """As of a query."""

    def declare(self, piece: Event) -> None:
        """A piece that belongs to this call alone."""


_QUERY = context.create_key("prompt_trace-query")
_CALL = context.create_key("prompt_trace-call")
_SLOT = context.create_key("prompt_trace-slot")


class Slot:
    """Where a middleware learns the qid of the query that was opened further in."""

    __slots__ = ("qid",)

    def __init__(self) -> None:
        self.qid: str | None = None


def current_query(scope: context.Context | None = None) -> OpenQuery | None:
    """The innermost query that is open in a context, by default the current one.

    A query that was abandoned there by a generator is passed over. One that merely ended is not: work that it began
    may go on in a copy of its context.
    """
    found: Any = context.get_value(_QUERY, scope)
    while found is not None and found.abandoned:
        found = found.outer
    return found  # type: ignore[no-any-return]


def current_call(scope: context.Context | None = None) -> OpenCall | None:
    """The call that is open in a context, by default the current one, of its innermost query."""
    found: Any = context.get_value(_CALL, scope)
    return None if found is None or found.abandoned else found


def open_in(scope: context.Context) -> tuple[OpenQuery | None, OpenCall | None]:
    """Query and call that are open in a context, in two look-ups: it is asked at the start of every span."""
    query: Any = scope.get(_QUERY)
    call: Any = scope.get(_CALL)
    if query is not None and query.abandoned:
        query = current_query(scope)
    return query, None if call is None or call.abandoned else call


def current_slot() -> Slot | None:
    """The slot that a middleware has put here."""
    found: Any = context.get_value(_SLOT)
    return found  # type: ignore[no-any-return]


def with_query(query: OpenQuery, scope: context.Context) -> context.Context:
    """``scope`` with ``query`` open in it; calls of an outer query are not open there."""
    return context.set_value(_CALL, None, context.set_value(_QUERY, query, scope))


def with_call(query: OpenQuery, call: OpenCall, scope: context.Context) -> context.Context:
    """``scope`` with ``query`` and its ``call`` open in it, also in a thread that the query's context never reached."""
    return context.set_value(_CALL, call, context.set_value(_QUERY, query, scope))


def with_slot(slot: Slot) -> context.Context:
    """The current context with a slot for the qid."""
    return context.set_value(_SLOT, slot)
