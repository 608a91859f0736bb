"""``grade``: which calls are chosen, how they are counted, and how the command ends."""

from __future__ import annotations

import os
import time
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.core.qid import ulid
from otel_prompt_trace.exceptions import StoreUnreachable
from otel_prompt_trace.store import PayloadStore
from tests.cli.conftest import Run, record_rag


def qid_at(when: datetime) -> str:
    """A ULID of that time."""
    return ulid(int(when.timestamp() * 1000), 7)


def record_calls(number: int, qid: str | None = None) -> str:
    """A query with so many calls, each exact."""
    with pt.query(qid=qid) as q:
        for n in range(number):
            with q.call(model="m", prompt=pt.Prompt().add("a", f"{n} one ").add("b", "two")) as call:
                call.respond("ok", finish_reason="stop")
    return q.qid


def graded(outcome: Any) -> dict[str, list[int]]:
    """The numbers of the calls that were graded, by query, in the order of the output."""
    return {g["qid"]: [call["number"] for call in g["calls"]] for g in outcome.json["grades"]}


@pytest.mark.usefixtures("installed")
def test_last_counts_calls(run: Run, places: list[str]) -> None:
    """The newest calls, whichever queries they are of; of the last query only as many as are left, the newest ones."""
    oldest, middle, newest = record_calls(3), record_calls(3), record_calls(1)
    assert pt.flush(10).ok
    assert graded(run("grade", "--json", "--last", 3, *places)) == {newest: [1], middle: [2, 3]}
    outcome = run("grade", "--json", *places)
    assert graded(outcome) == {newest: [1], middle: [1, 2, 3], oldest: [1, 2, 3]}
    assert outcome.json["verdicts"] == {"exact": 7, "mismatch": 0, "unknown": 0}


@pytest.mark.usefixtures("installed")
def test_a_query_that_is_cut_has_the_verdict_of_the_calls_that_are_counted(run: Run, places: list[str]) -> None:
    """An unknown call before the last N is not among them."""
    with pt.query() as q:
        for prompt in ("nobody declared this", pt.Prompt().add("a", "one ").add("b", "two")):
            with q.call(model="m", prompt=prompt) as call:
                call.respond("ok", finish_reason="stop")
    assert pt.flush(10).ok
    assert run("grade", "--last", 1, *places).code == 0
    assert run("grade", "--last", 2, *places).code == 3


@pytest.mark.usefixtures("installed")
def test_queries_without_a_call_are_no_calls(run: Run, places: list[str]) -> None:
    """They stand in nobody's place, and they are said."""
    kept = record_calls(1)
    with pt.query():
        pass
    assert pt.flush(10).ok
    outcome = run("grade", "--last", 1, *places)
    assert "1 of 2 queries have no call" in outcome.text
    assert kept in graded(run("grade", "--json", "--last", 1, *places))
    assert outcome.code == 3


@pytest.mark.usefixtures("installed")
def test_days(run: Run, places: list[str]) -> None:
    """From one day to another, both included; all calls of them unless --last says how many."""
    now = datetime.now(timezone.utc)
    days = [now - timedelta(days=n) for n in range(2)]
    newer, older = (record_calls(2, qid_at(day)) for day in days)
    assert pt.flush(10).ok
    first = f"{days[1]:%Y-%m-%d}"
    assert graded(run("grade", "--json", "--until", first, *places)) == {older: [1, 2]}
    assert graded(run("grade", "--json", "--since", first, *places)) == {newer: [1, 2], older: [1, 2]}
    assert graded(run("grade", "--json", "--since", first, "--last", 1, *places)) == {newer: [2]}
    nothing = run("grade", "--until", "2020-01-01", *places)
    assert "Nothing to grade" in nothing.text
    assert "until 2020-01-01" in nothing.text
    assert nothing.code == 3


@pytest.mark.usefixtures("installed")
def test_ids_that_carry_no_time_are_in_the_order_of_their_storing(run: Run, tmp_path: Path, places: list[str]) -> None:
    """The last call is the one that came last, not the one whose trace id is the highest."""
    first, last = "f" * 32 + "-" + "1" * 16, "0" * 32 + "-" + "1" * 16
    for qid in (first, last):
        record_calls(1, qid)
        assert pt.flush(10).ok
    for age, qid in ((60, first), (5, last)):
        for path in (tmp_path / "store").rglob(f"{qid}/*"):
            os.utime(path, (time.time() - age, time.time() - age))
    assert graded(run("grade", "--json", "--last", 1, *places)) == {last: [1]}
    assert [row["qid"] for row in run("ls", "--json", *places).json] == [last, first]


@pytest.mark.usefixtures("installed")
def test_named_queries(run: Run, places: list[str]) -> None:
    """Each once, by whatever names it; one that is not found is named, the others are graded, and the end is 1."""
    one, other = record_calls(1), record_calls(2)
    assert pt.flush(10).ok
    assert graded(run("grade", "--json", other, one, other, one[:-2], *places)) == {other: [1, 2], one: [1]}
    outcome = run("grade", "--json", "01ABSENT", one, *places)
    assert graded(outcome) == {one: [1]}
    assert outcome.code == 1
    assert "01ABSENT" in outcome.err
    assert outcome.json["problems"]


@pytest.mark.parametrize(
    "options",
    [
        ["x", "--last", "1"],
        ["x", "--since", "2026-11-30"],
        ["x", "--until", "2026-11-30"],
        ["--since", "2026-11-30", "--until", "2026-11-29"],
        ["--date", "2026-11-30"],
        ["--last", "0"],
        ["--since", "yesterday"],
    ],
)
def test_contradictions_are_refused(run: Run, places: list[str], options: list[str]) -> None:
    """No option is left out in silence."""
    assert run("grade", *options, *places).code == 2


@pytest.mark.usefixtures("installed")
def test_an_erased_query_is_not_there(run: Run, places: list[str]) -> None:
    """Not among the last, and by name it is said to be erased."""
    kept, gone = record_calls(1), record_calls(1)
    assert pt.flush(10).ok
    assert run("erase", gone, "--yes", *places).code == 0
    assert graded(run("grade", "--json", *places)) == {kept: [1]}
    outcome = run("grade", gone, *places)
    assert outcome.code == 1
    assert "erased" in outcome.err


@pytest.mark.usefixtures("installed")
def test_a_store_that_goes_away_ends_the_command(run: Run, places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of an answer would pass for the whole of it."""
    record_calls(1)
    assert pt.flush(10).ok

    def fails(self: PayloadStore, *arguments: Any) -> Any:
        raise StoreUnreachable("timed out")

    monkeypatch.setattr(PayloadStore, "events", fails)
    outcome = run("grade", *places)
    assert (outcome.code, outcome.out) == (2, b"")
    assert "timed out" in outcome.err


@pytest.mark.usefixtures("installed")
def test_one_record_that_breaks_the_grade_does_not_end_the_run(
    run: Run, places: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named, without a word of its text, and nothing is called exact."""
    from otel_prompt_trace.cli import grading

    good, bad = record_calls(1), record_calls(1)
    assert pt.flush(10).ok
    real = grading.grade

    def fragile(record: Any, *arguments: Any) -> Any:
        if record.qid == bad:
            raise TypeError("the secret prompt")
        return real(record, *arguments)

    monkeypatch.setattr(grading, "grade", fragile)
    outcome = run("grade", "--json", *places)
    assert (graded(outcome), outcome.code) == ({good: [1]}, 3)
    assert f"{bad}: can't be graded: TypeError" in outcome.err
    assert "secret" not in outcome.err


@pytest.mark.usefixtures("installed")
def test_what_was_not_exercised_is_a_question_mark(run: Run, places: list[str]) -> None:
    """Never a pass: no public encoding, no retrieval, no wire."""
    record_calls(1)
    assert pt.flush(10).ok
    rows = {
        line.split()[0]: line.split()[1] for line in run("grade", *places).text.splitlines() if len(line.split()) == 5
    }
    assert (rows["token_identity"], rows["chunk_identity"], rows["sent_as_rendered"]) == ("?", "?", "?")
    assert (rows["payload_integrity"], rows["finish_reason"]) == ("pass", "pass")


@pytest.mark.usefixtures("installed")
def test_what_waits_in_the_spool_is_the_newest(run: Run, tmp_path: Path, places: list[str]) -> None:
    """It is graded as well, before what is stored."""
    stored = record_calls(1)
    assert pt.flush(10).ok
    record = pt.open_store(tmp_path / "store").get(stored)
    assert record.events[0]["ts"].startswith(f"{date.today():%Y}")
    pt.install(store=str(tmp_path / "file" / "store"), spool=str(tmp_path / "spool"))
    (tmp_path / "file").write_text("no folder")
    waiting = record_rag()
    assert list(graded(run("grade", "--json", "--last", 1, *places))) == [waiting]
