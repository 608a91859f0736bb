"""What recording one model call costs the thread that makes it, beside what others take for the same call.

Every subject takes its turn in every round, so that what drifts meets all alike; calls come in bursts of a few, with a
pause after each, as a service makes them, so that background threads get their turn and are not what is measured. Each
call is timed by itself. "Above" is the median over the rounds of the difference to the batch processor's p50 in the
same round; a p99 is over all calls of the run. CPU is of the whole process for one call, until all of it is exported
or stored: with everything in the background, less what the machine does besides.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.peers import HOOK, LANGFUSE, peers
from benchmarks.servers import running
from benchmarks.subjects import BATCH, MODES, OTLP, Open, Opener, Texts, subjects, texts

SIZES: Final = (10_000, 66_000)
ABOVE_US: Final = {10_000: 10.0, 66_000: 20.0}  # above the batch processor, memory and written
OF_HOOK, OF_LANGFUSE, OF_P99, OF_CPU = 1 / 3, 1 / 5, 2.0, 0.15
_BURST, _PAUSE, _WARM = 8, 0.02, 8


@dataclass(frozen=True, slots=True)
class Cost:
    """One subject with one size of prompt; times in microseconds a call."""

    subject: str
    size: int
    p50_us: float
    p99_us: float
    above_us: float
    ratio: float
    cpu_us: float

    def as_json(self) -> dict[str, Any]:
        """The row as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Target:
    """What was aimed at, and what was found: ``found`` is to be at most ``bound``, or at least where ``least``.

    ``unit`` is empty for a ratio.
    """

    what: str
    found: float
    bound: float
    unit: str = ""
    least: bool = False

    @property
    def met(self) -> bool:
        """Whether it was reached in this run."""
        return self.found >= self.bound if self.least else self.found <= self.bound

    def as_json(self) -> dict[str, Any]:
        """The row as plain JSON values."""
        return {**asdict(self), "met": self.met}


def measure(*, rounds: int = 12, calls: int = 80, sizes: tuple[int, ...] = SIZES) -> Iterator[Cost | Target | str]:
    """Every subject with every size, then the targets; a peer that is not here is a line of text.

    Args:
        rounds: at least 2; one more is run before, and not counted.
        calls: of each subject in each round.
        sizes: of the prompt, in characters.

    Raises:
        ValueError: fewer than two rounds, or no call.
    """
    if rounds < 2 or calls < 1:
        raise ValueError(f"nothing to compare in {rounds} rounds of {calls}")
    with running("benchmarks.sink") as url:
        found, missing = peers(url)
        yield from (f"{name} is not measured: {reason}" for name, reason in missing.items())
        openers = {**subjects(url), **found}
        for size in sizes:
            costs = _costs(openers, texts(size), rounds, calls)
            yield from costs.values()
            yield from _targets(costs, size)


def _costs(openers: Mapping[str, Opener], given: Texts, rounds: int, calls: int) -> dict[str, Cost]:
    taken: dict[str, list[list[float]]] = {name: [] for name in openers}
    cpu: dict[str, list[float]] = {name: [] for name in openers}
    for turn in range(rounds + 1):
        names = list(openers)
        for name in reversed(names) if turn % 2 else names:
            with openers[name](given) as opened:
                times, spent = one_round(opened, calls)
            if turn:
                taken[name].append(times)
                cpu[name].append(spent)
    medians = {name: [statistics.median(times) for times in found] for name, found in taken.items()}
    p50 = {name: statistics.median([time for times in found for time in times]) for name, found in taken.items()}
    return {
        name: Cost(
            name,
            given.size,
            p50[name],
            percentile([time for times in taken[name] for time in times], 99),
            statistics.median([mine - batch for mine, batch in zip(medians[name], medians[BATCH], strict=True)]),
            statistics.median([mine / batch for mine, batch in zip(medians[name], medians[BATCH], strict=True)]),
            statistics.median(cpu[name]),
        )
        for name in openers
    }


def one_round(opened: Open, calls: int) -> tuple[list[float], float]:
    """Microseconds of each call, and CPU microseconds a call of the whole process until everything is delivered."""
    _burst(opened, _WARM)
    opened.settle()
    gc.collect()
    times: list[float] = []
    began = time.process_time_ns()
    while len(times) < calls:
        times += _burst(opened, min(_BURST, calls - len(times)))
        time.sleep(_PAUSE)
    opened.settle()
    return times, (time.process_time_ns() - began) / calls / 1000


def _burst(opened: Open, calls: int) -> list[float]:
    read, call, times = time.perf_counter_ns, opened.call, []
    with opened.around():
        for _ in range(calls):
            began = read()
            call()
            times.append((read() - began) / 1000)
    return times


def percentile(values: list[float], percent: int) -> float:
    """The value below which so many per cent of them lie, itself one of them."""
    return sorted(values)[min(len(values) - 1, math.ceil(len(values) * percent / 100) - 1)]


def _targets(costs: Mapping[str, Cost], size: int) -> Iterator[Target]:
    kb = f"{size / 1000:.0f} KB"
    for mode in MODES:
        mine = costs[f"ours, {mode}"]
        if mode != "fsync":
            above = ABOVE_US.get(size, math.inf)
            yield Target(f"{kb}, {mode}: p50 above the batch processor's", mine.above_us, above, "µs")
            yield Target(f"{kb}, {mode}: p99 of the batch processor's", mine.p99_us / costs[BATCH].p99_us, OF_P99)
            for peer, bound in ((HOOK, OF_HOOK), (LANGFUSE, OF_LANGFUSE)):
                if peer in costs:
                    yield Target(f"{kb}, {mode}: p50 of {peer}'s", mine.p50_us / costs[peer].p50_us, bound)
        yield Target(f"{kb}, {mode}: CPU up to the store, of OTLP's", mine.cpu_us / costs[OTLP].cpu_us, OF_CPU)
