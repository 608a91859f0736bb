"""The demo as a whole: the real command in a process of its own, its numbers measured, its claims true."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.demo.conversation import TURNS, preamble
from otel_prompt_trace.demo.stage import Stage, stage
from otel_prompt_trace.demo.stories import STEPS, Read, first, second
from otel_prompt_trace.records import Records
from otel_prompt_trace.store import open_store
from otel_prompt_trace.tokens import count

pytestmark = pytest.mark.integration


def test_the_first_story_names_every_chunk(tmp_path: Path) -> None:
    """Five retrieved = four in the prompt + one dropped, by name; both policies have their rank; counts are two."""
    with stage(tmp_path) as here:
        story = first(here.host, Records(open_store(here.store), here.spool).get, count, budget=720)
        kept = [chunk for chunk in story.chunks if chunk.fate.startswith("in the prompt")]
        dropped = [chunk for chunk in story.chunks if chunk.fate == "dropped by the clamp"]
        assert (len(kept), len(dropped), len(story.chunks)) == (4, 1, 5)
        assert [chunk.rank for chunk in story.chunks if chunk.policy] == [1, 2]
        checks = {check.name: check for check in story.call.checks}
        assert checks["chunk_identity"].status == "pass"
        assert dropped[0].chunk_id in checks["chunk_identity"].detail
        assert checks["token_identity"].status == "pass"
        assert "seven years" in story.answer
        assert story.call.verdict == "exact"
        sent = here.server.requests[0].decode()
        assert all(chunk.chunk_id in sent for chunk in kept)
        assert dropped[0].chunk_id not in sent


def test_the_second_story_falls_in_three_steps(tmp_path: Path) -> None:
    """Unaccounted characters: prefix and history, then the history alone, then none; exact only at the end."""
    with stage(tmp_path) as here:
        read = Records(open_store(here.store), here.spool).get
        steps = list(second(here.host, read, count, lambda _done, _total: None))
        assert len(steps) == len(STEPS) == 3
        for everything, history, nothing in zip(*(step.turns for step in steps), strict=True):
            assert everything.unaccounted > history.unaccounted >= nothing.unaccounted == 0
            assert everything.total == history.total == nothing.total
            assert nothing.verdict == "exact"
            assert everything.verdict == "mismatch"
        assert steps[0].turns[-1].unaccounted > 10_000
        growing = [turn.unaccounted for turn in steps[1].turns]
        assert growing == sorted(growing)
        assert growing[0] == 0
        assert steps[0].turns[-1].cached_tokens > 1024
        last = read(steps[1].turns[-1].qid)
        census = grade(last).calls[0].census
        assert census is not None
        assert {gap.path for gap in census.gaps} == {f"messages[{n}].content" for n in range(1, 23)}


def test_the_suggestions_lead_from_each_step_to_the_next(tmp_path: Path) -> None:
    """What the command suggests after a step is what the next one declares, to the byte; all is exact at the end.

    The shapes are named right on the way: rules that the provider's cache serves, a history that grows; and graded
    together no step is a remainder.
    """
    with stage(tmp_path) as here:
        read = Records(open_store(here.store), here.spool).get
        steps = second(here.host, read, count, lambda _done, _total: None)

        next(steps)
        rules, history = run(here, "suggest", "--text", "--last", len(TURNS))["suggestions"]
        assert (rules["shape"], rules["cause"], rules["paths"]) == ("constant", "cache path", ["messages[0].content"])
        assert (rules["share"], rules["cached"]["with"]) == (1.0, [len(TURNS) - 1, len(TURNS)])
        assert rules["text"] == preamble() + "\n\n"
        declared = [p for p in _pieces(read, next(steps).turns[-1].qid) if p.producer == "house rules"]
        assert [p.text for p in declared] == [rules["text"]]

        (again,) = run(here, "suggest", "--text", "--last", len(TURNS))["suggestions"]
        for found in (history, again):
            assert (found["shape"], found["cause"]) == ("growing", "history")
            assert found["paths"] == [f"messages[{n}].content" for n in range(1, 2 * len(TURNS) - 1)]
        last = next(steps)
        declared = [p for p in _pieces(read, last.turns[-1].qid) if p.producer == "history"]
        assert again["text"] in [p.text for p in declared]
        assert sum(len(p.text or "") for p in declared) == again["chars_per_call"][1]

        assert run(here, "suggest", "--last", len(TURNS))["suggestions"] == []
        assert last.suggestions == ()
        grades = run(here, "grade", "--last", 3 * len(TURNS))["grades"]
        exact = {g["qid"] for g in grades if g["verdict"] == "exact"}
        assert len(grades) == 3 * len(TURNS)
        assert exact >= {turn.qid for turn in last.turns}
        assert len(exact) == len(TURNS) + 1  # without a history the first turn of the second step is exact as well
        assert {reason for g in grades for call in g["calls"] for reason in call["reasons"]} == {"gap"}


def run(here: Stage, *arguments: object) -> Any:
    """What the command prints as JSON."""
    command = [sys.executable, "-m", "otel_prompt_trace.cli", *map(str, arguments)]
    places = ["--json", "--store", here.store, "--spool", str(here.spool)]
    return json.loads(subprocess.run([*command, *places], capture_output=True, check=False).stdout)


def _pieces(read: Read, qid: str) -> list[Piece]:
    return [p for call in read(qid).calls for p in call.declared]


def test_the_command_ends_well_and_prints_commands_that_work(tmp_path: Path) -> None:
    """prompt-trace demo, in a process of its own without proxies or endpoints, and each command that it prints.

    They are given to a shell as they stand, from another folder, with a path in them that has to be quoted.
    """
    out, elsewhere = tmp_path / "a folder's name", tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = [sys.executable, "-m", "otel_prompt_trace.cli"]
    done = subprocess.run([*command, "demo", "--out", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "4 in prompt + 1 dropped = 5 of 5 retrieved" in done.stdout
    beginning = f"  {shlex.join(command)} "
    offered = [line.strip() for line in done.stdout.splitlines() if line.startswith(beginning)]
    assert len(offered) == 7
    for line in offered:
        further = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, cwd=elsewhere)
        assert further.returncode in {0, 1}, further.stderr  # 1: two of the three conversations are mismatches
        assert further.stdout
        assert "Traceback" not in further.stderr
