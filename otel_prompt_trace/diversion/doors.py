"""The doors of a span: the subclass that a started span is given.

Content is intercepted when it is set, not when the span ends: the SDK cuts a value while it is being set, and at the
end the span is frozen already. The subclass adds no slot, so that a span's class can be changed in place; it is made
once for each class of spans and named like it.

A door never raises what the SDK itself would not: where our part fails, the SDK gets what the application gave, as if
there were no door, and what was not captured is counted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.trace import Status, StatusCode

from otel_prompt_trace.capture.guard import not_captured
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
        elif too_long(value) and isinstance(key, str):  # the SDK refuses any other key
            values.append((key, snapshot(value)))
            rest[key] = stub(value)
        else:
            rest[key] = value
            if kind == FACT:
                facts[key] = value
    return values, facts, rest


def split_event(name: str, attributes: Mapping[Any, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The content among the attributes of a span event or log record, and what may stay."""
    kind = content_event(name)
    taken: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in attributes.items():
        if content_in_event(kind, key):
            taken[key] = value
        elif too_long(value) and isinstance(key, str):
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
        except Exception:  # noqa: BLE001 - a key that can't be looked up: the SDK refuses it by itself
            plain = False
        if plain:
            original(self, key, value)
        else:
            look(self, key, value)

    def look(self: Any, key: str, value: Any) -> None:
        shown = value
        try:
            kind, long = kind_of(key), too_long(value)
            state = None if kind == ORDINARY and not long else state_of(self)
            if state is None:
                pass
            elif kind == CONTENT:
                state.divert(key, value)
                if not keep:
                    return
            elif long:
                state.divert(key, value)
                shown = value if keep else stub(value)
            elif kind == FACT:
                state.note(key, value)
        except Exception as error:  # noqa: BLE001 - see the module docstring
            not_captured("set_attribute", error)
        original(self, key, shown)

    return set_attribute


def _set_attributes(span_class: Any, keep: bool) -> _Door:
    original = span_class.set_attributes

    def set_attributes(self: Any, attributes: Mapping[str, Any]) -> None:
        shown = attributes
        try:
            if attributes and not nothing_to_take(attributes):
                state = state_of(self)
                if state is not None:
                    rest = divert_attributes(state, attributes)
                    shown = attributes if keep else rest
        except Exception as error:  # noqa: BLE001 - see the module docstring
            not_captured("set_attributes", error)
        original(self, shown)

    return set_attributes


def _add_event(span_class: Any, keep: bool) -> _Door:
    original = span_class.add_event  # exceptions come through here as well

    def add_event(self: Any, name: str, attributes: Any = None, timestamp: Any = None) -> None:
        shown, shown_name = attributes, name
        try:
            taken, rest = split_event(name, attributes) if attributes else (None, attributes)
            long = too_long(name)
            state = state_of(self) if taken or long else None
            if state is not None and taken:
                state.divert_event(name, taken)
                shown = attributes if keep else rest
            if state is not None and long:
                state.divert("event.name", name)
                shown_name = name if keep else stub(name)
        except Exception as error:  # noqa: BLE001 - see the module docstring
            not_captured("add_event", error)
        original(self, shown_name, shown, timestamp)

    return add_event


def _set_status(span_class: Any, keep: bool) -> _Door:
    original = span_class.set_status

    def set_status(self: Any, status: Any, description: str | None = None) -> None:
        shown, said = status, description
        try:
            text = status.description if isinstance(status, Status) else description
            state = state_of(self) if too_long(text) else None
            if state is not None:
                state.divert("status.description", text)
                if not keep:
                    code = status.status_code if isinstance(status, Status) else status
                    shown, said = code, stub(text) if code is StatusCode.ERROR else None
        except Exception as error:  # noqa: BLE001 - see the module docstring
            not_captured("set_status", error)
        original(self, shown, said)

    return set_status


def _update_name(span_class: Any, keep: bool) -> _Door:
    original = span_class.update_name

    def update_name(self: Any, name: str) -> None:
        shown = name
        try:
            state = state_of(self) if too_long(name) else None
            if state is not None:
                state.divert("span.name", name)
                shown = name if keep else stub(name)
        except Exception as error:  # noqa: BLE001 - see the module docstring
            not_captured("update_name", error)
        original(self, shown)

    return update_name


def _end(span_class: Any, finish: Finish) -> _Door:
    original = span_class.end

    def end(self: Any, end_time: int | None = None) -> None:
        state = self.__dict__.get(STATE)  # where nobody has asked for it, there is nothing to tell
        try:
            if state is not None and (state.facts or state.values or state.events or state.entry.opened):
                finish(self, state)
        except Exception as error:  # noqa: BLE001 - see the module docstring
            not_captured("end", error)
        original(self, end_time)

    return end
