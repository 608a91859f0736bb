"""What another thread of ours has for a moment, a child that is forked in this moment would keep for ever.

A lock of our own is made anew in the child. With a lock on a file that is just being made, or the lock of a module that
is just being imported, for which a child would wait as long as it lives, in its own code too, nobody is to fork: a fork
waits until the moment is over, but no longer than its budget.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator

_renewed: weakref.WeakSet[RenewedLock] = weakref.WeakSet()


class RenewedLock:
    """A lock that a child has anew, for ``with lock():``. A finalizer may ask for it again in the thread that has it.

    Whoever forks while it has the lock gives back the one that it took.
    """

    def __init__(self) -> None:
        self.renew()
        _renewed.add(self)

    def __call__(self) -> contextlib.AbstractContextManager[object]:
        """The lock of this process."""
        return self._lock

    def renew(self) -> None:
        """Another lock in its place, which nobody has."""
        self._lock = threading.RLock()


def _renew_in_child() -> None:
    for lock in list(_renewed):
        lock.renew()


os.register_at_fork(after_in_child=_renew_in_child)


class NoFork:
    """A kind of such moments, made once and for the life of the process. ``seconds`` is how long a fork waits."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.RLock()  # the thread that is at it may fork itself
        os.register_at_fork(before=self._before, after_in_parent=self._after, after_in_child=self._renew)

    @contextlib.contextmanager
    def moment(self) -> Iterator[None]:
        """One at a time; nobody forks meanwhile."""
        with self._lock:
            yield

    def _before(self) -> None:
        self._lock.acquire(timeout=self._seconds)

    def _after(self) -> None:
        with contextlib.suppress(RuntimeError):  # it did not wait that long; others may be forking too
            self._lock.release()

    def _renew(self) -> None:
        self._lock = threading.RLock()


# While another process is made. It is here, and so registered with the first import: a fork that has already begun when
# a lock is registered does not wait for it, and a child of it would keep the descriptors that belong to neither.
starting = NoFork(2.0)
