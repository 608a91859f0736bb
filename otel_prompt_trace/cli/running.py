"""Running the command: every command in the group, and how errors become messages and exit codes."""

from __future__ import annotations

import contextlib
import io
import os
import sys

import click

from otel_prompt_trace.cli import (
    batch,
    comparing,
    delivery,
    demo,
    diagnosing,
    doctor,
    grading,
    reading,
    serving,
    suggesting,
)  # fmt: skip
from otel_prompt_trace.cli.app import group
from otel_prompt_trace.cli.output import printable
from otel_prompt_trace.exceptions import Erased, NotFound, PromptTraceError

MODULES = (demo, reading, grading, suggesting, diagnosing, comparing, batch, delivery, serving, doctor)

NOT_FOUND, USAGE, INTERRUPTED = 1, 2, 130


def run(arguments: list[str] | None = None) -> None:
    """Run the group and leave the process with its exit code."""
    if sys.stdout is None:
        _say("can't write the output: standard output is closed")
        sys.exit(USAGE)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that has no é still shows which character stands there
            stream.reconfigure(errors="backslashreplace")
    for module in MODULES:
        for command in module.COMMANDS:
            group.add_command(command)
    try:
        code = _outcome(arguments)
        sys.stdout.flush()  # or a full disk would be met after the exit code is settled
    except BrokenPipeError:  # the reader of our pipe has had enough
        _give_up_output()
        code = 0
    except OSError as error:
        _give_up_output()
        reason = error.strerror or str(error) or type(error).__name__
        _say(f"{error.filename}: {reason}" if error.filename is not None else f"can't write the output: {reason}")
        code = USAGE
    sys.exit(code)


def _outcome(arguments: list[str] | None) -> int:
    try:
        code = group.main(arguments, prog_name="prompt-trace", standalone_mode=False)
    except click.exceptions.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return USAGE
    except (NotFound, Erased) as error:
        _say(str(error))
        return NOT_FOUND
    except PromptTraceError as error:
        _say(str(error))
        return USAGE
    return code if isinstance(code, int) else 0


def _say(message: str) -> None:
    with contextlib.suppress(OSError):  # standard error is full or gone as well: the exit code has to do
        click.echo(f"prompt-trace: {printable(message)}", err=True)


def _give_up_output() -> None:
    """What is left in the buffer can't be written; without this the interpreter would try again and complain."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
