"""Runs a client program against stand-in hosts, with and without us, and keeps what each side saw."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_prompt_trace.core.record import Record
from tests.instrumentations.running import environ, records
from tests.wire.model_host import Answer, ModelHost, Received
from tests.wire.scenarios import Program, Scenario

if TYPE_CHECKING:
    from typing_extensions import Self

_PROGRAMS = Path(__file__).with_name("programs")
_RANDOM = frozenset({"host", "authorization", "x-amz-date", "amz-sdk-invocation-id", "amz-sdk-request", "traceparent"})


@dataclass(frozen=True)
class Seen:
    """One scenario of one run: what the application saw, what the host received, and where that was."""

    application: list[Any]
    received: list[Received]
    entry: str
    host: str

    @property
    def arrived(self) -> list[dict[str, Any]]:
        """What the host received, less what is of another kind each time."""
        return [
            {
                "request": f"{one.method} {one.path}",
                "headers": sorted((name, "" if name.lower() in _RANDOM else value) for name, value in one.headers),
                "body": one.body,
                "sizes": one.sizes,
                "sent": one.sent,
                "ended": one.ended,
            }
            for one in self.received
        ]


@dataclass(frozen=True)
class Run:
    """A run of a whole program."""

    scenarios: dict[str, Seen]
    printed: str
    store: Path
    spool: Path
    records: dict[str, Record] = field(default_factory=dict)


def run(python: Path, folder: Path, program: Program, *, ours: bool, only: Sequence[str] = (), **variables: str) -> Run:
    """Run every scenario of a program, or only some, in one process of its own and a folder that is new."""
    folder.mkdir(parents=True)
    store, spool, out = folder / "store", folder / "spool", folder / "out.json"
    chosen = [scenario for scenario in program.scenarios if not only or scenario.name in only]
    with contextlib.ExitStack() as stack:
        hosts = {one.name: stack.enter_context(_host(python, folder, one)) for one in chosen}
        config = {
            "program": program.file,
            "ours": ("last" if program.last else "first") if ours else "",
            "scenarios": [{"name": name, "port": host.port, "gate": host.gate} for name, host in hosts.items()],
            "out": str(out),
        }
        (folder / "config.json").write_text(json.dumps(config))
        places = {"PROMPT_TRACE_STORE": str(store), "PROMPT_TRACE_SPOOL": str(spool), "CLIENT_LIBRARY": program.library}
        local = {
            "PYTHONHASHSEED": "0",
            "LITELLM_LOCAL_MODEL_COST_MAP": "true",
            "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE": "none",
        }
        done = subprocess.run(
            [str(python), str(_PROGRAMS / "run.py"), str(folder / "config.json")],
            env=environ(folder, **{**places, **local, **variables}),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(out.read_text())
    seen = {
        name: Seen(told[name]["seen"], host.received, told[name]["entry"], f"127.0.0.1:{host.port}")
        for name, host in hosts.items()
    }
    return Run(seen, done.stdout + done.stderr, store, spool, records(store, spool) if ours else {})


@contextlib.contextmanager
def _host(python: Path, folder: Path, scenario: Scenario) -> Iterator[ModelHost | Http2Host]:
    if scenario.http2:
        with Http2Host(python, folder / f"{scenario.name}.json", scenario.answers) as host:
            yield host
    else:
        with ModelHost(scenario.answers) as host:
            yield host


class Http2Host:
    """A host that speaks HTTP/2 only, in a process of its own; it ends, and tells what it received, with its block."""

    gate = 0

    def __init__(self, python: Path, config: Path, answers: Sequence[Answer]) -> None:
        self.received: list[Received] = []
        told = [
            {
                "status": answer.status,
                "content_type": answer.content_type,
                "chunks": [base64.b64encode(chunk).decode() for chunk in answer.chunks],
            }
            for answer in answers
        ]
        config.write_text(json.dumps(told))
        self._command = [str(python), str(_PROGRAMS / "h2_host.py"), str(config)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *_error: object) -> None:
        told, _ = self._process.communicate(timeout=20)
        for one in json.loads(told or b"[]"):
            body = base64.b64decode(one["body"])
            self.received.append(Received("POST", one["path"], [(":version", one["version"])], body, status=200))
