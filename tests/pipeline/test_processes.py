"""Real processes: how they end, and how they fork."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.pipeline.drain import drain
from otel_prompt_trace.pipeline.reading import content
from otel_prompt_trace.store.frames import unpack

_PREAMBLE = """
import json, os, signal, sys, threading, time
from pathlib import Path
import otel_prompt_trace as pt
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
pt.install(store="store", spool="spool")

def ask(count, name="q"):
    qids = []
    for number in range(count):
        with pt.query(question=f"{name} {number}") as q:
            with q.call(prompt=f"prompt of {name} {number}") as call:
                call.respond("o")
        qids.append(q.qid)
    return qids
"""
_EVENTS = 4  # of one query


def _run(folder: Path, body: str, status: int = 0) -> Any:
    """Run a script in ``folder``; what its last line says, as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", _PREAMBLE + textwrap.dedent(body)],
        cwd=folder, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stdout.strip().splitlines()
    return json.loads(lines[-1]) if lines else None


def _lines(folder: Path) -> list[dict[str, Any]]:
    """Every line of every object, as often as it lies there."""
    return [
        json.loads(line)
        for path in sorted((folder / "store").rglob("*.zst"))
        for line in unpack(path.read_bytes())[0].splitlines()
    ]


def _stored(folder: Path) -> Counter[str]:
    """Lines by qid."""
    return Counter(line["qid"] for line in _lines(folder))


def _objects(folder: Path) -> int:
    return len(list((folder / "store").rglob("*.zst")))


def _spooled(folder: Path) -> list[Path]:
    return sorted((folder / "spool").glob("*.spool"))


def test_a_normal_exit_delivers(tmp_path: Path) -> None:
    """No flush, no shutdown: everything is in the store, also a query that was never ended."""
    qids = _run(
        tmp_path,
        """
        qids = ask(20)
        q = pt.query(question="open")
        q.__enter__()
        q.tool_call("t")
        print(json.dumps([*qids, q.qid]))
        """,
    )
    assert _stored(tmp_path) == {**dict.fromkeys(qids[:20], _EVENTS), qids[20]: 2}
    assert _spooled(tmp_path) == []


@pytest.mark.parametrize(
    ("how", "status"),
    [("sys.exit(3)", 3), ("raise SystemExit", 0), ("trace.get_tracer_provider().shutdown()", 0)],
)
def test_other_ways_of_ending_deliver(tmp_path: Path, how: str, status: int) -> None:
    """Whatever ends the interpreter in order."""
    (qid,) = _run(tmp_path, f"print(json.dumps(ask(1)), flush=True)\n{how}", status)
    assert _stored(tmp_path) == {qid: _EVENTS}


def test_an_exception_at_the_top_delivers(tmp_path: Path) -> None:
    """A program that ends by its own error leaves its record, with the error's type in it."""
    script = "with pt.query() as q:\n    q.tool_call('t')\n    raise LookupError('mine')"
    done = subprocess.run(
        [sys.executable, "-c", _PREAMBLE + script],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("LookupError: mine")
    ((qid, count),) = _stored(tmp_path).items()
    assert count == 3
    end = pt.open_store(tmp_path / "store").events(qid).events[-1]
    assert end["error"] == "LookupError"


def test_an_exit_that_runs_no_handlers_leaves_it_in_the_spool(tmp_path: Path) -> None:
    """``os._exit`` and a kill: what was acknowledged to the application is in the spool, and ``drain`` delivers it."""
    for how in ("os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"):
        status = 0 if "_exit" in how else -9
        qids = _run(tmp_path, f"print(json.dumps(ask(10)), flush=True)\n{how}", status)
        report = drain(tmp_path / "spool", pt.open_store(tmp_path / "store"))
        assert report.problems == []
        assert report.alive == 0
        stored = _stored(tmp_path)
        assert {qid: stored[qid] for qid in qids} == dict.fromkeys(qids, _EVENTS)
        assert _spooled(tmp_path) == []


def test_a_forked_child_has_parts_of_its_own(tmp_path: Path) -> None:
    """Two forks, fifty queries in each process: all 150 are stored, by three writers, none twice."""
    qids = _run(
        tmp_path,
        """
        before = ask(1)          # the shipper's thread runs when we fork
        children = []
        for number in range(2):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    Path(f"qids{number}").write_text(json.dumps(ask(50, f"child {number}")))
                    status = 0 if pt.flush(20).ok else 2
                finally:
                    os._exit(status)
            children.append(child)
        own = ask(49, "parent")
        statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert statuses == [0, 0], statuses
        print(json.dumps(before + own + [qid for n in range(2) for qid in json.loads(Path(f"qids{n}").read_text())]))
        """,
    )
    assert len(set(qids)) == 150
    assert _stored(tmp_path) == dict.fromkeys(qids, _EVENTS)
    assert _objects(tmp_path) == 150
    events = _lines(tmp_path)
    assert len({(event["writer"], event["seq"]) for event in events}) == 150 * _EVENTS
    assert sorted(Counter(event["writer"] for event in events).values()) == [50 * _EVENTS] * 3


def test_a_forked_child_that_ends_in_order_delivers(tmp_path: Path) -> None:
    """A child that leaves by ``sys.exit`` needs no flush, as its parent does not."""
    qids = _run(
        tmp_path,
        """
        own = ask(2)
        child = os.fork()
        if child == 0:
            Path("child").write_text(json.dumps(ask(2, "child")))
            sys.exit(0)
        os.waitpid(child, 0)
        print(json.dumps(own + json.loads(Path("child").read_text())))
        """,
    )
    assert _stored(tmp_path) == dict.fromkeys(qids, _EVENTS)
    assert _spooled(tmp_path) == []


def test_a_child_that_is_killed_leaves_a_file_of_its_own(tmp_path: Path) -> None:
    """The child's events lie in its own file; the parent's file is as it was, and the parent delivers on."""
    told = _run(
        tmp_path,
        """
        from otel_prompt_trace.current import current
        q = pt.query(question="of the parent")
        q.__enter__()
        q.tool_call("t")
        (path,) = Path("spool").iterdir()
        before = path.read_bytes()
        child = os.fork()
        if child == 0:
            Path("child").write_text(json.dumps(ask(5, "child")))
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        assert path.read_bytes() == before
        q.__exit__(None, None, None)
        print(json.dumps({"parent": q.qid, "path": path.name, "child": json.loads(Path("child").read_text())}))
        """,
    )
    assert _stored(tmp_path) == {told["parent"]: 3}
    (left,) = _spooled(tmp_path)
    assert left.name != told["path"]
    assert {frame.qid for frame in content(left)[2]} == set(told["child"])
    drain(tmp_path / "spool", pt.open_store(tmp_path / "store"))
    assert _stored(tmp_path) == {told["parent"]: 3, **dict.fromkeys(told["child"], _EVENTS)}


def test_a_child_keeps_no_file_of_its_parent(tmp_path: Path) -> None:
    """Also those that were full when it was forked: once the parent is gone anybody can drain them."""
    told = _run(
        tmp_path,
        """
        pt.install(store="/dev/null/nowhere", spool="spool", spool_file_bytes=65536)
        for _ in range(5):
            with pt.query(question="x" * 50_000) as q:
                pass
        time.sleep(0.2)     # let the shipper take the entries over
        names = sorted(os.listdir("spool"))
        assert len(names) >= 5
        child = os.fork()
        if child == 0:
            links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
            held = " ".join(os.readlink(link) for link in links if os.path.islink(link))
            held += Path("/proc/self/maps").read_text()
            Path("held").write_text(json.dumps([name for name in names if name in held]))
            os._exit(0)
        os.waitpid(child, 0)
        print(Path("held").read_text(), flush=True)
        os._exit(0)
        """,
    )
    assert told == []


def test_a_process_of_multiprocessing_delivers_at_its_end(tmp_path: Path) -> None:
    """Forked, spawned or from a fork server: such a child ends past ``atexit``, and delivers all the same."""
    (tmp_path / "work.py").write_text(
        "import otel_prompt_trace as pt\n"
        "def work(number):\n"
        "    pt.install(store='store', spool='spool')\n"
        "    with pt.query(question=str(number), qid=f'child-{number}') as q:\n"
        "        q.tool_call('t')\n"
    )
    _run(
        tmp_path,
        """
        import multiprocessing
        sys.path.insert(0, os.getcwd())
        from work import work
        for number, method in enumerate(("fork", "spawn", "forkserver")):
            child = multiprocessing.get_context(method).Process(target=work, args=(number,))
            child.start()
            child.join(30)
            assert child.exitcode == 0, method
        print("null")
        """,
    )
    assert _stored(tmp_path) == {f"child-{number}": 3 for number in range(3)}
    assert _spooled(tmp_path) == []


def test_subprocesses_inherit_nothing(tmp_path: Path) -> None:
    """A program that is started while we record has none of our descriptors."""
    told = _run(
        tmp_path,
        """
        import subprocess
        q = pt.query()
        q.__enter__()
        q.tool_call("t")
        shown = subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, close_fds=False).stdout
        q.__exit__(None, None, None)
        print(json.dumps("spool" in shown))
        """,
    )
    assert told is False
