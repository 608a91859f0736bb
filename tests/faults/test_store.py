"""A store that is down, refuses, fails, hangs, cuts connections or is slow: nothing is missing, nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.pipeline.drain import drain
from tests.faults.conftest import Start
from tests.faults.running import Program, check_books, check_stored
from tests.faults.stub_s3 import StubS3
from tests.waiting import until

pytestmark = [pytest.mark.fault, pytest.mark.integration]

_PROMPTLY = {"PROMPT_TRACE_SPOOL_FILE_BYTES": str(1 << 18)}


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubS3]:
    """A server that this process can read as well."""
    with StubS3() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def _begin(start: Start, s3: StubS3, **config: object) -> Program:
    return start(s3.url, environment={**s3.environment, **_PROMPTLY}, **config)


def _whole(s3: StubS3, *programs: Program) -> None:
    s3.how = "ok"
    lines = check_stored(pt.open_store(s3.url), [told for program in programs for told in program.told])
    check_books(lines, *(books for program in programs for books in program.books.values()))


@pytest.mark.parametrize("delivery", ["thread", "process"])
@pytest.mark.parametrize("how", ["refuse", "fail", "busy", "cut", "hang", "slow"])
def test_it_fails_for_a_while(start: Start, s3: StubS3, how: str, delivery: str) -> None:
    """Well, then failing, then well again: a flush keeps its deadline and counts what waits; after it all is stored."""
    program = _begin(start, s3, install={"delivery": delivery})
    program.do("record", count=9)
    assert program.do("flush", timeout=20)["ok"]
    s3.how = how
    program.do("begin", threads=2, pause=0.04)
    program.read(40)
    flushed = program.do("flush", timeout=1)
    assert flushed["seconds"] < 3
    if how != "slow":
        assert not flushed["ok"]
        assert program.last["spooled"] > 0
    assert program.last["lost"] == 0
    program.read(20)
    s3.how = "ok"
    program.do("halt")
    assert program.do("flush", timeout=40)["ok"]
    books = program.exit()
    assert (books["spooled"], books["lost"], books["stored"]) == (0, 0, books["recorded"])
    assert s3.asked[f"PUT {how}"] > 0
    _whole(s3, program)


@pytest.mark.parametrize("how", ["refuse", "busy", "hang", "cut"])
@pytest.mark.parametrize("end", ["exit", "SIGKILL"])
def test_it_fails_for_the_whole_life_of_a_process(tmp_path: Path, start: Start, s3: StubS3, how: str, end: str) -> None:
    """The process ends within its budget, or is killed; the next one finds the store well and adopts everything."""
    s3.how = how
    program = _begin(start, s3)
    program.do("record", count=30)
    program.do("state")
    if end == "exit":
        books = program.exit()
        assert (books["lost"], books["stored"]) == (0, books["recorded"] - books["spooled"])
        assert books["spooled"] > 0
    else:
        program.do("flush", timeout=0.2)
        program.kill()
    s3.how = "ok"
    left = set((tmp_path / "spool").glob("*.spool"))
    heir = _begin(start, s3, adopt_seconds=0.02)
    heir.do("record", count=3)
    until(lambda: not left & set((tmp_path / "spool").glob("*.spool")), 40)
    assert heir.exit()["spooled"] == 0
    assert list((tmp_path / "spool").glob("*.spool")) == []
    _whole(s3, program, heir)


def test_it_is_not_there_at_all_and_comes_back(tmp_path: Path, start: Start) -> None:
    """Nothing listens: refused connections. The process ends, the server comes up, a drain delivers everything."""
    with StubS3() as gone:
        port, url, environment = gone.server_address[1], gone.url, gone.environment
    program = start(url, environment=environment)
    program.do("record", count=30)
    assert not program.do("flush", timeout=1)["ok"]
    books = program.exit()
    assert (books["stored"], books["lost"], books["spooled"]) == (0, 0, books["recorded"])
    with StubS3(port=int(port)) as back, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        assert drain(tmp_path / "spool", pt.open_store(url)).events == books["recorded"]
        _whole(back, program)


def test_each_failure_by_turns(tmp_path: Path, start: Start, s3: StubS3) -> None:
    """It changes how it fails under load; who records is killed, and the next goes on: each event is read once."""
    programs = []
    for turn in range(3):
        program = _begin(start, s3, adopt_seconds=0.05)
        programs.append(program)
        program.do("begin", threads=2, pause=0.03)
        for how in ("busy", "ok", "cut", "ok", "fail"):
            s3.how = how
            program.read(12)
        s3.how = "ok"
        program.read(12)
        if turn < 2:
            program.kill()
    program.do("halt")
    program.do("flush", timeout=40)
    program.exit()
    drain(tmp_path / "spool", pt.open_store(s3.url))
    lines = check_stored(pt.open_store(s3.url), [told for program in programs for told in program.told])
    check_books(lines, *(books for program in programs for books in program.books.values()))


@pytest.mark.parametrize("delivery", ["thread", "process"])
def test_a_fork_while_the_store_is_being_opened(start: Start, s3: StubS3, delivery: str) -> None:
    """The parent's shipper imports its S3 client, or makes its process, when a child is forked: the child delivers."""
    program = _begin(start, s3, install={"delivery": delivery})
    program.do("record", count=3)
    for _ in range(5):
        assert program.do("fork", count=1, how="exit") > 0
    program.exit()
    assert len(program.books) == 6
    assert all(books["spooled"] == 0 for books in program.books.values())
    _whole(s3, program)
