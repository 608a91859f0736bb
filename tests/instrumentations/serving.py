"""An application as a process of its own under ``opentelemetry-instrument``, which is all that is done to it."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from otel_prompt_trace.demo.model_server import ModelServer
from tests.instrumentations.running import environ
from tests.waiting import until

_HERE = Path(__file__).parent
_COMMANDS = {
    "fastapi": ("-m", "uvicorn", "fastapi_app:app", "--port", "0"),
    "flask": ("-m", "flask", "--app", "flask_app", "run", "--port", "0"),
}
_ADDRESS = re.compile(r"running on (http://127\.0\.0\.1:\d+)", re.IGNORECASE)
_TELEMETRY = {"OTEL_TRACES_EXPORTER": "console", "OTEL_LOGS_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none"}
_AT_ONCE = {"OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_BLRP_SCHEDULE_DELAY": "50", "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class Answer:
    """An answer of the application."""

    text: str
    qid: str | None


@dataclass(frozen=True)
class Served:
    """A running application."""

    url: str
    output: Path

    def get(self, path: str, headers: Mapping[str, str] | None = None, **query: str) -> Answer:
        """The answer to a request."""
        request = urllib.request.Request(
            f"{self.url}{path}?{urllib.parse.urlencode(query)}", headers=dict(headers or {})
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return Answer(answer.read().decode(), answer.headers.get("x-prompt-trace-qid"))


@contextmanager
def served(python: Path, framework: str, model: ModelServer, folder: Path, **variables: str) -> Iterator[Served]:
    """Run an application until the block is left; what it prints, its exported spans among it, goes to a file."""
    output = folder / "output"
    env = environ(folder, MODEL_URL=model.base_url, PYTHONDONTWRITEBYTECODE="1", **_TELEMETRY, **_AT_ONCE)
    env["PATH"] = f"{python.parent}:{env['PATH']}"
    with output.open("w") as file:
        process = subprocess.Popen(
            [str(python.parent / "opentelemetry-instrument"), str(python), *_COMMANDS[framework]],
            env={**env, **variables},
            cwd=_HERE,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: _ADDRESS.search(output.read_text()) or process.poll() is not None, seconds=60)
        address = _ADDRESS.search(output.read_text())
        assert address is not None, output.read_text()[-3000:]
        yield Served(address[1], output)
    finally:
        process.terminate()
        process.wait(30)


def get_record(python: Path, qid: str, folder: Path, store: dict[str, str]) -> dict[str, object]:
    """What ``prompt-trace get`` prints of a query."""
    done = subprocess.run(
        [str(python.parent / "prompt-trace"), "get", qid],
        env=environ(folder, **store),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
