"""The command group: options that every command takes, and what they are given to work with."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import click

from otel_prompt_trace import tokens
from otel_prompt_trace._version import __version__
from otel_prompt_trace.cli.output import printable
from otel_prompt_trace.core.events import Problem
from otel_prompt_trace.core.placement import Placement
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.records import Records
from otel_prompt_trace.settings import Settings, load
from otel_prompt_trace.store import open_store


class Day(click.ParamType[date]):
    """A UTC day as YYYY-MM-DD."""

    name = "YYYY-MM-DD"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        """Parse, or say what was expected."""
        if isinstance(value, date):
            return value
        try:
            return date.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no day; write it as 2026-11-30", param, ctx)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="prompt-trace")
def group() -> None:
    """Proof of what a language model was told.

    QID may be a whole qid, its unique beginning, a trace id, a traceparent, or a Jaeger or viewer URL.
    """


def places(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--store`` and ``--spool``, and hand the settings to the command as its first argument."""

    @click.option("--store", metavar="URL", help="Folder or s3://bucket/prefix. Default: PROMPT_TRACE_STORE.")
    @click.option("--spool", metavar="DIR", help="The local spool. Default: PROMPT_TRACE_SPOOL.")
    @functools.wraps(command)
    def with_settings(*args: Any, store: str | None, spool: str | None, **kwargs: Any) -> Any:
        return command(load(store=store, spool=spool), *args, **kwargs)

    return with_settings


def as_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json``."""
    return click.option("--json", "json_", is_flag=True, help="Print JSON, for a pipe.")(command)


def placed_by(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--placements``, and hand the command what the modules named there register; None where it is not given."""

    @click.option(
        "--placements",
        "modules",
        metavar="MODULE[,MODULE]",
        help="Import these modules, which runs their code, and have the placements in them render again.",
    )
    @functools.wraps(command)
    def with_placements(*args: Any, modules: str | None, **kwargs: Any) -> Any:
        return command(*args, placements=None if modules is None else _registered(modules), **kwargs)

    return with_placements


def _registered(modules: str) -> Mapping[str, Placement]:
    from otel_prompt_trace.capture.placement import placements

    sys.path.insert(0, str(Path.cwd()))
    for module in filter(None, map(str.strip, modules.split(","))):
        try:
            with contextlib.redirect_stdout(sys.stderr):  # ours may be read by a program
                placements(module)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may do anything while it is imported
            said = f"{type(error).__name__}: {error}"
            click.echo(f"prompt-trace: {printable(f'{module} can not be imported: {said}')}", err=True)
    return placements()


def records(settings: Settings, *, patient: bool = True) -> Records:
    """What can be read with these settings; ``patient`` as :func:`open_store` has it."""
    return Records(open_store(settings.store, patient=patient), settings.spool)


def damage(record: Record, source: Records) -> list[Problem]:
    """What of a record can't be read; a store that gave no answer is not damage."""
    return [problem for problem in record.problems if problem.source != source.store.url]


def count_tokens(text: str, model: str) -> int | None:
    """The local token count that grades use."""
    return tokens.count(text, model)
