"""diff: two prompts on a terminal and in a pipe; the exit code says whether anything changed."""

from __future__ import annotations

import pytest

import otel_prompt_trace as pt
from tests.cli.conftest import Run, record_rag

pytestmark = pytest.mark.usefixtures("installed")


def two_calls() -> str:
    """A query with two calls: the second has another question, and a rider."""
    with pt.query(question="?") as q:
        for question, rider in (("Why?", ""), ("How long?", " In French.")):
            system = pt.declare("system", "Be brief. ", trust="policy")
            with q.call(model="gpt-4o", prompt=f"{system}{question}{rider}", temperature=len(rider)) as call:
                pt.declare("user", question, trust="user")
                call.respond("ok", finish_reason="stop")
    return q.qid


def test_two_queries(run: Run, places: list[str]) -> None:
    """Which pieces changed, and how; a rider that nobody declared; the parameters."""
    before, after = record_rag("why?"), record_rag("why so?", rider="\nAnswer in French.")
    assert pt.flush(10).ok
    outcome = run("diff", before, after, *places)
    assert outcome.code == 1
    lines = outcome.text.splitlines()
    assert lines[0].startswith(f"- {before} call 1: 23 characters, ")
    assert lines[1].startswith(f"+ {after} call 1: ")
    assert "4 piece(s) unchanged" in lines
    text = outcome.text
    assert "edited" in text
    assert "-why?" in text
    assert "+why so?" in text
    assert "appeared" in text
    assert "Answer in French." in text


def test_the_same_prompt_twice(run: Run, places: list[str]) -> None:
    """Nothing changed: 0, and that is said."""
    before, after = record_rag("why?"), record_rag("why?")
    assert pt.flush(10).ok
    outcome = run("diff", before, after, *places)
    assert (outcome.code, outcome.text.splitlines()[-1]) == (0, "Nothing changed.")


@pytest.mark.parametrize("form", ["--calls", "numbered", "one each"])
def test_two_calls_of_one_query(run: Run, places: list[str], form: str) -> None:
    """In whichever way they are named."""
    qid = two_calls()
    assert pt.flush(10).ok
    named = {"--calls": [qid, "--calls", 1, 2], "numbered": [f"{qid}#1", f"{qid}#2"], "one each": [qid, qid]}[form]
    more = ["--calls", 1, 2] if form == "one each" else []
    found = run("diff", *named, *more, "--json", *places)
    assert found.code == 1
    shape = found.json
    assert [(shape[side]["qid"], shape[side]["call"]) for side in ("before", "after")] == [(qid, 1), (qid, 2)]
    assert [(c["kind"], c["before"]["producer"]) for c in shape["pieces"]] == [("edited", "user")]
    assert shape["pieces"][0]["diff"][1:] == ["-Why?", "+How long?"]
    assert [(g["kind"], g["text"], g["piece"]) for g in shape["gaps"]] == [("appeared", " In French.", None)]
    assert shape["parameters"] == [{"name": "temperature", "before": 0, "after": 11}]
    assert (shape["different"], shape["comparable"], shape["same"]) == (True, True, 1)


def test_one_call_of_both_queries(run: Run, places: list[str]) -> None:
    """The second of each."""
    before, after = two_calls(), two_calls()
    assert pt.flush(10).ok
    outcome = run("diff", before, after, "--call", 2, *places)
    assert outcome.code == 0
    assert f"- {before} call 2" in outcome.text


def test_usage(run: Run, places: list[str]) -> None:
    """One prompt alone, several calls without saying which, a call or a query that does not exist."""
    one, several = record_rag(), two_calls()
    assert pt.flush(10).ok
    alone = run("diff", one, *places)
    assert (alone.code, "two prompts are needed" in alone.err) == (2, True)
    which = run("diff", one, several, *places)
    assert (which.code, "--call 1 to 2" in which.err) == (1, True)
    assert run("diff", f"{one}#2", one, *places).code == 1
    assert run("diff", f"{one}#0", one, *places).code == 1
    assert run("diff", one, "01JDZQ4K8B0000000000000009", *places).code == 1


def test_what_comes_from_outside_is_not_obeyed(run: Run, places: list[str]) -> None:
    """Escape sequences and lone surrogates in texts, ids and parameters are spelled out."""
    evil = "\x1b[2J\u202e\ud83d"
    qids = []
    for number in range(2):
        with pt.query(question="?") as q:
            prompt = pt.Prompt().literal("So: ").add("rag", f"{evil}{number}", source_id=evil)
            with q.call(model=f"m{number}{evil}", prompt=prompt, tools=[{"name": f"{evil}{number}"}]):
                pass
        qids.append(q.qid)
    assert pt.flush(10).ok
    outcome = run("diff", *qids, *places)
    assert outcome.code == 1
    assert "\x1b" not in outcome.text
    assert "\u202e" not in outcome.text
    assert run("diff", *qids, "--json", *places).json["pieces"][0]["kind"] == "edited"
