"""The delivery process: opens the store that it is told, and writes what it is given into it.

It has no telemetry and no settings of its own, and ends when the application's end of the connection is closed, as a
thread's writes end with it: what is not said to be stored by then waits in the spool. A signal to all processes of a
service is the application's to act on, which may still have something to deliver.
"""

from __future__ import annotations

import os
import select
import signal
import socket

from otel_prompt_trace.pipeline.delivery.messages import (
    Answer,
    Batch,
    Ended,
    Failure,
    Open,
    Opened,
    Told,
    receive,
    send,
)
from otel_prompt_trace.pipeline.delivery.side_by_side import side_by_side
from otel_prompt_trace.pipeline.delivery.together import Outcome, Together

_POLL_SECONDS = 0.05


def main() -> None:
    """Serve the connection that is this process's standard input, to its end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=0) as connection:
        try:
            _serve(connection)
        except Ended:
            return


def _serve(connection: socket.socket) -> None:
    from otel_prompt_trace.store import open_store

    address = os.fsdecode(receive(connection, Open).store)
    try:
        store = Together(open_store(address))
    except Exception as error:  # noqa: BLE001 - told to whoever asked
        send(connection, Opened(Failure.of(error)))
        return
    send(connection, Opened())
    watch = _Watch(connection)
    while True:
        send(connection, _written(store, receive(connection, Batch), watch))


def _written(store: Together, batch: Batch, watch: _Watch) -> Answer:
    outcomes: dict[int, Outcome] = {}

    def write(batch: Batch) -> bool:
        store.write_all(batch.queries, batch.now, outcomes.__setitem__)
        return True

    side_by_side(write, [batch], 1, watch, _POLL_SECONDS)
    untold = Outcome(RuntimeError("nothing is known of it"))
    return Answer([Told.of(outcomes.get(number, untold)) for number in range(len(batch.queries))])


class _Watch:
    """Ends this process as soon as the application is gone, however long the store may hang.

    What waits in its spool may be somebody else's from then on: a write that came later could be a second one.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._poll = select.poll()
        self._poll.register(connection, 0)

    def __call__(self) -> None:
        """Look."""
        if self._poll.poll(0):
            os._exit(0)
