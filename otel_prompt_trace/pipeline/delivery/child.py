"""The delivery process: opens the store that it is told, and writes what it is given into it.

It has no telemetry and no settings of its own, and ends when the application's end of the connection is closed. A
signal to the whole group is the application's to act on: what it has already handed over is still written.
"""

from __future__ import annotations

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
from otel_prompt_trace.pipeline.delivery.together import Outcome, Together


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

    address = receive(connection, Open).store
    try:
        store = Together(open_store(address))
    except Exception as error:  # noqa: BLE001 - told to whoever asked
        send(connection, Opened(Failure.of(error)))
        return
    send(connection, Opened())
    while True:
        batch = receive(connection, Batch)
        outcomes: dict[int, Outcome] = {}
        store.write_all(batch.queries, batch.now, outcomes.__setitem__)
        send(connection, Answer([Told.of(outcomes[number]) for number in range(len(batch.queries))]))
