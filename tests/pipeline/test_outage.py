"""A real S3 server that stops answering in the middle, and comes back."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.store import PayloadStore
from tests.seaweed import Seaweed
from tests.waiting import until

pytestmark = pytest.mark.integration


@pytest.fixture
def stored(seaweed: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PayloadStore]:
    """Recording into a place of the test's own on the server."""
    for name, value in seaweed.environment.items():
        monkeypatch.setenv(name, value)
    url = seaweed.url(prefix=f"outage-{os.getpid()}-{time.time_ns()}")
    pt.install(store=url, spool=str(tmp_path / "spool"), wire="off")
    yield pt.open_store(url)
    pt.uninstall()


def _ask(count: int) -> list[str]:
    qids = []
    for number in range(count):
        with pt.query(question=f"number {number}") as query, query.call(prompt="p" * 5000) as call:
            call.respond("o")
        qids.append(query.qid)
    return qids


def test_a_server_that_is_stopped_and_goes_on(seaweed: Seaweed, stored: PayloadStore) -> None:
    """While it hangs a flush keeps its deadline and recording goes on; after it everything is stored, once."""
    before = _ask(50)
    assert pt.flush(30).ok
    os.kill(seaweed.process.pid, signal.SIGSTOP)
    try:
        during = _ask(100)
        began = time.monotonic()
        result = pt.flush(0.5)
        assert time.monotonic() - began < 2.0
        assert (result.ok, result.spooled, result.lost) == (False, 400, 0)
        began = time.monotonic()
        during += _ask(100)
        assert time.monotonic() - began < 5.0
    finally:
        os.kill(seaweed.process.pid, signal.SIGCONT)
    after = _ask(10)
    until(lambda: pt.flush(30).ok, 60)
    qids = [*before, *during, *after]
    assert pt.flush(1).stored == 4 * len(qids)
    names = Counter(info.key.split("/")[2] for info in stored.objects.list("payloads/"))
    assert names == dict.fromkeys(qids, 1)
    assert len(stored.events(during[0]).events) == 4
