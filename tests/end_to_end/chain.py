"""Everything at once, as people run it: application, collector, Jaeger, span archive, S3 store, command and viewer.

Only the model is none: a stand-in answers on loopback.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otel_prompt_trace.batch.archive import SpanArchive
from otel_prompt_trace.batch.spans import Span
from otel_prompt_trace.core.events import Problem
from otel_prompt_trace.records import Records
from otel_prompt_trace.store import PayloadStore, open_store
from tests.collector.running import CONFIGS, Collector, Jaeger

ROOT = Path(__file__).parents[2]
_SHOP = Path(__file__).with_name("shop.py")
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR")
_SECONDS = 600


class Shop:
    """The application's process."""

    def __init__(self, python: Path, folder: Path, variables: Mapping[str, str]) -> None:
        self._log = folder / "shop.log"
        self._errors = self._log.open("w")
        self.process = subprocess.Popen(
            [str(python), str(_SHOP)],
            env=dict(variables),
            cwd=folder,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        assert self._answer() == "ready"

    def tell(self, command: str) -> Any:
        """What it answers to one command."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return self._answer()

    def stop(self) -> int:
        """End it by the end of its input; its exit code."""
        try:
            self.process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._errors.close()
        return self.process.returncode

    def said(self) -> str:
        """Its log."""
        return self._log.read_text()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the application ended: {self._log.read_text()[-3000:]}"
        return json.loads(line)


@dataclass(frozen=True)
class Chain:
    """The stations of a chain, and how to look into each."""

    folder: Path
    service: str
    shop: Shop
    collector: Collector
    jaeger: Jaeger
    store_url: str
    environment: Mapping[str, str]  # with which the store is opened

    @property
    def store(self) -> PayloadStore:
        """The payloads in S3, by a client that is made anew."""
        return open_store(self.store_url)

    @property
    def records(self) -> Records:
        """The store alone: this spool is empty."""
        return Records(self.store, self.folder / "no-spool")

    @property
    def archive(self) -> Path:
        """The collector's span archive."""
        return self.folder / "spans"

    def archived(self) -> list[Span]:
        """The spans in the archive of this chain's application; none where there is no file yet."""
        if not self.archive.is_dir() or not list(self.archive.iterdir()):
            return []
        found = [item for item in SpanArchive([self.archive]) if not isinstance(item, Problem)]
        return [span for span in found if span.service == self.service]

    def in_jaeger(self) -> list[dict[str, Any]]:
        """Every span that Jaeger holds of the application."""
        query = urllib.parse.urlencode({"service": self.service, "limit": 10_000})
        with urllib.request.urlopen(f"{self.jaeger.url}/api/traces?{query}", timeout=120) as answer:
            traces = json.load(answer)["data"] or []
        return [span for trace in traces for span in trace["spans"]]

    def command(self, *arguments: str, store: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Run ``prompt-trace``."""
        places = ["--store", self.store_url, "--spool", str(self.folder / "no-spool")] if store else []
        command = [sys.executable, "-m", "otel_prompt_trace.cli", *arguments, *places]
        return subprocess.run(command, env=dict(self.environment), capture_output=True, timeout=_SECONDS)

    @contextlib.contextmanager
    def viewer(self) -> Iterator[str]:
        """``prompt-trace serve`` on a free port, asking this Jaeger; its address."""
        command = [sys.executable, "-m", "otel_prompt_trace.cli", "serve", "--port", "0", "--jaeger", self.jaeger.url]
        command += ["--store", self.store_url, "--spool", str(self.folder / "no-spool")]
        process = subprocess.Popen(
            command, env=dict(self.environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+(?=/ )", process.stdout.readline())
            assert found, process.communicate(timeout=20)[1]
            yield found[0]
        finally:
            process.terminate()
            process.communicate(timeout=30)
            assert process.returncode == 0


def measured_config(folder: Path) -> Path:
    """``local.yaml`` with the collector's own counts switched on, in the words of ``production.yaml``."""
    text = (CONFIGS / "local.yaml").read_text()
    off = "    metrics:\n      level: none\n"
    assert text.count(off) == 1
    on = (
        "    metrics:\n      level: normal\n      readers:\n        - pull:\n            exporter:\n"
        "              prometheus:\n                host: 127.0.0.1\n                port: ${env:METRICS_PORT}\n"
    )
    path = folder / "local-measured.yaml"
    path.write_text(text.replace(off, on))
    return path


def service_name() -> str:
    """A name that no other application of the same Jaeger has."""
    return f"shop-{uuid.uuid4().hex[:10]}"


def clean_environment(**more: str) -> dict[str, str]:
    """Nothing of the tests' own, no telemetry from outside."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "NO_PROXY": "127.0.0.1,localhost", "PYTHONPATH": str(ROOT), **more}
