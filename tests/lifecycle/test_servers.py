"""Web servers that run an application in several processes: whatever they do to these, no answered query is lost."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from tests.lifecycle.serving import EVENTS, PROGRAMS, Asked, Server, running, ship, spooled, stored, writers
from tests.waiting import until

pytestmark = pytest.mark.integration

_GUNICORN = ("gunicorn", "web:wsgi", "--bind", "127.0.0.1:0", "--workers", "2", "--no-control-socket")
_UVICORN = ("uvicorn", "web:asgi", "--host", "127.0.0.1", "--port", "0")


def _each_once(folder: Path, asked: list[Asked]) -> None:
    found = stored(folder)
    assert {each.qid: found[each.qid] for each in asked} == {each.qid: EVENTS for each in asked}


def _deliverers(folder: Path) -> set[str]:
    """The delivery processes of a server, by the settings that they have from it."""
    wanted = f"PROMPT_TRACE_STORE={folder / 'store'}".encode()
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            named = b"prompt-trace delivery of" in (process / "cmdline").read_bytes()
            if named and wanted in (process / "environ").read_bytes().split(b"\0"):
                found.add(process.name)
    return found


@pytest.mark.parametrize("delivery", ["thread", "process"])
@pytest.mark.parametrize("preload", [False, True])
def test_gunicorn(python: Path, tmp_path: Path, preload: bool, delivery: str) -> None:
    """Two workers, forked before or after the application is there: told to end, they deliver everything.

    With ``--preload`` the master has recorded and runs a shipper when it forks: its own record is stored once too.
    Each may deliver through a process of its own; none of them is left over.
    """
    options = ("--preload",) if preload else ()
    settings = {"PROMPT_TRACE_DELIVERY": delivery, "RECORD_AT_IMPORT": "1"}
    with running(python, tmp_path, *_GUNICORN, *options, **settings) as server:
        server.await_url()
        asked = server.ask_until(pids=2)
        if delivery == "process":
            until(lambda: len(_deliverers(tmp_path)) == (3 if preload else 2))
        assert server.stop() == 0
        until(lambda: not _deliverers(tmp_path))
    _each_once(tmp_path, asked)
    assert spooled(tmp_path) == []
    imports = [qid for qid in stored(tmp_path) if qid.startswith("import-")]
    assert imports == [f"import-{server.process.pid}"] if preload else len(imports) == 2
    assert len(writers(tmp_path)) == (3 if preload else 2)


def test_gunicorn_that_replaces_its_workers(python: Path, tmp_path: Path) -> None:
    """Each worker answers a few requests and goes: what it had not delivered yet is there all the same."""
    with running(python, tmp_path, *_GUNICORN, "--max-requests", "5") as server:
        server.await_url()
        asked = server.ask_until(pids=5)
        assert server.stop() == 0
    _each_once(tmp_path, asked)
    assert spooled(tmp_path) == []


@pytest.mark.parametrize("delivery", ["thread", "process"])
def test_gunicorn_whose_worker_is_killed(python: Path, tmp_path: Path, delivery: str) -> None:
    """Its siblings, or its successor, adopt what it left, while the server runs on."""
    settings = {"PROMPT_TRACE_DELIVERY": delivery, "ADOPT_SOON": "1", "RECORD_AT_IMPORT": "1"}
    with running(python, tmp_path, *_GUNICORN, "--preload", **settings) as server:
        server.await_url()
        asked = server.ask_until(pids=2)
        os.kill(asked[-1].pid, signal.SIGKILL)
        asked += _patiently(server, 10)

        def all_stored() -> bool:
            found = stored(tmp_path)
            return all(found[each.qid] == EVENTS for each in asked)

        until(all_stored, 40)
        assert server.stop() == 0
        until(lambda: not _deliverers(tmp_path))
    _each_once(tmp_path, asked)


def test_uvicorn_with_workers(python: Path, tmp_path: Path) -> None:
    """Spawned workers. uvicorn ends them by their own signal, past every handler: the spool has what they had left."""
    with running(python, tmp_path, *_UVICORN, "--workers", "2") as server:
        server.await_url()
        until(lambda: server.output.read_text().count("startup complete") == 2)
        asked = server.ask_until(pids=2)
        server.stop()
    ship(tmp_path)
    _each_once(tmp_path, asked)
    assert spooled(tmp_path) == []
    assert len(writers(tmp_path)) == 2


def test_uvicorn_that_reloads(python: Path, tmp_path: Path) -> None:
    """The application's file changes, its process is replaced: what both answered is stored once."""
    code = tmp_path / "code"
    code.mkdir()
    shutil.copy(PROGRAMS / "web.py", code)
    options = ("--app-dir", str(code), "--reload", "--reload-dir", str(code))
    with running(python, tmp_path, *_UVICORN, *options, ADOPT_SOON="1") as server:
        server.await_url()
        until(lambda: "startup complete" in server.output.read_text())
        asked = server.ask(10)

        def another() -> bool:
            (code / "web.py").write_text((code / "web.py").read_text() + "\n# changed\n")
            return len(re.findall("startup complete", server.output.read_text())) >= 2

        until(another, 30)
        asked += _patiently(server, 10)
        assert len({each.pid for each in asked}) >= 2  # it may have seen the change, and reloaded, more than once
        server.stop()
    ship(tmp_path)
    _each_once(tmp_path, asked)
    assert spooled(tmp_path) == []


def _patiently(server: Server, count: int) -> list[Asked]:
    """Requests to a server that loses some connections just now."""
    asked: list[Asked] = []

    def one() -> bool:
        try:
            asked.extend(server.ask(1))
        except OSError:
            return False
        return len(asked) >= count

    until(one, 30)
    return asked
