"""The whole run: rows, verdicts, problems, and what it does when a part of the store is bad."""

from __future__ import annotations

import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from otel_prompt_trace.batch import payloads, run_census
from otel_prompt_trace.core.events import Problem
from otel_prompt_trace.core.grade import Grade, grade
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.exceptions import (
    ArchiveError,
    ConfigurationError,
    MissingDependency,
    ObjectCorrupt,
    StoreDenied,
    StoreUnreachable,
)
from tests.batch.worlds import DAY, Reader, Tracing, digest_of, exact_prompt, qid_of, sealed


def gappy_prompt() -> tuple[str, list[dict[str, Any]]]:
    """A prompt with text that nobody declared, and the declared pieces."""
    return "Rules.\n\nsomebody's text\n\nWhy?", [
        {"call": "call-1", "producer": "system", "text": "Rules.", "trust": "policy"},
        {"call": "call-1", "producer": "user", "text": "Why?", "trust": "user"},
    ]


def test_rows_and_tables(tmp_path: Path) -> None:
    """An exact, a mismatched and an unknown call: rows, totals and tables say what the census says."""
    reader, tracing = Reader(), Tracing(tmp_path / "spans.jsonl")
    gappy, pieces = gappy_prompt()
    with tracing.call(qid_of(1)) as span:
        usage = {"prompt_tokens": 50, "completion_tokens": 7}
        response = {"output": "because", "finish_reason": "length", "usage": usage}
        reader.put(sealed(qid_of(1), {"prompt": exact_prompt(), "span": span, "response": response}))
    with tracing.call(qid_of(2)) as span:
        reader.put(sealed(qid_of(2), {"prompt": gappy, "span": span}, pieces=pieces, stages={"search": 12}))
    with tracing.call(qid_of(3)) as span:
        reader.put(sealed(qid_of(3), {"prompt": "nobody declared this", "span": span, "response": None}))
    out = tmp_path / "out"
    report = run_census(reader, [tracing.close()], out)

    rows = {row.qid: row for row in report.rows}
    exact, mismatch, unknown = (rows[qid_of(n)] for n in (1, 2, 3))
    assert (exact.verdict, exact.total, exact.covered, exact.unaccounted) == ("exact", 30, 30, 0)
    assert (mismatch.verdict, mismatch.reasons) == ("mismatch", ("gap",))
    assert (mismatch.total, mismatch.covered, mismatch.unaccounted) == (len(gappy), 10, len(gappy) - 10)
    assert (unknown.verdict, unknown.covered, "no_pieces" in unknown.reasons) == ("unknown", 0, True)
    assert report.exit_code == 1
    totals = report.totals
    assert (totals.calls, totals.exact, totals.mismatch, totals.unknown) == (3, 1, 1, 1)
    assert totals.total == totals.covered + totals.unaccounted == 30 + len(gappy) + 20

    def query(sql: str) -> list[tuple[Any, ...]]:
        return duckdb.sql(sql.replace("FROM ", f"FROM '{out}/").replace(".parquet", ".parquet'")).fetchall()

    assert query(
        "SELECT qid, verdict, reasons, finish_reason, input_tokens, output_tokens, unfinished, span_joined, joined_by, "
        "failed_checks, number FROM calls.parquet"
    ) == [
        (qid_of(1), "exact", [], "length", 50, 7, False, "pass", "span", ["finish_reason"], 1),
        (qid_of(2), "mismatch", ["gap"], "stop", None, None, False, "pass", "span", [], 1),
        (qid_of(3), "unknown", ["no_pieces", "gap"], None, None, None, True, "pass", "span", [], 1),
    ]
    assert query("SELECT sum(total), sum(covered), sum(unaccounted), sum(unlocatable) FROM calls.parquet") == [
        (totals.total, totals.covered, totals.unaccounted, totals.unlocatable)
    ]
    assert query(
        f"SELECT producer, state, path, start, \"end\", chars FROM pieces.parquet WHERE qid='{qid_of(2)}'"
    ) == [
        ("system", "located", "prompt", 0, 6, 6),
        ("user", "located", "prompt", len(gappy) - 4, len(gappy), 4),
    ]
    assert query(f"SELECT ordinal, text, start, \"end\", chars FROM gaps.parquet WHERE qid='{qid_of(2)}'") == [
        (1, gappy[6:-4], 6, len(gappy) - 4, len(gappy) - 10)
    ]
    assert query("SELECT count(*) FROM joins.parquet") == [(3,)]
    assert query("SELECT prompt_sha256 FROM calls.parquet")[0] == (digest_of(reader.stored[qid_of(1)].events),)
    assert sorted(path.name for path in report.written) == sorted(path.name for path in out.iterdir())


def test_stage_times_beside_each_other(tmp_path: Path) -> None:
    """Recorded milliseconds and those of the spans stand side by side; what only one side knows stays null."""
    reader, tracing = Reader(), Tracing(tmp_path / "spans.jsonl")
    qid = qid_of(1)
    started = 1_800_000_000_000_000_000
    for milliseconds in (20, 5):
        span = tracing.ours.start_span("search", attributes={"prompt_trace.qid": qid}, start_time=started)
        span.end(started + milliseconds * 1_000_000)
    span = tracing.ours.start_span("query", attributes={"prompt_trace.qid": qid}, start_time=started)
    span.end(started + 40_500_000)
    reader.put(sealed(qid, stages={"search": 24, "rerank": 3}))
    run_census(reader, [tracing.close()], tmp_path / "out")
    assert duckdb.sql(f"SELECT * FROM '{tmp_path}/out/stages.parquet' ORDER BY stage").fetchall() == [
        (qid, "query", None, 40.5, 1),
        (qid, "rerank", 3, None, 0),
        (qid, "search", 24, 25.0, 2),
    ]


def test_without_spans_nothing_is_said_of_them() -> None:
    """The census alone: verdicts as ever, span_joined unknown, no join counted against anybody."""
    reader = Reader()
    reader.put(sealed(qid_of(1), {"prompt": exact_prompt()}))
    report = run_census(reader, [], None)
    assert (report.exit_code, report.rows[0].span_joined, report.joins, report.spans) == (0, "unknown", {}, None)


def test_hash_policy_keeps_no_text_in_tables(tmp_path: Path) -> None:
    """Under policy hash offsets and counts stand in the tables, and no text of the prompt in any file."""
    reader, tracing = Reader(), Tracing(tmp_path / "spans.jsonl")
    secret = "a very secret instruction"
    with tracing.call(qid_of(1)) as span:
        prompt = Prompt().add("system", secret).add("user", "Why?")
        reader.put(sealed(qid_of(1), {"prompt": prompt, "span": span}, policy="hash"))
    with tracing.call(qid_of(2)) as span:
        reader.put(sealed(qid_of(2), {"prompt": secret, "span": span}, policy="hash"))
    out = tmp_path / "out"
    report = run_census(reader, [tracing.close()], out)
    placed, bare = report.rows
    assert (placed.verdict, placed.total, placed.covered) == ("exact", 29, 29)
    assert (bare.verdict, bare.total, bare.unaccounted) == ("unknown", 25, 25)
    assert duckdb.sql(f"SELECT text, chars FROM '{out}/gaps.parquet'").fetchall() == [(None, 25)]
    keyed = duckdb.sql(f"SELECT prompt_sha256, length(prompt_hmac_sha256) FROM '{out}/calls.parquet'").fetchall()
    assert keyed == [(None, 64), (None, 64)]
    for path in out.iterdir():
        written = duckdb.sql(f"SELECT * FROM '{path}'").fetchall()
        assert secret not in repr(written)
        assert "\ufffc" not in repr(written)


def test_payload_problems_are_named(tmp_path: Path) -> None:
    """A torn object and an unknown major version: named in the report, their calls unknown, the others untouched."""
    reader = Reader()
    key = f"payloads/dt=2026-11-30/{qid_of(1)}/W-000000000000.jsonl.zst"
    torn = Problem(key, 3, "torn line at the end")
    reader.put(sealed(qid_of(1), {"prompt": exact_prompt()}), problems=[torn])
    strange = sealed(qid_of(2), {"prompt": exact_prompt()})
    strange.append({"v": "9.0", "qid": qid_of(2), "writer": "W", "seq": 7, "something": "else"})
    reader.put(strange)
    reader.put(sealed(qid_of(3), {"prompt": exact_prompt()}))
    report = run_census(reader, [], tmp_path / "out")
    assert [(row.verdict, row.reasons) for row in report.rows] == [
        ("unknown", ("unreadable_event",)), ("unknown", ("unreadable_event",)), ("exact", ()),
    ]  # fmt: skip
    assert torn in report.payload_problems
    assert [p.reason for p in report.payload_problems if p.source == qid_of(2)] == [
        "event 7 of writer W has schema version '9.0': kept, not interpreted"
    ]
    assert report.exit_code == 3
    assert f"  {key}:3: torn line at the end" in list(report.lines())


def test_errors_of_single_queries_do_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unreachable for one query, a corrupt object for another, a record that breaks the core: named, and on it goes."""

    def fragile(record: Record, *arguments: Any) -> Grade:
        if record.qid == qid_of(4):
            raise TypeError("the secret prompt")
        return grade(record, *arguments)

    monkeypatch.setattr(payloads, "grade", fragile)
    reader = Reader()
    reader.put(sealed(qid_of(1), {"prompt": exact_prompt()}))
    for number, error in ((2, StoreUnreachable("timed out")), (3, ObjectCorrupt("wrong magic"))):
        reader.put(sealed(qid_of(number), {"prompt": exact_prompt()}))
        reader.broken[qid_of(number)] = error
    reader.put(sealed(qid_of(4), {"prompt": exact_prompt()}))
    reader.put([], problems=[Problem(qid_of(5), 0, "wrong magic")])
    report = run_census(reader, [], None)
    assert [row.qid for row in report.rows] == [qid_of(1)]
    assert report.failed == tuple(qid_of(n) for n in (2, 3, 4, 5))
    reasons = {p.source: p.reason for p in report.payload_problems}
    assert reasons == {
        qid_of(2): "can't be read: timed out",
        qid_of(3): "can't be read: wrong magic",
        qid_of(4): "can't be graded: TypeError",
        qid_of(5): "wrong magic",
    }
    assert report.exit_code == 3


@pytest.mark.parametrize(
    "field", [{"usage": {"input_tokens": 10**30}}, {"finish_reason": ["a"]}, {"ts": "noon"}, {"service": 7}]
)
def test_values_that_fit_no_column_are_null(tmp_path: Path, field: dict[str, Any]) -> None:
    """A number beyond 64 bits, a list for a text, a time that is none: the call is there, the value is not."""
    reader = Reader()
    events = sealed(qid_of(1), {"prompt": exact_prompt()})
    for event in events:
        if event["kind"] in ("request", "response"):
            event.update(field)
    reader.put(events)
    report = run_census(reader, [], tmp_path / "out")
    assert (len(report.rows), report.payload_problems) == (1, ())
    column = {"usage": "input_tokens"}.get(next(iter(field)), next(iter(field)))
    assert duckdb.sql(f"SELECT {column} FROM '{tmp_path}/out/calls.parquet'").fetchall() == [(None,)]


def test_store_that_can_not_be_listed_raises() -> None:
    """A store that is unreachable from the start is an error, not an empty report."""
    reader = Reader(listing_fails_after=0, listing_error=StoreDenied("no such bucket"))
    with pytest.raises(StoreDenied, match="no such bucket"):
        run_census(reader, [], None)


def test_listing_that_ends_early_is_a_problem(tmp_path: Path) -> None:
    """What was listed is read, what spans name is asked for, and that something may be missing is said."""
    reader, tracing = Reader(), Tracing(tmp_path / "spans.jsonl")
    for number in (1, 2):
        with tracing.call(qid_of(number)) as span:
            reader.put(sealed(qid_of(number), {"prompt": exact_prompt(), "span": span}))
    reader.listing_fails_after, reader.listing_error = 1, StoreUnreachable("reset by peer")
    report = run_census(reader, [tracing.close()], None)
    assert [row.verdict for row in report.rows] == ["exact", "exact"]
    assert "ended early" in report.payload_problems[0].reason
    assert report.exit_code == 3


def test_erased_queries_are_hidden(tmp_path: Path) -> None:
    """An erased query is in no row and no list, neither are its spans nor those inside them; it is only counted."""
    reader, tracing = Reader(), Tracing(tmp_path / "spans.jsonl")
    with tracing.call(qid_of(1)) as span, tracing.chat():
        reader.put(sealed(qid_of(1), {"prompt": exact_prompt(), "span": span}))
    with tracing.call(qid_of(2)) as span:
        reader.put(sealed(qid_of(2), {"prompt": exact_prompt(), "span": span}))
    reader.erased.add(qid_of(1))
    out = tmp_path / "out"
    report = run_census(reader, [tracing.close()], out)
    assert [row.qid for row in report.rows] == [qid_of(2)]
    assert (report.exit_code, report.erased, report.spans_without_payload) == (0, 1, ())
    for path in out.iterdir():
        assert qid_of(1) not in repr(duckdb.sql(f"SELECT * FROM '{path}'").fetchall())


def test_query_stored_after_the_listing_is_found(tmp_path: Path) -> None:
    """A query that the listing did not show yet is asked for by the qid of its span before it is called missing."""
    reader, tracing = Reader(), Tracing(tmp_path / "spans.jsonl")
    with tracing.call(qid_of(1)) as span:
        reader.put(sealed(qid_of(1), {"prompt": exact_prompt(), "span": span}))
    reader.unlisted.add(qid_of(1))
    report = run_census(reader, [tracing.close()], None)
    assert (report.exit_code, len(report.rows)) == (0, 1)


def test_query_that_vanishes_between_listing_and_reading() -> None:
    """Listed and then gone: said, not skipped."""
    reader = Reader()
    reader.put(sealed(qid_of(1), {"prompt": exact_prompt()}))
    del reader.stored[qid_of(1)]
    report = run_census(reader, [], None)
    assert report.payload_problems[0].reason == "was listed, and gone when it was to be read"
    assert report.exit_code == 3


def test_window_of_days(tmp_path: Path) -> None:
    """With since and until only those days' queries count, and spans of other days are not called lost."""
    reader, tracing = Reader(), Tracing(tmp_path / "spans.jsonl")
    for day in (0, 1, 2):
        with tracing.call(qid_of(1, day)) as span, tracing.chat():
            events = sealed(qid_of(1, day), {"prompt": exact_prompt(), "span": span})
            reader.put(events, days=[DAY + timedelta(days=day)])
    with tracing.call(qid_of(2, 1)):
        pass
    path = tracing.close()
    middle = DAY + timedelta(days=1)
    report = run_census(reader, [path], None, since=middle, until=middle)
    assert [row.qid for row in report.rows] == [qid_of(1, 1)]
    assert [item.qid for item in report.spans_without_payload] == [qid_of(2, 1)]
    assert report.joins == {"joined": 2, "span_without_payload": 1}


def test_undated_qid_beyond_the_window_is_no_loss(tmp_path: Path) -> None:
    """A qid without a date whose payload lies outside the days asked for: found by name, neither counted nor lost."""
    reader, tracing = Reader(), Tracing(tmp_path / "spans.jsonl")
    with tracing.call("entry-1") as span:
        reader.put(sealed("entry-1", {"prompt": exact_prompt(), "span": span}), days=[date(2020, 1, 1)])
    report = run_census(reader, [tracing.close()], None, since=date(2020, 1, 2))
    assert (report.rows, report.spans_without_payload, report.joins) == ((), (), {})


def test_day_is_given_only_where_it_is_certain() -> None:
    """An undated qid on one day or two neighbours is read there; on days far apart, or in a window, everywhere."""
    reader = Reader()
    far = [DAY, DAY + timedelta(days=9)]
    for qid, days in {"one": [DAY], "two": [DAY, DAY + timedelta(days=1)], "far": far, qid_of(1): [DAY]}.items():
        reader.put(sealed(qid, {"prompt": exact_prompt()}), days=days)
    run_census(reader, [], None)
    assert dict(reader.asked) == {"one": DAY, "two": DAY + timedelta(days=1), "far": None, qid_of(1): None}
    reader.asked.clear()
    run_census(reader, [], None, since=DAY)
    assert {day for _, day in reader.asked} == {None}
    assert len(reader.asked) == 4


def test_query_without_a_call_is_named() -> None:
    """A stored query that holds no call is in no row, so it is listed, and the run is not called exact."""
    reader = Reader()
    reader.put(sealed(qid_of(1)))
    reader.put(sealed(qid_of(2), {"prompt": exact_prompt()}))
    report = run_census(reader, [], None)
    assert (report.without_calls, report.queries, report.exit_code) == ((qid_of(1),), 2, 3)


def test_tokens_are_counted_where_asked() -> None:
    """The given counter is the one that grades: a provider count below it is a mismatch."""
    reader = Reader()
    usage = {"prompt_tokens": 5, "completion_tokens": 1}
    reader.put(sealed(qid_of(1), {"prompt": exact_prompt(), "response": {"output": "x", "usage": usage}}))
    report = run_census(reader, [], None, count_tokens=lambda text, _: len(text))
    assert report.rows[0].reasons == ("provider_count_below_prompt",)
    assert report.exit_code == 1


def test_progress_reaches_its_total(tmp_path: Path) -> None:
    """Progress begins without a total while spans are read, never goes back, and ends at its total."""
    reader, tracing = Reader(), Tracing(tmp_path / "spans.jsonl")
    for number in range(5):
        reader.put(sealed(qid_of(number), {"prompt": exact_prompt()}))
    with tracing.call(qid_of(77)):
        pass
    steps: list[tuple[int, int | None]] = []
    run_census(reader, [tracing.close()], None, progress=lambda done, total: steps.append((done, total)))
    assert steps[0] == (0, None)
    assert steps[-1] == (6, 6)
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without duckdb the error says which extra to install."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingDependency, match=r"otel-prompt-trace\[batch\]"):
        run_census(Reader(), [], None)


def test_importing_the_batch_loads_neither_library() -> None:
    """The heavy libraries load when a run begins, not when a command is looked up."""
    import subprocess

    code = "import sys, otel_prompt_trace.batch; print(sorted({'duckdb', 'pyarrow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_failed_run_leaves_the_tables_as_they_were(tmp_path: Path) -> None:
    """An archive that fails halfway: no new file, no half file, and the tables of the run before untouched."""
    reader, out = Reader(), tmp_path / "out"
    reader.put(sealed(qid_of(1), {"prompt": exact_prompt()}))
    run_census(reader, [], out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    (tmp_path / "spans.json").write_bytes(b"\x28\xb5\x2f\xfd....")
    with pytest.raises(ArchiveError):
        run_census(reader, [tmp_path / "spans.json"], out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_output_that_can_not_be_written_says_so(tmp_path: Path) -> None:
    """A file where the folder should be is refused before anything is read."""
    (tmp_path / "out").touch()
    with pytest.raises(ConfigurationError, match="Name a folder that can be written to"):
        run_census(Reader(), [], tmp_path / "out")
