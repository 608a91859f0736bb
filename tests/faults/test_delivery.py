"""Applications that deliver through a process, and do to it what applications do: none is held up, nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.pipeline.drain import drain
from tests.faults.running import stored_lines
from tests.faults.stub_s3 import StubS3
from tests.lifecycle.serving import environ, ship, spooled, stored, told
from tests.waiting import until

pytestmark = pytest.mark.fault

_ROOT = Path(__file__).parents[2]
_EVENTS = 2  # of one query
_PREAMBLE = """
import gc, json, os, signal, socket, sys, threading, time
import otel_prompt_trace as pt
from otel_prompt_trace.current import current

def ask(qid, text="what?"):
    with pt.query(qid=qid, question=text):
        pass
    return qid

def say(*what):
    os.write(out, json.dumps(what).encode() + b"\\n")

def connection():
    return current()._parts._process._link._connection.fileno()

def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]

out = os.dup(1)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Run a script; it says lists, and can be told lines."""
    made: list[subprocess.Popen[str]] = []

    def begin(body: str, *, install: str = "pt.install(wire='off')", **variables: str) -> subprocess.Popen[str]:
        script = tmp_path / f"script{len(made)}.py"
        script.write_text(_PREAMBLE + install + "\n" + textwrap.dedent(body))
        given = {"PYTHONPATH": str(_ROOT), "PROMPT_TRACE_DELIVERY": "process", **variables}
        with (tmp_path / f"error{len(made)}").open("wb") as errors:
            made.append(
                subprocess.Popen(
                    [sys.executable, "-X", "dev", str(script)], cwd=tmp_path, text=True, env=environ(tmp_path, given),
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                )
            )  # fmt: skip
        return made[-1]

    yield begin
    for process in made:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def s3() -> Iterator[StubS3]:
    """A server that hangs when it is told to."""
    with StubS3() as server:
        yield server


def _tell(process: subprocess.Popen[str], line: str = "") -> None:
    assert process.stdin is not None
    print(line, file=process.stdin, flush=True)


def _gone(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return status == "Z"


def _ends(process: subprocess.Popen[str], errors: Path, status: int = 0) -> None:
    assert process.wait(30) == status, errors.read_text()
    assert "Warning" not in errors.read_text()
    assert "Traceback" not in errors.read_text()


def test_a_descriptor_that_the_application_closes_and_gets_again(tmp_path: Path, start: Start) -> None:
    """Its own socket has our number then: nothing is written to it, it is not shut down, another process goes on."""
    process = start(
        """
        ask("first")
        say(pt.flush(20).ok)
        number = connection()
        mine, other = socket.socketpair()
        for end in ("second", "child"):
            os.dup2(mine.fileno(), number)
            ask(end)
            say(pt.flush(20).ok or pt.flush(20).ok)
            other.setblocking(False)
            try:
                other.recv(1)
            except BlockingIOError:
                say("untouched")
            os.close(number)
            number = connection()
        os.dup2(mine.fileno(), number)
        child = os.fork()
        if not child:
            gc.collect()
            os.write(number, b"child")
            os._exit(0)
        os.waitpid(child, 0)
        pt.uninstall()
        os.write(number, b"parent")
        say(other.recv(99).decode())
        """
    )
    said = [told(process)[0] for _ in range(6)]
    assert said == [True, True, "untouched", True, "untouched", "childparent"]
    assert process.wait(30) == 0, (tmp_path / "error0").read_text()
    assert stored(tmp_path) == dict.fromkeys(("first", "second", "child"), _EVENTS)


def test_an_application_that_heeds_sigpipe(tmp_path: Path, start: Start) -> None:
    """As many that write to pipes do: a delivery process that is gone does not end it by that signal."""
    process = start(
        """
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        ask("first")
        say(pt.flush(20).ok)
        pid = current().delivery_pid
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        ask("second")
        say(pt.flush(20).ok or pt.flush(20).ok)
        """
    )
    assert told(process) == [True]
    assert told(process) == [True]
    _ends(process, tmp_path / "error0")
    assert stored(tmp_path) == {"first": _EVENTS, "second": _EVENTS}


def test_an_application_without_standard_streams(tmp_path: Path, start: Start) -> None:
    """Our end has none of their numbers: what it makes there later is its own."""
    process = start(
        """
        for number in (0, 1, 2):
            os.close(number)
        ask("q")
        say(pt.flush(20).ok, connection() > 2)
        """
    )
    assert told(process) == [True, True]
    assert process.wait(30) == 0
    assert stored(tmp_path) == {"q": _EVENTS}


def test_again_and_again(tmp_path: Path, start: Start) -> None:
    """Installed and uninstalled: no process, zombie, descriptor or thread is left, whether it was used or starting."""
    process = start(
        """
        pt.uninstall()
        before = len(os.listdir("/proc/self/fd"))
        for number in range(12):
            pt.install(wire="off")
            ask(f"q{number}")
            if number % 3:
                pt.flush(20 if number % 3 == 1 else 0.03 * number)
            if number % 3 == 2:
                current().close(0.0)
            pt.uninstall()
            gc.collect()
        deadline = time.monotonic() + 20
        while (children() or threading.active_count() > 1) and time.monotonic() < deadline:
            time.sleep(0.01)
        say(len(os.listdir("/proc/self/fd")) - before, children(), threading.active_count())
        """
    )
    assert told(process) == [0, [], 1]
    _ends(process, tmp_path / "error0")
    ship(tmp_path)
    assert stored(tmp_path) == {f"q{number}": _EVENTS for number in range(12)}


@pytest.mark.parametrize("how", ["hang", "SIGSTOP"])
@pytest.mark.parametrize("end", ["sys.exit(0)", "raise SystemExit(0)", "pt.uninstall()", "os._exit(0)", "kill"])
def test_an_end_while_it_hangs(tmp_path: Path, start: Start, s3: StubS3, how: str, end: str) -> None:
    """A flush keeps its deadline, the end its budget, and the delivery process does not outlive it by much."""
    process = start(
        f"""
        ask("first")
        say(pt.flush(20).ok, current().delivery_pid)
        sys.stdin.readline()
        ask("second", "x" * 3_000_000)
        began = time.monotonic()
        ok = pt.flush(0.5).ok
        say(ok, time.monotonic() - began)
        {"sys.stdin.readline()" if end == "kill" else end}
        """,
        PROMPT_TRACE_STORE=s3.url,
        **s3.environment,
    )
    ok, pid = told(process)
    assert ok
    s3.how = "hang"
    if how == "SIGSTOP":
        os.kill(pid, signal.SIGSTOP)
    _tell(process)
    ok, seconds = told(process)
    assert not ok
    assert seconds < 1.5
    began = time.monotonic()
    if end == "kill":
        process.kill()
    process.wait(20)
    assert time.monotonic() - began < 7
    if how == "SIGSTOP" and end in ("kill", "os._exit(0)"):
        os.kill(pid, signal.SIGCONT)
    until(lambda: _gone(pid), 8)
    s3.how = "ok"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3.environment.items():
            patch.setenv(name, value)
        store = pt.open_store(s3.url)
        drain(tmp_path / "spool", store)
        assert Counter(line["qid"] for line in stored_lines(store)) == {"first": _EVENTS, "second": _EVENTS}


def test_a_chdir_under_a_relative_store(tmp_path: Path, start: Start) -> None:
    """It is the same folder for each process, and none imports what lies in the folder of the moment."""
    trap = tmp_path / "trap"
    trap.mkdir()
    for name in ("msgspec", "datetime", "otel_prompt_trace"):
        (trap / f"{name}.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\n")
    process = start(
        """
        ask("first")
        say(pt.flush(20).ok)
        os.chdir("trap")
        sys.path.insert(0, "")
        os.kill(current().delivery_pid, signal.SIGKILL)
        ask("second")
        say(pt.flush(20).ok or pt.flush(20).ok)
        """,
        PROMPT_TRACE_STORE="store",
    )
    assert told(process) == [True]
    assert told(process) == [True]
    _ends(process, tmp_path / "error0")
    assert stored(tmp_path) == {"first": _EVENTS, "second": _EVENTS}
    assert not (tmp_path / "sprung").exists()


def test_a_store_whose_name_is_no_text(tmp_path: Path, start: Start) -> None:
    """A folder's name is bytes, as for a thread; and so is it in what the store says of it."""
    process = start(
        """
        open(os.fsencode("st") + b"\\xff", "wb").close()
        ask("q")
        say(pt.flush(3).ok)
        os.unlink(b"st\\xff")
        say(pt.flush(20).ok, "zstandard" in sys.modules)
        """,
        PROMPT_TRACE_STORE=str(tmp_path / "st\udcff"),
    )
    assert told(process) == [False]
    assert told(process) == [True, False]
    _ends(process, tmp_path / "error0")
    assert "is not a folder" in (tmp_path / "error0").read_text()


def test_an_application_that_reaps_every_child(tmp_path: Path, start: Start) -> None:
    """And another's number is never waited for, nor sent a signal."""
    process = start(
        """
        def reap(*_):
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass
        signal.signal(signal.SIGCHLD, reap)
        for number in range(4):
            ask(f"q{number}")
            say(pt.flush(20).ok or pt.flush(20).ok)
            os.kill(current().delivery_pid, signal.SIGKILL)
        ask("last")
        """
    )
    for _ in range(4):
        assert told(process) == [True]
    _ends(process, tmp_path / "error0")
    ship(tmp_path)
    assert stored(tmp_path) == dict.fromkeys(["q0", "q1", "q2", "q3", "last"], _EVENTS)


def test_no_descriptor_is_left(tmp_path: Path, start: Start) -> None:
    """None for the connection: the query waits. When there are some again it is delivered, by whichever way."""
    process = start(
        """
        import resource
        ask("first")
        current()._spool.prepare()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        held = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        try:
            while True:
                held.append(os.dup(1))
        except OSError:
            pass
        ok = pt.flush(4).ok
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for number in held:
            os.close(number)
        say(ok, pt.flush(20).ok)
        """
    )
    assert told(process)[1] is True
    _ends(process, tmp_path / "error0")
    assert stored(tmp_path) == {"first": _EVENTS}


def test_forks_while_it_is_being_made(tmp_path: Path, start: Start) -> None:
    """Children of that very moment neither keep the parent's process alive nor lack one of their own."""
    process = start(
        """
        def child(name):
            ask(name)
            ok = pt.flush(30).ok
            gc.collect()
            say(name, ok)
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        ask("first")  # a fork while another thread imports is Python's own trap
        pt.uninstall()
        pt.install(wire="off")
        reading, writing = os.pipe()
        pids = []
        thread = threading.Thread(target=lambda: (ask("parent"), pt.flush(30)))
        thread.start()
        for number in range(8):
            time.sleep(0.02)
            pid = os.fork()
            if not pid:
                child(f"child{number}")
            pids.append(pid)
        thread.join()
        say("parent", current().delivery_pid)
        sys.stdin.readline()
        pt.uninstall()
        say(pids)
        sys.stdin.readline()
        """
    )
    said = [told(process) for _ in range(9)]
    (parent,) = [pid for name, pid in said if name == "parent"]
    assert all(ok for _, ok in said)
    _tell(process)
    (pids,) = told(process)
    assert len(pids) == 8
    assert _gone(parent)
    _tell(process)
    assert process.wait(30) == 0
    assert stored(tmp_path) == dict.fromkeys(["first", "parent", *(f"child{number}" for number in range(8))], _EVENTS)
    assert len(spooled(tmp_path)) <= 8


def test_much_at_once(tmp_path: Path, start: Start) -> None:
    """Forty megabytes in one query, and ten thousand queries in one flush."""
    process = start(
        """
        ask("large", "é" * 20_000_000)
        say(pt.flush(60).ok)
        for number in range(10_000):
            ask(f"q{number}")
        say(pt.flush(120).ok, "zstandard" in sys.modules)
        """
    )
    assert told(process) == [True]
    assert told(process) == [True, False]
    assert process.wait(30) == 0
    found = stored(tmp_path)
    assert len(found) == 10_001
    assert set(found.values()) == {_EVENTS}


def test_credentials_that_are_set_later(tmp_path: Path, start: Start, s3: StubS3) -> None:
    """Refused by the store, the next process has the application's environment as it is then."""
    process = start(
        f"""
        ask("q")
        say(pt.flush(2).ok)
        os.environ.update({s3.environment!r})
        say(pt.flush(20).ok or pt.flush(20).ok)
        """,
        PROMPT_TRACE_STORE=s3.url,
        AWS_EC2_METADATA_DISABLED="true",
        AWS_CONFIG_FILE="/dev/null",
        HOME=str(tmp_path),
    )
    assert told(process) == [False]
    assert told(process) == [True]
    _ends(process, tmp_path / "error0")


def test_a_store_in_memory(start: Start) -> None:
    """It is this process's memory, which no other could fill."""
    process = start(
        """
        ask("q")
        say(pt.flush(20).ok, len(pt.open_store("memory:").events("q").events), current().delivery_pid)
        """,
        PROMPT_TRACE_STORE="memory:",
    )
    assert told(process) == [True, _EVENTS, None]


@pytest.mark.parametrize("durability", ["memory", "fsync"])
def test_every_durability(tmp_path: Path, start: Start, durability: str) -> None:
    """What is kept in memory, and what is synced, is passed on as well."""
    process = start("ask('q')\nsay(pt.flush(20).ok)\nask('last')", PROMPT_TRACE_DURABILITY=durability)
    assert told(process) == [True]
    _ends(process, tmp_path / "error0")
    assert stored(tmp_path) == {"q": _EVENTS, "last": _EVENTS}
