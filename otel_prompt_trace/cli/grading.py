"""``grade``: how many calls are exact, mismatch or unknown, and why."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

import click

from otel_prompt_trace.cli.app import Day, as_json, count_tokens, places, records
from otel_prompt_trace.cli.output import mark, print_json, printable, progress, table
from otel_prompt_trace.core.grade import Grade, exit_code, grade
from otel_prompt_trace.core.published import not_found
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.text import wrap
from otel_prompt_trace.exceptions import PromptTraceError
from otel_prompt_trace.settings import Settings


@click.command("grade")
@click.argument("qids", nargs=-1, metavar="[QID]...")
@click.option("--last", type=click.IntRange(min=1), help="The newest N queries (default 50 where no QID is given).")
@click.option("--date", "day", type=Day(), help="The UTC day of a QID that carries none, or of a trace.")
@click.option("--since", type=Day(), help="First UTC day.")
@click.option("--until", type=Day(), help="Last UTC day.")
@places
@as_json
def grade_command(
    settings: Settings,
    qids: tuple[str, ...],
    last: int | None,
    day: date | None,
    since: date | None,
    until: date | None,
    json_: bool,
) -> int:
    """Grade the calls of some queries: verdicts, reasons, checks.

    Exits with 0 if all is exact, 1 on a mismatch, a failed check or a query that is not found, 3 if something is
    unknown or can't be read.
    """
    if day is not None and not qids:
        raise click.UsageError("--date goes with a QID; --since and --until choose days")
    source = records(settings)
    limit = last or (50 if since is None and until is None else 1_000_000)
    chosen = [source.resolve(qid, day) for qid in qids] if qids else source.newest(limit, since, until)
    grades: list[Grade] = []
    problems: list[str] = []
    damaged: list[Record] = []
    with progress("grading") as step:
        for number, qid in enumerate(chosen, 1):
            try:
                record = source.get(qid, day)
                grades.append(grade(record, count_tokens))
                if record.problems:
                    damaged.append(record)
            except PromptTraceError as error:
                problems.append(f"{qid}: {error}")
            step(number, len(chosen))
    if json_:
        print_json(
            wrap(
                {
                    "grades": [_as_dict(g) for g in grades],
                    "damaged": [{"qid": r.qid, "problems": [str(p) for p in r.problems]} for r in damaged],
                    "problems": problems,
                }
            )
        )
    elif not grades:
        click.echo(f"Nothing to grade: {source.nothing}.")
    else:
        _print(grades, damaged)
    for problem in problems:
        click.echo(f"prompt-trace: {printable(problem)}", err=True)
    if problems:
        return 1
    return exit_code(grades) or (3 if damaged else 0)


def _print(grades: list[Grade], damaged: list[Record]) -> None:
    calls = [call for g in grades for call in g.calls]
    verdicts = Counter(call.verdict for call in calls)
    unread = {record.qid for record in damaged}
    empty = sum(1 for g in grades if not g.calls and g.qid not in unread)
    table(("verdict", "calls"), [(name, verdicts[name]) for name in ("exact", "mismatch", "unknown")])
    reasons = Counter(reason for call in calls for reason in call.reasons)
    if reasons:
        table(("reason", "calls"), reasons.most_common(), title="\nreasons")
    missing = Counter(
        p.hint.reason if p.hint else "none likely" for call in calls if call.census for p in call.census.unlocatable
    )
    if missing:
        table(("reason", "pieces"), missing.most_common(), title="\nnot found, by reason")
    checks: dict[str, Counter[str]] = {}
    for check in (*(c for g in grades for c in g.checks), *(c for call in calls for c in call.checks)):
        checks.setdefault(check.name, Counter())[check.status] += 1
    rows = [(name, _overall(n), n["pass"], n["fail"], n["unknown"]) for name, n in checks.items()]
    table(("check", "", "pass", "fail", "?"), rows, title="\nchecks (? where nothing was exercised)")
    bad = [
        (g.qid, call.call.number, call.verdict, ", ".join(call.reasons))
        for g in grades
        for call in g.calls
        if call.verdict != "exact"
    ]
    if bad:
        table(("qid", "call", "verdict", "reasons"), bad[:20], title="\nnot exact (the first 20)")
    if damaged:
        click.echo(f"\n{len(damaged)} of {len(grades)} queries can't be read whole:")
    for record in damaged:
        lost = "" if record.calls else "none of its calls can be read: "
        more = f" (and {len(record.problems) - 1} more)" if len(record.problems) > 1 else ""
        click.echo(f"  {record.qid}: {lost}{printable(str(record.problems[0]))}{more}")
    if empty:
        click.echo(f"\n{empty} of {len(grades)} queries have no call.")


def _overall(counts: Counter[str]) -> str:
    return mark("fail" if counts["fail"] else "pass" if counts["pass"] else "unknown")


def _as_dict(graded: Grade) -> dict[str, Any]:
    return {
        "qid": graded.qid,
        "verdict": graded.verdict,
        "checks": [_check(c) for c in graded.checks],
        "calls": [
            {
                "call": call.call.id,
                "number": call.call.number,
                "verdict": call.verdict,
                "reasons": list(call.reasons),
                "total": call.census.total if call.census else None,
                "unaccounted": call.census.unaccounted if call.census else None,
                "not_found": not_found(call.census) if call.census else [],
                "checks": [_check(c) for c in call.checks],
            }
            for call in graded.calls
        ],
    }


def _check(check: Any) -> dict[str, Any]:
    return {"name": check.name, "status": check.status, "detail": check.detail}


COMMANDS = (grade_command,)
