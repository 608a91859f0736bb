"""Doing things that may hang on threads that end with the last of them, while the calling one looks after the rest.

Beside a thread that computes, whoever lets go of the GIL waits a switch interval to get it back, once for each
compression and each write. Threads that wait side by side share that interval, and a store's latency too, and so do
those that start them.
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
    most = min(threads, len(left))
    running = 0
    lock, done = threading.Lock(), threading.Event()

    def start(number: int) -> bool:
        nonlocal running
        with lock:
            running += 1
        try:
            threading.Thread(target=go, args=(number,), name=f"prompt-trace-writer-{number + 1}", daemon=True).start()
        except RuntimeError:  # the interpreter is exiting
            with lock:
                running -= 1
            return False
        return True

    def go(number: int) -> None:
        nonlocal running
        token = context.attach(scope)
        try:
            # Whoever starts a thread waits until it has run, twice a switch interval: so each starts two, as in a heap.
            for below in (2 * number + 1, 2 * number + 2):
                if below < most and left:
                    start(below)
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

    if items and not start(0):
        running, most = 1, 1
        go(0)
    while items and not done.wait(every):
        meanwhile()
