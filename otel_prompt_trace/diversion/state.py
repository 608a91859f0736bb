"""What one span carried, and where it stands in its request.

The state hangs on the span object itself, so that it lives exactly as long as the span, whoever holds it. Most spans
have none: it is made where there is something to keep in it, or another span begins inside.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import SpanKind

from otel_prompt_trace.core.conventions import is_model_call
from otel_prompt_trace.diversion.entry import Entry
from otel_prompt_trace.diversion.secrets import kept
from otel_prompt_trace.diversion.unended import UNENDED, size_of

if TYPE_CHECKING:
    from otel_prompt_trace.capture.context import OpenCall, OpenQuery
    from otel_prompt_trace.diversion.calls import EndedCall

STATE = "_prompt_trace_state"
AROUND = "_prompt_trace_around"  # the state of the span around a span, or an entry where that has none
OPEN = "_prompt_trace_open"  # the query and the call that were open as the span began, where there were any
_ENTRIES = (SpanKind.SERVER, SpanKind.CONSUMER)
_PLAIN = (str, int, float, bool, bytes, type(None))


class SpanState:
    """The state of one span that was started while recording is on. Most spans carry nothing: made to cost little."""

    __slots__ = (
        "as_sent", "call", "context", "dropped", "ended", "entry", "events", "facts", "given", "parent", "parent_id",
        "query", "scope", "sent", "size", "span", "started", "told", "values", "within",
    )  # fmt: skip

    def __init__(
        self, entry: Entry, parent: SpanState | None, query: OpenQuery | None, call: OpenCall | None, scope: Any
    ) -> None:
        self.entry = entry
        self.parent = parent
        self.query = query
        self.call = call
        self.scope = scope
        self.values: Sequence[tuple[str, Any]] = ()
        self.given: Sequence[str] = ()  # keys of values that were recorded already, before its end
        self.events: Sequence[tuple[str, dict[str, Any], Any]] = ()
        self.facts: dict[str, Any] | None = None  # small attributes that say what the content is about
        self.ended: EndedCall | None = None  # the last model call that ended inside this span
        self.within: Sequence[EndedCall] = ()  # the last ones that ended or were sent inside this span
        self.told: EndedCall | None = None  # the call that this span named as it ended
        self.context: Any = None  # of the span
        self.parent_id: int | None = None
        self.started = 0
        self.dropped = 0  # attributes that the span had lost before it was ours
        self.as_sent: tuple[str, int] | None = None  # digest and characters of its request as sent
        self.span: weakref.ref[Any] | None = None
        self.size = 0  # bytes of content that wait for the end of the span
        self.sent: Any = None  # the calls that wire capture saw inside this span, None for none

    @property
    def id(self) -> str:
        """The span's id, in hex; empty where there is no span."""
        return "" if self.context is None else f"{self.context.span_id:016x}"

    @property
    def model_call(self) -> bool:
        """Whether the span is a model call's, as far as it has told."""
        return is_model_call(self.facts or {}, [*self.given, *(key for key, _ in self.values)])

    @property
    def telling(self) -> bool:
        """Whether anything was set that a record may be made of."""
        return bool(self.values or self.events or self.facts)

    def divert(self, key: str, value: Any) -> None:
        """Keep a value as it was handed over."""
        self.take([(key, snapshot(value))], {})

    def divert_event(self, name: str, attributes: dict[str, Any], body: Any = None) -> None:
        """Keep the content of a span event or log record."""
        taken = {key: kept(key, snapshot(value)) for key, value in attributes.items()}
        carried = (name, taken, kept(name, snapshot(body)))
        self.events = [*self.events, carried]
        UNENDED.grown(self, size_of(carried))

    def note(self, key: str, value: Any) -> None:
        """Remember a fact, beside the span: there it can be evicted."""
        if self.facts is None:
            self.facts = {}
        self.facts[key] = value

    def take(self, values: list[tuple[str, Any]], facts: dict[str, Any]) -> None:
        """Take over what was set aside already, less the credentials in it."""
        values = [(key, kept(key, value)) for key, value in values]
        if isinstance(self.values, list):
            self.values += values
        elif values:
            self.values = values
        for key, value in facts.items():
            self.note(key, value)
        if values:
            UNENDED.grown(self, sum([size_of(value) for _, value in values]))

    def give(self) -> tuple[dict[str, Any], Sequence[tuple[str, dict[str, Any], Any]]]:
        """What it carries, values by key and events: it carries them no more."""
        taken, self.values = self.values, ()  # first: its own thread may be filling it
        events, self.events = self.events, ()
        values = dict(taken)
        self.given = [*self.given, *values]
        return values, events


class MadeWhenAsked:
    """The state of a span that was given doors, made when it is first asked for.

    An attribute of the span's class, which the state then hides. Most spans are never asked: they tell of no content,
    and nothing begins inside them.
    """

    def __get__(self, span: Any, owner: type) -> SpanState:
        around: SpanState | Entry | None = getattr(span, AROUND)
        parent = around if isinstance(around, SpanState) else None
        if around is None or span.kind in _ENTRIES:
            entry = Entry(span.context.trace_id, span.context.span_id, weakref.ref(span))
        else:
            entry = around if isinstance(around, Entry) else around.entry
        query, call = vars(span).get(OPEN) or (None, None)
        made = SpanState(entry, parent, query, call, span.instrumentation_scope)
        made.context, made.started, made.span = span.context, span.start_time or 0, weakref.ref(span)
        made.parent_id = None if span.parent is None else int(span.parent.span_id)
        found: SpanState = vars(span).setdefault(STATE, made)  # whichever thread was first
        return found


def state_of(span: object) -> SpanState | None:
    """The state of a span, None for a span that is not ours to divert."""
    found: SpanState | None = getattr(span, STATE, None)
    return found


def snapshot(value: Any) -> Any:
    """A value that later changes of the application do not reach."""
    if isinstance(value, _PLAIN):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - an object that can't be copied is kept as it stands
        return value


def stub(value: Any) -> str:
    """What a span shows in place of a long value: under 128 characters, and no text of it."""
    size = f"{len(value)} characters" if isinstance(value, str) else f"a {type(value).__name__}"
    return f"[{size[:60]}, in the payload of prompt_trace.qid]"
