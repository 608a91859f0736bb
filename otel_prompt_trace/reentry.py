"""Re-entry: what a thread is made to record while it is at work in here already.

The garbage collector runs finalizers wherever memory is asked for, and signal handlers run between any two steps: in
the middle of an append as well, with its locks held. Ending a span is nothing unusual for either. Our locks can't be
taken twice by one thread, and what they guard must not be changed half-way. So a thread that is at work in here is
marked, and what it is made to record meanwhile is put off.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _State(threading.local):
    at_work = 0


state = _State()


@contextmanager
def at_work() -> Iterator[None]:
    """Mark this thread for as long as it may hold a lock of ours."""
    state.at_work += 1
    try:
        yield
    finally:
        state.at_work -= 1


@contextmanager
def between() -> Iterator[None]:
    """Lift the mark where no lock is held: what was put off is recorded now."""
    before, state.at_work = state.at_work, 0
    try:
        yield
    finally:
        state.at_work = before


class OwnLock:
    """A lock whose holder is marked."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        state.at_work += 1
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        state.at_work -= 1
