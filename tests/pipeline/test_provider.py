"""The tracer provider's flush and shutdown reach the payloads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NoOpTracerProvider

import otel_prompt_trace as pt
from otel_prompt_trace import installation
from tests.pipeline.fakes import FakePayloads

Attach = Callable[..., TracerProvider]


@pytest.fixture
def attached(tmp_path: Path, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attach]:
    """Install over ``payloads`` with a tracer provider of the test's own."""
    monkeypatch.setattr(installation, "_open_payloads", lambda _: payloads)
    providers: list[TracerProvider] = []

    def make(**settings: Any) -> TracerProvider:
        providers.append(TracerProvider(shutdown_on_exit=False))
        pt.install(
            store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), tracer_provider=providers[-1], **settings
        )
        return providers[-1]

    yield make
    if payloads.gate is not None:
        payloads.gate.set()
    pt.uninstall()
    for provider in providers:
        provider.shutdown()


def _open_query() -> pt.Query:
    q = pt.query(question="not over yet")
    q.__enter__()
    q.tool_call("t")
    return q


def test_force_flush_delivers(attached: Attach, payloads: FakePayloads) -> None:
    """True, and the payloads are there, also those of a query that goes on."""
    provider = attached()
    q = _open_query()
    assert provider.force_flush(20_000) is True
    assert payloads.kinds(q.qid) == ["query", "tool_call"]
    q.__exit__(None, None, None)


def test_force_flush_says_no(attached: Attach, payloads: FakePayloads) -> None:
    """False where the store did not take everything, and within the time given."""
    payloads.failures = 1_000_000
    provider = attached()
    with pt.query():
        pass
    began = time.monotonic()
    assert provider.force_flush(100) is False
    assert time.monotonic() - began < 2.0
    payloads.failures = 0
    assert provider.force_flush(20_000) is True


def test_force_flush_keeps_its_time_while_the_store_hangs(attached: Attach, payloads: FakePayloads) -> None:
    """A socket that blocks for a minute costs no more than the budget, and no lock is held: recording goes on."""
    payloads.gate = threading.Event()
    provider = attached()
    with pt.query():
        pass
    began = time.monotonic()
    assert provider.force_flush(100) is False
    with pt.query() as q:
        pass
    assert time.monotonic() - began < 2.0
    assert q.receipt.state == "spooled"


def test_force_flush_after_a_loss_says_no(attached: Attach, payloads: FakePayloads) -> None:
    """What is lost is not delivered, whatever else was."""
    provider = attached(durability="memory", memory_max_bytes="65536")
    with pt.query(question="x" * 100_000):
        pass
    assert provider.force_flush(20_000) is False


def test_shutdown_delivers_and_recording_goes_on(attached: Attach, payloads: FakePayloads) -> None:
    """Spans end there; what an application records after it is still delivered, at the latest at exit."""
    provider = attached()
    q = _open_query()
    provider.shutdown()
    assert payloads.kinds(q.qid) == ["query", "tool_call"]
    q.__exit__(None, None, None)
    assert pt.flush(20).ok
    assert payloads.kinds(q.qid) == ["query", "tool_call", "end"]


def test_shutdown_takes_one_try(attached: Attach, payloads: FakePayloads) -> None:
    """A store that is down does not hold up the process; what waits stays in the spool."""
    payloads.failures = 1_000_000
    provider = attached()
    with pt.query():
        pass
    began = time.monotonic()
    provider.shutdown()
    assert time.monotonic() - began < 4.0
    assert pt.flush(0.05).spooled == 2


def test_a_provider_that_takes_no_processors_is_no_error(payloads: FakePayloads, tmp_path: Path) -> None:
    """``attach`` says so; recording and ``flush`` work."""
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), tracer_provider=NoOpTracerProvider())
    assert installation.attach(NoOpTracerProvider()) is False
    pt.uninstall()
    assert installation.attach(NoOpTracerProvider()) is False
