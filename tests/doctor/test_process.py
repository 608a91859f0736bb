"""``doctor --app``: instrumentations, patched clients and limits of a real application's process; exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from otel_prompt_trace.doctor import instrumentations
from otel_prompt_trace.doctor.clients import look_at_clients
from otel_prompt_trace.settings import load
from tests.cli.conftest import Run, places, run

__all__ = ["places", "run"]

_INSTRUMENTOR = """
class BaseInstrumentor:
    _instance = None
    _is_instrumented_by_opentelemetry = False
    def __new__(cls):
        if cls._instance is None:
            cls._instance = object.__new__(cls)
        return cls._instance
class One(BaseInstrumentor): pass
class Two(BaseInstrumentor): pass
class Three(BaseInstrumentor): pass
"""


def _doctor(tmp_path: Path, app: str, *places: str, **variables: str) -> dict[str, list[dict[str, Any]]]:
    """The findings by name, of a process that imported ``app`` first."""
    (tmp_path / "someapp.py").write_text(app)
    command = [sys.executable, "-m", "otel_prompt_trace.cli", "doctor", "--app", "someapp", "--json", *places]
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(Path(__file__).parents[2]),
        **variables,
    }
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode in {0, 3}, done.stderr
    found: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(done.stdout):
        found.setdefault(row["name"], []).append(row)
    return found


def test_the_instrumentations_that_are_active(tmp_path: Path, places: list[str]) -> None:
    """Active, switched off, and installed only: told from the entry points and the instance that each keeps."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "somelib.py").write_text(_INSTRUMENTOR)
    info = tmp_path / "lib" / "somelib-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somelib\nVersion: 1.5\n")
    points = "one = somelib:One\ntwo = somelib:Two\nthree = somelib:Three\nfour = nowhere.imported:Four\n"
    (info / "entry_points.txt").write_text(f"[opentelemetry_instrumentor]\n{points}")
    app = "import somelib\nsomelib.One()._is_instrumented_by_opentelemetry = True\nsomelib.Three()\n"
    path = f"{tmp_path / 'lib'}:{Path(__file__).parents[2]}"
    found = _doctor(tmp_path, app, *places, PYTHONPATH=path, OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="two, x")
    assert [row["detail"] for row in found["instrumentation"] if "somelib" in row["detail"]] == [
        "one (somelib 1.5): active",
        "four (somelib 1.5): not active in this process",
        "three (somelib 1.5): not active in this process",
        "two (somelib 1.5): switched off by OTEL_PYTHON_DISABLED_INSTRUMENTATIONS",
    ]


def test_without_an_instrumentation_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row, and no fault: the wire and the application tell of calls."""
    monkeypatch.setattr(instrumentations, "entry_points", lambda group: ())
    (finding,) = instrumentations.look_at_instrumentations()
    assert finding.status == "ok"
    assert "none is installed" in finding.detail


def test_the_clients_that_are_patched(tmp_path: Path, places: list[str]) -> None:
    """After install(), those that are imported are patched, and the others will be; without it, none is."""
    app = f"import httpx\nimport otel_prompt_trace as pt\npt.install(store={str(tmp_path / 's')!r})\n"
    rows = [row["detail"] for row in _doctor(tmp_path, app, *places)["wire"]]
    (httpx,) = [row for row in rows if row.startswith("httpx ")]
    assert ", imported: captured, " in httpx
    assert "patched here" in httpx
    (aiohttp,) = [row for row in rows if row.startswith("aiohttp ")]
    assert aiohttp.endswith("captured once it is imported")
    plain = [finding.detail for finding in look_at_clients(load({}, store=str(tmp_path)))]
    assert any(detail.endswith("captured once install() is called") for detail in plain)


def test_a_patch_that_disabled_itself_is_named(tmp_path: Path, places: list[str]) -> None:
    """A client that is laid out otherwise than the patch expects: not captured, and why."""
    app = "import httpx\nhttpx.Client.send = lambda self, other: None\nhttpx.AsyncClient.send = httpx.Client.send\n"
    (row,) = [row for row in _doctor(tmp_path, app, *places)["wire"] if row["detail"].startswith("httpx ")]
    assert row["status"] == "warn"
    assert "not captured: Client.send: it takes no request" in row["detail"]


def test_the_limits_of_the_applications_provider(tmp_path: Path, places: list[str]) -> None:
    """Those that it set in its code, whatever the environment says; what they cut is named."""
    app = (
        "from opentelemetry import trace\nfrom opentelemetry.sdk.trace import SpanLimits, TracerProvider\n"
        "trace.set_tracer_provider(TracerProvider(span_limits=SpanLimits(max_attribute_length=40, max_events=3)))\n"
    )
    found = _doctor(tmp_path, app, *places, OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT="9000")
    (limits,) = found["span limits"]
    assert "the provider here: 128 attributes and 3 events a span, texts of 40 characters" in limits["detail"]
    (cut,) = found["limits cut"]
    assert cut["status"] == "warn"
    assert "prompt_trace.qid (an entry qid)" in cut["detail"]
    assert "a qid of query()" not in cut["detail"]


def test_a_failed_endpoint_fails_the_command(run: Run, places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """1 where something fails, 3 where something could not be found out, else 0; no header is printed."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a-secret-of-the-tests")
    for options in ([], ["--json"]):
        outcome = run("doctor", *options, *places)
        assert outcome.code == 1
        assert "127.0.0.1:9" in outcome.text
        assert "a-secret-of-the-tests" not in outcome.text + outcome.err
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    monkeypatch.setattr("otel_prompt_trace.doctor.spooling._MOUNTS", Path("/nowhere/mountinfo"))
    assert run("doctor", *places).code == 3


@pytest.mark.parametrize("value", ["abc", "-1", "1.5"])
@pytest.mark.parametrize("limit", ["OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"])
def test_a_limit_that_the_sdk_does_not_start_with_is_said(tmp_path: Path, limit: str, value: str) -> None:
    """By a row, with everything else that can be seen beside it."""
    command = [sys.executable, "-m", "otel_prompt_trace.cli", "doctor", "--json", "--store", str(tmp_path / "store")]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, env={**environ, limit: value}, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (1, "")
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert (rows["span limits"]["status"], rows["store"]["status"]) == ("fail", "ok")
    assert limit in rows["span limits"]["detail"]
    assert "OTLP endpoint" in rows
