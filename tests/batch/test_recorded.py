"""What the recorder really stores, joined to what the real SDK really exported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.batch import run_census
from tests.batch.worlds import Tracing, collector_lines


@pytest.fixture
def tracing(tmp_path: Path) -> Iterator[Tracing]:
    """An installed recorder over the real SDK, with a folder as store."""
    tracing = Tracing(tmp_path / "spans.jsonl")
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), tracer_provider=tracing.provider)
    yield tracing
    pt.uninstall()
    tracing.close()


def test_recorded_queries_join_their_spans(tracing: Tracing, tmp_path: Path) -> None:
    """Exact, mismatch, two calls, an instrumented client inside, an erased and a lost query: all as they are."""
    qids = {}
    for name in ("exact", "gap", "erased", "lost"):
        with pt.query(question="why?") as q:
            qids[name] = q.qid
            with q.stage("search"):
                pass
            prompt = pt.Prompt().add("system", "Answer.", trust="policy").literal("\n\n").add("user", "Why?")
            with q.call(model="m", prompt=prompt) as call, tracing.chat():
                call.respond(output="because", finish_reason="stop")
            if name == "gap":
                with q.call(model="m", prompt="Answer.\n\nundeclared\n\nbecause") as call:
                    pt.declare("system", "Answer.", trust="policy")
                    call.respond(output="so", finish_reason="stop")
    assert pt.flush(30).ok
    store = pt.open_store(tmp_path / "store")
    store.erase(qids["erased"])
    for path in (tmp_path / "store" / "payloads").glob(f"*/{qids['lost']}/*"):
        path.unlink()

    report = run_census(store, [tracing.path], tmp_path / "out")
    found = {(row.qid, row.number): (row.verdict, row.unaccounted, row.span_joined) for row in report.rows}
    assert found == {
        (qids["exact"], 1): ("exact", 0, "pass"),
        (qids["gap"], 1): ("exact", 0, "pass"),
        (qids["gap"], 2): ("mismatch", len("\n\nundeclared\n\n"), "pass"),
    }
    assert report.joins == {"joined": 5, "span_without_payload": 2}
    assert {(item.span_name, item.qid) for item in report.spans_without_payload} == {
        ("call", qids["lost"]),
        ("chat m", qids["lost"]),
    }
    assert (report.payloads_without_span, report.erased, report.problems, report.exit_code) == ((), 1, (), 1)
    stages = duckdb.sql(f"SELECT qid, ms_recorded, ms_span FROM '{tmp_path}/out/stages.parquet' WHERE stage = 'search'")
    for _, recorded, measured in stages.fetchall():
        assert abs(recorded - measured) < 50
    collected = tmp_path / "collected.jsonl"
    collected.write_bytes(b"".join(collector_lines(tracing.finished)))
    again = run_census(store, [collected], None)
    assert (again.rows, again.joins, again.spans_without_payload) == (
        report.rows, report.joins, report.spans_without_payload,
    )  # fmt: skip
