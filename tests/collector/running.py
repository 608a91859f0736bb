"""The real collector and the real Jaeger, started on free loopback ports with the configurations that people copy."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.ports import free_ports

CONFIGS = Path(__file__).resolve().parents[2] / "collector-config"
_READY_SECONDS = 60
_STOP_SECONDS = 30


class Program:
    """A process with a log, that is ready when an address of it answers."""

    def __init__(self, command: list[str], variables: Mapping[str, str], folder: Path, ready: str, name: str) -> None:
        self.log = folder / f"{name}.log"
        self._ready = ready
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), **variables}
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=output)

    def await_ready(self) -> bool:
        """Whether it came up."""
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if answers(self._ready):
                return True
            time.sleep(0.05)
        return False

    def kill(self) -> None:
        """No handler runs."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end, and wait until it has; its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode

    def said(self) -> str:
        """Its log."""
        return self.log.read_text(errors="replace")


class Collector:
    """A collector with one of the configurations; it can be killed and started again in the same place.

    Attributes:
        grpc, http: where it takes OTLP.
        variables: its environment, beside the ports.
    """

    def __init__(self, binary: Path, config: str, folder: Path, variables: Mapping[str, str]) -> None:
        self._command = [str(binary), "--config", str(CONFIGS / config)]
        self._folder = folder
        grpc, http, health, metrics = free_ports(4)
        self.grpc, self.http = f"127.0.0.1:{grpc}", f"http://127.0.0.1:{http}/v1/traces"
        self._metrics = f"http://127.0.0.1:{metrics}/metrics"
        self._health = f"127.0.0.1:{health}"
        self.variables = {
            "OTLP_GRPC_LISTEN": self.grpc,
            "OTLP_HTTP_LISTEN": f"127.0.0.1:{http}",
            "HEALTH_LISTEN": self._health,
            "METRICS_PORT": str(metrics),
            "OTELCOL_STORAGE_DIR": str(folder / "queue"),
            "SPAN_ARCHIVE_FILE": str(folder / "spans" / "spans.jsonl"),
            **variables,
        }
        self.program = self._start()

    def start_again(self, **variables: str) -> None:
        """In the same folder and on the same ports; it must have ended."""
        self.variables |= variables
        self.program = self._start()

    def counted(self, name: str) -> dict[str, int]:
        """A counter of its own, by the component that it is of; for a configuration that has them switched on."""
        with urllib.request.urlopen(self._metrics, timeout=20) as answer:
            text = answer.read().decode()
        found: dict[str, int] = {}
        for labels, value in re.findall(rf"^otelcol_{name}(?:_total)?\{{(.*?)\}} (\S+)$", text, re.MULTILINE):
            component = re.search(r'(?:receiver|exporter)="([^"]*)"', labels)
            key = component[1] if component else ""
            found[key] = found.get(key, 0) + int(float(value))
        return found

    def _start(self) -> Program:
        program = Program(self._command, self.variables, self._folder, f"http://{self._health}/", "collector")
        if not program.await_ready():
            program.kill()
            raise AssertionError(f"the collector does not come up: {program.said()[-4000:]}")
        return program


class Jaeger:
    """Jaeger with ``jaeger.yaml``.

    Attributes:
        otlp: where it takes OTLP over gRPC.
        url: its API and UI.
    """

    def __init__(self, binary: Path, folder: Path) -> None:
        otlp, http, ui, query, health = free_ports(5)
        self.otlp, self.url = f"127.0.0.1:{otlp}", f"http://127.0.0.1:{ui}"
        variables = {
            "JAEGER_OTLP_GRPC_PORT": str(otlp),
            "JAEGER_OTLP_HTTP_PORT": str(http),
            "JAEGER_UI_PORT": str(ui),
            "JAEGER_QUERY_GRPC_PORT": str(query),
            "JAEGER_HEALTH_PORT": str(health),
            "JAEGER_UI_CONFIG": str(CONFIGS / "jaeger-ui.json"),
        }
        command = [str(binary), "--config", str(CONFIGS / "jaeger.yaml")]
        self.program = Program(command, variables, folder, f"{self.url}/api/services", "jaeger")
        if not self.program.await_ready():
            self.program.kill()
            raise AssertionError(f"Jaeger does not come up: {self.program.said()[-4000:]}")

    def trace(self, trace_id: str) -> list[dict[str, Any]]:
        """The spans of a trace, as the API gives them; none where it has no such trace."""
        return [span for trace in self._get(f"/api/traces/{trace_id}") for span in trace["spans"]]

    def find(self, service: str, **tags: str) -> list[dict[str, Any]]:
        """The spans of the traces that have a span with these tags."""
        query = urllib.parse.urlencode({"service": service, "tags": json.dumps(tags), "limit": 20})
        return [span for trace in self._get(f"/api/traces?{query}") for span in trace["spans"]]

    def _get(self, path: str) -> list[dict[str, Any]]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return json.load(answer)["data"] or []
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 404:
                    raise
            return []


def tags(span: Mapping[str, Any]) -> dict[str, Any]:
    """The tags of a span, or the fields of one of its logs, by their keys."""
    return {each["key"]: each["value"] for each in span.get("tags", span.get("fields", ()))}


def answers(url: str) -> bool:
    """Whether a server answers there with success."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:
        return bool(answer.status == 200)
    return False
