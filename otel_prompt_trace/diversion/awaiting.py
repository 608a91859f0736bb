"""Waiting for the application's tracer provider, where recording began before there was one."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from opentelemetry import trace

_log = logging.getLogger("otel_prompt_trace")
_api: Any = trace


class ProviderWatch:
    """Calls ``attach`` once the global provider is set; :meth:`remove` puts the API's own function back."""

    def __init__(self, attach: Callable[[], object]) -> None:
        original = _api.set_tracer_provider

        @functools.wraps(original)
        def set_tracer_provider(provider: Any) -> None:
            original(provider)
            try:
                attach()
            except Exception as error:  # noqa: BLE001 - telemetry never raises into the application
                _log.warning("The tracer provider could not be attached: %s", type(error).__name__)

        self._original = original
        self._wrapped = set_tracer_provider
        _api.set_tracer_provider = set_tracer_provider

    def remove(self) -> None:
        """Undo it, unless somebody has wrapped it again."""
        if _api.set_tracer_provider is self._wrapped:
            _api.set_tracer_provider = self._original
