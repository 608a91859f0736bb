"""Telemetry never raises into the application: whatever goes wrong on our side is counted and passed over.

The application's own exceptions never pass through here.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from otel_prompt_trace.current import current

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger("otel_prompt_trace")


def never_raises(function: Callable[P, R | None]) -> Callable[P, R | None]:
    """Make a function that records an event return None where it would raise; the event is counted as lost."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - see the module docstring
            not_captured(function.__qualname__, error)
            return None

    return guarded


def not_captured(what: str, error: Exception) -> None:
    """Count an event as lost to an error in ``what``; for functions that every call runs, where a wrapper costs."""
    runtime = current()
    if runtime is not None:
        runtime.accounts.miss(1, "not_captured", f"{what} failed: {_said(error)}.")
    _log.debug("%s", what, exc_info=error)


def span_failed(what: str, error: Exception) -> None:
    """Say that a span of ours failed: the record lacks nothing, so nothing is counted as lost."""
    runtime = current()
    if runtime is not None:
        runtime.accounts.warn("span", "A span of ours failed; the record is whole: %s", type(error).__name__)
    _log.debug("%s", what, exc_info=error)


def _said(error: Exception) -> str:
    """What may be logged of an error: its type, and of a call with wrong arguments, which they were."""
    at_the_call = error.__traceback__ is not None and error.__traceback__.tb_next is None
    return str(error) if isinstance(error, TypeError) and at_the_call else type(error).__name__
