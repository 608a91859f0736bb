"""What delivering a query costs: into a folder and an object store, by the application and by a process of its own.

A query is of one call here, so that each is an object by itself. CPU is of whole processes, for one query, from its
beginning until it is stored: of the application's, and of the one that delivers for it. The object store is a server on
loopback that keeps nothing, in a process whose time is not counted.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.calls import SIZES, one_round
from benchmarks.servers import running
from benchmarks.subjects import Open, ours, texts
from otel_prompt_trace.current import current

WAYS: Final = ("thread", "process")
_TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")
_ACCOUNT: Final = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing", "AWS_REGION": "us-east-1"}


@dataclass(frozen=True, slots=True)
class Delivered:
    """One way, with one size of prompt; CPU in microseconds a query, and what the process has resident, in MB."""

    store: str
    delivery: str
    size: int
    application_us: float
    process_us: float
    process_mb: float

    def as_json(self) -> dict[str, Any]:
        """The row as plain JSON values."""
        return asdict(self)


def measure(*, rounds: int = 5, queries: int = 160, sizes: tuple[int, ...] = SIZES) -> Iterator[Delivered]:
    """Each way with each size.

    Args:
        rounds: of each; the median counts.
        queries: in each round.
        sizes: of the prompt, in characters.
    """
    with running("benchmarks.sink") as url, _account():
        stores: Mapping[str, str | None] = {"folder": None, "S3": f"s3://bucket/p?endpoint_url={url}"}
        for size in sizes:
            given = texts(size)
            for name, store in stores.items():
                for way in WAYS:
                    spent = []
                    for _ in range(rounds):
                        with ours("written", store=store, delivery=way)(given) as opened:
                            spent.append(_one(opened, queries))
                    here, there, resident = (statistics.median(column) for column in zip(*spent, strict=True))
                    yield Delivered(name, way, size, here, there, resident)


def _one(opened: Open, queries: int) -> tuple[float, float, float]:
    def query() -> None:
        with opened.around():
            opened.call()

    alone = Open(query, opened.settle)
    one_round(alone, 1)  # the store is opened
    before, _ = _process()
    _, here = one_round(alone, queries)
    after, resident = _process()
    return here, (after - before) * _TICK_US / queries, resident


def _process() -> tuple[int, float]:
    """Clock ticks that the delivery process has taken, and what it has resident, in MB; 0 where there is none."""
    runtime = current()
    pid = None if runtime is None else runtime.delivery_pid
    if pid is None:
        return 0, 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]), int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def _account() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _ACCOUNT}
    os.environ.update(_ACCOUNT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
