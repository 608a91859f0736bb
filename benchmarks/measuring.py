"""Two ways of doing one thing, timed by turns in one process.

Each round times both, in an order that changes from round to round, so that what drifts (frequency, caches, other
work on the machine) meets both alike. The ratio is the median of the rounds' own ratios; its quartiles say how far it
can be trusted. Collecting garbage is part of the cost and stays on; each timing begins after a full collection.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

Work = Callable[[int], object]

CLOCKS: Final[dict[str, Callable[[], int]]] = {
    "cpu": time.thread_time_ns,  # of the calling thread: what else the machine does is not in it
    "wall": time.perf_counter_ns,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The ratio with its quartiles; the medians of the rounds, in microseconds each time the thing was done."""

    bare_us: float
    ours_us: float
    ratio: float
    low: float
    high: float

    def as_json(self) -> dict[str, Any]:
        """Its fields, by name."""
        return asdict(self)


def compare(
    bare: Work, ours: Work, *, rounds: int, count: int, clock: str = "cpu", settle: Callable[[], object] | None = None
) -> Comparison:
    """Time both ways.

    Args:
        bare, ours: do the thing as often as they are told.
        rounds: at least 2; one more is run before, and not counted.
        count: how often a round does it.
        clock: one of :data:`CLOCKS`.
        settle: runs after each timing, untimed: what is left to background threads must not meet the next one.

    Raises:
        ValueError: fewer than two rounds, or a count below one.
    """
    if rounds < 2 or count < 1:
        raise ValueError(f"nothing to compare in {rounds} rounds of {count}")
    read = CLOCKS[clock]
    plain: list[float] = []
    mine: list[float] = []
    ways = ((ours, mine), (bare, plain))
    for turn in range(rounds + 1):
        for work, taken in reversed(ways) if turn % 2 else ways:
            gc.collect()
            began = read()
            work(count)
            spent = read() - began
            if settle is not None:
                settle()
            if turn:
                taken.append(spent / count / 1000)
    return over_rounds(plain, mine)


def over_rounds(bare: Sequence[float], ours: Sequence[float]) -> Comparison:
    """What rounds, at least two, come to; microseconds of each, in the same order."""
    ratios = [one / other for one, other in zip(ours, bare, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Comparison(statistics.median(bare), statistics.median(ours), middle, low, high)
