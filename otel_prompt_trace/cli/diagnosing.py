"""``diagnose``: which factor was zero when an answer lacked what it should have had."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import click
import orjson

from otel_prompt_trace.cli.app import Day, as_json, count_tokens, places, records
from otel_prompt_trace.cli.choosing import choose_call
from otel_prompt_trace.cli.output import print_json, printable, progress, table
from otel_prompt_trace.core.diagnosis import Diagnosis, Manifest, diagnose, known_ids
from otel_prompt_trace.core.diagnosis.facts import TakenAs
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.text import wrap
from otel_prompt_trace.settings import Settings

_SAID = {1: "1", 0: "0", None: "?"}
_STEP = 10_000


@click.command("diagnose")
@click.argument("qid")
@click.option(
    "--expect", "expected", required=True, metavar="TEXT|CHUNK_ID", help="What should have been in the prompt."
)
@click.option(
    "--manifest",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What the index was built from: JSON lines with chunk_id, and text or sha256.",
)
@click.option(
    "--as", "taken_as", type=click.Choice(["chunk", "text"]), help="What --expect is, where that is not plain."
)
@click.option("--call", "number", type=click.IntRange(min=1), help="Which call, counting from 1.")
@click.option("--date", "day", type=Day(), help="The UTC day of an id that carries none, or of a trace.")
@places
@as_json
def diagnose_command(
    settings: Settings,
    qid: str,
    expected: str,
    manifest: Path | None,
    taken_as: TakenAs | None,
    number: int | None,
    day: date | None,
    json_: bool,
) -> int:
    """Say which factor was zero: in the index, retrieved, rendered, used.

    Each is 1, 0 or ? with its evidence. Exits with 0 if all are 1, 1 if one is 0, 3 if nothing is worse than unknown.
    """
    if not expected:
        raise click.UsageError("--expect takes a text or a chunk id, not nothing")
    source = records(settings)
    record = source.get(source.resolve(qid, day), day)
    calls = grade(record, count_tokens).calls
    call = choose_call(record.qid, calls, number) if calls or number is not None else None
    told = None if manifest is None else _read(manifest, expected, record)
    found = diagnose(record, expected, call, told, taken_as=taken_as)
    if json_:
        print_json(wrap({"qid": record.qid, "call": None if call is None else call.call.number, **_as_dict(found)}))
        return found.exit_code
    what = f"chunk {found.expected}" if found.taken_as == "chunk" else f"a text of {len(found.expected)} characters"
    click.echo(printable(f"{record.qid}: {what}"))
    rows = [(_SAID[factor.value], factor.name, factor.evidence) for factor in found.factors]
    table(("", "factor", "evidence"), rows)
    click.echo(found.sentence)
    return found.exit_code


def _read(path: Path, expected: str, record: Record) -> Manifest:
    """What the manifest says; its lines go by one at a time.

    Raises:
        UsageError: a line is no entry.
    """
    found = Manifest(expected, known_ids(record))
    size = path.stat().st_size
    with path.open("rb") as file, progress("reading the manifest") as step:
        for number, line in enumerate(file, 1):
            if line.strip():
                _add(found, line, f"{path}:{number}")
            if number % _STEP == 0:
                step(file.tell(), size)
    return found


def _add(found: Manifest, line: bytes, where: str) -> None:
    try:
        found.add(_loads(line))
    except ValueError as error:
        reason = "no JSON" if isinstance(error, json.JSONDecodeError | UnicodeDecodeError) else str(error)
        raise click.UsageError(
            f'{printable(where)}: {reason}; a line is {{"chunk_id": "…", "text": "…"}}, or has sha256 in place of text'
        ) from error


def _loads(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line)  # which takes the escape of a lone surrogate


def _as_dict(found: Diagnosis) -> dict[str, Any]:
    factors = [{"name": f.name, "value": f.value, "evidence": f.evidence} for f in found.factors]
    zero = None if found.zero is None else found.zero.name
    return {
        "expected": found.expected,
        "taken_as": found.taken_as,
        "chunks": list(found.chunks),
        "factors": factors,
        "zero": zero,
        "sentence": found.sentence,
    }


COMMANDS = (diagnose_command,)
