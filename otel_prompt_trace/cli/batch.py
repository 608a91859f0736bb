"""``census``: the batch over archived spans and stored payloads."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import click

from otel_prompt_trace.cli.app import Day, as_json, count_tokens, places
from otel_prompt_trace.cli.output import print_json, progress, table
from otel_prompt_trace.settings import Settings
from otel_prompt_trace.store import open_store


@click.command()
@click.option(
    "--spans",
    "spans",
    multiple=True,
    metavar="PATH",
    help="Archived spans: OTLP JSON lines in a file, a folder or what a glob names; more of them may follow.",
)
@click.argument("more", nargs=-1, metavar="[PATH]...")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write the Parquet tables here.")
@click.option("--since", type=Day(), help="First UTC day.")
@click.option("--until", type=Day(), help="Last UTC day.")
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
) -> int:
    """Join archived spans to payloads and take the census of every call.

    Writes calls.parquet, pieces.parquet, gaps.parquet and joins.parquet with --out. What does not join is named.
    """
    from otel_prompt_trace.batch import run_census
    from otel_prompt_trace.batch.report import COLUMNS

    store = open_store(settings.store)
    with progress("census") as step:
        report = run_census(
            store, [*spans, *more], out, since=since, until=until, count_tokens=count_tokens, progress=step
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
    for note in report.notes():
        click.echo(note)
    for path in report.written:
        click.echo(f"wrote {path}")
    return report.exit_code


COMMANDS = (census,)
