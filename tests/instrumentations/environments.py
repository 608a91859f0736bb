"""Virtual environments with real instrumentations, made once and kept outside the checkout.

An environment is named after everything that decides what is in it: its requirements, the lock, the checkout's
``pyproject.toml`` and place (it is installed in place, so that its entry points exist), and the Python that runs it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
_REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_SECTION = re.compile(r"^# \[(\w+)\]$")
_PINNED = re.compile(r"^([A-Za-z0-9_.-]+)==([^ ;\\]+)( ; [^\\]+)?")


class CanNotBeMade(Exception):
    """An environment could not be made here; the text says why."""


def environment(name: str) -> Path:
    """The Python of an environment, which is made first where it does not exist.

    Raises:
        CanNotBeMade: packages could not be installed.
    """
    wanted = sections()[name]
    folder = _cache() / _digest(name, wanted)
    python = folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:  # another test process may be about to make it too
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run([sys.executable, "-m", "venv", str(folder)])
            constraints, requirements = folder / "constraints.txt", folder / "requirements.txt"
            constraints.write_text("\n".join(_constraints(wanted)) + "\n")
            requirements.write_text("\n".join(wanted) + "\n")
            install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*install, "-c", str(constraints), "-r", str(requirements), "-e", f"{CHECKOUT}[cli,tokens]"])
            (folder / "made").touch()
    return python


def sections() -> dict[str, list[str]]:
    """The requirements of each environment."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in _REQUIREMENTS.read_text().splitlines():
        section = _SECTION.match(line)
        if section is not None:
            current = found[section[1]] = []
        elif line and not line.startswith("#"):
            current.append(line)
    return found


def _constraints(wanted: list[str]) -> list[str]:
    """What the lock pins, without OpenTelemetry's packages and those that the environment pins itself."""
    own = {line.partition("==")[0] for line in wanted}
    pinned = (_PINNED.match(line) for line in (CHECKOUT / "requirements.lock").read_text().splitlines())
    return [
        f"{found[1]}=={found[2]}{found[3] or ''}".rstrip()
        for found in pinned
        if found is not None and found[1] not in own and not found[1].startswith("opentelemetry")
    ]


def _digest(name: str, wanted: list[str]) -> str:
    parts = [name, *wanted, str(CHECKOUT), sys.version, (CHECKOUT / "pyproject.toml").read_text()]
    parts.append((CHECKOUT / "requirements.lock").read_text())
    return f"{name}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}"


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "otel-prompt-trace-tests"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    if done.returncode != 0:
        raise CanNotBeMade(f"{' '.join(command[:4])} …: {done.stderr.strip()[-400:]}")
