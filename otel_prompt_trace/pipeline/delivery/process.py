"""Delivery through a process of its own: compression, the store's client and its writing leave the application's.

Invariants:

- A batch is one write and one answer one read, each letting go of the interpreter's lock once, however many queries
  are in the batch. The store's client is not loaded in the application at all.
- Nothing is acknowledged that the other process has not said to be stored. If it ends in the middle, the batch waits
  in the spool and goes to the next one, and what was stored already is found there.
- The process ends with this one, however this one ends: its end of the connection is closed then. A forked child
  closes its copy.
- Where no such process can be made, or each dies, this one delivers by itself, and says so.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime

import msgspec

from otel_prompt_trace.core.events import Identity
from otel_prompt_trace.exceptions import StoreUnreachable
from otel_prompt_trace.pipeline.delivery.messages import Answer, Batch, Ended, Message, Open, Opened, receive, send
from otel_prompt_trace.pipeline.delivery.together import Batches, Outcome, Sealed, Tell
from otel_prompt_trace.pipeline.forks import NoFork

_START_SECONDS = 60
_ANSWER_SECONDS = 600  # a batch may be large, and the store slow
_END_SECONDS = 1.0
_DEATHS = 3  # in a row, without an answer
# Not ``-m``: what runs at the start of every interpreter here, such as an instrumentation, is not to run there.
_PROGRAM = "import sys; sys.path[:] = sys.argv[2:]; from otel_prompt_trace.pipeline.delivery.child import main; main()"

_starting = NoFork(2.0)
_open: weakref.WeakSet[DeliveryProcess] = weakref.WeakSet()


class DeliveryProcess:
    """Batches into a store that another process writes to. The process is made with the first batch.

    Args:
        store: its address.
        here: opens the same store in this process, for where there can be no other.
        warn: called with a key and a message.
    """

    def __init__(self, store: str, here: Callable[[], Batches], warn: Callable[[str, str], None]) -> None:
        self._store = store
        self._open_here = here
        self._here: Batches | None = None
        self._warn = warn
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._deaths = 0
        self._closed = False
        _open.add(self)

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._process is None else self._process.pid

    def write(
        self,
        events: Sequence[tuple[Identity, bytes]],
        qid: str,
        now: datetime,
        blobs: Mapping[str, bytes] | None = None,
        *,
        elsewhere: date | None = None,
    ) -> list[str]:
        """One query alone; the keys are not told.

        Raises:
            StoreError, ConfigurationError, InvalidEvent, RuntimeError: what the other process met.
        """
        outcomes: list[Outcome] = []
        self.write_all([Sealed(qid, events, blobs or {}, elsewhere)], now, lambda _, outcome: outcomes.append(outcome))
        if outcomes[0].error is not None:
            raise outcomes[0].error
        return []

    def write_all(self, batch: Sequence[Sealed], now: datetime, told: Tell) -> None:
        """See :class:`Batches <otel_prompt_trace.pipeline.delivery.together.Batches>`."""
        with self._lock:
            outcomes = self._passed_on(batch, now) if self._here is None else None
        if outcomes is None:
            assert self._here is not None
            self._here.write_all(batch, now, told)
            return
        for number, _ in enumerate(batch):
            told(number, outcomes[number])

    def close(self) -> None:
        """End the process, once it has written what it was given."""
        self._closed = True
        self._end()

    def _start(self) -> None:
        """Make the process, if there is none.

        Raises:
            ConfigurationError: the store can't be opened.
            Ended: it could not be made, or did not answer.
        """
        if self._connection is not None:
            return
        if self._closed:
            raise StoreUnreachable("nothing is delivered any more from here")
        if not sys.executable or getattr(sys, "frozen", False):
            self._deaths = _DEATHS
            raise Ended("this process is no Python interpreter that could be started again")
        with _starting.moment():
            ours, theirs = socket.socketpair()
            try:
                self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and a constant
                    [sys.executable, "-I", "-S", "-c", _PROGRAM, f"prompt-trace delivery of {os.getpid()}", *sys.path],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            except OSError as error:
                ours.close()
                raise Ended(f"{error.strerror}") from error
            finally:
                theirs.close()
            self._connection = ours
        opened = self._ask(Open(self._store), Opened, _START_SECONDS)
        if opened.failure is not None:
            self._end()
            raise opened.failure.error

    def _passed_on(self, batch: Sequence[Sealed], now: datetime) -> list[Outcome] | None:
        """What the other process says of a batch; None where this one has to do it."""
        try:
            self._start()
            outcomes = self._ask(Batch(now, list(batch)), Answer, _ANSWER_SECONDS).outcomes
        except Ended as error:
            self._died(error)
            if self._here is not None:
                return None
            gone = StoreUnreachable("the delivery process has ended; another one is made with the next try")
            return [Outcome(gone), *(Outcome(tried=False) for _ in batch[1:])]
        except Exception as error:  # noqa: BLE001 - told of each query, as by a store
            return [Outcome(error) for _ in batch]
        self._deaths = 0
        return [one.outcome for one in outcomes]

    def _ask(self, question: msgspec.Struct, kind: type[Message], seconds: int) -> Message:
        connection = self._connection
        assert connection is not None
        # The kernel's own time-outs: with Python's, each part of a message would let go of the lock.
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            connection.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", seconds, 0))
        send(connection, question)
        return receive(connection, kind)

    def _died(self, error: Exception) -> None:
        self._deaths += 1
        self._end(kill=True)
        if self._closed:
            return
        if self._deaths < _DEATHS:
            self._warn("delivery", f"The delivery process has ended ({error}); another one goes on.")
            return
        self._warn("delivery", f"No delivery process can be had ({error}): this process delivers by itself.")
        self._here = self._open_here()

    def _end(self, *, kill: bool = False) -> None:
        connection, self._connection = self._connection, None
        process, self._process = self._process, None
        if connection is not None:
            with contextlib.suppress(OSError):  # wakes whoever waits for an answer
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        if process is not None:
            if kill:
                process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # it goes on with what it was given, and then ends
                process.wait(_END_SECONDS)

    def forget_in_child(self) -> None:
        """In a forked child: the process is the parent's."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.returncode = 0  # else its object would wait for it
        self._connection = self._process = None


def _forget_in_child() -> None:
    for process in list(_open):
        process.forget_in_child()


os.register_at_fork(after_in_child=_forget_in_child)
