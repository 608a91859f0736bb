"""The doors of a span: the subclass that a started span is given.

Content is intercepted when it is set, not when the span ends: the SDK cuts a value while it is being set, and at the
end the span is frozen already. The subclass adds no slot, so that a span's class can be changed in place; it is made
once for each class of spans and named like it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.trace import Status, StatusCode

from otel_prompt_trace.core.conventions import content_event, content_in_event
from otel_prompt_trace.diversion.kinds import (
    CONTENT,
    FACT,
    LONG,
    ORDINARY,
    ORDINARY_KEYS,
    SMALL,
    kind_of,
    nothing_to_take,
    too_long,
)
from otel_prompt_trace.diversion.state import AROUND, STATE, MadeWhenAsked, SpanState, snapshot, state_of, stub

Finish = Callable[[Any, SpanState], None]
_Door = Callable[..., None]


class DoorMaker(dict[type, type]):
    """The subclasses with doors, by the class of spans; each is made when it is first asked for.

    Args:
        finish: called once, before a span ends; what it sets comes last and can't be evicted.
        keep: leave content on the span as well (mode ``copy``).
    """

    def __init__(self, finish: Finish, *, keep: bool) -> None:
        self._finish = finish
        self._keep = keep

    def __missing__(self, span_class: type) -> type:
        """Make the subclass of a class of SDK spans."""
        doors = (
            _set_attribute(span_class, self._keep),
            _set_attributes(span_class, self._keep),
            _add_event(span_class, self._keep),
            _set_status(span_class, self._keep),
            _update_name(span_class, self._keep),
            _end(span_class, self._finish),
        )
        body: dict[str, Any] = {
            door.__name__: functools.wraps(getattr(span_class, door.__name__))(door) for door in doors
        }
        for name in ("__module__", "__qualname__", "__doc__"):
            body[name] = getattr(span_class, name)
        body |= {AROUND: None, STATE: MadeWhenAsked()}
        return self.setdefault(span_class, type(span_class.__name__, (span_class,), body))


def divert_attributes(state: SpanState, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Divert what is content or too long; what is left for the span."""
    values, facts, rest = split_attributes(attributes)
    state.take(values, facts)
    return rest


def split_attributes(
    attributes: Mapping[str, Any],
) -> tuple[list[tuple[str, Any]], dict[str, Any], dict[str, Any]]:
    """What is content or too long, the facts that say what it is about, and what may stay on a span (facts too)."""
    values: list[tuple[str, Any]] = []
    facts: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in attributes.items():
        kind = kind_of(key)
        if kind == CONTENT:
            values.append((key, snapshot(value)))
        elif too_long(value):
            values.append((key, snapshot(value)))
            rest[key] = stub(value)
        else:
            rest[key] = value
            if kind == FACT:
                facts[key] = value
    return values, facts, rest


def split_event(name: str, attributes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The content among the attributes of a span event or log record, and what may stay."""
    kind = content_event(name)
    taken: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in attributes.items():
        if content_in_event(kind, key):
            taken[key] = value
        elif too_long(value):
            taken[key] = value
            rest[key] = stub(value)
        else:
            rest[key] = value
    return taken, rest


def _set_attribute(span_class: Any, keep: bool) -> _Door:
    original = span_class.set_attribute

    def set_attribute(self: Any, key: str, value: Any) -> None:
        # Nearly every attribute of nearly every span takes the first way.
        try:
            plain = key in ORDINARY_KEYS and (len(value) <= LONG if type(value) is str else type(value) in SMALL)
        except TypeError:  # a key that can't be looked up: the SDK refuses it by itself
            plain = False
        if plain:
            original(self, key, value)
        else:
            look(self, key, value)

    def look(self: Any, key: str, value: Any) -> None:
        kind, long = kind_of(key), too_long(value)
        state = None if kind == ORDINARY and not long else state_of(self)
        if state is None:
            original(self, key, value)
        elif kind == CONTENT:
            state.divert(key, value)
            if keep:
                original(self, key, value)
        elif long:
            state.divert(key, value)
            original(self, key, value if keep else stub(value))
        else:
            if kind == FACT:
                state.note(key, value)
            original(self, key, value)

    return set_attribute


def _set_attributes(span_class: Any, keep: bool) -> _Door:
    original = span_class.set_attributes

    def set_attributes(self: Any, attributes: Mapping[str, Any]) -> None:
        if attributes and not nothing_to_take(attributes):
            state = state_of(self)
            if state is not None:
                rest = divert_attributes(state, attributes)
                attributes = attributes if keep else rest
        original(self, attributes)

    return set_attributes


def _add_event(span_class: Any, keep: bool) -> _Door:
    original = span_class.add_event  # exceptions come through here as well

    def add_event(self: Any, name: str, attributes: Any = None, timestamp: Any = None) -> None:
        taken, rest = split_event(name, attributes) if attributes else (None, attributes)
        long = too_long(name)
        state = state_of(self) if taken or long else None
        if state is not None and taken:
            state.divert_event(name, taken)
            attributes = attributes if keep else rest
        if state is not None and long:
            state.divert("event.name", name)
            name = name if keep else stub(name)
        original(self, name, attributes, timestamp)

    return add_event


def _set_status(span_class: Any, keep: bool) -> _Door:
    original = span_class.set_status

    def set_status(self: Any, status: Any, description: str | None = None) -> None:
        text = status.description if isinstance(status, Status) else description
        state = state_of(self) if too_long(text) else None
        if state is not None:
            state.divert("status.description", text)
            if not keep:
                code = status.status_code if isinstance(status, Status) else status
                original(self, code, stub(text) if code is StatusCode.ERROR else None)
                return
        original(self, status, description)

    return set_status


def _update_name(span_class: Any, keep: bool) -> _Door:
    original = span_class.update_name

    def update_name(self: Any, name: str) -> None:
        state = state_of(self) if too_long(name) else None
        if state is not None:
            state.divert("span.name", name)
            name = name if keep else stub(name)
        original(self, name)

    return update_name


def _end(span_class: Any, finish: Finish) -> _Door:
    original = span_class.end

    def end(self: Any, end_time: int | None = None) -> None:
        state = self.__dict__.get(STATE)  # where nobody has asked for it, there is nothing to tell
        if state is not None and (state.facts or state.values or state.events or state.entry.opened):
            finish(self, state)
        original(self, end_time)

    return end
