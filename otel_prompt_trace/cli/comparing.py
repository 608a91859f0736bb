"""``diff``: what changed between two prompts, by producer."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import click

from otel_prompt_trace.cli.app import Day, as_json, count_tokens, places, records
from otel_prompt_trace.cli.choosing import choose_call
from otel_prompt_trace.cli.output import print_json, printable, shorten, table, words
from otel_prompt_trace.core.diff import GapChange, PieceChange, PromptDiff, Setting, diff_calls
from otel_prompt_trace.core.diff.pairing import Item
from otel_prompt_trace.core.grade import CallGrade, grade
from otel_prompt_trace.core.text import wrap
from otel_prompt_trace.records import Records
from otel_prompt_trace.settings import Settings

_NUMBERED = re.compile(r"(?P<qid>.+)#(?P<call>[0-9]{1,6})")


@click.command("diff")
@click.argument("before", metavar="QID[#CALL]")
@click.argument("after", metavar="[QID[#CALL]]", required=False)
@click.option("--call", "number", type=click.IntRange(min=1), help="The call of both queries, counting from 1.")
@click.option(
    "--calls", "numbers", type=click.IntRange(min=1), nargs=2, help="Two calls: of one query, or of each query one."
)
@click.option("--date", "day", type=Day(), help="The UTC day of ids that carry none, or of traces.")
@places
@as_json
def diff_command(
    settings: Settings,
    before: str,
    after: str | None,
    number: int | None,
    numbers: tuple[int, int] | None,
    day: date | None,
    json_: bool,
) -> int:
    """What changed between two prompts: pieces, gaps, model-visible parts, parameters.

    QID#2 is the second call of a query. Exits with 0 if nothing changed, 1 if something did, 3 if that can't be said.
    """
    if after is None and numbers is None:
        raise click.UsageError("two prompts are needed: give a second QID, or --calls 1 2 for two calls of one query")
    first, second = numbers or (number, number)
    source = records(settings)
    old = _call(source, before, first, day)
    new = _call(source, before if after is None else after, second, day)
    found = diff_calls(old[1], new[1])
    if json_:
        print_json(wrap({"before": _side(*old), "after": _side(*new), **_as_dict(found)}))
        return found.exit_code
    for sign, (qid, call) in (("-", old), ("+", new)):
        click.echo(printable(f"{sign} {qid} call {call.call.number}: {_size(call)}"))
    _print(found)
    return found.exit_code


def _call(source: Records, reference: str, number: int | None, day: date | None) -> tuple[str, CallGrade]:
    numbered = _NUMBERED.fullmatch(reference)
    if numbered is not None and number is None:
        reference, number = numbered["qid"], int(numbered["call"])
    record = source.get(source.resolve(reference, day), day)
    return record.qid, choose_call(record.qid, grade(record, count_tokens).calls, number)


def _size(call: CallGrade) -> str:
    if call.census is None:
        return "no prompt recorded"
    counted = "" if call.prompt_tokens is None else f", {call.prompt_tokens:,} tokens"
    return f"{call.census.total:,} characters{counted}, {call.census.unaccounted:,} unaccounted, {call.verdict}"


def _print(found: PromptDiff) -> None:
    click.echo(f"\n{found.same} piece(s) unchanged")
    rows = [
        (_kind(c), c.label, _where(c.before), _where(c.after), _chars(c.before, c.after)) for c in found.pieces
    ]  # fmt: skip
    if rows:
        table(("piece", "", "before", "after", "characters"), rows)
    for change in found.pieces:
        if change.lines:
            click.echo(f"\n{printable(change.label)}")
            for line in change.lines:
                click.echo(printable(line))
    gaps = [(g.kind, _stands(g), len(g.gap), _holder(g), shorten(g.gap.text)) for g in found.gaps]
    if gaps:
        table(("gap", "", "characters", "", "text"), gaps, title="\ngaps")
    for title, changed in (("model-visible parts", found.parts), ("parameters", found.settings)):
        if changed:
            settings = [(s.name, _value(s.before), _value(s.after)) for s in changed]
            table(("", "before", "after"), settings, title=f"\n{title}")
    if found.rearranged:
        click.echo("\nThe same texts, in other messages or in another order.")
    if not found.comparable:
        click.echo(
            "\nNot all of it can be compared: a prompt is missing, or a text was cut, or is a digest on one side."
        )
    elif not found.different:
        click.echo("\nNothing changed.")


def _kind(change: PieceChange) -> str:
    return f"{change.kind}, moved" if change.moved and change.kind != "moved" else change.kind


def _where(item: Item | None) -> str:
    if item is None:
        return ""
    role = f" ({item.role})" if item.role else ""
    return f"{item.path} [{item.start}:{item.end}]{role}" if item.located else item.state


def _chars(before: Item | None, after: Item | None) -> str:
    sizes = [f"{item.chars:,}" for item in (before, after) if item is not None]
    return sizes[0] if len(set(sizes)) == 1 else " → ".join(sizes)


def _stands(change: GapChange) -> str:
    place, before = change.gap, change.before
    here = f"{place.path} [{place.start}:{place.end}]"
    return here if before is None else f"{before.path} [{before.start}:{before.end}] → {here}"


def _holder(change: GapChange) -> str:
    if change.piece is None:
        return ""
    return f"was declared by {change.piece}" if change.kind == "appeared" else f"is declared by {change.piece}"


def _value(value: Any) -> str:
    return "" if value is None else shorten(words(value), 60)


def _side(qid: str, call: CallGrade) -> dict[str, Any]:
    census = call.census
    return {
        "qid": qid,
        "call": call.call.number,
        "total": None if census is None else census.total,
        "unaccounted": None if census is None else census.unaccounted,
        "prompt_tokens": call.prompt_tokens,
        "verdict": call.verdict,
    }


def _as_dict(found: PromptDiff) -> dict[str, Any]:
    return {
        "different": found.different,
        "comparable": found.comparable,
        "same": found.same,
        "rearranged": found.rearranged,
        "pieces": [
            {
                "kind": c.kind,
                "moved": c.moved,
                "before": _item(c.before),
                "after": _item(c.after),
                "diff": list(c.lines),
            }
            for c in found.pieces
        ],
        "gaps": [
            {
                "kind": g.kind,
                "path": g.gap.path,
                "start": g.gap.start,
                "end": g.gap.end,
                "text": g.gap.text,
                "piece": g.piece,
                "before": None
                if g.before is None
                else {"path": g.before.path, "start": g.before.start, "end": g.before.end},
            }
            for g in found.gaps
        ],
        "parts": [_setting(s) for s in found.parts],
        "parameters": [_setting(s) for s in found.settings],
    }


def _item(item: Item | None) -> dict[str, Any] | None:
    if item is None:
        return None
    names = ("producer", "source_id", "state", "path", "role", "start", "end", "chars")
    return {name: getattr(item, name) for name in names}


def _setting(setting: Setting) -> dict[str, Any]:
    return {"name": setting.name, "before": setting.before, "after": setting.after}


COMMANDS = (diff_command,)
