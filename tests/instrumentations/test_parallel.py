"""Calls made at one time, by clients for event loops and in threads: each is stored whole and told of as one call.

The model host answers the first request of an entry last, so that its spans are open while those of all others end:
a call that ends within a span need not be the span's own.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tests.instrumentations.by_hand import (
    MARK,
    anthropic_calls,
    many_calls,
    openai_calls,
    parallel_calls,
    parallel_streams,
)
from tests.instrumentations.conftest import Environments
from tests.instrumentations.holding import (
    assert_nothing_left,
    assert_one_call_each,
    assert_one_call_each_mark,
    assert_stored_whole,
    assert_stored_whole_of_each,
)
from tests.instrumentations.replay_server import INCOMPLETE
from tests.instrumentations.running import AT_ONE_TIME, UNLIMITED, run

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

THREE = ("openllmetry", "genai", "openinference")
ORDERS = list(itertools.permutations(THREE))  # the last one installed is the outermost
ITSELF = {"openai": (), "anthropic": ("sdk",)}
_ONE_BY_ONE = {"openai": openai_calls, "anthropic": anthropic_calls}


@pytest.mark.parametrize("mode", ["one by one", "async"])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_one_after_the_other(provider: str, mode: str, environments: Environments, tmp_path: Path) -> None:
    """By the client for an event loop as by the plain one, in whatever order the instrumentations were installed."""
    python, calls, itself = environments("current"), _ONE_BY_ONE[provider](), ITSELF[provider]
    bare = run(python, tmp_path / "bare", provider, (*THREE, *itself), calls, ours=False, mode=mode, **UNLIMITED)
    for order in _orders(mode):
        found = run(python, tmp_path / "-".join(order), provider, (*order, *itself), calls, mode=mode)
        assert_nothing_left(found)
        assert assert_one_call_each(found) == sum(map(len, calls)), order
        assert "lost=0" in found.printed
        if order == THREE:
            assert assert_stored_whole(found, bare) > 0


@pytest.mark.parametrize("mode", [*AT_ONE_TIME, "interleaved", "interleaved async"])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_at_one_time(provider: str, mode: str, environments: Environments, tmp_path: Path) -> None:
    """Under one entry span several calls are open at once: different ones, and the same one several times."""
    python, itself = environments("current"), ITSELF[provider]
    calls = parallel_streams(provider) if mode.startswith("interleaved") else parallel_calls(provider)
    bare = run(python, tmp_path / "bare", provider, (*THREE, *itself), calls, ours=False, mode=mode, **UNLIMITED)
    for order in _orders(mode):
        found = run(python, tmp_path / "-".join(order), provider, (*order, *itself), calls, mode=mode)
        assert len(found.requests) == sum(map(len, calls))
        assert INCOMPLETE not in found.printed
        assert_nothing_left(found)
        assert assert_one_call_each_mark(found) == sum(map(len, calls)), order
        assert "lost=0" in found.printed
        if order == THREE:
            compared = assert_stored_whole_of_each(found, bare)
            print(f"{provider}, {mode}: {sum(map(len, calls))} calls, {compared} values")


@pytest.mark.parametrize("mode", ["gathered", "copied context"])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_many_at_one_time(provider: str, mode: str, environments: Environments, tmp_path: Path) -> None:
    """Forty calls under one entry span, that of the outermost instrumentation beside the others."""
    calls = [many_calls(provider, 40)]
    at_work = ("genai", "openinference", "openllmetry", *ITSELF[provider])
    found = run(environments("current"), tmp_path / "run", provider, at_work, calls, mode=mode)
    assert INCOMPLETE not in found.printed
    assert_nothing_left(found)
    assert assert_one_call_each_mark(found) == 40
    assert "lost=0" in found.printed


@pytest.mark.parametrize("mode", AT_ONE_TIME)
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_at_one_time_and_not_sampled(provider: str, mode: str, environments: Environments, tmp_path: Path) -> None:
    """At 0 % nothing is exported, and the record has each of the calls once, told of by every instrumentation."""
    calls, at_work = parallel_calls(provider), (*THREE, *ITSELF[provider])
    found = run(
        environments("current"), tmp_path / "run", provider, at_work, calls, mode=mode, OTEL_TRACES_SAMPLER="always_off"
    )
    assert found.spans == []
    assert sorted(len(record.calls) for record in found.records.values()) == sorted(map(len, calls))
    assert {len(call.seen) for record in found.records.values() for call in record.calls} == {len(at_work)}
    assert all(call.prompt is not None for record in found.records.values() for call in record.calls)
    marks = [set(MARK.findall(json.dumps(record.events))) for record in found.records.values()]
    assert sorted(map(len, marks)) == sorted(map(len, calls))


def _orders(mode: str) -> list[tuple[str, ...]]:
    """All orders for one mode of each kind; two for the others, the innermost being the outermost in the second."""
    return ORDERS if mode in ("one by one", "gathered", "interleaved") else [THREE, THREE[::-1]]
