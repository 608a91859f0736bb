"""Every client by every way of calling it: the application and the host see no difference, the record holds it all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_prompt_trace.cli.reading import get
from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.usage import normalize
from tests.wire.conftest import Runs
from tests.wire.running import Run, Seen, run
from tests.wire.scenarios import NONE, PROGRAMS, Program, Scenario

pytestmark = pytest.mark.integration

_PAIRS = [(program, scenario) for program in PROGRAMS for scenario in program.scenarios]
every = pytest.mark.parametrize(
    ("program", "scenario"),
    [pytest.param(program, scenario, id=f"{program.name}-{scenario.name}") for program, scenario in _PAIRS],
)
recorded = pytest.mark.parametrize(
    ("program", "scenario"),
    [
        pytest.param(program, scenario, id=f"{program.name}-{scenario.name}")
        for program, scenario in _PAIRS
        if scenario.calls != NONE
    ],
)


@every
def test_the_application_sees_no_difference(runs: Runs, program: Program, scenario: Scenario) -> None:
    """Chunks and their sizes, errors and what they came from, warnings, and the order of it all are the same."""
    bare, ours = (run.scenarios[scenario.name] for run in runs(program))
    assert ours.application == bare.application
    assert bare.application


@every
def test_the_host_sees_no_difference(runs: Runs, program: Program, scenario: Scenario) -> None:
    """The same requests arrive, byte for byte and chunk by chunk, and the connection is left at the same moment."""
    bare, ours = (run.scenarios[scenario.name] for run in runs(program))
    assert sorted(map(repr, ours.arrived)) == sorted(map(repr, bare.arrived))
    assert len(bare.received) == len(scenario.answers)


@every
def test_calls_and_attempts(runs: Runs, program: Program, scenario: Scenario) -> None:
    """One call a logical call, in the record of its own entry and in no other, with the status of each attempt."""
    seen, calls = _recorded(runs(program)[1], scenario)
    statuses = [tuple(_statuses(call)) for _, call in calls]
    assert sorted(statuses) == sorted(call for call in scenario.expected if call)
    assert scenario.elsewhere or {qid for qid, _ in calls} <= {seen.entry}
    for _, call in calls:
        assert [attempt.number for attempt in call.attempts] == list(range(1, len(call.attempts) + 1))
        assert {attempt.host for attempt in call.attempts} == {
            _NOBODY if scenario.name == "nobody_there" else seen.host
        }
        hops = len(call.attempts) if scenario.name == "redirected" else 1
        assert len({attempt.path for attempt in call.attempts}) == hops
        assert call.evidence == "wire"
        assert len([event for event in call.requests if event.get("evidence") == "wire"]) == len(call.attempts)


@recorded
def test_the_record_holds_what_was_sent(runs: Runs, program: Program, scenario: Scenario) -> None:
    """``get QID --body`` gives the bytes that the host received, whatever came of them; a path has no query."""
    ours = runs(program)[1]
    seen, calls = _recorded(ours, scenario)
    sent = {hashlib.sha256(one.body).hexdigest(): one for one in seen.received if one.sizes or scenario.http2}
    for qid, call in calls:
        body = _body(ours, qid, call)
        digest = hashlib.sha256(body).hexdigest()
        assert call.request is not None
        assert call.request["sha256"] == digest
        if sent:
            assert digest in sent
            assert call.request["path"] == sent[digest].path.partition("?")[0] or "redirected" in scenario.name
        else:  # the host was not there, or left in the middle of the request
            assert body.startswith(b"".join(one.body for one in seen.received))
            assert len(body) > 70_000 or not seen.received
    assert not sent or {(call.request or {})["sha256"] for _, call in calls} == set(sent)


@recorded
def test_the_record_holds_what_was_answered(runs: Runs, program: Program, scenario: Scenario) -> None:
    """The last answer's text, as far as the application read it; one that was not read to its end is unfinished."""
    _, calls = _recorded(runs(program)[1], scenario)
    for _, call in calls:
        assert call.response is not None
        told = call.response
        assert (told.get("output") or None) == scenario.output
        failed = 0 in _statuses(call)
        assert call.unfinished == (scenario.unfinished or failed)
        assert scenario.finish is None or told["finish_reason"] == scenario.finish
        if scenario.output is not None and not scenario.unfinished and scenario.name != _NO_USAGE:
            usage = normalize(told["usage"])
            assert (usage["input_tokens"], usage["output_tokens"]) == (12, 7)


def test_off_means_off(clients: Path, tmp_path: Path) -> None:
    """``PROMPT_TRACE_WIRE=off``: nothing of a request is recorded, and what was asked for otherwise still is."""
    program = next(program for program in PROGRAMS if program.name == "httpx")
    ours = run(clients, tmp_path / "ours", program, ours=True, only=["json_body"], PROMPT_TRACE_WIRE="off")
    assert ours.scenarios["json_body"].received
    assert not list(_calls(ours))


_NO_USAGE = "own_transport"


_NOBODY = "127.0.0.1:1"


def _recorded(ours: Run, scenario: Scenario) -> tuple[Seen, list[tuple[str, Call]]]:
    """All calls of a scenario, with their qids, in whatever record they are."""
    seen = ours.scenarios[scenario.name]
    found = [(qid, call) for qid, call in _calls(ours) if _is_of(call, qid, seen)]
    return seen, found


def _calls(ours: Run) -> Iterator[tuple[str, Call]]:
    for qid, record in ours.records.items():
        assert not record.problems
        for call in record.calls:
            yield qid, call


def _is_of(call: Call, qid: str, seen: Seen) -> bool:
    return qid == seen.entry or any(event.get("host") == seen.host for event in call.requests)


def _statuses(call: Call) -> Iterator[int]:
    for attempt in call.attempts:
        yield attempt.status or 0


def _body(ours: Run, qid: str, call: Call) -> bytes:
    places = ["--store", str(ours.store), "--spool", str(ours.spool)]
    done = CliRunner().invoke(get, [qid, "--body", "--call", str(call.number), *places])
    assert done.exit_code == 0, done.output
    return done.stdout_bytes
