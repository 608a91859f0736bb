"""The runtime in force, apart from the runtime itself: what only asks for it loads none of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_prompt_trace.runtime import Runtime

_current: Runtime | None = None


def current() -> Runtime | None:
    """The runtime of this process, or None where nothing is installed."""
    return _current


def set_current(runtime: Runtime | None) -> Runtime | None:
    """Put a runtime in force and return the one that was."""
    global _current
    before, _current = _current, runtime
    return before
