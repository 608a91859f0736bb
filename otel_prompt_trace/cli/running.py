"""Running the command: every command in the group, and how errors become messages and exit codes."""

from __future__ import annotations

import os
import sys

import click

from otel_prompt_trace.cli import batch, delivery, demo, doctor, grading, reading
from otel_prompt_trace.cli.app import group
from otel_prompt_trace.exceptions import Erased, NotFound, PromptTraceError

NOT_FOUND, USAGE = 1, 2


def run(arguments: list[str] | None = None) -> None:
    """Run the group and leave the process with its exit code."""
    for module in (demo, reading, grading, batch, delivery, doctor):
        for command in module.COMMANDS:
            group.add_command(command)
    try:
        code = group.main(arguments, prog_name="prompt-trace", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
    except BrokenPipeError:  # the reader of our pipe has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (NotFound, Erased) as error:
        click.echo(f"prompt-trace: {error}", err=True)
        sys.exit(NOT_FOUND)
    except PromptTraceError as error:
        click.echo(f"prompt-trace: {error}", err=True)
        sys.exit(USAGE)
    sys.exit(code if isinstance(code, int) else 0)
