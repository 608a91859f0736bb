"""The GenAI completion hook: full objects of a call, also where instrumentations put no content on spans.

Entry point ``prompt_trace`` of the group ``opentelemetry_genai_completion_hook``, chosen by
``OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK=prompt_trace``. What it is handed is copied at once, since the application
goes on to change it, and is recorded at least in the spool before a reference to it is stamped on the span.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry import context as otel_context

from otel_prompt_trace.capture.context import open_in
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.text import wrap
from otel_prompt_trace.current import current
from otel_prompt_trace.diversion.calls import call_so_far
from otel_prompt_trace.diversion.entry import entry_here
from otel_prompt_trace.diversion.secrets import kept
from otel_prompt_trace.diversion.state import SpanState, state_of
from otel_prompt_trace.diversion.writing import record_content, reference
from otel_prompt_trace.runtime import Runtime

_KEYS = {
    "inputs": "gen_ai.input.messages",
    "outputs": "gen_ai.output.messages",
    "system_instruction": "gen_ai.system_instructions",
    "tool_definitions": "gen_ai.tool.definitions",
}


class CompletionHook:
    """Records what a GenAI instrumentation hands over when a call is complete. Does nothing until installed."""

    def on_completion(self, *, span: Any = None, log_record: Any = None, **handed: Any) -> None:
        """Record ``inputs``, ``outputs``, ``system_instruction`` and ``tool_definitions``. Never raises."""
        runtime = current()
        if runtime is None:
            return
        try:
            _record(runtime, span, log_record, handed)
        except Exception as error:  # noqa: BLE001 - telemetry never raises into the application
            runtime.accounts.miss(1, "not_captured", f"A completion was not recorded: {type(error).__name__}.")


def completion_hook() -> CompletionHook:
    """The factory that the entry point names."""
    return CompletionHook()


def plain(value: Any) -> Any:
    """Dataclasses, mappings and sequences as JSON carries them; what it can't carry is marked by its type."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [plain(item) for item in value]
    return value if isinstance(value, str | bytes | int | float | type(None)) else wrap(value)


def _record(runtime: Runtime, span: Any, log_record: Any, handed: Mapping[str, Any]) -> None:
    values = {key: kept(key, plain(handed[name])) for name, key in _KEYS.items() if handed.get(name)}
    if not values or span is None:
        return
    context = span.get_span_context()
    state = state_of(span)
    if state is None:  # dropped, or started before recording was on
        query, call = open_in(otel_context.get_current())
        state = SpanState(entry_here(runtime, span), None, query, call, None)
    event: Event = {"kind": "content", "route": "hook", "values": values, "attributes": dict(state.facts or {})}
    event["call"] = call_so_far(state, f"{context.span_id:016x}")
    ticket = record_content(runtime, state, event, context)
    if ticket.state == "lost":
        return
    refs = {f"{key}_ref": reference(runtime, state) for key in values}
    span.set_attributes(refs)
    if log_record is not None and getattr(log_record, "attributes", None) is not None:
        log_record.attributes = {**log_record.attributes, **refs}
