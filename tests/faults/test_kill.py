"""Killed at any moment: every query that was acknowledged before is in the store after the spool was drained."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.core.record import project
from otel_prompt_trace.core.text import sha256_text
from otel_prompt_trace.pipeline.drain import drain
from otel_prompt_trace.store.frames import unpack
from tests.surroundings import without_settings

pytestmark = pytest.mark.fault

_ROOT = Path(__file__).parents[2]
_ENV = without_settings()
_DRAIN = """
import sys
from pathlib import Path
import otel_prompt_trace as pt
from otel_prompt_trace.pipeline.drain import drain
print("ready", flush=True)
drain(Path(sys.argv[2]), pt.open_store(sys.argv[1]))
"""


def _record_and_kill(store: Path, spool: Path, seed: int, file_bytes: int) -> dict[str, str]:
    """Let the program record, kill it at a moment that the seed chooses; what it acknowledged: qid to digest."""
    rng = random.Random(seed)
    program = [
        sys.executable,
        "-m",
        "tests.faults.recording_process",
        str(store),
        str(spool),
        str(seed),
        str(file_bytes),
    ]
    with subprocess.Popen(program, cwd=_ROOT, env=_ENV, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(rng.randrange(1, 120))]
        time.sleep(rng.random() * 0.02)  # the moment itself: nothing could be waited for
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    return dict(line.decode().split() for line in lines if line.endswith(b"\n"))


def _lines(store: Path) -> list[dict[str, Any]]:
    """Every line of every object, as often as it lies there."""
    return [
        json.loads(line)
        for path in sorted(store.rglob("*.jsonl.zst"))
        for line in unpack(path.read_bytes())[0].splitlines()
    ]


def _all_there(store: Path, acknowledged: dict[str, str]) -> None:
    payloads = pt.open_store(store)
    for qid, digest in acknowledged.items():
        found = payloads.events(qid)
        assert found.problems == []
        kinds = [event["kind"] for event in sorted(found.events, key=lambda event: event["seq"])]
        pieces = kinds.count("piece")
        assert kinds == ["query", "retrieval", *["piece"] * pieces, "request", "response", "end"]
        by_kind = {event["kind"]: event for event in found.events}
        assert by_kind["query"]["question"] == f"what of {digest}?"
        assert sha256_text(by_kind["request"]["prompt"]) == digest == by_kind["request"]["sha256"]
        assert by_kind["response"]["output"] == f"answer to {digest}"
        assert pt.grade(project(qid, found.events)).verdict == "exact"
    identities = Counter((line["writer"], line["seq"]) for line in _lines(store))
    assert set(identities.values()) == {1}
    assert all(line["kind"] != "query" or line["question"] for line in _lines(store))


@pytest.mark.parametrize("seed", range(9))
def test_no_acknowledged_query_is_lost(tmp_path: Path, seed: int) -> None:
    """Nine runs, killed under load at a random moment, the store reachable meanwhile in two of three.

    Where it is, the shipper and the drain may both deliver the same events: each is there once.
    """
    store, spool = tmp_path / "store", tmp_path / "spool"
    reachable = seed % 3 != 0
    if not reachable:
        store.write_text("in the way")
    acknowledged = _record_and_kill(store, spool, seed, (1 << 18, 1 << 24)[seed % 2])
    assert acknowledged
    if not reachable:
        store.unlink()
    report = drain(spool, pt.open_store(store))
    assert report.set_aside == []
    assert report.alive == 0
    _all_there(store, acknowledged)
    assert list(spool.glob("*.spool")) == []
    assert drain(spool, pt.open_store(store)).events == 0


@pytest.mark.parametrize("seed", range(100, 103))
def test_a_drain_that_is_killed_is_taken_up_again(tmp_path: Path, seed: int) -> None:
    """Killed while it delivers what a killed process left, then run once more: everything is there, once."""
    store, spool = tmp_path / "store", tmp_path / "spool"
    store.write_text("in the way")
    acknowledged = _record_and_kill(store, spool, seed, 1 << 18)
    store.unlink()
    program = [sys.executable, "-c", _DRAIN, str(store), str(spool)]
    with subprocess.Popen(program, cwd=_ROOT, env=_ENV, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.Random(seed).random() * 0.1)
        process.send_signal(signal.SIGKILL)
    drain(spool, pt.open_store(store))
    _all_there(store, acknowledged)
    assert list(spool.glob("*.spool")) == []
