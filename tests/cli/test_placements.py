"""``--placements``: modules are imported when somebody asks for it, and never because a record says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

RULES = """
import pathlib
import otel_prompt_trace as pt

pathlib.Path({mark!r}).touch()
print("an application says something while it is imported")

@pt.placement
def render(pieces):
    return "\\n".join(piece.text for piece in pieces){change}
"""
APP = """
import sys
import otel_prompt_trace as pt
import rules

pt.install(store=sys.argv[1], spool=sys.argv[2])
with pt.query() as q:
    prompt = pt.place(rules.render, [("a", "say ok"), ("sep", "ok")])
    with q.call(prompt=prompt) as call:
        call.respond("ok")
assert pt.flush(20).ok
print(q.qid)
"""


class Application:
    """A folder with an application in it, which has recorded one call."""

    def __init__(self, folder: Path, store: Path, spool: Path) -> None:
        self.folder, self.mark = folder, folder / "imported"
        self.places = ["--store", str(store), "--spool", str(spool)]
        self.write("")
        (folder / "app.py").write_text(APP)
        done = subprocess.run(
            [sys.executable, "app.py", str(store), str(spool)], cwd=folder, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        self.mark.unlink()

    def write(self, change: str) -> None:
        """Write the module with the placement."""
        (self.folder / "rules.py").write_text(RULES.format(mark=str(self.mark), change=change))

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command in a process of its own, in the application's folder."""
        command = [sys.executable, "-m", "otel_prompt_trace.cli", *arguments, *self.places]
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True)

    def placement(self, *arguments: str) -> Any:
        """What ``grade --json`` says of the one call's placement."""
        done = self.command("grade", "--json", *arguments)
        return json.loads(done.stdout)["grades"][0]["calls"][0]["placement"]


@pytest.fixture
def application(tmp_path: Path) -> Application:
    """Its own folder, beside store and spool."""
    folder = tmp_path / "app"
    folder.mkdir()
    return Application(folder, tmp_path / "store", tmp_path / "spool")


def test_nothing_is_imported_unless_asked(application: Application) -> None:
    """A record names a module; reading it runs none of its code."""
    for command in (["grade"], ["census"], ["ls"]):
        application.command(*command)
    assert application.placement()["status"] == "not_asked"
    assert not application.mark.exists()


def test_asked_for_it_renders_again(application: Application) -> None:
    """Named modules are imported from the working directory; the grade rests on the function's own offsets."""
    assert application.placement("--placements", "rules")["status"] == "same"
    assert application.mark.exists()
    told = application.command("grade", "--placements", "rules")
    assert "rules:render: it gives the same prompt again (1 call(s))" in told.stdout
    assert told.returncode == 1  # the line break between the two is nobody's
    census = application.command("census", "--placements", "rules", "--json")
    assert json.loads(census.stdout)["placements"] == [
        {"name": "rules:render", "status": "same", "detail": "it gives the same prompt again", "calls": 1}
    ]
    assert (
        "rules:render: it gives the same prompt again" in application.command("census", "--placements", "rules").stdout
    )


def test_a_changed_rule_is_said(application: Application) -> None:
    """With both digests; the recorded offsets count, and the verdict is as before."""
    before = application.command("grade")
    application.write(' + "!"')
    found = application.placement("--placements", "rules")
    assert found["status"] == "changed"
    assert found["detail"].startswith("placement changed: recorded sha256 ")
    assert application.command("grade", "--placements", "rules").returncode == before.returncode


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("1 +", "SyntaxError"),
        ("raise RuntimeError('\\x1b[31mred')", "RuntimeError: \\x1b[31mred"),
    ],
)
def test_a_module_that_cannot_be_imported_is_said(application: Application, text: str | None, said: str) -> None:
    """The recorded offsets are used, and the command goes on."""
    if text is None:
        (application.folder / "rules.py").unlink()
    else:
        (application.folder / "rules.py").write_text(text)
    done = application.command("grade", "--json", "--placements", "rules")
    assert said in done.stderr
    assert "\x1b" not in done.stderr
    assert json.loads(done.stdout)["grades"][0]["calls"][0]["placement"]["status"] == "unregistered"


def test_the_option_needs_a_value(run: Run, places: list[str]) -> None:
    """It is no flag: somebody says which code may run."""
    assert run("grade", *places, "--placements").code == 2
