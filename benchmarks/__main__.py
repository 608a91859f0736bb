"""The command: ``python -m benchmarks spans``, ``… wire``, ``… calls``, ``… census``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeAlias

from rich.console import Console
from rich.table import Table

from benchmarks import calls, census, delivery, gil, spans, wire
from benchmarks.measuring import CLOCKS

_Row: TypeAlias = spans.Row | wire.Row | calls.Cost | calls.Target | delivery.Delivered | census.Row


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What recording costs an application.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("spans", help="what a span costs with diversion, against the same span without")
    command.add_argument("--rounds", type=int, default=60, help="rounds of each variant (%(default)s)")
    command.add_argument("--spans", type=int, default=200, help="spans a round (%(default)s)")
    command.add_argument("--setup", choices=spans.SETUPS, action="append", help="by default, each in turn")
    command.add_argument("--clock", choices=sorted(CLOCKS), default="cpu", help="the calling thread's (%(default)s)")
    command.add_argument("--json", action="store_true", help="one JSON object a line")
    command = commands.add_parser("wire", help="what a request costs with wire capture, against the same without")
    command.add_argument("--rounds", type=int, default=20, help="rounds of each variant (%(default)s)")
    command.add_argument("--requests", type=int, default=20, help="requests a round (%(default)s)")
    command.add_argument("--json", action="store_true", help="one JSON object a line")
    command = commands.add_parser("calls", help="what a model call costs its thread, beside what others take for it")
    command.add_argument("--rounds", type=int, default=12, help="rounds of each subject (%(default)s)")
    command.add_argument("--calls", type=int, default=80, help="calls a round (%(default)s)")
    command.add_argument("--peers", action="store_true", help="in an environment with the peers, made where it is not")
    command.add_argument("--json", action="store_true", help="one JSON object a line")
    command = commands.add_parser(
        "census", help="what a census costs, against the find loop and one scan of the prompt"
    )
    command.add_argument("--rounds", type=int, default=20, help="rounds of each variant (%(default)s)")
    command.add_argument("--count", type=int, default=100, help="censuses of a typical prompt a round (%(default)s)")
    command.add_argument("--json", action="store_true", help="one JSON object a line")
    given = parser.parse_args(arguments)
    if given.command == "census":
        counted = census.measure(rounds=given.rounds, count=given.count)
        return _print_json(counted) if given.json else _print_table(_census_table(counted))
    if given.command == "calls":
        if given.peers:
            return _with_peers([argument for argument in arguments or sys.argv[1:] if argument != "--peers"])
        found = chain(calls.measure(rounds=given.rounds, calls=given.calls), delivery.measure(), gil.measure())
        return _print_json(found) if given.json else _print_calls(found)
    if given.command == "wire":
        requests = wire.measure(rounds=given.rounds, requests=given.requests)
        return _print_json(requests) if given.json else _print_table(_wire_table(requests))
    setups = given.setup or spans.SETUPS
    rows = spans.measure(rounds=given.rounds, spans=given.spans, setups=setups, clock=given.clock)
    return _print_json(rows) if given.json else _print_table(_table(rows))


def _with_peers(arguments: list[str]) -> int:
    """The same command by the Python of the environment that has the peers.

    Raises:
        CanNotBeMade: packages could not be installed.
    """
    from tests.instrumentations.environments import environment

    command = [str(environment("benchmarks")), "-m", "benchmarks", *arguments]
    return subprocess.run(command, check=False).returncode  # noqa: S603 - ours


def _print_json(rows: Iterable[_Row | str]) -> int:
    for row in rows:
        if isinstance(row, str):  # nothing measured: a remark
            sys.stderr.write(row + "\n")
            continue
        sys.stdout.write(json.dumps(row.as_json(), ensure_ascii=False) + "\n")
        sys.stdout.flush()
    return 0


def _print_table(table: Table) -> int:
    Console().print(table)
    return 0


def _print_calls(rows: Iterable[calls.Cost | calls.Target | delivery.Delivered | str]) -> int:
    console, costs, targets = Console(), Table(title="One model call"), Table(title="Targets, in this run")
    delivered = Table(title="One query of one call, until it is stored: CPU of the application, and of its process")
    for heading in ("subject", "prompt", "p50 µs", "p99 µs", "above µs", "of batch", "CPU µs"):
        costs.add_column(heading, justify="left" if heading == "subject" else "right")
    for heading in ("target", "found", "bound", ""):
        targets.add_column(heading, justify="right" if heading in ("found", "bound") else "left")
    for heading in ("store", "delivery", "prompt", "application µs", "process µs", "its MB"):
        delivered.add_column(heading, justify="left" if heading in ("store", "delivery") else "right")
    for row in rows:
        if isinstance(row, str):
            console.print(row)
        elif isinstance(row, delivery.Delivered):
            spent = (f"{row.application_us:,.0f}", f"{row.process_us:,.0f}", f"{row.process_mb:,.0f}")
            delivered.add_row(row.store, row.delivery, f"{row.size:,}", *spent)
        elif isinstance(row, calls.Cost):
            numbers = [f"{x:,.1f}" for x in (row.p50_us, row.p99_us, row.above_us)]
            costs.add_row(row.subject, f"{row.size:,}", *numbers, f"{row.ratio:.2f}", f"{row.cpu_us:,.0f}")
        else:
            bound = f"{'≥' if row.least else '≤'} {row.bound:.2f} {row.unit}"
            targets.add_row(row.what, f"{row.found:,.2f} {row.unit}", bound, "met" if row.met else "missed")
    console.print(costs)
    console.print(delivered)
    console.print(targets)
    return 0


def _table(rows: Iterable[spans.Row]) -> Table:
    table = Table(title="A span with diversion, against the same span without")
    for heading, justify in (("span", "left"), ("set-up", "left"), ("bare µs", "right"), ("ours µs", "right"),
                             ("ratio", "right"), ("quartiles", "right")):  # fmt: skip
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    before: tuple[str, bool] | None = None
    for row in rows:
        if before not in (None, (row.setup, row.model)):
            table.add_section()
        before = (row.setup, row.model)
        table.add_row(
            row.variant,
            row.setup,
            f"{row.bare_us:.1f}",
            f"{row.ours_us:.1f}",
            f"{row.ratio:.2f}",
            f"{row.low:.2f} to {row.high:.2f}",
        )
    return table


def _wire_table(rows: Iterable[wire.Row]) -> Table:
    table = Table(title="A request with wire capture, against the same request without")
    for heading in ("request", "bare µs", "ours µs", "ratio", "quartiles"):
        table.add_column(heading, justify="left" if heading == "request" else "right")
    for row in rows:
        spread = f"{row.low:.2f} to {row.high:.2f}"
        table.add_row(row.what, f"{row.bare_us:,.0f}", f"{row.ours_us:,.0f}", f"{row.ratio:.2f}", spread)
    return table


def _census_table(rows: Iterable[census.Row]) -> Table:
    table = Table(title="A census, against a find loop (find), or one scan of the prompt in Python (scan)")
    for heading in (
        "prompt",
        "characters",
        "pieces",
        "bare µs",
        "ours µs",
        "against",
        "ratio",
        "quartiles",
        "bound",
        "",
    ):
        table.add_column(heading, justify="left" if heading in ("prompt", "against", "") else "right")
    for row in rows:
        numbers = (f"{row.chars:,}", f"{row.pieces:,}", f"{row.bare_us:,.0f}", f"{row.ours_us:,.0f}", row.against)
        spread = f"{row.low:.2f} to {row.high:.2f}"
        table.add_row(row.what, *numbers, f"{row.ratio:.2f}", spread, f"{row.bound:g}", "met" if row.met else "missed")
    return table


if __name__ == "__main__":
    raise SystemExit(main())
