"""Real instrumentations on real SDKs: their content is stored whole, and their spans and log records go out small."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.instrumentations.by_hand import Prepared, anthropic_calls, openai_calls
from tests.instrumentations.conftest import Environments
from tests.instrumentations.holding import assert_nothing_left, assert_one_call_each, assert_stored_whole
from tests.instrumentations.recorded import recorded_calls
from tests.instrumentations.running import UNLIMITED, Run, run

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

Entries = list[list[Prepared]]
Variant = tuple[dict[str, str], bool]
_BY_HAND: dict[str, Callable[[], Entries]] = {"openai": openai_calls, "anthropic": anthropic_calls}
CUT = {"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "128"}


class Combination(NamedTuple):
    """Which instrumentations are at work in which environment."""

    environment: str
    provider: str
    instrumentations: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.environment}-{self.provider}-{'+'.join(self.instrumentations)}"


THREE = ("openllmetry", "genai", "openinference")
COMBINATIONS = [
    Combination("current", "openai", ("genai",)),
    Combination("current", "openai", ("openinference",)),
    Combination("current", "openai", ("openllmetry",)),
    Combination("current", "openai", ("openllmetry-events",)),
    Combination("current", "openai", THREE),
    Combination("current", "anthropic", ("genai",)),
    Combination("current", "anthropic", ("openinference",)),
    Combination("current", "anthropic", ("openllmetry",)),
    Combination("current", "anthropic", ("sdk",)),
    Combination("current", "anthropic", (*THREE, "sdk")),
    Combination("before", "openai", ("openai-v2",)),
    Combination("before", "openai", ("openinference",)),
    Combination("before", "openai", ("openllmetry",)),
    Combination("before", "openai", ("openllmetry", "openai-v2", "openinference")),
    Combination("before", "anthropic", ("openinference",)),
    Combination("before", "anthropic", ("openllmetry", "openinference", "sdk")),
    Combination("before_official", "openai", ("genai",)),
    Combination("before_official", "openai", THREE),
    Combination("before_official", "anthropic", ("genai",)),
    Combination("before_official", "anthropic", (*THREE, "sdk")),
]
VARIANTS = list(itertools.product(({}, CUT), (False, True)))  # limits; whether our processor is the first


def _recorded() -> list[Any]:
    """Every variant where three instrumentations are at work; of the others one each, by turns."""
    turns = itertools.cycle(VARIANTS)
    return [
        pytest.param(of, VARIANTS if set(THREE) <= set(of.instrumentations) else [next(turns)], id=str(of))
        for of in COMBINATIONS
    ]


@pytest.mark.parametrize("combination", COMBINATIONS, ids=str)
def test_whatever_the_limits_and_the_order(
    combination: Combination, environments: Environments, tmp_path: Path
) -> None:
    """Calls written by hand: with a length limit and without, our processor before the exporter's and after it."""
    python = environments(combination.environment)
    calls = _BY_HAND[combination.provider]()
    bare = _run(python, tmp_path / "bare", combination, calls, ours=False, **UNLIMITED)
    for limits, ours_first in VARIANTS:
        name = f"{len(limits)}-{ours_first}"
        _assert_all(_run(python, tmp_path / name, combination, calls, ours_first=ours_first, **limits), bare)


@pytest.mark.corpus
@pytest.mark.parametrize(("combination", "variants"), _recorded())
def test_recorded_requests(
    combination: Combination, variants: list[Variant], environments: Environments, tmp_path: Path
) -> None:
    """Recorded requests and the recorded replies to them: with a length limit and without, first and last."""
    python = environments(combination.environment)
    calls = recorded_calls(combination.provider)
    bare = _run(python, tmp_path / "bare", combination, calls, ours=False, **UNLIMITED)
    for limits, ours_first in variants:
        name = f"{'cut' if limits else 'whole'}, {'first' if ours_first else 'last'}"
        found = _run(python, tmp_path / name, combination, calls, ours_first=ours_first, **limits)
        compared, counted = _assert_all(found, bare)
        print(f"{combination} ({name}): {counted} calls, {compared} values")


def _run(python: Path, folder: Path, of: Combination, calls: Entries, *, ours: bool = True, **options: object) -> Run:
    return run(python, folder, of.provider, of.instrumentations, calls, ours=ours, **options)  # type: ignore[arg-type]


def _assert_all(found: Run, bare: Run) -> tuple[int, int]:
    assert_nothing_left(found)
    compared = assert_stored_whole(found, bare)
    counted = assert_one_call_each(found)
    assert compared > 0
    assert counted > 0
    assert "lost=0" in found.printed
    return compared, counted
