"""Which query and which call are open here: kept in the OpenTelemetry context, as the current span is.

So they follow a request wherever its context goes, through tasks and instrumented threads, and nowhere else.

A vendor may put a context of its own in OpenTelemetry's place, and keep nothing in it but spans and baggage (Datadog's
does). There they stand in a context variable beside it, and follow tasks, but no instrumented thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

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
    sent: Any  # the calls that wire capture saw outside any call, None for none
    outer: OpenQuery | None

    @property
    def abandoned(self) -> bool:
        """Whether it ended where its context could not be left: it is found there still, and is not open."""

    @property
    def over(self) -> bool:
        """Whether it has ended: work that it began may go on, and a worker that it started serves others by now."""

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
    sent: Any  # what wire capture saw of it, None for nothing

    @property
    def abandoned(self) -> bool:
        """As of a query."""

    def declare(self, piece: Event) -> None:
        """A piece that belongs to this call alone."""

    def told(self, events: list[Event]) -> None:
        """Take stock of what was recorded of it, sealed. On the shipper's thread."""


_QUERY = context.create_key("prompt_trace-query")
_CALL = context.create_key("prompt_trace-call")
_SLOT = context.create_key("prompt_trace-slot")
_HELD: ContextVar[context.Context | None] = ContextVar("prompt_trace-held", default=None)


class Attached(NamedTuple):
    """A context that was made the current one, and what there is to go back."""

    token: Any
    scope: context.Context
    held: context.Context | None  # where the current context does not keep what we put into it
    before: context.Context | None


def attach(scope: context.Context) -> Attached:
    """Make ``scope`` the current context."""
    token = context.attach(scope)
    before = _HELD.get()
    held = None
    if context.get_current() is not scope:
        held = context.Context({**(before or {}), **scope})
        _HELD.set(held)
    return Attached(token, scope, held, before)


def keeps_values() -> bool:
    """Whether what is put into the current context is found in it."""
    attached = attach(with_slot(Slot()))
    detach(attached)
    return attached.held is None


def is_current(attached: Attached) -> bool:
    """Whether it is the current context still, so that there is something to go back to."""
    if attached.held is None:
        return context.get_current() is attached.scope
    return _HELD.get() is attached.held


def detach(attached: Attached) -> None:
    """Go back to the context of before."""
    if attached.held is not None:
        _HELD.set(attached.before)
    context.detach(attached.token)


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
    found: Any = _value(_QUERY, scope)
    while found is not None and found.abandoned:
        found = found.outer
    return found  # type: ignore[no-any-return]


def current_call() -> OpenCall | None:
    """The call that is open in the current context, of its innermost query."""
    found: Any = _value(_CALL)
    return None if found is None or found.abandoned else found


def open_in(scope: context.Context) -> tuple[OpenQuery | None, OpenCall | None]:
    """Query and call that are open in a context, in two look-ups: it is asked at the start of every span."""
    held = _HELD.get()
    query: Any = scope.get(_QUERY) if held is None else _value(_QUERY)
    call: Any = scope.get(_CALL) if held is None else _value(_CALL)
    if query is None and call is None:
        return None, None
    if query is not None and query.abandoned:
        query = current_query(scope)
    return query, None if call is None or call.abandoned else call


def current_slot() -> Slot | None:
    """The slot that a middleware has put here."""
    found: Any = _value(_SLOT)
    return found  # type: ignore[no-any-return]


def holding(query: OpenQuery, call: OpenCall | None = None) -> dict[str, Any]:
    """What a context holds where ``query`` and its ``call`` are open; calls of an outer query are not open there."""
    return {_QUERY: query, _CALL: call}


def with_call(query: OpenQuery, call: OpenCall | None, scope: context.Context) -> context.Context:
    """``scope`` with ``query`` and its ``call`` open in it, also in a thread that the query's context never reached."""
    return context.Context({**scope, **holding(query, call)})


def with_slot(slot: Slot) -> context.Context:
    """The current context with a slot for the qid."""
    return context.set_value(_SLOT, slot)


def _value(key: str, scope: context.Context | None = None) -> Any:
    """What stands under a key of ours, in a context or, where the current one keeps nothing of ours, beside it."""
    held = _HELD.get()
    return context.get_value(key, scope) if held is None else held.get(key)
