"""A query by the trace id that its events carry, and a store that is not there."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import otel_prompt_trace as pt
from tests.cli.conftest import Run, record_rag
from tests.cli.test_hostile import event, stored

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.mark.usefixtures("installed")
def test_a_trace_id_finds_a_minted_query(run: Run, places: list[str]) -> None:
    """Trace id, its upper case, traceparent and a Jaeger URL find the query that query() opened in that trace."""
    record_rag()
    qid = record_rag("this one")
    assert pt.flush(10).ok
    first = run("show", "--json", qid, *places).json["events"][0]
    trace_id, span_id = first["trace_id"], first["span_id"]
    url = f"http://127.0.0.1:16686/trace/{trace_id}?uiFind=x"
    for reference in (trace_id, trace_id.upper(), f"00-{trace_id}-{span_id}-01", url):
        assert run("get", reference, *places).json["qid"] == qid
    assert run("grade", trace_id, *places).code == 0


def test_a_trace_id_finds_what_only_waits_here(run: Run, places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that lies in the spool alone is found by its trace id too."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    nowhere = "s3://payloads?endpoint_url=http://127.0.0.1:9&region=us-east-1"
    pt.install(store=nowhere, spool=places[3], tracer_provider=TracerProvider())
    try:
        with pt.query(question="q") as q:
            trace_id = f"{trace.get_current_span().get_span_context().trace_id:032x}"
        assert run("get", trace_id, *places).json["qid"] == q.qid
        assert run("get", "0" * 31 + "1", *places).code == 1
    finally:
        pt.uninstall()


def test_several_queries_of_one_trace_are_named(run: Run, tmp_path: Path, places: list[str]) -> None:
    """A trace with two queries is ambiguous: both are named, and none is chosen."""
    for qid in ("one", "two", "other"):
        line = {**event(1, "query", trace_id=TRACE if qid != "other" else "0" * 31 + "1"), "qid": qid}
        stored(tmp_path / "store", [line], qid)
    outcome = run("get", PARENT, *places)
    assert outcome.code == 2
    assert f"trace {TRACE} has 2 queries: one, two" in outcome.err


def test_the_search_is_bounded_and_says_so(run: Run, tmp_path: Path, places: list[str]) -> None:
    """Only the last three stored days are searched; the message says which, and --date reaches further."""
    today = datetime(2026, 11, 30, tzinfo=timezone.utc)
    for age in range(5):
        day = (today - timedelta(days=age)).date()
        line = {**event(1, "query", trace_id=TRACE if age == 4 else None), "qid": f"q{age}"}
        stored(tmp_path / "store", [line], f"q{age}", f"{day}")
    outcome = run("get", TRACE, *places)
    assert outcome.code == 1
    assert "the newest 3 queries stored from 2026-11-28 to 2026-11-30" in outcome.err
    assert "--date" in outcome.err
    assert run("get", TRACE, "--date", "2026-11-26", *places).json["qid"] == "q4"
    assert run("show", TRACE, "--date", "2026-11-27", *places).code == 3
    assert run("grade", TRACE, "--date", "2026-11-25", *places).code == 3
    for day in ("2026-11-30", "0001-01-01", "9999-12-31"):
        assert run("get", TRACE, "--date", day, *places).code == 1
    assert "--since" in run("grade", "--date", "2026-11-30", *places).err


@pytest.mark.usefixtures("installed")
def test_a_trace_is_not_erased_by_a_bounded_search(run: Run, places: list[str]) -> None:
    """What is erased takes a qid: a trace id whose queries only a search can find erases nothing."""
    qid = record_rag()
    assert pt.flush(10).ok
    trace_id = run("show", "--json", qid, *places).json["events"][0]["trace_id"]
    assert run("erase", "--yes", trace_id, *places).code == 1
    assert run("get", qid, *places).code == 0


@pytest.mark.parametrize(
    ("command", "code"), [(["ls"], 0), (["show", "x"], 1), (["get", TRACE], 1), (["grade"], 3), (["grade", "x"], 1),
                          (["census"], 3), (["erase", "x", "--yes"], 1)],
)  # fmt: skip
def test_a_store_folder_that_is_not_there_is_not_called_empty(
    run: Run, tmp_path: Path, places: list[str], command: list[str], code: int
) -> None:
    """A mistyped folder is said not to exist; no command makes it."""
    outcome = run(*command, *places)
    assert outcome.code == code
    assert f"{tmp_path / 'store'} does not exist (yet)" in outcome.text + outcome.err
    assert not (tmp_path / "store").exists()
