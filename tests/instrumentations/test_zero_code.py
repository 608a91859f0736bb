"""``opentelemetry-instrument`` alone: unchanged applications, started as processes of their own."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from otel_prompt_trace.demo.model_server import ModelServer
from tests.instrumentations.conftest import Environments
from tests.instrumentations.running import CAPTURE, environ
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

_HERE = Path(__file__).parent
_COMMANDS = {
    "fastapi": ("-m", "uvicorn", "fastapi_app:app", "--port", "0"),
    "flask": ("-m", "flask", "--app", "flask_app", "run", "--port", "0"),
}
_ADDRESS = re.compile(r"running on (http://127\.0\.0\.1:\d+)", re.IGNORECASE)
_TELEMETRY = {"OTEL_TRACES_EXPORTER": "console", "OTEL_LOGS_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none"}
_AT_ONCE = {"OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_BLRP_SCHEDULE_DELAY": "50", "PYTHONUNBUFFERED": "1"}
QUESTION = "Wie weit ist es nach 京都? " * 200


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

    def get(self, path: str, **query: str) -> Answer:
        """The answer to a request."""
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
            return Answer(answer.read().decode(), answer.headers.get("x-prompt-trace-qid"))


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A stand-in for a model host."""
    with ModelServer() as server:
        yield server


@pytest.mark.parametrize("framework", ["fastapi", "flask"])
def test_an_unchanged_application(
    framework: str, environments: Environments, model: ModelServer, tmp_path: Path
) -> None:
    """Its responses name the qid, ``prompt-trace get`` finds the record under it, and no prompt is exported."""
    python = environments("current")
    store = {"PROMPT_TRACE_STORE": str(tmp_path / "store"), "PROMPT_TRACE_SPOOL": str(tmp_path / "spool")}
    with _served(python, framework, model, tmp_path, **store, **CAPTURE) as application:
        first, second = (application.get("/ask", question=f"{number}. {QUESTION}") for number in "12")
        assert first.qid is not None
        assert second.qid is not None
        assert first.qid != second.qid
        until(lambda: f'"prompt_trace.qid": "{second.qid}"' in application.output.read_text())  # it is exported
        running = _record(python, first.qid, tmp_path, store)  # while the application runs
    stopped = _record(python, second.qid, tmp_path, store)
    for number, answer, record in (("1", first, running), ("2", second, stopped)):
        assert [part["text"] for part in record["prompt"]] == ["Answer briefly.", f"{number}. {QUESTION}"]
        assert record["output"] == json.loads(answer.text)["answer"]
        assert record["qid"] == answer.qid
    exported = application.output.read_text()
    assert QUESTION[:20] not in exported
    assert json.dumps(QUESTION[:20])[1:-1] not in exported


@pytest.mark.parametrize("framework", ["fastapi", "flask"])
def test_nothing_is_done_without_a_store(
    framework: str, environments: Environments, model: ModelServer, tmp_path: Path
) -> None:
    """Where PROMPT_TRACE_STORE is not set, no header is returned and no file or folder is written."""
    (tmp_path / "home").mkdir()
    with _served(
        environments("current"), framework, model, tmp_path, HOME=str(tmp_path / "home"), **CAPTURE
    ) as application:
        answer = application.get("/ask", question=QUESTION)
    assert answer.qid is None
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["home", "output"]


@contextmanager
def _served(python: Path, framework: str, model: ModelServer, folder: Path, **variables: str) -> Iterator[Served]:
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


def _record(python: Path, qid: str, folder: Path, store: dict[str, str]) -> dict[str, object]:
    done = subprocess.run(
        [str(python.parent / "prompt-trace"), "get", qid],
        env=environ(folder, **store),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
