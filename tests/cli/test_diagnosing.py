"""diagnose: the four factors on a terminal and in a pipe, with exit codes that say what was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import otel_prompt_trace as pt
from tests.cli.conftest import Run, record_rag

pytestmark = pytest.mark.usefixtures("installed")


def manifest(tmp_path: Path, *entries: Any) -> Path:
    """A file of JSON lines."""
    path = tmp_path / "manifest.jsonl"
    path.write_text("".join(f"{entry if isinstance(entry, str) else json.dumps(entry)}\n" for entry in entries))
    return path


@pytest.fixture
def qid() -> str:
    """Chunk a is in the prompt, chunk b was dropped by the rule ``break``."""
    qid = record_rag("why?")
    assert pt.flush(10).ok
    return qid


def test_a_chunk_that_was_dropped(run: Run, places: list[str], qid: str) -> None:
    """A row a factor, one closing sentence, and the exit code of a factor that is zero."""
    outcome = run("diagnose", qid, "--expect", "b", *places)
    assert outcome.code == 1
    lines = outcome.text.splitlines()
    assert lines[0] == f"{qid}: chunk b"
    rows = [line.split(None, 1) for line in lines[2:6]]
    assert [mark for mark, _ in rows] == ["1", "1", "0", "?"]
    assert "the application dropped b by the rule 'break'" in lines[4]
    assert lines[-1] == "The factor that was zero: rendered."


def test_as_json(run: Run, places: list[str], qid: str) -> None:
    """The same for a pipe."""
    found = run("diagnose", qid, "--expect", "a", "--json", *places)
    assert found.code == 3
    assert (found.json["qid"], found.json["call"], found.json["taken_as"], found.json["zero"]) == (
        qid,
        1,
        "chunk",
        None,
    )
    assert [factor["value"] for factor in found.json["factors"]] == [1, 1, 1, None]
    assert found.json["sentence"].startswith("No factor is known to be zero")


def test_all_that_was_expected(run: Run, places: list[str], qid: str) -> None:
    """In the index, retrieved, rendered and quoted: 0."""
    with pt.query(question="?") as q:
        q.retrieved(["a"])
        with q.call(model="m", prompt=pt.Prompt().literal("So: ").add("rag", "ten days", source_id="a")) as call:
            call.respond("It takes ten days.")
    assert pt.flush(10).ok
    outcome = run("diagnose", q.qid, "--expect", "ten days", *places)
    assert (outcome.code, outcome.text.splitlines()[-1]) == (
        0,
        "No factor was zero: it was in the index, retrieved, rendered, and quoted in the answer.",
    )
    assert qid != q.qid


def test_against_a_manifest(run: Run, places: list[str], qid: str, tmp_path: Path) -> None:
    """What the index was built from says whether it could have been found at all."""
    path = manifest(tmp_path, {"chunk_id": "a", "text": "chunk a"}, {"chunk_id": "b", "text": "half \ud83d"}, "")
    missing = run("diagnose", qid, "--expect", "c", "--as", "chunk", "--manifest", path, *places)
    assert (missing.code, missing.text.splitlines()[-1]) == (1, "The factor that was zero: in the index.")
    there = run("diagnose", qid, "--expect", "chunk a", "--manifest", path, "--json", *places).json
    assert (there["chunks"], there["factors"][0]["value"]) == (["a"], 1)


@pytest.mark.parametrize("line", ["{", "[]", '{"text": "x"}', '"a"', "\x00"])
def test_a_manifest_that_is_none(run: Run, places: list[str], qid: str, tmp_path: Path, line: str) -> None:
    """The line is named, and what it should be: a wrong file is not an empty index."""
    path = manifest(tmp_path, {"chunk_id": "a", "text": "x"}, line)
    outcome = run("diagnose", qid, "--expect", "a", "--manifest", path, *places)
    assert (outcome.code, outcome.out) == (2, b"")
    assert f"{path}:2:" in outcome.err.replace("\n", "")
    assert "chunk_id" in outcome.err


def test_usage(run: Run, places: list[str], qid: str, tmp_path: Path) -> None:
    """Nothing to expect, no such file, no such call, no such query."""
    assert run("diagnose", qid, *places).code == 2
    assert run("diagnose", qid, "--expect", "", *places).code == 2
    assert run("diagnose", qid, "--expect", "a", "--manifest", tmp_path / "none", *places).code == 2
    assert run("diagnose", qid, "--expect", "a", "--call", 2, *places).code == 1
    assert run("diagnose", "01JDZQ4K8B0000000000000009", "--expect", "a", *places).code == 1


def test_several_calls(run: Run, places: list[str]) -> None:
    """Which one is asked; each has a prompt of its own."""
    with pt.query(question="?") as q:
        q.retrieved(["a"])
        for text in ("ten days", "five days"):
            with q.call(model="m", prompt=pt.Prompt().literal("So: ").add("rag", text, source_id="a")):
                pass
    assert pt.flush(10).ok
    outcome = run("diagnose", q.qid, "--expect", "five days", *places)
    assert (outcome.code, "--call 1 to 2" in outcome.err) == (1, True)
    for number, value in ((1, 0), (2, 1)):
        found = run("diagnose", q.qid, "--expect", "five days", "--call", number, "--json", *places).json
        assert found["factors"][2]["value"] == value


def test_a_query_without_a_call(run: Run, places: list[str]) -> None:
    """Retrieval alone can be told of."""
    with pt.query(question="?") as q:
        q.retrieved(["a"])
    assert pt.flush(10).ok
    found = run("diagnose", q.qid, "--expect", "a", "--json", *places)
    assert (found.code, found.json["call"]) == (3, None)
    assert [factor["value"] for factor in found.json["factors"]] == [1, 1, None, None]


def test_what_comes_from_outside_is_not_obeyed(run: Run, places: list[str]) -> None:
    """Escape sequences in an id, a text or an answer are spelled out."""
    evil = "\x1b[2Jid\u202e"
    with pt.query(question="?") as q:
        q.retrieved([evil])
        with q.call(model="m", prompt=pt.Prompt().literal("So: ").add("rag", evil * 20, source_id=evil)) as call:
            call.respond(evil * 20)
    assert pt.flush(10).ok
    for expected in (evil, evil * 20, f"{evil} not there"):
        outcome = run("diagnose", q.qid, "--expect", expected, *places)
        assert "\x1b" not in outcome.text
        assert "\u202e" not in outcome.text
