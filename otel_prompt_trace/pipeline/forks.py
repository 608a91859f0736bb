"""Moments in which nobody is to fork: a child would keep for ever what another thread of ours has for a moment.

A lock on a file that is just being made; or the lock of a module that is just being imported, for which a child would
wait as long as it lives, in its own code too. A fork waits until the moment is over, but no longer than its budget.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator


class NoFork:
    """A kind of such moments, made once and for the life of the process. ``seconds`` is how long a fork waits."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.RLock()  # the thread that is at it may fork itself
        self._held = False
        os.register_at_fork(before=self._before, after_in_parent=self._after, after_in_child=self._renew)

    @contextlib.contextmanager
    def moment(self) -> Iterator[None]:
        """One at a time; nobody forks meanwhile."""
        with self._lock:
            yield

    def _before(self) -> None:
        self._held = self._lock.acquire(timeout=self._seconds)

    def _after(self) -> None:
        if self._held:
            self._lock.release()

    def _renew(self) -> None:
        self._lock = threading.RLock()
