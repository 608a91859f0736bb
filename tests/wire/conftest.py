"""The clients' environment, and each program's two runs in it, made once."""

from __future__ import annotations

import fcntl
import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.absent import absent
from tests.instrumentations.environments import CanNotBeMade, environment
from tests.wire.running import Run, run
from tests.wire.scenarios import Program

Runs = Callable[[Program], "tuple[Run, Run]"]


@pytest.fixture(scope="session")
def clients() -> Path:
    """The Python of the clients' environment; skips where it can't be made."""
    try:
        return environment("clients")
    except (CanNotBeMade, OSError) as error:
        absent(f"the environment of the clients can't be made here: {error}")


@pytest.fixture(scope="session")
def runs(clients: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The runs of a program without us, and with us: made once for all of pytest's worker processes."""
    made: dict[str, tuple[Run, Run] | str] = {}
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wire"
    shared.mkdir(exist_ok=True)

    def both(program: Program) -> tuple[Run, Run]:
        if program.name not in made:
            kept = shared / f"{program.name}.pickle"
            with (shared / f"{program.name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not kept.exists():
                    kept.write_bytes(pickle.dumps(_runs(clients, shared / program.name, program)))
            made[program.name] = pickle.loads(kept.read_bytes())
        found = made[program.name]
        assert not isinstance(found, str), found
        return found

    return both


def _runs(clients: Path, folder: Path, program: Program) -> tuple[Run, Run] | str:
    """Both runs; or why there are none, which is then told by each test of them."""
    try:
        bare = run(clients, folder / "bare", program, ours=False)
        return bare, run(clients, folder / "ours", program, ours=True)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        return str(error)
