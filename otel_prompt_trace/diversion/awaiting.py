"""Waiting for the application's tracer provider, where recording began before there was one that fits.

A provider that is not the SDK's may take no span processors. Recording goes on without it; what then does not work is
said in one warning, and stands in :attr:`ProviderWatch.notes`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from opentelemetry import trace

from otel_prompt_trace.capture.context import keeps_values

_log = logging.getLogger("otel_prompt_trace")
_api: Any = trace
# Whoever imported ``set_tracer_provider`` by name before us holds the API's own: the function that it calls is wrapped.
_SETTER = "_set_tracer_provider" if hasattr(trace, "_set_tracer_provider") else "set_tracer_provider"


class ProviderWatch:
    """Calls ``attach`` once the global provider is set; :meth:`remove` puts the API's own function back.

    Args:
        attach: says whether the global provider fits.
    """

    def __init__(self, attach: Callable[[], bool]) -> None:
        original = getattr(_api, _SETTER)

        @functools.wraps(original)
        def set_tracer_provider(*arguments: Any, **options: Any) -> None:
            original(*arguments, **options)
            if not self._active:
                return
            try:
                attach()
                self._tell()
            except Exception as error:  # noqa: BLE001 - telemetry never raises into the application
                _log.warning("The tracer provider could not be attached: %s", type(error).__name__)

        self._active = True
        self._told: list[str] = []
        self._original = original
        self._wrapped = set_tracer_provider
        setattr(_api, _SETTER, set_tracer_provider)
        self._tell()

    @property
    def notes(self) -> list[str]:
        """What does not work with the provider that is set now."""
        return unfit(trace.get_tracer_provider())

    def remove(self) -> None:
        """Undo it. If somebody has wrapped it again, ours stays and does nothing."""
        self._active = False
        if getattr(_api, _SETTER) is self._wrapped:
            setattr(_api, _SETTER, self._original)

    def _tell(self) -> None:
        notes = self.notes
        if notes and notes != self._told:
            self._told = notes
            _log.warning("prompt-trace records what it is handed, but %s", "; ".join(notes))


def unfit(provider: object) -> list[str]:
    """What does not work with a provider that takes no span processors.

    Nothing is said of one that does, and of the API's own, which stand for none.
    """
    kind = type(provider)
    if hasattr(provider, "add_span_processor") or kind.__module__ == "opentelemetry.trace":
        return []
    name = f"{kind.__module__}.{kind.__qualname__}"
    notes = [
        f"{name} takes no span processors: content stays on spans and log records, and none is recorded from there",
        "its flush and shutdown do not reach the payloads: call otel_prompt_trace.flush()",
        "without the middleware no response carries the header x-prompt-trace-qid",
    ]
    if not keeps_values():
        notes.append("a query does not follow into another thread: run it there in contextvars.copy_context()")
    return notes
