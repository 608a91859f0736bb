"""``flush`` and ``aflush``: in time whatever the store does, and truthful about what was recorded since the last."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace import installation
from otel_prompt_trace.pipeline.drain import drain
from otel_prompt_trace.pipeline.flags import END
from otel_prompt_trace.runtime import Runtime
from tests.pipeline.fakes import FakePayloads
from tests.waiting import until

Run = Callable[..., Runtime]


class SilentServer:
    """Accepts every connection and never answers."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.taken: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            while True:
                self.taken.append(self._socket.accept()[0])
        except OSError:
            return

    def close(self) -> None:
        """Let go of everybody."""
        self._socket.close()
        for connection in self.taken:
            connection.close()


@pytest.fixture
def silent() -> Iterator[SilentServer]:
    server = SilentServer()
    yield server
    server.close()


@pytest.fixture
def installed(tmp_path: Path, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Recording into ``payloads``, through the public functions."""
    monkeypatch.setattr(installation, "_open_payloads", lambda _: payloads)
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), wire="off")
    yield
    if payloads.gate is not None:
        payloads.gate.set()
    pt.uninstall()


_HANGS = """
    import os, sys, threading, time
    import otel_prompt_trace as pt
    pt.install(store="s3://bucket/p?endpoint_url=http://127.0.0.1:" + sys.argv[1], spool="spool", wire="off")
    with pt.query(qid="q"):
        pass
    began = time.monotonic()
    result = pt.flush(1.0)
    print(round(time.monotonic() - began, 2), result.ok, result.delivered, result.spooled, flush=True)
    began = time.monotonic()
    with pt.query(qid="while-it-hangs"):
        pass
    print(round(time.monotonic() - began, 2), flush=True)
"""


@pytest.mark.integration
def test_a_socket_that_hangs_holds_up_neither_flush_nor_exit(tmp_path: Path, silent: SilentServer) -> None:
    """A real S3 client whose server accepts and never answers: everybody is in time, and the spool keeps it all.

    Flush keeps its second and recording its moment; the exit waits no longer than its own budget.
    """
    keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_DEFAULT_REGION": "eu-central-1"}
    program = [sys.executable, "-c", textwrap.dedent(_HANGS), str(silent.port)]
    done = subprocess.run(
        program, cwd=tmp_path, env={**keys, "PATH": "/usr/bin", "HOME": str(tmp_path)}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    flushed, recorded = (line.split() for line in done.stdout.splitlines())
    assert flushed[1:] == ["False", "False", "2"]
    assert 0.9 <= float(flushed[0]) < 2.5
    assert float(recorded[0]) < 0.5
    assert silent.taken
    payloads = FakePayloads()
    assert drain(tmp_path / "spool", payloads).events == 4
    assert payloads.kinds("q") == payloads.kinds("while-it-hangs") == ["query", "end"]


def test_a_loss_is_told_by_one_flush(run: Run, payloads: FakePayloads) -> None:
    """What was lost long ago makes no later flush a failure; the counts go on since the process began."""
    runtime = run()
    runtime.append("bad", [{"kind": "nonsense"}], flags=END)
    first = runtime.flush(20)
    assert (first.ok, first.delivered, first.lost, first.newly_lost) == (False, True, 1, 1)
    runtime.append("good", [{"kind": "end"}], flags=END)
    second = runtime.flush(20)
    assert (second.ok, second.stored, second.lost, second.newly_lost) == (True, 1, 1, 0)
    assert second.reasons == {"set_aside": 1}
    runtime.append("bad", [{"kind": "nonsense"}], flags=END)
    third = runtime.flush(20)
    assert (third.ok, third.lost, third.newly_lost) == (False, 2, 1)
    assert not bool(third)
    assert runtime.flush(20).ok


def test_looking_at_the_books_is_no_flush(run: Run, payloads: FakePayloads) -> None:
    """Metrics and receipts are read at any time: the loss is still told to whoever flushes."""
    runtime = run()
    runtime.append("bad", [{"kind": "nonsense"}], flags=END)
    until(lambda: runtime.accounts.result().lost)
    assert runtime.accounts.result().newly_lost == runtime.accounts.result().newly_lost == 1
    assert runtime.flush(20).newly_lost == 1


def test_a_flush_that_fails_is_no_loss(run: Run, payloads: FakePayloads) -> None:
    """It says that nothing is delivered; once the store is back the next one is whole."""
    payloads.failures = 1_000_000
    runtime = run()
    runtime.append("q", [{"kind": "end"}], flags=END)
    result = runtime.flush(0.1)
    assert (result.ok, result.delivered, result.spooled, result.newly_lost) == (False, False, 1, 0)
    payloads.failures = 0
    assert runtime.flush(20).ok


def _ticks_while(coroutine: Any) -> tuple[Any, int, float]:
    """What a coroutine returns, how often the loop came round meanwhile, and the longest time that it did not."""

    async def both() -> tuple[Any, int, float]:
        ticks, worst, last = 0, 0.0, time.monotonic()
        task = asyncio.ensure_future(coroutine)
        while not task.done():
            await asyncio.sleep(0.005)
            now = time.monotonic()
            ticks, worst, last = ticks + 1, max(worst, now - last), now
        return task.result(), ticks, worst

    return asyncio.run(both())


def test_aflush_delivers_while_the_loop_goes_on(installed: None, payloads: FakePayloads) -> None:
    """A write of the store takes its time, and the event loop none of it."""
    payloads.gate = threading.Event()
    with pt.query() as q:
        pass
    gate = payloads.gate
    threading.Timer(0.3, gate.set).start()
    result, ticks, worst = _ticks_while(pt.aflush(20))
    assert result.ok
    assert payloads.kinds(q.qid) == ["query", "end"]
    assert ticks >= 5
    assert worst < 0.25


def test_aflush_keeps_its_deadline(installed: None, payloads: FakePayloads) -> None:
    """A store that hangs: it returns in time, says no, and the loop went on."""
    payloads.gate = threading.Event()
    with pt.query():
        pass
    began = time.monotonic()
    result, ticks, _ = _ticks_while(pt.aflush(0.3))
    assert 0.3 <= time.monotonic() - began < 2.0
    assert (result.ok, result.delivered) == (False, False)
    assert ticks >= 5


def test_aflush_can_be_cancelled(installed: None, payloads: FakePayloads) -> None:
    """No thread waits on: the request that asked is gone, and what it recorded is delivered all the same."""
    payloads.gate = threading.Event()
    with pt.query() as q:
        pass
    until(lambda: payloads.writes)
    threads = threading.active_count()

    async def cancelled() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(pt.aflush(20), 0.05)
        assert threading.active_count() == threads

    asyncio.run(cancelled())
    payloads.gate.set()
    until(lambda: payloads.kinds(q.qid) == ["query", "end"])


def test_aflush_without_an_installation_is_nothing() -> None:
    """As ``flush``: nothing was recorded, and nothing is missing."""
    assert asyncio.run(pt.aflush(1)) == pt.FlushResult(0, 0, 0)
    assert pt.flush(1).ok


def test_many_flushes_at_once(installed: None, payloads: FakePayloads) -> None:
    """From threads and from a loop, while queries come: each returns once what was before it is stored."""
    outcomes: list[bool] = []

    def work(number: int) -> None:
        for turn in range(10):
            with pt.query(qid=f"q-{number}-{turn}"):
                pass
            outcomes.append(pt.flush(20).ok and payloads.kinds(f"q-{number}-{turn}") == ["query", "end"])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()

    async def loop() -> bool:
        return all([(await pt.aflush(20)).ok for _ in range(10)])

    assert asyncio.run(loop())
    for thread in threads:
        thread.join()
    assert outcomes == [True] * 40
