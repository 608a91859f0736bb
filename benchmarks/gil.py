"""Recording beside other threads: one that never waits, and others that record as well.

Who lets go of the interpreter's lock beside a thread that never waits gets it back after a switch interval, five
milliseconds. So the calling thread must not let go of it at all, and a background thread as rarely as possible.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final

import orjson
import zstandard

from benchmarks.calls import Target, one_round
from benchmarks.subjects import ANSWER, BATCH, Open, Texts, deliver, messages, ours, subjects, texts

THREADS: Final = 8
ADDED_MS, KEPT, FASTER = 1.0, 0.5, 5.0
SHARE = 0.15  # what a thread keeps of its rate that lets go of the lock once for 64 records; once for each, 0.02
WAYS: Final = {"thread": "", "process": " through a process"}
_SIZE = 10_000


def measure(*, rounds: int = 3, calls: int = 200, seconds: float = 0.5) -> Iterator[Target]:
    """What is aimed at beside other threads, with a prompt of 10 KB.

    Args:
        rounds: of each measurement; the median counts.
        calls: in a round.
        seconds: that threads run together in a round.
    """
    given = texts(_SIZE)
    batch = subjects("http://127.0.0.1:9")[BATCH]
    added, kept, plain = list[float](), list[float](), list[float]()
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    alone: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        with batch(given) as opened, _busy():
            bare = statistics.median(one_round(opened, calls)[0])
        with ours("written")(given) as opened:
            with _busy():
                mine = statistics.median(one_round(opened, calls)[0])
            added.append((mine - bare) / 1000)
            kept.append(_throughput(opened, THREADS, seconds) / _throughput(opened, 1, seconds))
        for way in WAYS:
            with ours("written", delivery=way)(given) as opened:
                _background(opened, 10, nullcontext())  # the store is opened
                rates[way].append(_background(opened, calls, _busy()))
                alone[way].append(_background(opened, calls, nullcontext()))
        plain.append(_one_by_one(given, calls))
    yield Target("10 KB, written: p50 beside one busy thread, above the batch's", _middle(added), ADDED_MS, "ms")
    yield Target(f"10 KB, written: calls of {THREADS} threads together, of one's", _middle(kept), KEPT, least=True)
    for way, said in WAYS.items():
        what = f"10 KB: delivery{said} beside one busy thread, of"
        faster = [mine / other for mine, other in zip(rates[way], plain, strict=True)]
        yield Target(f"{what} one by one", _middle(faster), FASTER, least=True)
        share = [beside / without for beside, without in zip(rates[way], alone[way], strict=True)]
        yield Target(f"{what} alone", _middle(share), SHARE, least=True)


_middle: Callable[[list[float]], float] = statistics.median


@contextmanager
def _busy() -> Iterator[None]:
    """A thread that never waits."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            sum(range(500))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _throughput(opened: Open, threads: int, seconds: float) -> float:
    """Calls a second of some threads together that do nothing else."""
    counts = [0] * threads
    until = time.perf_counter() + seconds

    def work(number: int) -> None:
        while time.perf_counter() < until:
            opened.call()
            counts[number] += 1

    with opened.around():
        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    opened.settle()
    return sum(counts) / seconds


def _background(opened: Open, calls: int, beside: AbstractContextManager[None]) -> float:
    """Calls a second that the shipper delivers, ten to a query."""
    for _ in range(calls // 10):
        with opened.around():
            for _ in range(10):
                opened.call()
    with beside:
        began = time.perf_counter()
        deliver()
        return calls / (time.perf_counter() - began)


def _one_by_one(given: Texts, calls: int) -> float:
    """The same of a thread that encodes, compresses and writes each record by itself."""
    records = [{"prompt": messages(given.joined()), "output": ANSWER} for _ in range(calls)]

    def work(path: Path) -> None:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        compress = zstandard.ZstdCompressor(level=3).compress
        for record in records:
            os.write(file, compress(orjson.dumps(record)))
        os.close(file)

    with tempfile.TemporaryDirectory() as folder, _busy():
        thread = threading.Thread(target=work, args=(Path(folder) / "records",))
        began = time.perf_counter()
        thread.start()
        thread.join()
        return calls / (time.perf_counter() - began)
