"""``grade``: how many calls are exact, mismatch or unknown, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from typing import Any, get_args

import click

from otel_prompt_trace.cli.app import Day, as_json, count_tokens, placed_by, places, records
from otel_prompt_trace.cli.output import mark, print_json, printable, progress, table
from otel_prompt_trace.core.again import Again, summary
from otel_prompt_trace.core.grade import Grade, across, exit_code, grade, sketches
from otel_prompt_trace.core.placement import Placement
from otel_prompt_trace.core.published import not_found
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.residuals.remainder import suspicions
from otel_prompt_trace.core.residuals.sketch import Sketch
from otel_prompt_trace.core.residuals.suspicion import Suspicion, by_producer
from otel_prompt_trace.core.template import TemplateTrack, track
from otel_prompt_trace.core.text import as_text, wrap
from otel_prompt_trace.core.verdict import Verdict, worst
from otel_prompt_trace.exceptions import Ambiguous, Erased, NotFound, PromptTraceError, StoreDenied, StoreUnreachable
from otel_prompt_trace.records import Records
from otel_prompt_trace.settings import Settings


@click.command("grade")
@click.argument("qids", nargs=-1, metavar="[QID]...")
@click.option("--last", type=click.IntRange(min=1), help="The newest N calls (default 50 without QID and days).")
@click.option("--date", "day", type=Day(), help="The UTC day of a QID that carries none, or of a trace.")
@click.option("--since", type=Day(), help="First UTC day.")
@click.option("--until", type=Day(), help="Last UTC day.")
@placed_by
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
    placements: Mapping[str, Placement] | None,
) -> int:
    """Grade the last calls, those of some days, or those of some queries: verdicts, reasons, checks.

    The calls are compared in the order of time as well: a producer that takes in what the others leave is suspected of
    being a remainder.

    Exits with 0 if all is exact, 1 on a mismatch, a failed check or a query that is not found, 3 if something is
    unknown or can't be read, or if there is nothing to grade.
    """
    _check_choice(qids, last, day, since, until)
    source = records(settings)
    limit = None if qids else last or (50 if since is None and until is None else None)
    grades: list[Grade] = []
    problems: list[PromptTraceError] = []
    seen: list[Sketch] = []
    damaged: list[Record] = []
    chosen = _named(source, qids, day, problems) if qids else source.newest_first(since, until)
    calls = 0
    with progress("grading") as step:
        for number, qid in enumerate(chosen, 1):
            try:
                record = source.get(qid, day)
            except (StoreUnreachable, StoreDenied):  # a part of the answer would pass for all of it
                raise
            except PromptTraceError as error:
                if qids or not isinstance(error, NotFound | Erased):  # one that was listed may be gone meanwhile
                    problems.append(error)
                continue
            try:
                graded = grade(record, count_tokens, placements)
            except Exception as error:  # noqa: BLE001 - a record holds anything that somebody wrote: one query's fault
                problems.append(PromptTraceError(f"{qid}: can't be graded: {type(error).__name__}"))
                continue
            seen += sketches(record, graded)
            grades.append(graded if limit is None else _newest_calls(graded, limit - calls))
            calls += len(grades[-1].calls)
            if record.problems:
                damaged.append(record)
            step(number if limit is None else calls, len(qids) or limit)
            if limit is not None and calls >= limit:
                break
    suspected = suspicions(seen)
    grades = across(grades, suspected)
    if json_:
        print_json(
            wrap(
                {
                    "verdicts": _verdicts(grades),
                    "grades": [_as_dict(g) for g in grades],
                    "damaged": [{"qid": r.qid, "problems": [str(p) for p in r.problems]} for r in damaged],
                    "templates": [_template(found) for found in _templates(grades)],
                    "problems": [str(error) for error in problems],
                }
            )
        )
    elif not grades:
        click.echo(f"Nothing to grade: {_nothing(source, since, until)}.")
    else:
        _print(grades, suspected, damaged)
    for problem in problems:
        click.echo(f"prompt-trace: {printable(str(problem))}", err=True)
    if any(isinstance(problem, NotFound | Erased | Ambiguous) for problem in problems):
        return 1
    return exit_code(grades) or (3 if damaged or problems or not grades else 0)


def _check_choice(
    qids: tuple[str, ...], last: int | None, day: date | None, since: date | None, until: date | None
) -> None:
    """Refuse options that contradict each other, rather than leave one of them out."""
    if day is not None and not qids:
        raise click.UsageError("--date goes with a QID; --since and --until choose days")
    if qids and (last is not None or since is not None or until is not None):
        raise click.UsageError("--last, --since and --until choose among all queries: they don't go with a QID")
    if since is not None and until is not None and since > until:
        raise click.UsageError(f"no day is both since {since} and until {until}")


def _named(source: Records, qids: Iterable[str], day: date | None, problems: list[PromptTraceError]) -> Iterator[str]:
    """The qids that were meant, each once; one that can't be told is a problem, and the others are graded."""
    seen: set[str] = set()
    for reference in qids:
        try:
            qid = source.resolve(reference, day)
        except (NotFound, Ambiguous) as error:
            problems.append(error)
            continue
        if qid not in seen:
            seen.add(qid)
            yield qid


def _nothing(source: Records, since: date | None, until: date | None) -> str:
    days = [f"since {since}"] * (since is not None) + [f"until {until}"] * (until is not None)
    return f"{source.nothing}{' ' if days else ''}{' '.join(days)}"


def _newest_calls(graded: Grade, most: int) -> Grade:
    """A grade of no more than its newest calls."""
    if len(graded.calls) <= most:
        return graded
    calls = graded.calls[-most:]
    return replace(graded, calls=calls, verdict=worst(call.verdict for call in calls) or "unknown")


def _verdicts(grades: list[Grade]) -> dict[str, int]:
    counts = Counter(call.verdict for g in grades for call in g.calls)
    return {name: counts[name] for name in get_args(Verdict)}


def _print(grades: list[Grade], suspected: list[Suspicion], damaged: list[Record]) -> None:
    calls = [call for g in grades for call in g.calls]
    verdicts = _verdicts(grades)
    unread = {record.qid for record in damaged}
    empty = sum(1 for g in grades if not g.calls and g.qid not in unread)
    table(("verdict", "calls"), list(verdicts.items()))
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
    templates = [(found.sentence,) for found in _templates(grades)]
    if templates:
        table(("tokens of the prompt outside its chunks",), templates, title="\ntemplate")
    bad = [
        (g.qid, call.call.number, call.verdict, ", ".join(call.reasons))
        for g in grades
        for call in g.calls
        if call.verdict != "exact"
    ]
    if bad:
        table(("qid", "call", "verdict", "reasons"), bad[:20], title="\nnot exact (the first 20)")
    asked = summary(Counter((c.again.name, c.again.status, c.again.detail) for c in calls if c.again is not None))
    if asked:
        click.echo("\nplacements" + "".join(f"\n  {printable(line)}" for line in asked))
    for line in by_producer(suspected):
        click.echo(f"\nremainder suspected: {printable(line)}")
    if reasons["gap"]:
        click.echo("\nprompt-trace suggest names what repeats in the gaps, and prints the line that declares it.")
    if damaged:
        click.echo(f"\n{len(damaged)} of {len(grades)} queries can't be read whole:")
    for record in damaged:
        lost = "" if record.calls else "none of its calls can be read: "
        more = f" (and {len(record.problems) - 1} more)" if len(record.problems) > 1 else ""
        click.echo(f"  {record.qid}: {lost}{printable(str(record.problems[0]))}{more}")
    if empty:
        click.echo(f"\n{empty} of {len(grades)} queries have no call.")


def _templates(grades: list[Grade]) -> list[TemplateTrack]:
    """The templates of the calls, in the order in which they went out."""
    calls = [(as_text((c.call.request or {}).get("ts")), g.qid, c) for g in grades for c in g.calls]
    calls.sort(key=lambda call: call[:2])
    return list(track((qid, c.call.number, c.tokens) for _, qid, c in calls))


def _template(found: TemplateTrack) -> dict[str, Any]:
    changes = [{"qid": c.qid, "call": c.call, "before": c.before, "after": c.after} for c in found.changes]
    sizes = [{"tokens": size, "calls": calls} for size, calls in sorted(found.sizes.items())]
    return {"model": found.model, "calls": found.calls, "sizes": sizes, "changes": changes}


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
                "prompt_tokens": call.prompt_tokens,
                "template_tokens": call.tokens.template,
                "not_found": not_found(call.census) if call.census else [],
                "checks": [_check(c) for c in call.checks],
                "placement": None if call.again is None else _placement(call.again),
                "suspected": [s.to_dict() for s in call.suspected],
            }
            for call in graded.calls
        ],
    }


def _check(check: Any) -> dict[str, Any]:
    return {"name": check.name, "status": check.status, "detail": check.detail}


def _placement(again: Again) -> dict[str, Any]:
    return {"name": again.name, "status": again.status, "detail": again.detail}


COMMANDS = (grade_command,)
