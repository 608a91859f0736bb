"""The limits of spans: what doctor says that they cut is what real providers cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_prompt_trace as pt
from otel_prompt_trace.doctor import limits
from otel_prompt_trace.settings import load


def _spans(tmp_path: Path, span_limits: SpanLimits) -> list[dict[str, object]]:
    """Attributes of the spans of a query with one call, and of an entry span, under these limits."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(span_limits=span_limits, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), tracer_provider=provider)
    try:
        with pt.query(question="?") as q, q.call(model="m", prompt=pt.Prompt().add("a", "text")) as call:
            call.respond("r")
        tracer = provider.get_tracer("t")
        with (
            tracer.start_as_current_span("entry", kind=trace.SpanKind.SERVER),
            tracer.start_as_current_span("chat m") as span,
        ):
            span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.prompt.0.content": "hello"})
    finally:
        pt.uninstall()
    return [dict(span.attributes or {}) for span in exporter.get_finished_spans()]


def test_the_lengths_are_those_of_real_spans(tmp_path: Path) -> None:
    """Nothing of ours on a real span is longer than doctor reckons with, and each is met exactly."""
    longest: dict[str, int] = {}
    for attributes in _spans(tmp_path, SpanLimits()):
        for name, value in attributes.items():
            if name.startswith("prompt_trace.") and isinstance(value, str) and name != "prompt_trace.verdict":
                longest[name] = max(longest.get(name, 0), len(value))
    reckoned: dict[str, int] = {}
    for name, size in limits.lengths().items():
        reckoned[name.partition(" ")[0]] = max(size, reckoned.get(name.partition(" ")[0], 0))
    assert longest == reckoned


@pytest.mark.parametrize("length", [20, 26, 48, 49, 63, 64, 71, 72, 200])
def test_a_length_limit_cuts_what_doctor_says(tmp_path: Path, length: int) -> None:
    """Under a real provider with that limit, the attributes named are the ones that are cut."""
    whole = {
        len(str(a.get(n))) for a in _spans(tmp_path / "a", SpanLimits()) for n in a if n.startswith("prompt_trace.")
    }
    cut = any(size > length for size in whole)
    under = _spans(tmp_path / "b", SpanLimits(max_attribute_length=length))
    assert all(
        len(v) <= length for a in under for n, v in a.items() if n.startswith("prompt_trace.") and isinstance(v, str)
    )
    said = list(limits.cut_by(length, None, copy=False))
    assert bool(said) is cut
    for finding in said:
        assert f"a text of {length} characters" in finding.detail


def test_a_count_limit_evicts_others_first(tmp_path: Path) -> None:
    """As doctor says: ours are set last, so it is the oldest others that go."""
    (said,) = limits.cut_by(None, 8, copy=False)
    assert "the oldest others are evicted" in said.detail
    for attributes in _spans(tmp_path, SpanLimits(max_span_attributes=8)):
        assert "prompt_trace.qid" in attributes
    assert list(limits.cut_by(None, 128, copy=False)) == []
    assert list(limits.cut_by(None, None, copy=False)) == []


def test_content_that_stays_is_cut() -> None:
    """In mode copy a limit cuts it; in mode divert it was taken before."""
    assert [f.status for f in limits.cut_by(1000, 128, copy=True)] == ["warn"]
    assert list(limits.cut_by(1000, 128, copy=False)) == []


def test_the_environments_limits_are_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where there is no provider, those that a new one would take; what is no number fails, as it does in the SDK."""
    settings = load({}, store=str(tmp_path))
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "40")
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "64")
    first, cut = limits.look_at_limits(settings)
    assert (first.status, cut.status) == ("ok", "warn")
    assert "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT=40" in first.detail
    assert "64 attributes" in first.detail
    assert "an entry qid" in cut.detail
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "many")
    (refused,) = limits.look_at_limits(settings)
    assert refused.status == "fail"
