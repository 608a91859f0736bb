"""Sampling: every model call's payload is kept, and only what was sampled is exported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.instrumentations.by_hand import anthropic_calls, openai_calls
from tests.instrumentations.conftest import Environments
from tests.instrumentations.holding import APPLICATION, assert_nothing_left
from tests.instrumentations.running import Run, run

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

THREE = ("openllmetry", "genai", "openinference")


@pytest.mark.parametrize("instrumentations", [("genai",), ("openinference",), ("openllmetry",), THREE], ids="+".join)
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_at_none_every_payload_is_kept(
    provider: str, instrumentations: tuple[str, ...], environments: Environments, tmp_path: Path
) -> None:
    """At 0 % nothing is exported, and the record has each call once, with its prompt."""
    entries = {"openai": openai_calls, "anthropic": anthropic_calls}[provider]()
    found = run(
        environments("current"),
        tmp_path / "run",
        provider,
        instrumentations,
        entries,
        OTEL_TRACES_SAMPLER="traceidratio",
        OTEL_TRACES_SAMPLER_ARG="0",
    )
    assert found.spans == []
    by_writing = sorted(found.records.values(), key=lambda record: record.events[0]["seq"])
    assert [len(record.calls) for record in by_writing] == [len(calls) for calls in entries]
    assert all(call.prompt is not None for record in by_writing for call in record.calls)
    own = 1 if provider == "anthropic" else 0  # the SDK's own span
    told = {len(call.seen) for record in by_writing for call in record.calls}
    assert told == {len(instrumentations) + own}


def test_at_one_percent_and_at_a_half(environments: Environments, tmp_path: Path) -> None:
    """All payloads are kept; of a trace either everything is exported or nothing."""
    for share in ("0.01", "0.5"):
        entries = [[calls[0]] for calls in openai_calls() for _ in range(20)]
        found = run(
            environments("current"),
            tmp_path / share,
            "openai",
            ("openllmetry", "genai"),
            entries,
            OTEL_TRACES_SAMPLER="traceidratio",
            OTEL_TRACES_SAMPLER_ARG=share,
        )
        assert len(found.records) == len(entries)
        assert all(len(record.calls) == 1 for record in found.records.values())
        _assert_whole_traces(found, 3)
        if found.spans:
            assert_nothing_left(found)
        assert len(found.spans) < 3 * len(entries)


def test_as_the_caller_decided(environments: Environments, tmp_path: Path) -> None:
    """With remote parents, of which every second one is sampled: all payloads are kept, half the traces exported."""
    entries = openai_calls() * 2
    found = run(
        environments("current"),
        tmp_path / "run",
        "openai",
        ("genai",),
        entries,
        remote=True,
        OTEL_TRACES_SAMPLER="parentbased_always_on",
    )
    assert sorted(len(record.calls) for record in found.records.values()) == sorted(len(calls) for calls in entries)
    entered = [span for span in found.spans if span["scope"] == APPLICATION and span["name"] == "entry"]
    assert len(entered) == len(entries) / 2
    assert_nothing_left(found)


def _assert_whole_traces(found: Run, spans_each: int) -> None:
    by_trace: dict[str, int] = {}
    for span in found.spans:
        if span["name"] != "warm-up":
            by_trace[span["trace_id"]] = by_trace.get(span["trace_id"], 0) + 1
    assert set(by_trace.values()) <= {spans_each}
