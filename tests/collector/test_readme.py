"""Every command of ``collector-config/README.md`` and of the files' heads is run, as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collector.bucket import Bucket
from tests.collector.running import CONFIGS, Program
from tests.collector.sending import send_spans
from tests.ports import free_ports
from tests.waiting import until

pytestmark = pytest.mark.integration

README = (CONFIGS / "README.md").read_text()
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]
JAEGER = "jaeger --config jaeger.yaml"
LOCAL = "otelcol-contrib --config local.yaml"
LOCAL_CENSUS = "prompt-trace census --spans ./spans"
VALIDATE = "S3_BUCKET_SPANS=spans otelcol-contrib validate --config production.yaml"
PRODUCTION = "S3_BUCKET_SPANS=spans otelcol-contrib --config production.yaml"
CENSUS = "prompt-trace census --spans s3://spans/v1/spans"
COMPOSE = "docker compose up"  # no Docker in tests: test_compose.py looks at all that it would start


class Here:
    """A copy of the folder, in which the commands find their programs and move to free ports."""

    def __init__(self, folder: Path, collector: Path, jaeger: Path) -> None:
        self.folder = folder / "collector-config"
        shutil.copytree(CONFIGS, self.folder)
        programs = folder / "bin"
        programs.mkdir()
        (programs / "otelcol-contrib").symlink_to(collector)
        (programs / "jaeger").symlink_to(jaeger)
        cli = programs / "prompt-trace"
        cli.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m otel_prompt_trace.cli "$@"\n')
        cli.chmod(0o700)
        grpc, http, health, metrics, otlp, otlp_http, ui, query, jaeger_health = free_ports(9)
        self.endpoint, self.ui = f"127.0.0.1:{grpc}", f"http://127.0.0.1:{ui}"
        self.health = f"http://127.0.0.1:{health}/"
        self.variables = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": str(CONFIGS.parent),
            "PROMPT_TRACE_STORE": str(folder / "store"),
            "OTLP_GRPC_LISTEN": self.endpoint,
            "OTLP_HTTP_LISTEN": f"127.0.0.1:{http}",
            "HEALTH_LISTEN": f"127.0.0.1:{health}",
            "METRICS_PORT": str(metrics),
            "OTELCOL_STORAGE_DIR": str(folder / "queue"),
            "JAEGER_OTLP_ENDPOINT": f"127.0.0.1:{otlp}",
            "JAEGER_OTLP_GRPC_PORT": str(otlp),
            "JAEGER_OTLP_HTTP_PORT": str(otlp_http),
            "JAEGER_UI_PORT": str(ui),
            "JAEGER_QUERY_GRPC_PORT": str(query),
            "JAEGER_HEALTH_PORT": str(jaeger_health),
        }
        self.running: list[Program] = []

    def start(self, command: str, ready: str) -> Program:
        """Run a command that goes on, until it is ready."""
        shell = ["bash", "-c", _with_exec(command)]
        program = Program(shell, self.variables, self.folder, ready, f"program-{len(self.running)}")
        self.running.append(program)
        assert program.await_ready(), program.said()[-3000:]
        return program

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.variables, capture_output=True, text=True, timeout=60
        )


def _with_exec(command: str) -> str:
    """The same, with the shell's place taken by the program: so it is the program that is told to stop."""
    variables = re.match(r"(?:[A-Z_0-9]+=\S+ )*", command)
    return command if variables is None else f"{variables[0]}exec {command[variables.end() :]}"


@pytest.fixture
def here(tmp_path: Path, collector_binary: Path, jaeger_binary: Path) -> Iterator[Here]:
    """A copy of the folder to run commands in."""
    made = Here(tmp_path, collector_binary, jaeger_binary)
    yield made
    for each in made.running:
        each.stop()


def test_every_command_is_run() -> None:
    """One that is added to the README is added to a test below; and each file's head says the same."""
    assert COMMANDS == [JAEGER, LOCAL, LOCAL_CENSUS, COMPOSE, VALIDATE, PRODUCTION, CENSUS]
    for name, command in (
        ("jaeger.yaml", JAEGER),
        ("local.yaml", JAEGER),
        ("local.yaml", LOCAL),
        ("local.yaml", LOCAL_CENSUS),
        ("production.yaml", PRODUCTION),
        ("docker-compose.yaml", COMPOSE),
    ):
        assert re.search(rf"^#   {re.escape(command)}( |$)", (CONFIGS / name).read_text(), re.MULTILINE), name


def test_beside_you(here: Here) -> None:
    """Jaeger, the collector, and the census over what it wrote."""
    here.start(JAEGER, f"{here.ui}/api/services")
    here.start(LOCAL, here.health)
    send_spans(here.endpoint, 7)
    archive = here.folder / "spans" / "spans.jsonl"
    until(lambda: archive.exists() and archive.read_text().count("spanId") == 7)
    done = here.run(LOCAL_CENSUS)
    assert done.returncode == 3, done.stderr  # none of these spans has a payload, and no store is there yet
    assert "7 spans" in done.stdout


def test_in_production(here: Here, spans_bucket: Bucket) -> None:
    """Validated, run, and read from the bucket."""
    here.variables |= {**spans_bucket.variables, "AWS_ENDPOINT_URL_S3": spans_bucket.server.endpoint}
    own = f"S3_BUCKET_SPANS={spans_bucket.name}"
    assert here.run(VALIDATE).returncode == 0
    here.start(PRODUCTION.replace("S3_BUCKET_SPANS=spans", own), here.health)
    send_spans(here.endpoint, 7)
    until(lambda: len(spans_bucket.span_ids()) == 7)
    done = here.run(CENSUS.replace("s3://spans/", f"s3://{spans_bucket.name}/"))
    assert done.returncode == 3, done.stderr
    assert "7 spans" in done.stdout
