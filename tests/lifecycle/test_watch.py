"""``ship --watch``: a sidecar that brings in what workers leave behind, until it is told to stop."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from otel_prompt_trace.pipeline.drain import DrainReport
from otel_prompt_trace.pipeline.watching import Stop, watch_spool
from otel_prompt_trace.store import open_store
from tests.lifecycle.serving import environ, spooled, stored
from tests.pipeline.fakes import frame, spool_file
from tests.waiting import until

_ROOT = Path(__file__).parents[2]

Watch = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    """Begin to watch the spool of the test."""
    made: list[subprocess.Popen[str]] = []

    def begin(*options: str) -> subprocess.Popen[str]:
        program = [sys.executable, "-m", "otel_prompt_trace.cli", "ship", "--watch", "--interval", "0.1", *options]
        pipe = subprocess.PIPE
        env = environ(tmp_path, {"PYTHONPATH": str(_ROOT)})
        made.append(subprocess.Popen(program, cwd=tmp_path, env=env, stdout=pipe, stderr=pipe, text=True))
        return made[-1]

    yield begin
    for process in made:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_goes_on_until_told_to_stop(tmp_path: Path, watch: Watch, number: int) -> None:
    """What is left is stored as it appears, a living process's file is not touched, and it ends with status 0."""
    held = spool_file(tmp_path / "spool" / "A.spool", frame(1, qid="lives"))
    descriptor = os.open(held, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    process = watch("--json")
    for turn in range(3):
        path = spool_file(tmp_path / "spool" / f"B{turn}.spool", frame(2, qid=f"q{turn}"))
        until(lambda: not path.exists())  # noqa: B023 - awaited before the next turn
    assert stored(tmp_path) == {"q0": 1, "q1": 1, "q2": 1}
    assert spooled(tmp_path) == [held]
    os.close(descriptor)
    until(lambda: not held.exists())
    process.send_signal(number)
    output, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    reports = [json.loads(line) for line in _documents(output)]
    assert sum(report["events"] for report in reports) == 4
    assert stored(tmp_path)["lives"] == 1


@pytest.mark.integration
def test_what_arrives_under_an_erased_id_is_swept_and_named(tmp_path: Path, watch: Watch) -> None:
    """At the first round: the line that says what was done names the id, and nothing of it is stored any more."""
    store = open_store(tmp_path / "store")
    store.erase("gone")
    spool_file(tmp_path / "spool" / "A.spool", frame(1, qid="gone"), frame(2, qid="stays"))
    process = watch("--json")
    until(lambda: set(stored(tmp_path)) == {"stays"} and not spooled(tmp_path))
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    assert [qid for line in _documents(output) for qid in json.loads(line)["swept"]] == ["gone"]
    assert set(stored(tmp_path)) == {"stays"}


@pytest.mark.integration
def test_a_store_that_is_down_is_asked_again(tmp_path: Path, watch: Watch) -> None:
    """It says so, keeps everything, and delivers once the store is back; there is no need to start it anew."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "payloads").write_text("in the way")
    path = spool_file(tmp_path / "spool" / "A.spool", frame(1, qid="q"))
    process = watch()
    assert process.stderr is not None
    assert process.stderr.readline().startswith("prompt-trace: ")
    assert path.exists()
    (tmp_path / "store" / "payloads").unlink()
    until(lambda: not path.exists(), 40)
    process.terminate()
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "1 event(s) of 1 query(ies)" in output
    assert stored(tmp_path) == {"q": 1}


def test_it_stops_between_two_queries(tmp_path: Path) -> None:
    """However much lies there; the rest stays, and its file is free for whoever comes next."""
    path = spool_file(tmp_path / "spool" / "A.spool", *(frame(number, qid=f"q{number}") for number in range(1, 101)))
    store = open_store(tmp_path / "store")
    reports: list[DrainReport] = []
    with Stop() as stop:
        write = store.write

        def stopping(*arguments: object, **options: object) -> list[str]:
            if arguments[1] == "q10":
                signal.raise_signal(signal.SIGTERM)
            return write(*arguments, **options)  # type: ignore[arg-type]

        store.write = stopping  # type: ignore[method-assign]
        watch_spool(path.parent, store, interval=1, stop=stop, delivered=reports.append, failed=reports.append)  # type: ignore[arg-type]
    assert [report.events for report in reports] == [10]
    assert path.exists()
    assert len(stored(tmp_path)) == 10
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def _documents(output: str) -> list[str]:
    """The JSON documents of an output, one after the other."""
    decoder, found, rest = json.JSONDecoder(), [], output.strip()
    while rest:
        _, end = decoder.raw_decode(rest)
        found.append(rest[:end])
        rest = rest[end:].strip()
    return found
