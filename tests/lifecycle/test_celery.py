"""Celery's workers, which fork, and end their children past every handler of Python's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.lifecycle.serving import EVENTS, PROGRAMS, environ, running, ship, spooled, stored
from tests.waiting import until

pytestmark = pytest.mark.integration

_WORKER = ("celery", "-A", "tasks", "worker", "--loglevel", "INFO", "--concurrency", "2", "--without-mingle",
           "--without-gossip", "--max-tasks-per-child", "2")  # fmt: skip
_TASKS = 12


def test_children_that_are_replaced_after_two_tasks(python: Path, tmp_path: Path) -> None:
    """Twelve tasks in six children and more: every query is stored once, most of them while the worker runs."""
    broker = tmp_path / "broker"
    (broker / "control").mkdir(parents=True)
    variables = {"BROKER_FOLDER": str(broker), "ADOPT_SOON": "1"}
    send = f"import tasks\nfor number in range({_TASKS}): tasks.ask.delay(number)"
    subprocess.run([str(python), "-c", send], cwd=PROGRAMS, env=environ(tmp_path, variables), check=True, timeout=60)

    def done() -> list[list[str]]:
        file = broker / "done"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    with running(python, tmp_path, *_WORKER, **variables) as worker:
        until(lambda: len(done()) == _TASKS or worker.process.poll() is not None, 90)
        worker.stop()
    results = done()
    assert sorted(int(number) for number, _, _ in results) == list(range(_TASKS)), worker.output.read_text()[-2000:]
    assert len({pid for _, _, pid in results}) >= _TASKS // 2
    assert len(stored(tmp_path)) >= _TASKS // 2
    ship(tmp_path)
    assert stored(tmp_path) == {qid: EVENTS for _, qid, _ in results}
    assert spooled(tmp_path) == []
