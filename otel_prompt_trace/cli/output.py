"""How things look on a terminal: tables, JSON, a progress bar. Texts are cut here for the eye, and nowhere else.

Nothing that comes from a record is markup, and none of it is obeyed by a terminal: it goes through :func:`cell` or
:func:`printable`, whatever its type.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

_COLORS = {"exact": "green", "pass": "green", "ok": "green", "stored": "green"}
_COLORS |= {"mismatch": "red", "fail": "red", "lost": "red"}
_COLORS |= {"unknown": "yellow", "warn": "yellow", "spooled": "yellow"}
_COLORS |= {"damaged": "red"}


def print_json(value: Any) -> None:
    """Indented JSON on standard output, of a value that JSON carries (others go through ``core.text.wrap`` first)."""
    sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()


def console() -> Console:
    """The console for standard output; wide enough for ids where it is no terminal."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=160, no_color=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str | None = None) -> None:
    """Print a table; numbers to the right."""
    grid = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        right = bool(rows) and all(isinstance(row[number], int | float) for row in rows)
        grid.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(cell(value) for value in row))
    console().print(grid)


def cell(value: Any) -> Text:
    """A value as table text, verdicts and states in their colours."""
    text = "" if value is None else printable(words(value, ","))
    return Text(text, style=_COLORS.get(text, ""))


def words(value: Any, form: str = "") -> str:
    """Any value as text, integers in ``form``; a value that has no text is named by its type."""
    try:
        return format(value, form) if isinstance(value, int) and not isinstance(value, bool) else str(value)
    except (ValueError, RecursionError):  # an integer of more digits than Python writes, a value too deep
        return f"<{type(value).__name__}>"


def mark(status: str) -> str:
    """A check's status in one sign: unknown is ``?``, never ok."""
    return {"pass": "pass", "fail": "FAIL"}.get(status, "?")


def shorten(text: str, width: int = 70) -> str:
    """A text in one line of at most ``width`` characters, with its end marked as cut."""
    line = printable(" ".join(text[: width * 2].split()))
    return line if len(line) <= width and len(text) <= width * 2 else line[: width - 1] + "…"


def printable(text: str) -> str:
    """A text that a terminal shows and does not obey: control and bidirectional characters are spelled out."""
    return "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar on standard error while it is a terminal; the function given takes done and total."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=sys.stderr is None or not sys.stderr.isatty(),  # None where it was closed
    )
    with bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
