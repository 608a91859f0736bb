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
            runtime = current()
            if runtime is not None:
                runtime.accounts.miss(1, "not_captured", f"{function.__qualname__} failed: {_said(error)}.")
            _log.debug("%s", function.__qualname__, exc_info=True)
            return None

    return guarded


def span_never_raises(function: Callable[P, None]) -> Callable[P, None]:
    """The same for what concerns a span alone: the record lacks nothing, so nothing is counted as lost."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - see the module docstring
            runtime = current()
            if runtime is not None:
                runtime.accounts.warn("span", "A span of ours failed; the record is whole: %s", type(error).__name__)
            _log.debug("%s", function.__qualname__, exc_info=True)

    return guarded


def _said(error: Exception) -> str:
    """What may be logged of an error: its type, and of a call with wrong arguments, which they were."""
    at_the_call = error.__traceback__ is not None and error.__traceback__.tb_next is None
    return str(error) if isinstance(error, TypeError) and at_the_call else type(error).__name__
