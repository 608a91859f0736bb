"""Reasons for what was not found, as the commands show them."""

from __future__ import annotations

from pathlib import Path

import pytest

import otel_prompt_trace as pt
from tests.cli.conftest import Run

CHUNK = "Invoices are kept for ten years.\nThen they are shredded."
CHANGED = {
    "html_escaped": ("<b>Invoices</b> & notes", "&lt;b&gt;Invoices&lt;/b&gt; &amp; notes"),
    "line_endings": (CHUNK, CHUNK.replace("\n", "\r\n")),
    "truncated": (CHUNK + " Nobody reads them.", CHUNK + "…"),
}


def record(declared: str, standing: str) -> str:
    """A query with one call in which a chunk stands changed."""
    with pt.query("How long?") as q:
        q.retrieved([("c1", 1.0)])
        pt.declare("system", "Be brief.")
        pt.declare("rag", declared, source_id="c1", trust="retrieved")
        with q.call(model="m", prompt=f"Be brief. [{standing}]") as call:
            call.respond("x", finish_reason="stop")
    assert pt.flush(10).ok
    return q.qid


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("reason", CHANGED)
def test_show_get_and_grade_tell_it(run: Run, places: list[str], reason: str) -> None:
    """In words for people and by name for programs, the same in each; and the verdict stays what it is without."""
    qid = record(*CHANGED[reason])
    shown = run("show", qid, *places)
    assert shown.code == 1  # chunks_located fails
    (piece,) = run("get", qid, *places).json["census"]["not_found"]
    assert (piece["producer"], piece["source_id"], piece["state"]) == ("rag", "c1", "unlocatable")
    hint = piece["hint"]
    assert (hint["reason"], hint["path"], hint["segment"], hint["start"]) == (reason, "prompt", 0, 11)
    assert hint["end"] == 11 + len(CHANGED[reason][1].removesuffix("…"))
    assert " ".join(piece["note"].split()[:3]) in shown.text
    graded = run("grade", qid, "--json", *places).json["grades"][0]["calls"][0]
    assert graded["not_found"] == [piece]
    (check,) = [c for c in graded["checks"] if c["name"] == "chunks_located"]
    assert check["detail"] == f"rag:c1 ({piece['note']})"
    assert (graded["verdict"], graded["reasons"]) == ("unknown", ["unlocatable_piece", "gap"])


@pytest.mark.usefixtures("installed")
def test_grade_sums_them_up(run: Run, places: list[str]) -> None:
    """Pieces by reason, the most frequent first; those without a likely one as well."""
    for reason in ("html_escaped", "html_escaped", "truncated"):
        record(*CHANGED[reason])
    assert "not found, by reason" in run("grade", *places).text
    record("something else entirely, nowhere to be found", "unrelated")
    told = run("grade", *places).text
    rows = [line.rsplit(maxsplit=1) for line in told.partition("not found, by reason")[2].splitlines()[2:5]]
    assert rows[0] == ["html_escaped", "2"]
    assert sorted(rows[1:]) == [["none likely", "1"], ["truncated", "1"]]


@pytest.mark.usefixtures("installed")
def test_the_tables_have_them(run: Run, tmp_path: Path, places: list[str]) -> None:
    """Null where a piece is located, or where no reason is likely."""
    duckdb = pytest.importorskip("duckdb")
    record(*CHANGED["line_endings"])
    assert run("census", "--out", tmp_path / "out", *places).code == 3
    columns = "producer, state, reason, reason_path, reason_segment, reason_start, reason_end"
    rows = duckdb.sql(f"SELECT {columns} FROM '{tmp_path}/out/pieces.parquet' ORDER BY ordinal").fetchall()
    assert rows == [
        ("system", "located", None, None, None, None, None),
        ("rag", "unlocatable", "line_endings", "prompt", 0, 11, 11 + len(CHUNK) + 1),
    ]
