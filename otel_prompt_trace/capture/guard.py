"""Telemetry never raises into the application: whatever goes wrong on our side is counted and passed over."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from otel_prompt_trace.runtime import current

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger("otel_prompt_trace")


def never_raises(function: Callable[P, R | None]) -> Callable[P, R | None]:
    """Make a function return None where it would raise. The application's own exceptions never pass through here."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - see the module docstring
            runtime = current()
            if runtime is not None:
                runtime.accounts.warn(
                    f"capture:{function.__name__}",
                    "%s failed and recorded nothing: %s",
                    function.__name__,
                    type(error).__name__,
                )
            _log.debug("%s", function.__name__, exc_info=True)
            return None

    return guarded
