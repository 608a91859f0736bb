"""grade, census, ship, erase and doctor: what they decide, and their exit codes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.store import open_store
from tests.cli.conftest import Run, record_rag


@pytest.mark.usefixtures("installed")
def test_grade_counts_verdicts_and_ends_with_the_worst(run: Run, places: list[str]) -> None:
    """0 for all exact, 3 where something is unknown, 1 where something is a mismatch; reasons are named."""
    exact = record_rag()
    assert pt.flush(10).ok
    assert run("grade", *places).code == 0
    with pt.query() as q, q.call(model="m", prompt="nobody declared this") as call:
        call.respond("x")
    assert pt.flush(10).ok
    unknown = run("grade", "--json", *places)
    assert unknown.code == 3
    assert {g["qid"]: g["verdict"] for g in unknown.json["grades"]} == {exact: "exact", q.qid: "unknown"}
    gap = record_rag(rider=" and a rider")
    assert pt.flush(10).ok
    outcome = run("grade", "--last", 5, *places)
    assert outcome.code == 1
    assert "gap" in outcome.text
    assert "no_pieces" in outcome.text
    assert gap in outcome.text
    assert run("grade", exact, *places).code == 0
    assert run("grade", gap, *places).code == 1


@pytest.mark.usefixtures("installed")
def test_census_names_a_malformed_line_and_what_does_not_join(run: Run, tmp_path: Path, places: list[str]) -> None:
    """Without spans for its calls the census names every call, and a malformed archive line by file and number."""
    qid = record_rag()
    assert pt.flush(10).ok
    spans = tmp_path / "spans.jsonl"
    spans.write_text('{"resourceSpans": []}\n{"resourceSpans": [oops]}\n')
    outcome = run("census", "--spans", spans, "--out", tmp_path / "out", *places)
    assert outcome.code == 3
    assert "spans.jsonl:2" in outcome.text
    assert qid in outcome.text
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {
        "calls.parquet", "pieces.parquet", "gaps.parquet", "joins.parquet",
    }  # fmt: skip
    report = run("census", "--spans", spans, "--json", *places).json
    assert len(report["payloads_without_span"]) == 1
    assert report["problems"][0]["line"] == 2


def test_ship_delivers_what_a_killed_process_left(run: Run, tmp_path: Path, places: list[str]) -> None:
    """A process killed with SIGKILL leaves its record in the spool; ship stores it, once, and removes the file."""
    store, spool = tmp_path / "store", tmp_path / "spool"
    script = (
        "import os, signal, otel_prompt_trace as pt\n"
        f"pt.install(store='s3://nowhere?endpoint_url=http://127.0.0.1:9', spool={str(spool)!r})\n"
        "with pt.query(question='?') as q, q.call(model='m', prompt='p') as call:\n"
        "    call.respond('r')\n"
        "print(q.qid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    qid = killed.stdout.strip()
    assert (killed.returncode, len(qid)) == (-9, 26)
    assert run("get", qid, *places).json["waiting"] == 4
    outcome = run("ship", "--json", *places)
    assert (outcome.code, outcome.json["events"], outcome.json["files"]) == (0, 4, 1)
    assert not list(spool.glob("*.spool"))
    assert [event["kind"] for event in open_store(str(store)).events(qid).events] == [
        "query", "request", "response", "end",
    ]  # fmt: skip
    assert run("ship", "--json", *places).json["events"] == 0


@pytest.mark.usefixtures("installed")
def test_erase_leaves_a_tombstone_and_nothing_else(run: Run, tmp_path: Path, places: list[str]) -> None:
    """After erase no reader finds the record, its text is in no file of the store, and what arrives later is swept."""
    qid = record_rag("a secret question")
    kept = record_rag("another question")
    assert pt.flush(10).ok
    outcome = run("erase", qid, "--yes", "--reason", "asked for", "--json", *places)
    assert outcome.code == 0
    assert outcome.json["verified"]
    assert len(outcome.json["deleted"]) == 1
    found = run("get", qid, *places)
    assert found.code == 1
    assert "erased" in found.err
    assert [row["qid"] for row in run("ls", "--json", *places).json] == [kept]
    tombstone = json.loads((tmp_path / "store" / "erased" / qid).read_text())
    assert "secret question" not in json.dumps(tombstone)
    pt.feedback(qid, comment="late")
    assert pt.flush(10).ok
    assert run("ship", "--json", *places).json["swept"] == [qid]
    assert not list((tmp_path / "store" / "payloads").rglob(f"{qid}/*"))


@pytest.mark.usefixtures("installed")
def test_erase_asks_first(run: Run, places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --yes and with no for an answer nothing is erased."""
    answer = io.StringIO("n\n")
    monkeypatch.setattr(answer, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", answer)
    qid = record_rag()
    assert pt.flush(10).ok
    assert run("erase", qid, *places).code == 130
    assert run("get", qid, *places).code == 0


def test_doctor_tries_the_store_and_names_what_waits(run: Run, tmp_path: Path, places: list[str]) -> None:
    """Doctor says that a folder store is writable and append-only, and fails with advice where it is not."""
    outcome = run("doctor", "--json", *places)
    assert outcome.code == 0
    found = {finding["name"]: finding for finding in outcome.json}
    assert found["store append-only"]["status"] == "ok"
    assert found["store"]["detail"].endswith("writable and append-only")
    assert found["tracer provider"]["status"] in {"ok", "warn"}
    (tmp_path / "file").write_text("")
    broken = run("doctor", "--store", tmp_path / "file" / "store", "--spool", tmp_path / "file" / "spool", "--json")
    assert broken.code == 1
    names = {finding["name"] for finding in broken.json if finding["status"] == "fail"}
    assert {"store", "spool"} <= names


def test_doctor_sees_an_applications_provider(tmp_path: Path, places: list[str]) -> None:
    """With --app the module is imported first, and its tracer provider is the one that is looked at."""
    (tmp_path / "someapp.py").write_text(
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "trace.set_tracer_provider(TracerProvider())\n"
    )
    command = [sys.executable, "-m", "otel_prompt_trace.cli", "doctor", "--app", "someapp", "--json", *places]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert found["tracer provider"]["status"] == "ok"
