"""``census``: the batch over archived spans and stored payloads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path

import click

from otel_prompt_trace.cli.app import Day, as_json, count_tokens, placed_by, places, records
from otel_prompt_trace.cli.output import print_json, printable, progress, table
from otel_prompt_trace.core.placement import Placement
from otel_prompt_trace.settings import Settings

_ITEM = "  "  # begins a line below a title
_PLACE = re.compile(rf"{_ITEM}(?P<file>.+?):[0-9]+: ")
_OF_A_FILE, _OF_A_TITLE = 5, 20


@click.command()
@click.option(
    "--spans",
    "spans",
    multiple=True,
    metavar="PATH",
    help="Archived spans: OTLP JSON in a file, a folder, what a glob names, or s3://bucket/prefix; more may follow.",
)
@click.argument("more", nargs=-1, metavar="[PATH]...")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write the Parquet tables here.")
@click.option("--since", type=Day(), help="First UTC day.")
@click.option("--until", type=Day(), help="Last UTC day.")
@placed_by
@places
@as_json
def census(
    settings: Settings,
    spans: tuple[str, ...],
    more: tuple[str, ...],
    out: Path | None,
    since: date | None,
    until: date | None,
    json_: bool,
    placements: Mapping[str, Placement] | None,
) -> int:
    """Join archived spans to payloads and take the census of every call.

    Writes calls, pieces, gaps, joins, stages and shapes (.parquet) with --out. What does not join is named, and so are
    the shapes of what nobody declared; --json names all of it, the text the first of each sort.
    """
    from otel_prompt_trace.batch import run_census
    from otel_prompt_trace.batch.report import COLUMNS

    source = records(settings)
    with progress("census") as step:
        report = run_census(
            source.store,
            [*spans, *more],
            out,
            since=since,
            until=until,
            count_tokens=count_tokens,
            placements=placements,
            progress=step,
        )
    if json_:
        print_json(report.to_dict())
        return report.exit_code
    if report.rows:
        rows = [
            (
                r.qid,
                r.number,
                r.total,
                r.covered,
                r.unaccounted,
                r.unlocatable,
                r.verdict,
                ", ".join(r.reasons),
                r.cells[-1],
            )
            for r in report.rows
        ]
        table(COLUMNS, rows)
        click.echo()
    if source.missing is not None:
        click.echo(f"the store's folder {source.missing} does not exist (yet)")
    for note in _brief(report.notes()):
        click.echo(printable(note))
    for path in report.written:
        click.echo(f"wrote {path}")
    return report.exit_code


def _brief(notes: Iterable[str]) -> Iterator[str]:
    """The notes with at most 5 lines a file and 20 a title: one file that is no archive has a problem in each line."""
    below: list[str] = []
    for note in notes:
        if note.startswith(_ITEM):
            below.append(note)
            continue
        yield from _first(below)
        below = []
        yield note
    yield from _first(below)


def _first(items: list[str]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    kept: list[str] = []
    for item in items:
        place = _PLACE.match(item)
        if place is not None:
            counts[place["file"]] += 1
        if place is None or counts[place["file"]] <= _OF_A_FILE:
            kept.append(item)
    kept += [f"{_ITEM}and {n - _OF_A_FILE} more in {file}" for file, n in counts.items() if n > _OF_A_FILE]
    yield from kept[:_OF_A_TITLE]
    if len(kept) > _OF_A_TITLE:
        yield f"{_ITEM}and {len(kept) - _OF_A_TITLE} more lines; --json has all of them"


COMMANDS = (census,)
