"""The template residual, tracked: grade and census say that it is constant, or at which query it changed."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import otel_prompt_trace as pt
from otel_prompt_trace import tokens
from tests.cli.conftest import Run

pytestmark = pytest.mark.usefixtures("installed")

CHUNKS = [
    ("a", "Parcels are kept for ten days."),
    ("b", "A manager may extend that."),
    ("c", "Lost ones are paid for."),
]
RIDER = "\nAlways answer in French."


def ask(question: str, *, top_k: int, rider: str = "") -> str:
    """One query of an application that packs its chunks."""
    hits = CHUNKS[:top_k]
    with pt.query(question=question) as q:
        q.retrieved([chunk for chunk, _ in hits], top_k=top_k, chunk_tokens=(3, 12))
        prompt = pt.Prompt().add("system", f"Answer from the context.{rider}\n\n", trust="policy")
        pt.pack(hits, budget=60, model="gpt-4o", template="[{id}]\n{text}").add_to(prompt)
        prompt.literal("\n\nQuestion: ").add("user", question, trust="user")
        with q.call(model="gpt-4o", prompt=prompt) as call:
            call.respond("ok", finish_reason="stop")
    return q.qid


def test_constant(run: Run, places: list[str], tmp_path: Path) -> None:
    """Over calls with other questions and other numbers of chunks, in grade and in the batch."""
    for number in (1, 2, 3, 2):
        ask("Why? " * number, top_k=number)
    assert pt.flush(10).ok
    around = [
        tokens.count(text, "gpt-4o") for text in ("Answer from the context.\n\n[]\n", "\n\nQuestion: ", "\n\n[]\n")
    ]
    size = sum(count or 0 for count in around)
    sentence = f"gpt-4o: the template has {size} tokens, constant over 4 calls with chunks"
    graded = run("grade", *places)
    assert graded.code == 0
    assert sentence in graded.text
    batch = run("census", "--out", tmp_path / "out", *places)
    assert sentence in batch.text
    counted = "SELECT prompt_tokens - chunk_tokens = template_tokens, count(*)"
    rows = duckdb.sql(f"{counted} FROM '{tmp_path}/out/calls.parquet' GROUP BY 1").fetchall()
    assert rows == [(True, 4)]


def test_changed(run: Run, places: list[str]) -> None:
    """The first query with a longer template is named."""
    ask("Why?", top_k=2)
    changed = ask("Why not?", top_k=2, rider=RIDER)
    ask("Really?", top_k=3, rider=RIDER)
    assert pt.flush(10).ok
    (template,) = run("grade", "--json", *places).json["templates"]
    (change,) = template["changes"]
    assert (change["qid"], change["after"] > change["before"], template["calls"]) == (changed, True, 3)
    (sentence,) = run("census", "--json", *places).json["templates"]
    assert f"at {changed} call 1" in sentence


def test_expected(run: Run, places: list[str]) -> None:
    """What top_k, the chunk size and the packing let expect is what was counted."""
    qid = ask("Why?", top_k=3)
    assert pt.flush(10).ok
    checks = {c["name"]: c for c in run("grade", qid, "--json", *places).json["grades"][0]["calls"][0]["checks"]}
    assert checks["expected_tokens"]["status"] == "pass"
    assert checks["chunk_identity"]["status"] == "pass"


def test_without_chunks_there_is_no_line(run: Run, places: list[str]) -> None:
    """Nothing is tracked, and nothing said."""
    with pt.query(question="?") as q, q.call(model="gpt-4o", prompt="Why?"):
        pass
    assert pt.flush(10).ok
    assert "template" not in run("grade", *places).text
    assert run("grade", "--json", *places).json["templates"] == []
