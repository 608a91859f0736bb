"""The benchmarks run, and what they say is of the shape that is promised. A time is never a test."""

from __future__ import annotations

import gc
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

import pytest

import otel_prompt_trace as pt
from benchmarks import calls, census, delivery, gil, spans, wire
from benchmarks.measuring import CLOCKS, Work, compare
from benchmarks.subjects import Open, subjects, texts
from otel_prompt_trace.core.census import take
from otel_prompt_trace.core.segments import Segment, Split

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Nothing is left installed."""
    yield
    pt.uninstall()


@pytest.mark.parametrize("clock", sorted(CLOCKS))
def test_more_work_costs_more(clock: str) -> None:
    """The measure itself: the same work, and three times the work, are told apart whatever else the machine does."""

    def once(count: int) -> None:
        for _ in range(count):
            sum(range(1000))

    def thrice(count: int) -> None:
        once(3 * count)

    same, more = (compare(once, other, rounds=15, count=20, clock=clock) for other in (once, thrice))
    assert same.low <= same.ratio <= same.high
    assert 0.5 < same.ratio < 2 < more.ratio < 4.5


def test_rounds_take_turns_and_are_settled() -> None:
    """Each round times both ways, in changing order, and settles after each; the first round does not count."""
    told: list[str] = []

    def way(name: str) -> Work:
        def work(count: int) -> None:
            told.append(f"{name}{count}")
            until = time.thread_time_ns() + 100_000
            while time.thread_time_ns() < until:
                pass

        return work

    compare(way("b"), way("o"), rounds=2, count=3, settle=lambda: told.append("s"))
    assert told == ["o3", "s", "b3", "s", "b3", "s", "o3", "s", "o3", "s", "b3", "s"]


@pytest.mark.parametrize(("rounds", "count"), [(1, 5), (2, 0)])
def test_nothing_to_compare_is_an_error(rounds: int, count: int) -> None:
    """Quartiles of one round, or a cost per nothing, are refused."""
    with pytest.raises(ValueError, match="nothing to compare"):
        compare(lambda n: None, lambda n: None, rounds=rounds, count=count)


def test_every_variant_is_measured_in_every_setup() -> None:
    """A small run gives a row for each, with finite ratios; spans of model calls are recorded, so they cost more."""
    rows = list(spans.measure(rounds=6, spans=20))
    named = [(row.setup, row.variant, row.model) for row in rows]
    assert named == [
        (setup, name, model)
        for setup in spans.SETUPS
        for variants, model in ((spans.ORDINARY, False), (spans.MODEL, True))
        for name in variants
        if not (model and setup == "dropped")
    ]
    for row in rows:
        assert all(math.isfinite(x) and x > 0 for x in (row.bare_us, row.ours_us, row.ratio, row.low, row.high))
        assert row.low <= row.ratio <= row.high
    assert all(row.ratio > 1.2 for row in rows if row.model)


def test_an_ordinary_span_costs_little_more() -> None:
    """Far looser than what is measured on a quiet machine: a look-up that became a scan would show, noise does not."""
    rows = takewhile(lambda row: not row.model, spans.measure(rounds=20, spans=100, setups=["none"]))
    assert {row.variant: row.ratio for row in rows if row.ratio > 1.6} == {}


def test_the_command_prints_one_object_a_line() -> None:
    """``--json`` is for programs: each line an object with the fields of a row; else a table."""
    command = [sys.executable, "-m", "benchmarks", "spans", "--rounds", "2", "--spans", "5", "--setup", "dropped"]
    told, table = (
        subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True).stdout
        for more in (["--json"], [])
    )
    rows = [json.loads(line) for line in told.splitlines()]
    assert [row["variant"] for row in rows] == list(spans.ORDINARY)
    assert {key for row in rows for key in row} == set(spans.Row.__dataclass_fields__)
    assert all(word in table for word in ("set-up", "ratio", "set_attributes of 10"))


@pytest.mark.integration
def test_requests_are_compared() -> None:
    """Four rows with finite ratios: time to the first byte and in total, of a large request and of a stream."""
    rows = list(wire.measure(rounds=2, requests=3))
    assert [row.what.rpartition(": ")[2] for row in rows] == ["first byte", "total"] * 2
    for row in rows:
        assert math.isfinite(row.ratio)
        assert 0 < row.low <= row.ratio <= row.high
        assert min(row.bare_us, row.ours_us) > 0
    assert rows[3].bare_us > rows[2].bare_us  # the last chunk comes after the first


def test_a_percentile_is_one_of_the_values() -> None:
    """Of a hundred values the 99th, of few the last; one value is every percentile of itself."""
    assert calls.percentile([float(number) for number in range(100, 0, -1)], 99) == 99.0
    assert calls.percentile([1.0, 2.0, 3.0], 99) == 3.0
    assert calls.percentile([7.0], 50) == 7.0


def test_each_call_is_timed_and_what_settles_is_not() -> None:
    """As many times as calls were asked for; a settling that takes long is in none of them, its work is in the CPU."""

    def settle() -> None:
        until = time.process_time_ns() + 30_000_000
        while time.process_time_ns() < until:
            pass

    made: list[None] = []
    times, cpu = calls.one_round(Open(lambda: made.append(None), settle), 20)
    assert len(times) == 20
    assert len(made) > 20  # some before, which do not count
    assert max(times) < 30_000
    assert cpu >= 1500  # microseconds: 30 ms over 20 calls


def test_prompts_are_long_enough_and_different() -> None:
    """Eight pieces each, together about as long as was asked for; the same at every run, and none twice in a turn."""
    for size in calls.SIZES:
        given, again = texts(size), texts(size)
        joined = [given.joined() for _ in given.prompts]
        assert joined == ["".join(text for _, text in again.pieces()) for _ in given.prompts]
        assert all(0.98 < len(text) / size < 1.02 for text in joined)
        assert len(set(joined)) == len(joined)
        assert {len(pieces) for pieces in given.prompts} == {8}


@pytest.mark.parametrize(("found", "least", "met"), [(0.9, False, True), (1.1, False, False), (0.9, True, False)])
def test_a_target_is_met_from_one_side(found: float, least: bool, met: bool) -> None:
    """Below its bound, or above it where the bound is the least."""
    assert calls.Target("w", found, 1.0, least=least).met is met


def test_calls_without_peers_are_measured() -> None:
    """A row for each subject, a remark for each peer that is not here, and targets of all that was measured."""
    rows = list(calls.measure(rounds=2, calls=4, sizes=(10_000,)))
    costs = {row.subject: row for row in rows if isinstance(row, calls.Cost)}
    assert set(subjects("")) <= set(costs)
    for row in costs.values():
        assert all(math.isfinite(x) for x in (row.p50_us, row.p99_us, row.above_us, row.ratio, row.cpu_us))
        assert 0 < row.p50_us <= row.p99_us
    assert costs["batch processor"].ratio == 1
    remarks = [row for row in rows if isinstance(row, str)]
    assert len(remarks) + len(costs) == len(subjects("")) + 3
    targets = [row for row in rows if isinstance(row, calls.Target)]
    assert any("memory: p50 above" in row.what for row in targets)


def test_a_census_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Typical prompts in two ways each against the loop, hard ones in either mode against a scan; each with a bound."""
    assert set(census.ORDERED) < set(census.hard(50))
    few = {name: given for name, given in census.hard(50).items() if name in (*census.ORDERED, "200 pieces")}
    monkeypatch.setattr(census, "hard", lambda _: few)
    rows = list(census.measure(rounds=2, count=3, sizes=(2_000,), times=50))
    typical, hard = [row for row in rows if row.against == "find"], [row for row in rows if row.against == "scan"]
    assert [row.bound for row in typical] == [0.5, 2.0] * len(census.JOINERS)
    assert [row.what.rpartition(", ")[2] for row in hard] == ["in order", "in any order", "in order"]
    assert {row.bound for row in hard} == {100.0}
    for row in rows:
        assert math.isfinite(row.ratio)
        assert 0 < row.low <= row.ratio <= row.high
        assert row.as_json()["met"] is (row.ratio <= row.bound)
        assert min(row.chars, row.pieces) > 0


@pytest.mark.parametrize("joiner", census.JOINERS.values())
def test_the_loop_and_the_census_find_the_same(joiner: str) -> None:
    """What is compared is two ways to one result: the same counts, with recorded offsets and by a search."""
    recorded = census.placed([text for _, text in texts(10_000).pieces()], joiner)
    prompt = joiner.join(piece.text or "" for piece in recorded)
    pairs = [(piece.producer, piece.text or "") for piece in recorded]
    loop = census.find_loop(prompt, pairs)
    for pieces in (recorded, pairs):
        found = pt.census(prompt, pieces)
        assert loop == (found.total, found.covered, found.unaccounted, [p.producer for p in found.unlocatable])
        assert [(p.start, p.end) for p in found.pieces] == [(piece.start, piece.end) for piece in recorded]


def test_a_census_costs_little_more_than_the_loop() -> None:
    """Far looser than what is measured on a quiet machine: a search that is not needed would show, noise does not."""
    rows = takewhile(lambda row: row.against == "find", census.measure(rounds=6, count=20, sizes=(10_000,)))
    assert {row.what: row.ratio for row in rows if row.ratio > 3 * row.bound} == {}


@pytest.mark.parametrize("name", census.hard(50))
def test_hard_prompts_stay_near_linear(name: str) -> None:
    """As above: a cost that grows with the square of anything is hundreds of times beyond its bound."""
    prompt, pieces = census.hard()[name]
    split = Split((Segment("prompt", prompt),))
    for ordered in (True, False) if name not in census.ORDERED else (True,):
        scanned = _least(lambda: census.scan(prompt))
        assert _least(lambda: take(split, pieces, ordered=ordered)) < 5 * census.SCANS * scanned  # noqa: B023


def _least(what: Callable[[], object]) -> float:
    """Seconds of this thread, of three times the least, without the collection of what other tests have left."""
    gc.collect()
    gc.disable()
    try:
        times = []
        for _ in range(3):
            began = time.thread_time()
            what()
            times.append(time.thread_time() - began)
        return min(times)
    finally:
        gc.enable()


def test_threads_are_measured() -> None:
    """Each target beside other threads has a number."""
    found = list(gil.measure(rounds=1, calls=20, seconds=0.05))
    assert len(found) == 6
    assert all(math.isfinite(row.found) for row in found)


def test_delivery_is_measured() -> None:
    """Into a folder and an object store, by a thread and by a process: what the process takes is told apart."""
    rows = list(delivery.measure(rounds=1, queries=40, sizes=(10_000,)))
    ways = [(row.store, row.delivery) for row in rows]
    assert ways == [("folder", "thread"), ("folder", "process"), ("S3", "thread"), ("S3", "process")]
    assert all(row.application_us > 0 for row in rows)
    assert all(row.process_us == 0 for row in rows if row.delivery == "thread")
    assert rows[3].process_us > 0
    assert rows[3].process_mb > rows[1].process_mb > 0
    assert rows[3].application_us < rows[2].application_us
