"""What one span carried, and where it stands in its request.

The state hangs on the span object itself, so that it lives exactly as long as the span, whoever holds it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_prompt_trace.capture.context import OpenCall, OpenQuery
    from otel_prompt_trace.diversion.calls import EndedCall
    from otel_prompt_trace.diversion.entry import Entry

STATE = "_prompt_trace_state"
_PLAIN = (str, int, float, bool, bytes, type(None))


class SpanState:
    """The state of one span that was started while recording is on. Most spans carry nothing: made to cost little."""

    __slots__ = ("call", "ended", "entry", "events", "facts", "parent", "query", "scope", "told", "values")

    def __init__(
        self, entry: Entry, parent: SpanState | None, query: OpenQuery | None, call: OpenCall | None, scope: Any
    ) -> None:
        self.entry = entry
        self.parent = parent
        self.query = query
        self.call = call
        self.scope = scope
        self.values: Sequence[tuple[str, Any]] = ()
        self.events: Sequence[tuple[str, dict[str, Any], Any]] = ()
        self.facts: dict[str, Any] | None = None  # small attributes that say what the content is about
        self.ended: EndedCall | None = None  # the last model call that ended inside this span
        self.told: EndedCall | None = None  # the call that this span named as it ended

    @property
    def telling(self) -> bool:
        """Whether anything was set that a record may be made of."""
        return bool(self.values or self.events or self.facts)

    def divert(self, key: str, value: Any) -> None:
        """Keep a value as it was handed over."""
        self.take([(key, snapshot(value))], {})

    def divert_event(self, name: str, attributes: dict[str, Any], body: Any = None) -> None:
        """Keep the content of a span event or log record."""
        kept = {key: snapshot(value) for key, value in attributes.items()}
        self.events = [*self.events, (name, kept, snapshot(body))]

    def note(self, key: str, value: Any) -> None:
        """Remember a fact, beside the span: there it can be evicted."""
        if self.facts is None:
            self.facts = {}
        self.facts[key] = value

    def take(self, values: list[tuple[str, Any]], facts: dict[str, Any]) -> None:
        """Take over what was set aside already."""
        if isinstance(self.values, list):
            self.values += values
        elif values:
            self.values = values
        for key, value in facts.items():
            self.note(key, value)


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
