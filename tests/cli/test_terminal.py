"""What lies between the command and a person: encodings, full disks, missing terminals, commands to copy."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from otel_prompt_trace.batch.report import CensusReport
from otel_prompt_trace.cli import demo
from otel_prompt_trace.cli.batch import _brief
from otel_prompt_trace.core.events import Problem
from tests.cli.conftest import Run
from tests.cli.test_hostile import event, stored

COMMAND = [sys.executable, "-m", "otel_prompt_trace.cli"]
LATIN = {"PYTHONIOENCODING": "latin-1"}
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("environment", [LATIN, PLAIN, {"PYTHONIOENCODING": "ascii:strict"}])
def test_a_terminal_without_unicode_gets_escapes(
    tmp_path: Path, places: list[str], environment: dict[str, str]
) -> None:
    """Characters that the output's encoding lacks are spelled out, in tables, texts and messages."""
    stored(tmp_path / "store", [event(1, "query", question="日本 é " + "x" * 99), event(2, "no 日本 kind")])
    clean = {name: value for name, value in os.environ.items() if name not in {*LATIN, *PLAIN}}
    for arguments in (["show", "q1"], ["ls"], ["grade", "q1"], ["get", "日本"], ["get", "q1"]):
        done = subprocess.run(
            [*COMMAND, *arguments, *places], capture_output=True, env={**clean, **environment}, check=False
        )
        assert b"Traceback" not in done.stderr, done.stderr
        if arguments[0] in {"show", "ls"}:
            assert rb"\u65e5\u672c" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--json"], ["show", "q1"], ["get", "q1"], ["get", "q1", "--body"],
                                       ["census"], ["doctor"], ["--help"]])  # fmt: skip
def test_a_full_disk_is_a_message(tmp_path: Path, places: list[str], arguments: list[str]) -> None:
    """Output that can't be written ends with 2 and says so, also where it was only buffered."""
    stored(tmp_path / "store", [event(1, "query"), event(2, "request", call="c", prompt="p")])
    with Path("/dev/full").open("wb") as full:
        where = places if arguments != ["--help"] else []
        done = subprocess.run([*COMMAND, *arguments, *where], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == ["prompt-trace: can't write the output: No space left on device"]


def test_a_closed_output_is_a_message(places: list[str]) -> None:
    """Without a standard output at all the command ends with 2 and says so."""
    line = f"{shlex.join([*COMMAND, 'ls', *places])} >&-"
    done = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "prompt-trace: can't write the output: standard output is closed\n")


def test_a_folder_that_cannot_be_made_is_a_message(run: Run, tmp_path: Path, places: list[str]) -> None:
    """A demo or tables under a file end with 2 and name the place."""
    (tmp_path / "file").write_text("")
    for arguments in (
        ["demo", "--out", tmp_path / "file" / "x"],
        ["census", "--out", tmp_path / "file" / "x", *places],
    ):
        outcome = run(*arguments)
        assert outcome.code == 2
        assert outcome.err.startswith("prompt-trace: ")
        assert f"{tmp_path / 'file' / 'x'}" in outcome.err
        assert "Not a directory" in outcome.err


def test_erase_without_a_terminal_names_the_option(run: Run, tmp_path: Path, places: list[str]) -> None:
    """Where nobody can be asked, erase ends with 2, names --yes, and erases nothing; its help says so."""
    stored(tmp_path / "store", [event(1, "query")])
    outcome = run("erase", "q1", *places)
    assert outcome.code == 2
    assert "--yes" in outcome.err
    assert run("get", "q1", *places).code == 0
    assert "without --yes" in " ".join(run("erase", "--help").text.split())


def test_readers_say_what_their_exit_codes_mean(run: Run) -> None:
    """The commands get and ls end with 0 for what they found, whatever its verdict; their help says so."""
    for command in ("get", "ls"):
        assert "Exits with 0" in " ".join(run(command, "--help").text.split())


def test_the_notes_name_the_first_problems_of_a_file(run: Run, tmp_path: Path, places: list[str]) -> None:
    """A file that is no archive does not flood the text; JSON has every line."""
    spans = tmp_path / "console.json"
    spans.write_text('{"name": "x"\n' * 42)
    outcome = run("census", spans, *places)
    assert outcome.text.count("console.json:") == 5
    assert f"and 37 more in {spans}" in outcome.text
    assert len(run("census", spans, "--json", *places).json["problems"]) == 42


def test_a_title_has_at_most_twenty_lines() -> None:
    """Many files with one problem each are cut as well, and the number of those left out stands there."""
    problems = tuple(Problem(f"f{number}", 1, "torn") for number in range(30))
    lines = list(_brief(CensusReport((), span_problems=problems, without_calls=("a", "b")).notes()))
    assert lines[-22:-20] == ["problems in the span archives: 30", "  f0:1: torn"]
    assert lines[-1] == "  and 10 more lines; --json has all of them"
    assert lines[-25:-22] == ["queries without a call: 2", "  a", "  b"]


def test_the_running_command_is_named_so_that_it_runs_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By its name where the path leads to the same file, else by its full path; as a module without a script."""
    script = tmp_path / "with space" / "prompt-trace"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", str(script.parent))
    assert demo.command() == ["prompt-trace"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert demo.command() == [str(script)]
    monkeypatch.chdir(script.parent)
    monkeypatch.setattr(sys, "argv", ["./prompt-trace"])
    (tmp_path / "prompt-trace").write_text("#!/bin/sh\nanother")
    (tmp_path / "prompt-trace").chmod(0o755)
    assert demo.command() == [str(script)]
    monkeypatch.setattr(sys, "argv", ["/somewhere/otel_prompt_trace/cli/__main__.py"])
    assert demo.command() == COMMAND
    assert shlex.split(shlex.join(demo.command())) == COMMAND
