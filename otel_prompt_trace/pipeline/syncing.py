"""Durability ``fsync``: who appends waits for the disk, up to a budget.

A sync can't be interrupted, and a disk may hang for minutes. So it runs on a thread of its own, one for all who
append meanwhile: what they wrote goes to the disk together. Whoever has waited as long as its budget goes on; its
frame survives the process as with ``written``, and the power's loss only when the disk has answered.
"""

from __future__ import annotations

import threading
from collections import deque

from otel_prompt_trace.pipeline.spool_file import SpoolFile
from otel_prompt_trace.reentry import at_work


class _Waiter:
    __slots__ = ("done", "error", "file")

    def __init__(self, file: SpoolFile) -> None:
        self.file = file
        self.done = threading.Event()
        self.error: OSError | None = None


class Syncer:
    """Syncs files for whoever waits. Forget it after a fork, and make another."""

    def __init__(self, budget_seconds: float) -> None:
        self._budget = budget_seconds
        self._queue: deque[_Waiter] = deque()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def sync(self, file: SpoolFile) -> bool:
        """Whether everything that was in the file is on the disk now; False when the budget is spent.

        Raises:
            OSError: the disk failed.
        """
        waiter = _Waiter(file)
        self._queue.append(waiter)
        if not self._running():  # the interpreter is exiting, and starts no thread any more
            file.sync()
            return True
        self._wake.set()
        if not waiter.done.wait(self._budget):
            return False
        if waiter.error is not None:
            raise OSError(waiter.error.errno, waiter.error.strerror)
        return True

    def stop(self) -> None:
        """End the thread after what it is doing."""
        self._stopping = True
        self._wake.set()

    def _running(self) -> bool:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._run, name="prompt-trace-syncer", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return False
                self._thread = thread
        return True

    def _run(self) -> None:
        with at_work():
            self._serve()

    def _serve(self) -> None:
        while not self._stopping:
            self._wake.wait()
            self._wake.clear()
            waiters = []
            while self._queue:
                waiters.append(self._queue.popleft())
            for file in dict.fromkeys(waiter.file for waiter in waiters):
                error = _synced(file)
                for waiter in waiters:
                    if waiter.file is file:
                        waiter.error = error
                        waiter.done.set()


def _synced(file: SpoolFile) -> OSError | None:
    try:
        file.sync()
    except OSError as error:
        return error
    return None
