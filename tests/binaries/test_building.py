"""The programs of the tests are built once, under a name that tells what is in them, or it is said how to get them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests import absent
from tests.binaries import building
from tests.binaries.building import Missing, build, find


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ``go`` that writes its arguments where the program would be, and notes that it was called."""
    module = tmp_path / "modules" / "collector"
    module.mkdir(parents=True)
    (module / "go.mod").write_text("module m\n")
    program = tmp_path / "bin" / "go"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nif [ $1 = env ]; then cat {tmp_path}/version; exit; fi\n"
        f"echo built >>{tmp_path}/calls; sleep 0.1\n"
        'while [ "$1" != -o ]; do shift; done\necho program >"$2"; chmod 700 "$2"; exit $(cat %s/fails)\n' % tmp_path
    )
    program.chmod(0o700)
    (tmp_path / "version").write_text("go1\n")
    (tmp_path / "fails").write_text("0\n")
    (tmp_path / "calls").touch()
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PROMPT_TRACE_TESTS_COLLECTOR", raising=False)
    monkeypatch.setattr(building, "_FOLDER", module.parent)
    return tmp_path


def calls(folder: Path) -> int:
    """How often something was built."""
    return (folder / "calls").read_text().count("built")


def test_built_once_and_found_after(compiler: Path) -> None:
    """Outside the checkout; several at a time wait for the first."""
    with pytest.raises(Missing, match=r"python -m tests\.binaries\.building"):
        find("collector")
    made: list[Path] = []
    threads = [threading.Thread(target=lambda: made.append(build("collector"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {find("collector")} == set(made)
    assert made[0].parent == compiler / "cache" / "otel-prompt-trace-tests"
    assert calls(compiler) == 1


def test_another_source_or_compiler_is_another_program(compiler: Path) -> None:
    """The one of before is not taken for it, and stays."""
    first = build("collector")
    (compiler / "modules" / "collector" / "main.go").write_text("package main\n")
    second = build("collector")
    (compiler / "version").write_text("go2\n")
    third = build("collector")
    assert len({first, second, third}) == calls(compiler) == 3
    (compiler / "modules" / "collector" / "notes.txt").write_text("nothing that is built\n")
    assert build("collector") == third


def test_a_failed_build_leaves_nothing(compiler: Path) -> None:
    """What it had written so far is not found."""
    (compiler / "fails").write_text("1\n")
    with pytest.raises(Missing, match="go build"):
        build("collector")
    with pytest.raises(Missing, match="is not built"):
        find("collector")
    (compiler / "fails").write_text("0\n")
    assert build("collector") == find("collector")


def test_without_go_a_program_of_ones_own(compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variable is named; a wrong one is said."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Missing, match=r"not installed.*PROMPT_TRACE_TESTS_COLLECTOR"):
        find("collector")
    monkeypatch.setenv("PROMPT_TRACE_TESTS_COLLECTOR", str(compiler / "version"))
    with pytest.raises(Missing, match="is no program"):
        find("collector")
    monkeypatch.setenv("PROMPT_TRACE_TESTS_COLLECTOR", "/bin/sh")
    assert find("collector") == Path("/bin/sh")


def test_where_they_are_required_nothing_is_skipped(compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on CI: a program that is missing fails the test that needs it."""
    monkeypatch.setattr(absent, "_MUST_RUN", False)
    with pytest.raises(pytest.skip.Exception, match=r"python -m tests\.binaries\.building"):
        building._found("collector")
    monkeypatch.setattr(absent, "_MUST_RUN", True)
    with pytest.raises(pytest.fail.Exception, match=r"python -m tests\.binaries\.building"):
        building._found("collector")
