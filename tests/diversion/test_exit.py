"""An unchanged application that is ended, or whose store hangs: what the hook acknowledged can be read, at once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.pipeline.reading import waiting_qids
from otel_prompt_trace.records import Records
from otel_prompt_trace.runtime import EXIT_SECONDS

_ROOT = Path(__file__).parents[2]
_ENV = {name: value for name, value in os.environ.items() if not name.startswith(("PROMPT_TRACE_", "OTEL_", "AWS_"))}
_ENV |= {"AWS_ACCESS_KEY_ID": "unused", "AWS_SECRET_ACCESS_KEY": "unused"}
_READ = 40  # records that are read whole: each reads the spool anew
_BESIDE = 3.0  # seconds beyond the budget: for the thread's last second, and for the interpreter


class Hanging:
    """A server on loopback that accepts every connection and never answers; ``url`` is a store on it."""

    def __init__(self) -> None:
        self.connections: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        port = self._server.getsockname()[1]
        self.url = f"s3://payloads?endpoint_url=http://127.0.0.1:{port}&region=us-east-1"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self.connections.append(self._server.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        """End it, and what hangs on it."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for connection in self.connections:
            connection.close()


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    """See :class:`Hanging`."""
    server = Hanging()
    yield server
    server.close()


def _application(store: str, spool: Path, calls: int, order: str = "after") -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "tests.diversion.completing_process", store, str(spool), str(calls), order]
    return subprocess.Popen(program, cwd=_ROOT, env=_ENV, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _acknowledged(lines: list[str]) -> dict[str, str]:
    """What was asked, by qid; a line that the end of the process cut is no acknowledgement."""
    return {qid: asked for qid, asked in (line.split() for line in lines if line.endswith("\n")) if qid != "end"}


def _readable(store: Path, spool: Path, acknowledged: dict[str, str]) -> int:
    """That every acknowledged call is there; how many wait in the spool of those that are read, the last among them."""
    records, waiting = Records(pt.open_store(store), spool), 0
    stored = {qid for _, qid in records.store.qids()}
    assert acknowledged.keys() <= stored | set(waiting_qids(spool))
    last = [*acknowledged.items()][-_READ:]
    for qid, asked in last:
        record = records.get(qid)
        assert record.problems == ()
        (call,) = record.calls
        assert call.prompt is not None
        assert (call.evidence, [segment.text for segment in call.prompt.segments]) == ("hook", [asked])
        waiting += bool(record.waiting)
    return waiting


@pytest.mark.fault
@pytest.mark.parametrize("reachable", [True, False], ids=["store there", "store not there"])
def test_sigterm_loses_nothing(tmp_path: Path, reachable: bool) -> None:
    """SIGTERM right after calls, with no handler of anybody's: all are read, from the store or from the spool."""
    store, spool = tmp_path / "store", tmp_path / "spool"
    if not reachable:
        store.write_text("in the way")
    with _application(str(store), spool, 0) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(200)]
        process.send_signal(signal.SIGTERM)
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGTERM
    acknowledged = _acknowledged(lines)
    assert len(acknowledged) >= 200
    if not reachable:
        store.unlink()
    waiting = _readable(store, spool, acknowledged)
    assert reachable or waiting == _READ

    qid, asked = [*acknowledged.items()][-1]  # a person asks for the last one, with nothing else running
    command = [sys.executable, "-m", "otel_prompt_trace.cli", "get", qid, "--store", str(store)]
    environment = {**_ENV, "PROMPT_TRACE_SPOOL": str(spool)}
    shown = subprocess.run(command, env=environment, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert asked in shown.stdout, shown.stderr


@pytest.mark.fault
@pytest.mark.parametrize("order", ["before", "after"])
def test_a_store_that_hangs_delays_an_exit_by_no_more_than_the_budget(
    tmp_path: Path, hanging: Hanging, order: str
) -> None:
    """A normal exit waits for a store that never answers at most ``EXIT_SECONDS``, once.

    The shutdown of the application's provider and our own end both try, in an order that depends on who registered
    first. Together they wait for one budget; beside it stand the second in which the shipper's thread may finish, and
    the interpreter's own end. What was recorded stays in the spool and is read there.
    """
    spool = tmp_path / "spool"
    with _application(hanging.url, spool, 20, order) as process:
        out, err = process.communicate(timeout=60)
    ended = time.time()
    *lines, last = out.splitlines(keepends=True)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert ended - float(last.split()[1]) < EXIT_SECONDS + _BESIDE
    assert hanging.connections
    acknowledged = _acknowledged(lines)
    assert len(acknowledged) == 20
    assert _readable(tmp_path / "store", spool, acknowledged) == 20
