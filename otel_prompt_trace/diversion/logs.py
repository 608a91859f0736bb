"""Log records with content: taken out before any processor sees them, whatever the order of installation.

A log processor would come too late: the SDK cuts a record's attributes when the record is made, and the processors of
an exporter that were added first run first. So the one door through which every record is emitted is wrapped.

A record's content belongs to the span that was current when it was emitted, and goes with that span's own content.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace

from otel_prompt_trace.capture.context import open_in
from otel_prompt_trace.core.conventions import content_event
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.current import current
from otel_prompt_trace.diversion.doors import split_event
from otel_prompt_trace.diversion.entry import entry_here
from otel_prompt_trace.diversion.kinds import too_long
from otel_prompt_trace.diversion.state import SpanState, state_of, stub
from otel_prompt_trace.diversion.writing import record_content, told
from otel_prompt_trace.runtime import Runtime


class LogDoor:
    """The wrapped ``emit`` of the SDK's loggers; :meth:`remove` puts the original back."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._logger_class: Any = None
        self._original: Callable[..., Any] | None = None
        self._wrapped: Callable[..., Any] | None = None
        try:
            logger_class: Any = import_module("opentelemetry.sdk._logs").Logger
            original = logger_class.emit
        except (ImportError, AttributeError):
            self.notes.append("this SDK has no loggers as we know them: content in log records is not taken out")
            return

        @functools.wraps(original)
        def emit(logger: Any, record: Any = None, **fields: Any) -> Any:
            try:
                record, fields = _divert(logger, record, fields)
            except Exception as error:  # noqa: BLE001 - telemetry never raises into the application
                runtime = current()
                if runtime is not None:
                    runtime.accounts.warn("logs", "A log record was left as it is: %s", type(error).__name__)
            return original(logger, record, **fields) if record is not None else original(logger, **fields)

        self._logger_class, self._original, self._wrapped = logger_class, original, emit
        logger_class.emit = emit

    def remove(self) -> None:
        """Undo it, unless somebody has wrapped it again: then ours stays and does nothing without a runtime."""
        if self._logger_class is not None and self._logger_class.emit is self._wrapped:
            self._logger_class.emit = self._original


def _divert(logger: Any, record: Any, fields: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    runtime = current()
    if runtime is None or not runtime.diverting:
        return record, fields
    carrier = getattr(record, "log_record", record)  # an SDK record wraps the one of the API
    given = fields if carrier is None else vars(carrier)
    name, attributes, body = given.get("event_name") or "", given.get("attributes") or {}, given.get("body")
    name = name if isinstance(name, str) and name else str(attributes.get("event.name") or "")
    taken, rest = split_event(name, attributes)
    body_taken = body is not None and (content_event(name) is not None or too_long(body))
    if not taken and not body_taken:
        return record, fields
    _record(runtime, logger, name, taken, body if body_taken else None, given.get("context"))
    if runtime.settings.spans == "copy":
        return record, fields
    shown = stub(body) if body_taken and too_long(body) else None if body_taken else body
    if carrier is None:
        return record, {**fields, "attributes": rest, "body": shown}
    small = copy.copy(carrier)
    small.attributes, small.body = rest, shown
    if carrier is record:
        return small, fields
    outer = copy.copy(record)
    outer.log_record = small
    return outer, fields


def _record(
    runtime: Runtime, logger: Any, name: str, taken: dict[str, Any], body: Any, scope: otel_context.Context | None
) -> None:
    scope = otel_context.get_current() if scope is None else scope
    span: Any = trace.get_current_span(scope)
    if not span.get_span_context().is_valid and open_in(scope)[0] is None:  # the record was made before its span
        scope = otel_context.get_current()
        span = trace.get_current_span(scope)
    state = state_of(span)
    if state is not None and span.is_recording():
        state.divert_event(name, taken, body)
        return
    context = span.get_span_context()
    query, call = open_in(scope)
    entry = entry_here(runtime, span) if state is None else state.entry
    if state is not None and query is None:
        query = state.query
    loose = SpanState(entry, None, query, call, None)
    loose.divert_event(name, taken, body)
    event: Event = {
        "kind": "content",
        "route": "log",
        "scope": getattr(getattr(logger, "instrumentation_scope", None), "name", ""),
        "events": [told(*loose.events[0])],
    }
    known = None if state is None else state.told or state.ended  # the span has ended, and has named its call
    if call is not None:
        event["call"] = call.id
    elif known is not None:
        event["call"], event["sighting"] = known.id, True
    if entry.origin == "minted" and query is None:
        runtime.accounts.warn("logs", "Content of a log record without trace and query is recorded by itself")
    record_content(runtime, loose, event, context)
