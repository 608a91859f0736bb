"""What a request to a model costs with wire capture, against the same request without.

A host on loopback, in a process of its own, answers a request of 60 KB at once, and another with a stream of 2,000
chunks. The client is httpx2's, as the SDKs of OpenAI and Anthropic use it. Before each timing capture is installed or
uninstalled, the library's own functions put back; what was recorded is delivered after it, untimed.
"""

from __future__ import annotations

import gc
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import httpx2

import otel_prompt_trace as pt
from benchmarks.measuring import Comparison, over_rounds
from benchmarks.servers import running

CHUNKS: Final = 2000
_PATH = "/v1/chat/completions"
_TEXT = "sixty thousand characters " * 2308


@dataclass(frozen=True, slots=True)
class Row(Comparison):
    """One line of the table; times in microseconds a request."""

    what: str


def measure(*, rounds: int, requests: int) -> Iterator[Row]:
    """Time to the first byte and in total, of a request of 60 KB and of a stream.

    Raises:
        ValueError: fewer than two rounds.
    """
    if rounds < 2:
        raise ValueError(f"nothing to compare in {rounds} rounds")
    with (
        running("benchmarks.host", str(CHUNKS)) as url,
        tempfile.TemporaryDirectory() as folder,
        httpx2.Client(base_url=url) as client,
    ):
        try:
            yield from _rows(client, folder, rounds, requests)
        finally:
            pt.uninstall()  # before its folder goes


def _rows(client: httpx2.Client, folder: str, rounds: int, requests: int) -> Iterator[Row]:
    for what, body in (("60 KB, answered at once", _body()), (f"stream of {CHUNKS:,} chunks", _body(stream=True))):
        taken: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        for turn in range(rounds + 1):
            for ours in (True, False) if turn % 2 else (False, True):
                found = _round(client, body, requests, folder if ours else None)
                if turn:
                    taken[ours].append(found)
        for number, part in enumerate(("first byte", "total")):
            bare, mine = ([pair[number] for pair in taken[ours]] for ours in (False, True))
            yield Row(what=f"{what}: {part}", **over_rounds(bare, mine).as_json())


def _round(client: httpx2.Client, body: bytes, requests: int, folder: str | None) -> tuple[float, float]:
    """The medians of some requests: microseconds to the first byte, and in total."""
    if folder is None:
        pt.uninstall()
    else:
        pt.install(store=f"{folder}/store", spool=f"{folder}/spool")
    gc.collect()
    first, total = [], []
    for _ in range(requests):
        began = time.perf_counter_ns()
        with client.stream("POST", _PATH, content=body) as response:
            chunks = response.iter_raw()
            next(chunks)
            first.append(time.perf_counter_ns() - began)
            for _chunk in chunks:
                pass
        total.append(time.perf_counter_ns() - began)
    if folder is not None:
        pt.flush(60)
    return statistics.median(first) / 1000, statistics.median(total) / 1000


def _body(*, stream: bool = False) -> bytes:
    text = "tell me a story" if stream else _TEXT
    return json.dumps({"model": "a", "messages": [{"role": "user", "content": text}], "stream": stream}).encode()
