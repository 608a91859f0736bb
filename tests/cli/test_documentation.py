"""Every command, option and variable is documented, and the README's commands are the ones that CI runs."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from otel_prompt_trace import settings
from otel_prompt_trace.cli import app, batch, delivery, demo, doctor, grading, reading, suggesting

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = [c for module in (demo, reading, grading, suggesting, batch, delivery, doctor) for c in module.COMMANDS]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_is_documented(command: click.Command) -> None:
    """A command stands in the README and explains itself and each of its options."""
    assert f"`prompt-trace {command.name}" in README
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_every_variable_is_documented() -> None:
    """Each PROMPT_TRACE_ variable of the settings stands in the README, and no other does."""
    import re

    pattern = re.compile(r"PROMPT_TRACE_[A-Z_]+[A-Z]")
    documented = set(pattern.findall(settings.__doc__ or ""))
    assert documented
    assert set(pattern.findall(README)) == documented


def test_the_commands_of_the_group_are_the_documented_ones() -> None:
    """The group holds exactly the commands of the modules, each once."""
    names = [command.name for command in COMMANDS]
    assert len(names) == len(set(names))
    assert isinstance(app.group, click.Group)


def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    """Where click is not installed, the command names the extra instead of a traceback."""
    import subprocess
    import sys

    script = "import sys\nsys.modules['click'] = None\nfrom otel_prompt_trace.cli import main\nmain()\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "otel-prompt-trace[cli]" in done.stderr
    assert "Traceback" not in done.stderr
