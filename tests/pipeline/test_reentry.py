"""A finalizer or a signal handler may record in the middle of our own work, on the thread that holds our locks."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.current import current
from otel_prompt_trace.pipeline.accounting import Accounts
from otel_prompt_trace.pipeline.spool import Spool
from otel_prompt_trace.pipeline.spool_file import SpoolFile
from otel_prompt_trace.runtime import Runtime

pytestmark = pytest.mark.timeout(60)
QIDS = [f"01JDZQ4K8B000000000000000{number}" for number in range(4)]


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    """Recording into a folder."""
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"))
    found = current()
    assert found is not None
    yield found
    pt.uninstall()


def record(runtime: Runtime, qid: str) -> str:
    """One event; how its ticket stands."""
    return runtime.append(qid, [{"kind": "feedback", "score": 1}]).state


def once(original: Callable[..., Any], what: Callable[[], object]) -> Callable[..., Any]:
    """The original, which does ``what`` in its midst the first time."""
    left = [what]

    def replaced(*arguments: Any, **named: Any) -> Any:
        if left:
            left.pop()()
        return original(*arguments, **named)

    return replaced


@pytest.mark.parametrize(
    ("owner", "name"), [(SpoolFile, "append"), (Spool, "append"), (Spool, "acknowledge"), (Accounts, "store")]
)
def test_in_the_midst_of_our_own_work(runtime: Runtime, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Whatever is told of there is recorded a little later: once, and nothing hangs."""

    class Abandoned:
        """A stream that nobody closed, which ends its span when it is collected."""

        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            record(runtime, QIDS[1])
            pt.flush(1)

    def collected() -> None:
        Abandoned()
        gc.collect()

    monkeypatch.setattr(owner, name, once(getattr(owner, name), collected))
    assert record(runtime, QIDS[0]) == "spooled"
    assert pt.flush(20)
    assert pt.flush(20).stored == 2
    assert record(runtime, QIDS[2]) == "spooled"
    assert pt.flush(20).stored == 3
    kept = sorted(qid for _, qid in pt.open_store(runtime.settings.store).qids())
    assert kept == QIDS[:3]


def test_a_signal_handler_that_records(runtime: Runtime) -> None:
    """It runs between any two steps of the main thread, those of an append among them."""
    runs = 0

    def handler(*_: object) -> None:
        nonlocal runs
        runs += 1
        record(runtime, QIDS[1])

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        recorded = 0
        while runs < 300:
            record(runtime, QIDS[0])
            recorded += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert pt.flush(30)
    assert pt.flush(30).stored == recorded + runs
