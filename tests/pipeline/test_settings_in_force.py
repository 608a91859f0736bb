"""Settings that bound the spool: each changes what happens, and not only what is read."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from otel_prompt_trace.pipeline import shipper
from otel_prompt_trace.pipeline.flags import END
from otel_prompt_trace.runtime import Runtime
from tests.pipeline.fakes import FakePayloads, frame, spool_file
from tests.waiting import until

Run = Callable[..., Runtime]
_EVENTS = [{"kind": "query"}]


def _append(runtime: Runtime, times: int) -> list[str]:
    return [runtime.append(f"q{number}", _EVENTS).state for number in range(times)]


@pytest.fixture
def down(payloads: FakePayloads) -> None:
    """The store takes nothing."""
    payloads.failures = 1_000_000


@pytest.mark.parametrize("durability", ["written", "memory"])
@pytest.mark.usefixtures("down")
def test_max_frames_bounds_the_appends_that_wait(run: Run, durability: str) -> None:
    """The newest beyond it are lost, counted; one more and one more is kept."""
    runtime = run(spool_max_frames=3, durability=durability)
    assert _append(runtime, 5) == ["spooled"] * 3 + ["lost"] * 2
    assert runtime.accounts.result().reasons == {"spool_full": 2}


@pytest.mark.parametrize("durability", ["written", "memory"])
def test_a_full_spool_blocks_where_it_was_asked_to(run: Run, payloads: FakePayloads, durability: str) -> None:
    """The append waits until the store has taken what fills it; with ``drop`` the same append is lost."""
    kept: dict[str, Any] = {"spool_max_frames": 1, "durability": durability}
    payloads.gate = threading.Event()
    blocking = run(spool_full="block", spool_block_ms=20_000, **kept)
    assert blocking.append("a", _EVENTS, flags=END).state == "spooled"
    until(lambda: payloads.writes)
    opener = threading.Timer(0.05, payloads.gate.set)
    opener.start()
    assert blocking.append("b", _EVENTS).state == "spooled"
    opener.join()
    payloads.gate.clear()
    dropping = run(spool=str(blocking.settings.spool) + "2", **kept)
    assert dropping.append("a", _EVENTS, flags=END).state == "spooled"
    assert dropping.append("b", _EVENTS).state == "lost"


@pytest.mark.usefixtures("down")
def test_block_ms_is_how_long_it_waits(run: Run) -> None:
    """No less, and then the event is lost."""
    runtime = run(spool_max_frames=1, spool_full="block", spool_block_ms=60)
    _append(runtime, 1)
    started = time.monotonic()
    assert runtime.append("late", _EVENTS).state == "lost"
    assert time.monotonic() - started >= 0.06


@pytest.mark.parametrize(("seconds", "files"), [(1, 2), (600, 1)])
@pytest.mark.usefixtures("down")
def test_max_age_closes_a_file(run: Run, seconds: int, files: int) -> None:
    """A file that is older takes no further append; the test's clock goes on by a millisecond with each look."""
    runtime = run(spool_max_age=seconds)
    _append(runtime, 1)
    for _ in range(1_100):
        runtime.sources.now_ns()
    runtime._spool.prepare()  # as the shipper does, every little while
    _append(runtime, 1)
    written = [path for path in runtime.settings.spool.glob("*.spool") if b"PTFRM1" in path.read_bytes()]
    assert len(written) == files


@pytest.mark.parametrize(("budget", "late"), [(30, True), (20_000, False)])
@pytest.mark.usefixtures("down")
def test_fsync_ms_is_how_long_an_append_waits_for_the_disk(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, budget: int, late: bool
) -> None:
    """A disk that takes longer is gone on without, and that is said; within its time nothing is."""
    sync = os.fdatasync

    def slowly(descriptor: int) -> None:
        time.sleep(0.15)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", slowly)
    runtime = run(durability="fsync", fsync_ms=budget)
    assert _append(runtime, 1) == ["spooled"]
    assert any("PROMPT_TRACE_FSYNC_MS" in message for message in caplog.messages) == late


@pytest.mark.parametrize("adopt", [True, False])
def test_adopt_says_whether_the_dead_are_delivered(
    run: Run, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch, adopt: bool
) -> None:
    """With ``false`` their files stay for ``prompt-trace ship``, also after a flush and at the end."""
    monkeypatch.setattr(shipper, "_FIRST_ADOPT_SECONDS", 0.0)
    monkeypatch.setattr(shipper, "ADOPT_SECONDS", 0.05)
    runtime = run(adopt=adopt)
    path = spool_file(runtime.settings.spool / f"A{runtime._parts.mark}.spool", frame(1, qid="theirs"))
    runtime.append("own", _EVENTS, flags=END)
    if adopt:
        until(lambda: not path.exists())
    else:
        assert runtime.flush(20).delivered
        runtime.close()
    assert path.exists() == (not adopt)
    assert ("theirs" in payloads.lines) == adopt
