"""Draining a spool folder again and again, until told to stop: what ``ship --watch`` does beside many workers."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, final

from otel_prompt_trace.exceptions import ConfigurationError, StoreError
from otel_prompt_trace.pipeline.delivery.delivering import FIRST_PAUSE, LONGEST_PAUSE
from otel_prompt_trace.pipeline.drain import DrainReport, drain
from otel_prompt_trace.store import PayloadStore

SWEEP_SECONDS = 600.0  # between two looks for what arrived under erased ids
_SLICE_SECONDS = 0.2


@final
class Stop:
    """Set by SIGTERM and SIGINT while it is entered. A flag alone: a handler may come between any two instructions."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, seconds: float) -> None:
        """Until it is asked, or for so long."""
        deadline = time.monotonic() + seconds
        while not self.asked and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE_SECONDS))

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


def watch_spool(
    folder: Path,
    payloads: PayloadStore,
    *,
    interval: float,
    stop: Stop,
    delivered: Callable[[DrainReport], None],
    failed: Callable[[StoreError | ConfigurationError], None],
    jitter: Callable[[], float] = random.random,
) -> None:
    """Drain ``folder`` each ``interval`` seconds; while the store is down after pauses that grow.

    Args:
        folder: the spool folder.
        payloads: where to.
        interval: in seconds.
        stop: ends it, between two queries.
        delivered: called with the report of each round that did something.
        failed: called with each error of the store; the round is taken up again.
        jitter: between 0 and 1.
    """
    pause, swept = 0.0, -SWEEP_SECONDS
    while not stop.asked:
        report = DrainReport()
        try:
            drain(folder, payloads, stop=lambda: stop.asked, report=report)
            if time.monotonic() - swept >= SWEEP_SECONDS:
                report.swept += swept_by(payloads)
                swept = time.monotonic()
            pause, wait = 0.0, interval
        except (StoreError, ConfigurationError) as error:  # credentials and folders can be mended meanwhile
            failed(error)
            pause = min(LONGEST_PAUSE, pause * 2 or FIRST_PAUSE)
            wait = pause * (0.5 + jitter())
        if report.events or report.problems or report.swept:
            delivered(report)
        stop.wait(wait)


def swept_by(payloads: PayloadStore) -> list[str]:
    """Sweep; the erased ids under which something had arrived.

    Raises:
        StoreError: as of :meth:`PayloadStore.sweep <otel_prompt_trace.store.PayloadStore.sweep>`.
    """
    return [receipt.qid for receipt in payloads.sweep() if receipt.deleted or receipt.remaining]
