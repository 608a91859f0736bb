"""Content that the SDK evicted before we could see it: the record says that its prompt may not be whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider

import otel_prompt_trace as pt
from otel_prompt_trace.core.grade import CallGrade

FLAT = {
    f"llm.input_messages.{n}.message.{name}": value
    for n in range(12)
    for name, value in (("role", "user"), ("content", f"message {n}"))
}
LLM = {"openinference.span.kind": "LLM"}


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Nothing is left installed."""
    yield
    pt.uninstall()


def graded(tmp_path: Path, *, wrapped: bool, attributes: dict[str, Any]) -> CallGrade:
    """One call on a provider with a limit of 16 attributes, its sampler wrapped by us or out of our reach."""
    provider = TracerProvider(span_limits=SpanLimits(max_span_attributes=16), shutdown_on_exit=False)
    tracer = provider.get_tracer("app")
    sampler: Any = provider.sampler
    if not wrapped:
        provider.sampler = object()  # type: ignore[assignment]
    pt.install(tracer_provider=provider, store=str(tmp_path / "store"), spool=str(tmp_path / "spool"))
    assert (tracer.sampler is sampler) is not wrapped  # type: ignore[attr-defined]
    tracer.start_span("call", attributes=attributes).end()
    assert pt.flush(20).ok
    store = pt.open_store(tmp_path / "store")
    ((_, qid),) = store.qids()
    result = pt.grade(store.get(qid))
    assert result.verdict == "unknown"
    (call,) = result.calls
    return call


def test_what_was_evicted_before_us_is_named(tmp_path: Path) -> None:
    """Start attributes that no sampler of ours saw: the oldest messages are gone, and both signs of it are reasons."""
    call = graded(tmp_path, wrapped=False, attributes={**FLAT, **LLM})
    assert call.call.prompt is not None
    assert "message 0" not in [segment.text for segment in call.call.prompt.segments]
    assert {"missing_messages", "dropped_attributes"} <= set(call.reasons)


def test_what_we_saw_first_is_whole(tmp_path: Path) -> None:
    """Where our sampler sees them, none is missing and none is dropped."""
    call = graded(tmp_path, wrapped=True, attributes={**FLAT, **LLM})
    assert call.call.prompt is not None
    assert [segment.text for segment in call.call.prompt.segments] == [f"message {n}" for n in range(12)]
    assert not {"missing_messages", "dropped_attributes"} & set(call.reasons)


def test_the_tail_of_a_prompt_leaves_no_hole(tmp_path: Path) -> None:
    """Attributes that follow push out the only message: no numbering shows it, the span's own count does."""
    first = dict([*FLAT.items()][:2])
    following = {f"app.{n}": n for n in range(16)}
    answer = {"llm.output_messages.0.message.content": "an answer"}
    call = graded(tmp_path, wrapped=False, attributes={**first, **following, **LLM, **answer})
    assert call.reasons == ("dropped_attributes", "no_prompt")
