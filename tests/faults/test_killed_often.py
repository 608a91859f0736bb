"""SIGKILL, hundreds of times: whoever records, adopts or drains is killed at a random moment, beside others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.pipeline.drain import drain
from otel_prompt_trace.pipeline.frames import UNFINISHED
from tests.faults.running import Told, check_stored, model_host
from tests.lifecycle.serving import environ

pytestmark = pytest.mark.fault

_ROOT = Path(__file__).parents[2]
_RUNS, _DRAINS = 24, 6
_THROUGH_A_PROCESS = {4, 6}  # the store is reachable: with small files, and with large ones


@pytest.mark.parametrize("seed", range(10))
def test_no_acknowledged_query_is_lost_and_none_is_stored_twice(tmp_path: Path, seed: int) -> None:
    """Ten times twenty-four processes share a spool, each killed under load while the next one adopts what it left.

    They record by declaration, by the wire and by spans. In a half of the ten files of the spool are small, so that
    many kills fall into a change of file, and a query lies in two of them. In another half the store is not reachable
    until all are dead. Some deliver through a process of their own. At last six who drain are killed as well.
    """
    store, spool = tmp_path / "store", tmp_path / "spool"
    reachable = seed % 2 == 0
    if not reachable:
        store.write_text("in the way")
    small = seed % 4 < 2
    install = {"store": str(store), "spool": str(spool), "spool_file_bytes": 1 << 16 if small else 1 << 22}
    install["delivery"] = "process" if seed in _THROUGH_A_PROCESS else "thread"
    config = {"install": install, "adopt_seconds": 0.01, "seed": seed, "runs": _RUNS, "drains": 0}
    told = _kill_many(tmp_path, config)
    if not reachable:
        assert len(list(spool.glob("*.spool"))) > _RUNS // 2  # some are killed before their first append
        store.unlink()
    told += _kill_many(tmp_path, {**config, "runs": 0, "drains": _DRAINS})
    assert len(told) > _RUNS
    report = drain(spool, pt.open_store(store))
    assert (report.set_aside, report.alive) == ([], 0)
    assert all(problem.reason.startswith(UNFINISHED) for problem in report.problems)  # appends cut in the middle
    lines = check_stored(pt.open_store(store), told)
    assert len({line["writer"] for line in lines}) > _RUNS // 2
    assert {each.via for each in told} == {"declare", "wire", "span"}
    assert list(spool.glob("*.spool")) == []
    assert drain(spool, pt.open_store(store)).events == 0


def _kill_many(folder: Path, config: dict[str, object]) -> list[Told]:
    with model_host() as host:
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.killing", json.dumps({**config, "host": host.port})],
            cwd=_ROOT, env=environ(folder, {"PYTHONPATH": os.fspath(_ROOT)}), capture_output=True, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    said = [orjson.loads(line) for line in done.stdout.splitlines()]
    assert said.pop() == {"killed": config["runs"] + config["drains"]}  # type: ignore[operator]
    return [Told(**each) for each in said if "qid" in each]
