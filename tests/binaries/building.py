"""The programs that integration tests run beside the application: an OpenTelemetry Collector and Jaeger.

Each is a Go module in a folder of this one, every version pinned. ``python -m tests.binaries.building`` builds what
is not there yet, in minutes the first time, and keeps it outside the checkout under a name that tells everything which
decides what is in it: the module's files and the version of Go. Tests never build: they skip, and say this command.

A program of your own is taken instead of the built one where its variable names it. So the tests run against a release
of ``otelcol-contrib`` as well, and then against the published awss3 exporter, for which the built one has a stand-in.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.absent import absent

_FOLDER = Path(__file__).parent
_PACKAGES = {"collector": ".", "jaeger": "github.com/jaegertracing/jaeger/cmd/jaeger"}
_OWN = {"collector": "PROMPT_TRACE_TESTS_COLLECTOR", "jaeger": "PROMPT_TRACE_TESTS_JAEGER"}
_SECONDS = 3000


class Missing(Exception):
    """A program is not here; the text says how to get it."""


def find(name: str) -> Path:
    """The program ``collector`` or ``jaeger``.

    Raises:
        Missing: it was not built, or Go is not installed.
    """
    own = os.environ.get(_OWN[name])
    if own:
        if not os.access(own, os.X_OK):
            raise Missing(f"{_OWN[name]}={own} is no program")
        return Path(own)
    path = _place(name)
    if not path.exists():
        raise Missing(
            f"the {name} of the tests is not built: run 'python -m tests.binaries.building', or set {_OWN[name]}"
        )
    return path


def build(name: str) -> Path:
    """Build a program unless it is there.

    Raises:
        Missing: Go is not installed, or does not build it.
    """
    path = _place(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:  # another process may be about to build it too
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            made = path.with_suffix(".part")
            options = ["-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(made)]
            _run(["go", "build", *options, _PACKAGES[name]], _FOLDER / name)
            made.rename(path)
    return path


@pytest.fixture(scope="session")
def collector_binary() -> Path:
    """An OpenTelemetry Collector with the components that ``collector-config`` uses."""
    return _found("collector")


@pytest.fixture(scope="session")
def jaeger_binary() -> Path:
    """Jaeger 2."""
    return _found("jaeger")


def _found(name: str) -> Path:
    try:
        return find(name)
    except Missing as missing:
        absent(str(missing))


def _place(name: str) -> Path:
    """Where the built program is, or would be."""
    digest = hashlib.sha256()
    for path in sorted(each for each in (_FOLDER / name).rglob("*") if each.suffix in {".go", ".mod", ".sum"}):
        digest.update(f"{path.relative_to(_FOLDER)}\0".encode() + path.read_bytes() + b"\0")
    if shutil.which("go") is None:
        raise Missing(f"the {name} of the tests is built with Go, which is not installed; or set {_OWN[name]}")
    digest.update(_run(["go", "env", "GOVERSION", "GOOS", "GOARCH"], _FOLDER / name).encode())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "otel-prompt-trace-tests"
    return cache / f"{name}-{digest.hexdigest()[:16]}"


def _run(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_SECONDS)
    if done.returncode != 0:
        raise Missing(f"{' '.join(command[:2])} in {folder}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def _main() -> int:
    for name in _PACKAGES:
        started = time.monotonic()
        try:
            path = find(name) if os.environ.get(_OWN[name]) else build(name)
        except Missing as missing:
            print(missing, file=sys.stderr)
            return 1
        print(f"{name}: {path}, {path.stat().st_size / 2**20:.0f} MiB, {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(_main())
