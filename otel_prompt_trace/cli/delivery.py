"""``ship`` and ``erase``: what enters the store from here, and what leaves it."""

from __future__ import annotations

import sys
from typing import Any

import click

from otel_prompt_trace.cli.app import as_json, places, records
from otel_prompt_trace.cli.output import print_json, printable, progress
from otel_prompt_trace.core.qid import is_qid
from otel_prompt_trace.exceptions import NotFound
from otel_prompt_trace.pipeline.drain import DrainReport, drain
from otel_prompt_trace.pipeline.reading import survey
from otel_prompt_trace.pipeline.watching import Stop, swept_by, watch_spool
from otel_prompt_trace.records import Records
from otel_prompt_trace.settings import Settings
from otel_prompt_trace.store import PayloadStore, open_store


@click.command()
@click.option("--watch", is_flag=True, help="Go on until SIGTERM or SIGINT: a sidecar beside many workers.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    help="Seconds between two looks, with --watch.",
)
@places
@as_json
def ship(settings: Settings, watch: bool, interval: float, json_: bool) -> int:
    """Deliver what processes that are gone have left in the spool; files of running ones are left to them.

    Once, or with --watch again and again: there a store that is down is asked more and more rarely, and a line is
    printed for each round that delivered something. Being told to stop ends it between two queries, with status 0.
    """
    store = open_store(settings.store)
    if watch:
        with Stop() as stop:
            watch_spool(
                settings.spool,
                store,
                interval=interval,
                stop=stop,
                delivered=lambda report: _tell(report, store, json_),
                failed=lambda error: click.echo(f"prompt-trace: {printable(str(error))}", err=True),
            )
        return 0
    with progress("shipping") as step:
        report = drain(settings.spool, store, progress=step)
    report.swept += swept_by(store)
    _tell(report, store, json_)
    return 1 if report.problems else 0


def _tell(report: DrainReport, store: PayloadStore, json_: bool) -> None:
    problems = [str(problem) for problem in report.problems]
    if json_:
        print_json(
            {
                "events": report.events,
                "queries": report.queries,
                "files": report.files,
                "left_to_running_processes": report.alive,
                "set_aside": report.set_aside,
                "problems": problems,
                "swept": report.swept,
            }
        )
        return
    click.echo(
        f"{report.events} event(s) of {report.queries} query(ies) from {report.files} file(s) are in {store.url}; "
        f"{report.alive} file(s) belong to running processes."
    )
    for qid in report.swept:
        click.echo(f"{qid} was erased: what had arrived under it since is deleted.")
    for line in (*problems, *(f"set aside: {path}" for path in report.set_aside)):
        click.echo(f"prompt-trace: {printable(line)}", err=True)


@click.command()
@click.argument("qid")
@click.option("--reason", help="Why, for the tombstone. Not a place for content.")
@click.option("--by", help="Who, for the tombstone.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where there is no terminal to ask on.")
@places
@as_json
def erase(settings: Settings, qid: str, reason: str | None, by: str | None, yes: bool, json_: bool) -> int:
    """Erase everything stored under a qid, in every version, and verify that it is gone.

    Asks first. Without a terminal and without --yes nothing is erased. Exits with 0 when all is gone and verified, 1
    when something remains or nothing is found, 2 without a terminal and without --yes.
    """
    source = records(settings)
    whole = _whole(source, qid)
    if not yes:
        if sys.stdin is None or not sys.stdin.isatty():
            raise click.UsageError(f"nobody can be asked whether to erase {whole}: there is no terminal; give --yes")
        click.confirm(f"Erase {whole} from {source.store.url}? This can't be undone.", abort=True, err=True)
    drain(settings.spool, source.store)  # what dead processes left would otherwise arrive after the erasure
    receipt = source.store.erase(whole, reason=reason, by=by)
    waiting = [file.path.name for file in survey(settings.spool) if whole in file.qids]
    result: dict[str, Any] = {**receipt.to_dict(), "waiting_in_spool": waiting}
    done = receipt.verified and not waiting
    if json_:
        print_json(result)
    else:
        state = "erased and verified" if done else "NOT WHOLLY ERASED"
        click.echo(f"{whole}: {state}; {len(receipt.deleted)} object(s) deleted, tombstone {receipt.tombstone}")
        for item in receipt.remaining:
            click.echo(f"  remains: {item.key}: {item.reason}")
        for name in waiting:
            click.echo(f"  waits in the spool of a running process ({name}); 'prompt-trace ship' sweeps it once stored")
    return 0 if done else 1


def _whole(source: Records, qid: str) -> str:
    """A qid that nothing is stored under can be erased as well: whatever arrives later is swept.

    A trace id stands here only for the qids that begin with it: further queries of a trace are found by a search that
    has a bound, and nobody should take one of them for all.
    """
    try:
        return source.resolve_qid(qid)
    except NotFound:
        if is_qid(qid) and source.store.erased_at(qid) is not None:
            return qid
        raise


COMMANDS = (ship, erase)
