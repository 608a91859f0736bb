"""Records from outside: whatever stands in an event, the commands show it, obey none of it, and do not fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

import otel_prompt_trace as pt
from tests.cli.conftest import Run, record_rag

MARKUP = "[/] [red]x[/bold] [link=http://h]a :warning: \\"
HUGE = {"integer": "0x" + "f" * 5000}
ODD: list[Any] = [MARKUP, "\x1b[31m", 1, -1.5, True, None, [], [1, None], {}, {"a": [1]}, 2**63, HUGE, {"float": "nan"}]
IN_WORDS = {"ts", "evidence", "producer", "source_id", "trust"}  # fields that the record itself makes strings of
SHOWN = ["chars", "hits", "dropped", "ms", "ts", "model", "evidence", "producer", "source_id", "trust", "top_k",
         "finish_reason", "name", "score", "error", "unfinished", "question", "output", "text", "comment", "result",
         "trace_id", "service", "attempt", "route", "scope", "span_id", "host", "status",
         "rule", "packing", "chunk_tokens", "template_tokens", "usage", "parameters", "tools",
         "index_version", "prompt", "messages", "segments"]  # fmt: skip


def stored(folder: Path, lines: list[Any], qid: str = "q1", day: str = "2026-11-30") -> None:
    """Put lines into the store under ``qid``: events, or text that is none."""
    place = folder / "payloads" / f"dt={day}" / qid
    place.mkdir(parents=True)
    text = b"".join((line if isinstance(line, str) else json.dumps(line)).encode() + b"\n" for line in lines)
    (place / "01M8P8GV64W1RP1P0RDRQ7VYPX-000000000001.jsonl.zst").write_bytes(zstandard.compress(text))


def event(seq: int, kind: str, **fields: Any) -> dict[str, Any]:
    """An event of ``q1``."""
    common = {"v": "1.0", "qid": "q1", "ts": f"2026-11-30T00:00:00.{seq:09d}Z", "writer": "w", "seq": seq}
    return {**common, "kind": kind, **fields}


def test_no_markup_of_a_record_is_obeyed(run: Run, tmp_path: Path, places: list[str]) -> None:
    """Markup in a version, a kind, an illegal qid, a text and a reason stands in the output as it was written."""
    foreign = {**event(4, MARKUP), "v": "9.0"}
    wrong_kind, wrong_version, wrong_qid = event(5, MARKUP), {**event(6, "end"), "v": MARKUP}, event(7, "end")
    wrong_qid["qid"] = MARKUP
    lines = [event(1, "query", question=MARKUP), event(2, "request", call="c", prompt=MARKUP, model=MARKUP),
             event(3, "retrieval", hits=[{"rank": MARKUP, "chunk_id": MARKUP}], dropped=[MARKUP]),
             foreign, wrong_kind, wrong_version, wrong_qid]  # fmt: skip
    stored(tmp_path / "store", lines)
    outcome = run("show", "q1", *places)
    assert outcome.code == 3
    flat = " ".join(outcome.text.split())
    assert flat.count("[red]x[/bold]") >= 7
    assert ":warning:" in flat
    assert "problems 3" in flat
    assert outcome.text.splitlines()[1].startswith("problem  ")
    for command in (["ls"], ["grade", "q1"]):
        outcome = run(*command, *places)
        assert "[/] [red]x[/bold]" in outcome.text
    assert "\x1b" not in outcome.text


def test_no_control_character_of_a_problem_is_obeyed(run: Run, tmp_path: Path, places: list[str]) -> None:
    """Escape sequences in what is no event reach no terminal, by no command."""
    line = {**event(1, "end"), "kind": "\x1b[2J\u202e", "v": "1.0"}
    stored(tmp_path / "store", [line, {**event(2, "\x1b[2J"), "v": "8.0", "ts": "\x1b[2J\u202e"}])
    for command in (["show", "q1"], ["ls"], ["grade", "q1"], ["census"]):
        outcome = run(*command, *places)
        assert outcome.code in {0, 3}, outcome.err
        assert "\x1b" not in outcome.text + outcome.err
        assert "\u202e" not in outcome.text + outcome.err


def test_no_control_character_of_an_attempt_or_a_sighting_is_obeyed(
    run: Run, tmp_path: Path, places: list[str]
) -> None:
    """What stands below a call (each attempt, each span or log that told of it) is shown with its escapes visible."""
    bad = "\x1b[2J\u202e"
    lines = [
        event(1, "request", call="c", evidence="wire", prompt="p", attempt=1, host=bad, path=bad, span_id=bad),
        event(2, "response", call="c", evidence="wire", attempt=1, error=bad),
        event(3, "content", call="c", route=bad, scope=bad, span_id=bad, trace_id=bad, difference={bad: bad}),
    ]
    stored(tmp_path / "store", lines)
    outcome = run("show", "q1", *places)
    assert outcome.code == 3, outcome.err
    assert "as sent to" in outcome.text
    assert "told by" in outcome.text
    assert "\x1b" not in outcome.text + outcome.err
    assert "\u202e" not in outcome.text + outcome.err


@pytest.mark.parametrize("version", ["1.0", "9.1"])
@pytest.mark.parametrize("field", SHOWN)
def test_a_field_of_any_type_is_shown(run: Run, tmp_path: Path, places: list[str], field: str, version: str) -> None:
    """Every field that a row shows may hold anything, interpreted or not: each event still has its row."""
    kinds = ["query", "retrieval", "piece", "request", "response", "tool_call", "content", "end", "feedback"]
    odd = [value for value in ODD if value is not HUGE or field not in IN_WORDS]
    events = [
        {**event(9 * n + k + 1, kind, call="c"), "v": version, field: value}
        for n, value in enumerate(odd)
        for k, kind in enumerate(kinds)
    ]
    stored(tmp_path / "store", events)
    outcome = run("show", "q1", *places)
    assert outcome.code in {1, 3}, outcome.err
    rows = [line for line in outcome.text.splitlines() if any(f" {kind} " in f" {line} " for kind in kinds)]
    assert len(rows) >= len(events)
    assert run("ls", *places).code == 0


@pytest.mark.parametrize("value", ODD, ids=lambda value: ascii(value)[:20])
def test_retrievals_of_any_type_are_told_of(run: Run, tmp_path: Path, places: list[str], value: Any) -> None:
    """Each command ends with a code of its own, in words and in JSON, and obeys nothing."""
    hit = {"rank": value, "chunk_id": value, "score": value, "text": value}
    packing = {"budget": value, "tokens": value, "chunks": [{"chunk_id": value, "tokens": value}]}
    lines = [
        event(1, "retrieval", hits=[hit], dropped=[value], rule=value, top_k=value, packing=packing),
        event(2, "piece", call="c", producer="rag", text="abc", source_id=value),
        event(3, "request", call="c", prompt="say abc", model=value, parameters={"seed": value}, tools=value),
        event(4, "response", call="c", output=[value], usage={"input_tokens": value}),
    ]
    stored(tmp_path / "store", lines)
    asked = (["--expect", "a"], ["--expect", "abc x"])
    for command in (*(["diagnose", "q1", *more] for more in asked), ["grade", "q1"], ["diff", "q1", "q1"]):
        outcome = run(*command, *places)
        assert outcome.code in {0, 1, 3}, outcome.err
        assert "\x1b" not in outcome.text + outcome.err
        assert run(*command, "--json", *places).json is not None


@pytest.mark.usefixtures("installed")
def test_a_torn_object_does_not_read_like_a_running_query(run: Run, tmp_path: Path, places: list[str]) -> None:
    """The problem comes first in show and is counted; ls says damaged; grade names the record and ends with 3."""
    whole = record_rag()
    torn = record_rag()
    assert pt.flush(10).ok
    (payload,) = (tmp_path / "store").rglob(f"{torn}/*.jsonl.zst")
    payload.write_bytes(payload.read_bytes()[:30])
    shown = run("show", torn, *places)
    assert shown.code == 3
    assert "problems 1" in shown.text.splitlines()[0]
    assert shown.text.splitlines()[1].startswith("problem")
    states = {row["qid"]: row["state"] for row in run("ls", "--json", *places).json}
    assert states == {whole: "stored", torn: "damaged"}
    graded = run("grade", *places)
    assert graded.code == 3
    assert "1 of 2 queries can't be read whole" in graded.text
    (line,) = [line for line in graded.text.splitlines() if line.startswith(f"  {torn}:")]
    assert "none of its calls can be read" in line
    assert payload.name in line
    assert "have no call" not in graded.text
    (named,) = run("grade", "--json", torn, *places).json["damaged"]
    assert (named["qid"], len(named["problems"])) == (torn, 1)
