"""``demo``: two stories, told from what the tool itself recorded."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import click
from rich.console import Console

from otel_prompt_trace.cli.app import count_tokens
from otel_prompt_trace.cli.output import console, mark, progress, shorten, table
from otel_prompt_trace.demo.stories import STEPS, FirstStory, Step
from otel_prompt_trace.records import Records
from otel_prompt_trace.settings import state_folder
from otel_prompt_trace.sources import Sources
from otel_prompt_trace.store import open_store

_BUDGET = 720  # tokens for chunks: four of the five fit


@click.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Where to keep what the demo records.")
def demo(out: Path | None) -> None:
    """Record two stories against a stand-in model server on loopback, and read them back. No network needed."""
    from otel_prompt_trace.demo.stage import stage
    from otel_prompt_trace.demo.stories import first, second

    folder = (out or state_folder() / "demo").expanduser().absolute() / Sources().new_id()
    say = console()
    say.print("[bold]prompt-trace demo[/]: a handbook assistant on the real openai SDK")
    with stage(folder) as here:
        say.print(f"The model host is a stand-in on {here.host.client.base_url}: it says so in every answer.\n")
        source = Records(open_store(here.store), here.spool)
        told = first(here.host, source.get, count_tokens, budget=_BUDGET)
        _tell_first(say, told)
        with progress("conversation") as step:
            steps = list(second(here.host, source.get, count_tokens, step))
        _tell_second(say, steps)
    _tell_on(say, told.record.qid, here.store, here.spans)


def _tell_first(say: Console, story: FirstStory) -> None:
    call, census = story.call, story.call.census
    say.print("[bold]1. Somebody objects to one answer[/]")
    say.print(f"question  {story.record.query['question'] if story.record.query else ''}", markup=False)
    say.print(f"answer    {shorten(story.answer, 120)}", markup=False)
    rows = [
        (c.rank, c.chunk_id, round(c.score, 2), c.tokens, c.fate, "<- policy" if c.policy else "") for c in story.chunks
    ]
    table(("rank", "chunk", "score", "tokens", "what became of it", ""), rows)
    checks = {check.name: check for check in call.checks}
    for name in ("chunk_identity", "rank_prefix", "token_identity", "payload_integrity"):
        say.print(f"{mark(checks[name].status):5} {name}: {checks[name].detail}", markup=False)
    if census is not None:
        say.print(
            f"census    {census.total:,} characters, {census.covered:,} covered, {census.unaccounted:,} unaccounted: "
            f"[bold]{call.verdict}[/]"
        )
    policies = [f"{c.chunk_id} at rank {c.rank} ({c.fate})" for c in story.chunks if c.policy]
    say.print(f"Both policies were there: {'; '.join(policies)}. The answer quotes the first.\n", markup=False)


def _tell_second(say: Console, steps: list[Step]) -> None:
    say.print(f"[bold]2. One conversation of {len(steps[0].turns)} turns, declared step by step[/]")
    rows = []
    for turns in zip(*(step.turns for step in steps), strict=True):
        first = turns[0]
        rows.append((first.number, first.total, first.cached_tokens, *(turn.unaccounted for turn in turns)))
    table(("turn", "characters", "cached tokens", *(f"unaccounted, {title}" for title, _ in STEPS)), rows)
    for step in steps:
        last = step.turns[-1]
        say.print(
            f"{step.title}: {last.unaccounted:,} of {last.total:,} characters unaccounted in the last turn, ", end=""
        )
        say.print(f"[bold]{last.verdict}[/]")
        for suggestion in step.suggestions:
            shape = suggestion.shape
            say.print(f"  {shape.shape}, likely {shape.cause}: {shape}", markup=False)
            say.print(f"  suggest: {suggestion.line}", markup=False)
    say.print()


def _tell_on(say: Console, qid: str, store: str, spans: Path) -> None:
    say.print("[bold]Look further[/] (nothing else has to run)")
    at = ["--store", store]
    for arguments in (
        ["show", qid, *at],
        ["get", qid, *at],
        ["ls", *at],
        ["grade", "--last", "50", *at],
        ["suggest", "--last", "50", *at],
        ["census", "--spans", str(spans), *at],
        ["doctor", *at],
    ):
        click.echo(f"  {shlex.join([*command(), *arguments])}")


def command() -> list[str]:
    """The words that begin this command again, from any folder: its name where the path leads to this very file."""
    running = Path(sys.argv[0])
    if running.stem != "prompt-trace" or not running.is_file():
        return [sys.executable, "-m", "otel_prompt_trace.cli"]
    on_path = shutil.which("prompt-trace")
    if on_path is not None and running.samefile(on_path):
        return ["prompt-trace"]
    return [str(running.absolute())]


COMMANDS = (demo,)
