"""Many small requests at once.

A lookup asks every kept day, and each answer takes a round trip: sixteen at a time. Each task runs in a copy of the
caller's context, so that what the caller set there (for one, that OpenTelemetry's instrumentations keep quiet) holds
in the threads too.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["each"]

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")
_THREADS = 16


def each(function: Callable[[_Item], _Answer], items: Iterable[_Item]) -> list[_Answer]:
    """``function`` of every item, in the items' order; after an error nothing more is begun."""
    tasks = list(items)
    if len(tasks) < 2:
        return [function(item) for item in tasks]
    try:
        from concurrent.futures.thread import ThreadPoolExecutor

        threads = ThreadPoolExecutor(min(_THREADS, len(tasks)), thread_name_prefix="prompt-trace-store")
        futures = [threads.submit(contextvars.copy_context().run, function, item) for item in tasks]
    except RuntimeError:  # the interpreter is exiting
        return [function(item) for item in tasks]
    with threads:
        try:
            return [future.result() for future in futures]
        except BaseException:  # or each of the others would wait for its own time-out
            for future in futures:
                future.cancel()
            raise
