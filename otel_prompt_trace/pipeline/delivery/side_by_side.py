"""Doing things that may hang on threads that end with the last of them, while the calling one looks after the rest.

Beside a thread that computes, whoever lets go of the GIL waits a switch interval to get it back, once for each
compression and each write. Threads that wait side by side share that interval, and a store's latency too.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from opentelemetry import context

from otel_prompt_trace.reentry import at_work

Item = TypeVar("Item")


def side_by_side(
    work: Callable[[Item], bool], items: Sequence[Item], threads: int, meanwhile: Callable[[], None], every: float
) -> None:
    """Call ``work`` with each item, on up to ``threads`` threads, and ``meanwhile`` on the calling one.

    Args:
        work: must not raise; once it has returned False for an item no further one is begun.
        items: in the order in which they are begun.
        threads: as many at most. They have the calling one's OpenTelemetry context. Where none can be made any more
            the calling one does it all.
        meanwhile: called each ``every`` seconds until all is done; must not raise.
        every: in seconds.
    """
    left = deque(items)
    scope = context.get_current()
    running = min(threads, len(left))
    lock, done = threading.Lock(), threading.Event()

    def go() -> None:
        nonlocal running
        token = context.attach(scope)
        try:
            while True:
                try:
                    item = left.popleft()
                except IndexError:
                    return
                with at_work():
                    if not work(item):
                        left.clear()
        finally:
            context.detach(token)
            with lock:
                running -= 1
                if not running:
                    done.set()

    for number in range(running):
        try:
            threading.Thread(target=go, name=f"prompt-trace-writer-{number + 1}", daemon=True).start()
        except RuntimeError:  # the interpreter is exiting
            go()
    while items and not done.wait(every):
        meanwhile()
