"""Delivery through a process of its own: compression, the store's client and its writing leave the application's.

Invariants:

- A batch is one write and one answer one read, each letting go of the interpreter's lock once, however many queries
  are in the batch. The store's client is not loaded in the application at all.
- Nothing is acknowledged that the other process has not said to be stored. If it ends in the middle, the batch waits
  in the spool and goes to the next one, and what was stored already is found there.
- The process ends with this one, however this one ends: its end of the connection is closed then. A forked child
  closes its copy. After :meth:`DeliveryProcess.close` there is none, also where one was just being made.
- Where no such process can be made, or each dies, this one delivers by itself, and says so. What no message can hold
  it delivers too.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import datetime

from otel_prompt_trace.exceptions import StoreUnreachable
from otel_prompt_trace.pipeline.delivery.link import Impossible, Link
from otel_prompt_trace.pipeline.delivery.messages import Answer, Batch, Ended, Open, Opened, Unsaid
from otel_prompt_trace.pipeline.delivery.together import Batches, Outcome, Sealed, Tell

_START_SECONDS = 60
_ANSWER_SECONDS = 600  # a batch may be large, and the store slow
_CLOSE_SECONDS = 1.0
_POLL_SECONDS = 0.05
_DEATHS = 3  # in a row, without an answer

_open: weakref.WeakSet[DeliveryProcess] = weakref.WeakSet()


class DeliveryProcess:
    """Batches into a store that another process writes to. The process is made with the first batch.

    Args:
        store: its address, in which no folder is relative.
        here: opens the same store in this process, for where there can be no other.
        warn: called with a key and a message.
    """

    def __init__(self, store: str, here: Callable[[], Batches], warn: Callable[[str, str], None]) -> None:
        self._store = store
        self._open_here = here
        self._here: Batches | None = None
        self._alone = False
        self._warn = warn
        self._lock = threading.Lock()  # of whoever asks
        self._link: Link | None = None
        self._deaths = 0
        self._closed = False
        _open.add(self)

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        link = self._link
        return None if link is None else link.pid

    def write_all(self, batch: Sequence[Sealed], now: datetime, told: Tell) -> None:
        """See :class:`Batches <otel_prompt_trace.pipeline.delivery.together.Batches>`."""
        with self._lock:
            outcomes = None if self._alone else self._passed_on(batch, now)
            if self._closed:
                self._end()
        if outcomes is None:
            try:
                here = self._by_itself()
            except Exception as error:  # noqa: BLE001 - told of the batch, as by a store
                outcomes = _none_of(batch, error)
            else:
                here.write_all(batch, now, told)
                return
        for number, outcome in enumerate(outcomes):
            told(number, outcome)

    def close(self) -> None:
        """End the process: at once if it has not answered, since what it was given waits in the spool."""
        self._closed = True
        deadline = time.monotonic() + _CLOSE_SECONDS
        while not self._lock.acquire(timeout=_POLL_SECONDS):
            link = self._link
            if link is not None:
                link.interrupt()
            if time.monotonic() > deadline:
                return  # whoever asks ends it
        try:
            self._end()
        finally:
            self._lock.release()

    def _started(self) -> Link:
        """The process, made if there is none.

        Raises:
            StoreUnreachable: nothing is delivered any more.
            ConfigurationError, StoreError: the store can't be opened.
            Ended: it could not be made, or did not answer.
        """
        if self._closed:
            raise StoreUnreachable("nothing is delivered any more from here")
        if self._link is None:
            self._link = Link()
            opened = self._link.ask(Open(os.fsencode(self._store)), Opened, _START_SECONDS)
            if opened.failure is not None:
                self._end()
                raise opened.failure.error
        return self._link

    def _passed_on(self, batch: Sequence[Sealed], now: datetime) -> list[Outcome] | None:
        """What the other process says of a batch; None where this one has to do it."""
        try:
            link = self._started()
            told = link.ask(Batch(now, list(batch)), Answer, _ANSWER_SECONDS).outcomes
        except Ended as error:
            self._died(error)
            gone = StoreUnreachable("the delivery process has ended; another one is made with the next try")
            return None if self._alone else _none_of(batch, gone)
        except Unsaid:
            return None
        except Exception as error:  # noqa: BLE001 - told of the batch, as by a store
            return _none_of(batch, error)
        self._deaths = 0
        outcomes = [one.outcome for one in told]
        if any(outcome.stops for outcome in outcomes) and link.environment != dict(os.environ):
            self._end()  # the next one has the credentials that the application has set since
        return outcomes

    def _died(self, error: Exception) -> None:
        self._deaths += 1
        self._end()
        if self._closed:
            return
        self._alone = self._deaths >= _DEATHS or isinstance(error, Impossible)
        if self._alone:
            self._warn("delivery", f"No delivery process can be had ({error}): this process delivers by itself.")
        else:
            self._warn("delivery_ended", f"The delivery process has ended ({error}); another one goes on.")

    def _by_itself(self) -> Batches:
        if self._here is None:
            self._here = self._open_here()
        return self._here

    def _end(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.end()

    def forget_in_child(self) -> None:
        """In a forked child: the process is the parent's."""
        link, self._link = self._link, None
        if link is not None:
            link.forget()


def _none_of(batch: Sequence[Sealed], error: Exception) -> list[Outcome]:
    """None is stored, for a reason that the first has met; the others were not tried."""
    return [Outcome(error), *(Outcome(tried=False) for _ in batch[1:])]


def _forget_in_child() -> None:
    for process in list(_open):
        process.forget_in_child()


os.register_at_fork(after_in_child=_forget_in_child)
