"""``suggest``: what repeats in the gaps of the last calls, and the line that declares it."""

from __future__ import annotations

import tempfile
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import click

from otel_prompt_trace.cli.app import Day, as_json, places, records
from otel_prompt_trace.cli.output import print_json, printable, progress, shorten
from otel_prompt_trace.core.derive import derive
from otel_prompt_trace.core.residuals.shapes import Shapes, shapes
from otel_prompt_trace.core.residuals.sketch import sketch
from otel_prompt_trace.core.residuals.suggest import Suggestion, suggestions
from otel_prompt_trace.core.text import sha256_text, wrap
from otel_prompt_trace.exceptions import PromptTraceError
from otel_prompt_trace.records import Records
from otel_prompt_trace.settings import Settings

_SHOWN = 20
_EXCERPT = 48  # characters


@click.command()
@click.option("--last", type=click.IntRange(min=1), help="The newest N calls (default 200 where no day is given).")
@click.option("--since", type=Day(), help="First UTC day.")
@click.option("--until", type=Day(), help="Last UTC day.")
@click.option("--text", "whole", is_flag=True, help="Print each text to declare whole, as a Python literal.")
@click.option("--all", "everything", is_flag=True, help=f"All suggestions, not the first {_SHOWN}.")
@places
@as_json
def suggest(
    settings: Settings,
    last: int | None,
    since: date | None,
    until: date | None,
    whole: bool,
    everything: bool,
    json_: bool,
) -> int:
    """What repeats in the gaps of the last calls, and the line that declares it.

    Tells texts that stay the same from those that grow with the turn. Of a text an excerpt is shown; --text shows all
    of it. Exits with 0 whether or not there is something to declare, and with 3 if some query can't be read.
    """
    # The batch's own libraries are not needed for this part of it.
    from otel_prompt_trace.batch.sketches import Sketches

    source = records(settings)
    limit = last or (200 if since is None and until is None else None)
    calls = 0
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="prompt-trace-") as scratch:
        seen = Sketches(Path(scratch))
        try:
            with progress("reading") as step:
                for number, qid in enumerate(source.newest_first(since, until), 1):
                    try:
                        record = source.get(qid)
                    except PromptTraceError as error:
                        problems.append(f"{qid}: {error}")
                    else:
                        derived = derive(record)[-(limit - calls) if limit else 0 :]
                        calls += len(derived)
                        for derivation in derived:
                            if derivation.census is not None:
                                seen.add(sketch(record, derivation.call, derivation.census))
                    step(calls if limit else number, limit)
                    if limit and calls >= limit:
                        break
            found = shapes(seen)
        finally:
            seen.close()
    offered = list(suggestions(found.found))
    shown = offered if everything or json_ else offered[:_SHOWN]
    if json_:
        print_json(wrap(_as_dict(found, [_item(s, source, whole=whole) for s in shown], problems)))
    elif not found.calls:
        click.echo(f"No calls to look at: {source.nothing}.")
    else:
        _print(found, shown, source, whole=whole)
        if len(shown) < len(offered):
            click.echo(f"\nand {len(offered) - len(shown)} more: --all prints them")
    for problem in problems:
        click.echo(f"prompt-trace: {printable(problem)}", err=True)
    return 3 if problems else 0


def _print(found: Shapes, shown: list[Suggestion], source: Records, *, whole: bool) -> None:
    if not found.gapped:
        click.echo(f"Nothing to declare: no gap in {found.calls} calls.")
        return
    click.echo(f"{found.gapped} of {found.calls} calls have gaps. What is in them, most characters first:")
    for number, suggestion in enumerate(shown, 1):
        shape = suggestion.shape
        text = _text(suggestion, source)
        click.echo(f"\n{number}. {shape.shape}, likely {shape.cause}: {printable(str(shape))}")
        click.echo(f"   first in {shape.origin.qid}; tokens from the cache: {shape.cached}")
        click.echo(f"   {_excerpt(text)}")
        click.echo(f"   {suggestion.line}")
        if whole and suggestion.fixed and text is not None:
            click.echo(f"   TEXT = {text!a}")
    if found.partial:
        click.echo("\nThere are more different texts than are compared: a shorter time gives a fuller picture.")
    if not whole and any(suggestion.fixed for suggestion in shown):
        click.echo("\n--text prints each TEXT whole.")


def _as_dict(found: Shapes, items: list[dict[str, Any]], problems: list[str]) -> dict[str, Any]:
    return {
        "calls": found.calls,
        "with_gaps": found.gapped,
        "partial": found.partial,
        "suggestions": items,
        "problems": problems,
    }


def _item(suggestion: Suggestion, source: Records, *, whole: bool) -> dict[str, Any]:
    text = _text(suggestion, source)
    item = {
        **suggestion.shape.to_dict(),
        "producer": suggestion.producer,
        "declare": suggestion.line,
        "fixed": suggestion.fixed,
        "excerpt": _excerpt(text),
    }
    if suggestion.fixed and text is not None:
        item["sha256"] = sha256_text(text)
    if whole and text is not None:
        item["text"] = text
    return item


def _text(suggestion: Suggestion, source: Records) -> str | None:
    """The text of the example; None where a policy withheld some of it, or the query is gone."""
    spot = suggestion.shape.example
    try:
        record = source.get(spot.qid)
    except PromptTraceError:
        return None
    for call in islice(record.calls, spot.number - 1, spot.number):
        segments = call.prompt.segments if call.prompt is not None else ()
        for segment in islice(segments, spot.segment, spot.segment + 1):
            if not any(start < spot.end and spot.start < end for start, end in segment.cuts):
                return segment.text[spot.start : spot.end]
    return None


def _excerpt(text: str | None) -> str:
    return "[withheld]" if text is None else f'"{printable(shorten(text, _EXCERPT))}"'


COMMANDS = (suggest,)
