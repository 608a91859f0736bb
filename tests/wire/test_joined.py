"""One query over two services, in two processes with one store: pieces declared there, the prompt sent here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.batch import run_census
from tests.surroundings import without_settings
from tests.wire.joining_service import CHUNK, HISTORY, QUESTION, SYSTEM

pytest.importorskip("duckdb")
ROOT = Path(__file__).parents[2]


def _run(folder: Path, **variables: str) -> str:
    env = without_settings()
    called = [sys.executable, "-m", "tests.wire.joining_service", "front", str(folder / "store"), str(folder / "spool")]
    settings = {"PROMPT_TRACE_PROPAGATE": "true", "XDG_STATE_HOME": str(folder / "state"), **variables}
    done = subprocess.run(called, cwd=ROOT, env={**env, **settings}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_pieces_of_both_services_meet_in_one_census(tmp_path: Path) -> None:
    """Joined, the record holds what both declared and the request as it was sent, and every character is accounted."""
    qid = _run(tmp_path, PROMPT_TRACE_ACCEPT_QID="trusted")
    store = pt.open_store(tmp_path / "store")
    assert {found for _, found in store.qids()} == {qid}
    record = store.get(qid)
    (call,) = record.calls
    assert call.evidence == "wire"
    assert {piece["producer"]: piece["service"] for piece in record.of("piece")} == {
        "system": "front", "history": "front", "rag": "back", "user": "back",
    }  # fmt: skip
    assert {event["service"] for event in call.requests} == {"back"}
    assert len({event["writer"] for event in record.events}) == 2
    assert len({event["trace_id"] for event in record.events}) == 1
    (graded,) = pt.grade(record).calls
    assert graded.census is not None
    assert graded.census.total == graded.census.covered == sum(map(len, (SYSTEM, HISTORY, CHUNK, QUESTION)))
    assert {placed.state for placed in graded.census.pieces} == {"located"}
    assert graded.verdict == "exact"
    report = run_census(store, [], tmp_path / "out")
    assert [(row.qid, row.unaccounted, row.verdict) for row in report.rows] == [(qid, 0, "exact")]


def test_an_id_from_outside_is_not_joined_unless_it_is_trusted(tmp_path: Path) -> None:
    """By default the called service begins a query of its own, which names the one that it was called by."""
    qid = _run(tmp_path)
    store = pt.open_store(tmp_path / "store")
    (other,) = {found for _, found in store.qids()} - {qid}
    assert store.get(qid).calls == ()
    record = store.get(other)
    assert record.query is not None
    assert record.query["parent"] == {"qid": qid}
    (call,) = record.calls
    assert {piece.producer for piece in call.declared} == {"rag", "user"}
    assert pt.grade(record).verdict == "mismatch"
