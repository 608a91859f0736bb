"""How a process may end, stop or multiply: what it acknowledged is stored, or lies in the spool for the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lifecycle.serving import environ, ship, spooled, stored, told
from tests.waiting import until

pytestmark = pytest.mark.fault

_ROOT = Path(__file__).parents[2]
_PREAMBLE = """
import json, multiprocessing, os, signal, sys, time
import otel_prompt_trace as pt
from otel_prompt_trace.pipeline import shipper
shipper._FIRST_ADOPT_SECONDS, shipper.ADOPT_SECONDS = 0.05, 0.05
pt.install(wire="off")

def ask(qid):
    with pt.query(qid=qid):
        pass
    return qid

def say(*what):
    print(json.dumps(what), flush=True)
"""
_EVENTS = 2  # of one query

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture(params=["thread", "process"])
def start(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Start]:
    """Run a script that begins by installing, and delivers in either way; it can be talked to by lines."""
    made: list[subprocess.Popen[str]] = []

    def begin(body: str) -> subprocess.Popen[str]:
        script = tmp_path / f"script{len(made)}.py"
        script.write_text(_PREAMBLE + textwrap.dedent(body))
        pipe = subprocess.PIPE
        made.append(
            subprocess.Popen(
                [sys.executable, str(script)], cwd=tmp_path, stdin=pipe, stdout=pipe, text=True,
                env=environ(tmp_path, {"PYTHONPATH": str(_ROOT), "PROMPT_TRACE_DELIVERY": request.param}),
            )
        )  # fmt: skip
        return made[-1]

    yield begin
    for process in made:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL", "SIGSEGV", "os._exit"])
def test_an_end_past_every_handler(tmp_path: Path, start: Start, how: str) -> None:
    """Twenty queries, and the process is gone: all are there still, and whoever comes next brings them in."""
    end = "os._exit(0)" if how == "os._exit" else f"os.kill(os.getpid(), signal.{how})"
    process = start(f"say(*[ask(f'q{{number}}') for number in range(20)])\n{end}")
    qids = told(process)
    assert process.wait(20) == (0 if how == "os._exit" else -signal.Signals[how])
    successor = start("ask('next')\nsys.stdin.readline()")
    until(lambda: stored(tmp_path) == dict.fromkeys([*qids, "next"], _EVENTS), 40)
    successor.communicate("\n", timeout=30)
    assert successor.returncode == 0
    assert spooled(tmp_path) == []


def test_a_handler_of_the_applications_own(tmp_path: Path, start: Start) -> None:
    """SIGTERM that becomes ``SystemExit``, as most servers have it: everything is delivered on the way out."""
    process = start(
        """
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        q = pt.query(qid="open")
        q.__enter__()
        q.tool_call("t")
        say(ask("q"))
        while True:
            time.sleep(0.1)
        """
    )
    told(process)
    process.terminate()
    assert process.wait(20) == 0
    assert stored(tmp_path) == {"q": _EVENTS, "open": 2}
    assert spooled(tmp_path) == []


def test_what_is_frozen_after_a_flush_has_delivered(tmp_path: Path, start: Start) -> None:
    """A function host flushes, answers, and is stopped between requests, perhaps for ever: nothing waits in it.

    Woken up it goes on where it was; killed while it is stopped it has lost nothing.
    """
    process = start(
        """
        for line in sys.stdin:
            ask(line.strip())
            say(pt.flush(20).ok)
        """
    )
    assert process.stdin is not None
    for number in range(3):
        print(f"q{number}", file=process.stdin, flush=True)
        assert told(process) == [True]
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert stored(tmp_path) == {f"q{each}": _EVENTS for each in range(number + 1)}
        if number < 2:
            os.kill(process.pid, signal.SIGCONT)
    process.kill()
    assert process.wait(20) == -signal.SIGKILL
    assert ship(tmp_path).events == 0
    assert stored(tmp_path) == {f"q{each}": _EVENTS for each in range(3)}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_does_not_adopt_what_its_living_parent_has(tmp_path: Path, start: Start, method: str) -> None:
    """Its look at the folder finds the parent's file locked, however the child was made."""
    (tmp_path / "work.py").write_text(
        _PREAMBLE
        + "\ndef work():\n    ask('child')\n    pt.flush(20)\n    time.sleep(1)\n    print('[]', flush=True)\n"
        "    sys.stdin = open(0)\n"
    )
    process = start(
        f"""
        sys.path.insert(0, os.getcwd())
        if __name__ == "__main__":
            q = pt.query(qid="parent")
            q.__enter__()
            q.tool_call("t")
            from work import work
            files = set(os.listdir("spool"))
            child = multiprocessing.get_context({method!r}).Process(target=work)
            child.start()
            child.join(30)
            say(child.exitcode, files <= set(os.listdir("spool")))
            q.__exit__(None, None, None)
        """
    )
    assert told(process) == []
    assert stored(tmp_path) == {"child": _EVENTS}
    assert told(process) == [0, True]
    assert process.wait(30) == 0
    assert stored(tmp_path) == {"child": _EVENTS, "parent": 3}
    assert spooled(tmp_path) == []


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool_of_processes(tmp_path: Path, start: Start, method: str) -> None:
    """Workers that are replaced after some tasks, and a pool that is terminated: every answered query is there."""
    (tmp_path / "work.py").write_text(_PREAMBLE + "\ndef work(number):\n    return ask(f'q{number}'), os.getpid()\n")
    process = start(
        f"""
        sys.path.insert(0, os.getcwd())
        if __name__ == "__main__":
            ask("parent")
            from work import work
            with multiprocessing.get_context({method!r}).Pool(2, maxtasksperchild=3) as pool:
                done = pool.map(work, range(12), chunksize=1)
            say(len({{pid for _, pid in done}}))
        """
    )
    (pids,) = told(process)
    assert isinstance(pids, int)
    assert pids >= 4
    assert process.wait(30) == 0
    ship(tmp_path)
    assert stored(tmp_path) == {f"q{number}": _EVENTS for number in range(12)} | {"parent": _EVENTS}
    assert spooled(tmp_path) == []
