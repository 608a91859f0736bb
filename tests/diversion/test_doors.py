"""Spans of an application that was not changed: what goes to the payload, and what is left."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, ParentBased, Sampler, TraceIdRatioBased

import otel_prompt_trace as pt
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.diversion.sampler import DivertingSampler, sampler_by_name

PROMPT = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "naïve \n question " * 400}]}])
ANSWER = json.dumps(
    [{"role": "assistant", "parts": [{"type": "text", "content": "an answer"}], "finish_reason": "stop"}]
)
CALL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}


@dataclass
class App:
    """A provider with an exporter, and what was recorded beside it."""

    provider: TracerProvider
    exporter: InMemorySpanExporter
    store: Path

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """What was exported, by name."""
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def records(self) -> list[Record]:
        """Every record, after a flush."""
        assert pt.flush(20)
        store = pt.open_store(self.store)
        return [store.get(qid) for _, qid in store.qids()]


def make(tmp_path: Path, *, first: bool = False, sampler: Sampler | None = None, **settings: Any) -> App:
    """Install on a fresh provider, before or after its exporter."""
    provider = TracerProvider(sampler=sampler, span_limits=SpanLimits(max_attribute_length=128, max_span_attributes=16))
    exporter = InMemorySpanExporter()
    steps = [lambda: provider.add_span_processor(SimpleSpanProcessor(exporter))]
    place = {"store": str(tmp_path / "store"), "spool": str(tmp_path / "spool")}
    steps.insert(0 if first else 1, lambda: pt.install(tracer_provider=provider, **place, **settings))  # type: ignore[arg-type, return-value]
    for step in steps:
        step()
    return App(provider, exporter, tmp_path / "store")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Nothing is left installed."""
    yield
    pt.uninstall()


def one_call(tracer: trace.Tracer, **attributes: Any) -> None:
    """A request with one model call, content at the start, while it runs, and on an event."""
    with tracer.start_as_current_span("GET /", kind=trace.SpanKind.SERVER):
        span = tracer.start_span("chat gpt-4o", attributes={**CALL, "gen_ai.input.messages": PROMPT, **attributes})
        span.set_attribute("gen_ai.output.messages", ANSWER)
        span.set_attributes({"gen_ai.usage.input_tokens": 7, "note": "x" * 5000})
        span.add_event("gen_ai.choice", {"message": "an event's message", "index": 0})
        for number in range(30):
            span.set_attribute(f"app.{number}", number)
        span.record_exception(ValueError("e" * 9000))
        span.set_status(trace.StatusCode.ERROR, "s" * 9000)
        span.update_name("n" * 9000)
        span.update_name("chat gpt-4o")
        span.end()


@pytest.mark.parametrize("first", [True, False], ids=["ours first", "exporter first"])
def test_content_goes_to_the_payload_and_small_spans_go_out(tmp_path: Path, first: bool) -> None:
    """Under a length limit of 128 and a count limit of 16 the content is whole, and the span small, in either order."""
    app = make(tmp_path, first=first)
    one_call(app.provider.get_tracer("app"))
    span = app.spans["chat gpt-4o"]
    strings = [v for v in span.attributes.values() if isinstance(v, str)]  # type: ignore[union-attr]
    strings += [str(v) for event in span.events for v in (event.attributes or {}).values()]
    assert max(map(len, [*strings, span.name, span.status.description or ""])) <= 128
    assert not [key for key in span.attributes or {} if key.endswith("messages")]
    (record,) = app.records()
    assert span.attributes is not None
    assert span.attributes["prompt_trace.qid"] == record.qid
    assert str(span.attributes["prompt_trace.ref"]).endswith(f"/{record.qid}/")
    (content,) = record.of("content")
    assert content["values"]["gen_ai.input.messages"] == PROMPT
    assert content["values"]["note"] == "x" * 5000
    assert content["values"]["status.description"] == "s" * 9000
    told = [name for event in content["events"] for name in event]
    assert told == ["gen_ai.choice", "exception"]
    (call,) = record.calls
    assert call.prompt is not None
    assert call.prompt.segments[0].text == "naïve \n question " * 400
    assert (call.evidence, call.response and call.response["output"]) == ("attributes", "an answer")
    graded = pt.grade(record)
    assert (graded.verdict, "weak_evidence" in graded.calls[0].reasons) == ("unknown", True)


@pytest.mark.parametrize(
    "sampler", [ALWAYS_OFF, ParentBased(ALWAYS_OFF), TraceIdRatioBased(0.0)], ids=["off", "parent", "ratio"]
)
def test_sampling_drops_no_payload(tmp_path: Path, sampler: Sampler) -> None:
    """At 0 % nothing is exported and every model call's payload is kept."""
    app = make(tmp_path, sampler=sampler)
    for _ in range(20):
        one_call(app.provider.get_tracer("app"))
    assert app.exporter.get_finished_spans() == ()
    records = app.records()
    assert len(records) == 20
    assert all(record.calls[0].prompt is not None for record in records)


def test_tracers_made_before_and_uninstall(tmp_path: Path) -> None:
    """A tracer made before install() is diverted too; after uninstall() spans and sampler are as they were."""
    provider = TracerProvider()
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer, sampler = provider.get_tracer("early"), provider.sampler
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), tracer_provider=provider)
    one_call(tracer)
    pt.uninstall()
    with tracer.start_as_current_span("after", attributes={**CALL, "gen_ai.input.messages": PROMPT}):
        pass
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert "gen_ai.input.messages" not in (spans["chat gpt-4o"].attributes or {})
    assert (spans["after"].attributes or {})["gen_ai.input.messages"] == PROMPT
    assert provider.sampler is sampler


def test_copy_leaves_content_on_spans(tmp_path: Path) -> None:
    """Mode copy records, and leaves on the span what other consumers in the process read there."""
    app = make(tmp_path, spans="copy")
    with app.provider.get_tracer("app").start_as_current_span("plain", attributes={"gen_ai.input.messages": "short"}):
        pass
    assert (app.spans["plain"].attributes or {})["gen_ai.input.messages"] == "short"
    (content,) = app.records()[0].of("content")
    assert content["values"] == {"gen_ai.input.messages": "short"}


def test_spans_within_a_query_and_a_call_are_sightings(tmp_path: Path) -> None:
    """An instrumented client inside q.call() adds no call: its span is a sighting of the declared one."""
    app = make(tmp_path)
    tracer = app.provider.get_tracer("instrumentation")
    with pt.query() as q, q.call(model="gpt-4o", prompt="declared text") as call:
        with tracer.start_as_current_span("chat gpt-4o", attributes={**CALL, "gen_ai.input.messages": PROMPT}):
            pass
        call.respond("ok")
    (record,) = app.records()
    (recorded,) = record.calls
    assert (record.qid, recorded.evidence) == (q.qid, "declared")
    assert [(seen.route, seen.scope) for seen in recorded.seen] == [("attributes", "instrumentation")]


def test_a_text_withheld_in_the_query_is_withheld_on_its_spans(tmp_path: Path) -> None:
    """What a query withholds is cut out of what instrumentations handed over as well."""
    app = make(tmp_path)
    tracer = app.provider.get_tracer("instrumentation")
    with pt.query():
        pt.declare("user", "secret-0815", policy="hash")
        with tracer.start_as_current_span(
            "chat", attributes={**CALL, "gen_ai.input.messages": '[{"c": "secret-0815"}]'}
        ):
            pass
    assert pt.flush(20)
    stored = b"".join(path.read_bytes() for path in app.store.rglob("*") if path.is_file())
    import zstandard

    for path in app.store.rglob("*.zst"):
        stored += zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    assert b"secret-0815" not in stored


@pytest.mark.parametrize(
    ("argument", "decision"),
    [(None, Decision.RECORD_AND_SAMPLE), ("always_off", Decision.DROP), ("traceidratio=0.0", Decision.DROP),
     ("parentbased_always_off", Decision.DROP), ("nonsense", Decision.RECORD_AND_SAMPLE)],
)  # fmt: skip
def test_a_sampler_by_name_follows_another(argument: str | None, decision: Decision, tmp_path: Path) -> None:
    """OTEL_TRACES_SAMPLER=prompt_trace decides as its argument says, and drops no model call that is recorded."""
    sampler = sampler_by_name(argument)
    assert isinstance(sampler, DivertingSampler)
    assert sampler.should_sample(None, 1, "chat gpt-4o", attributes=CALL).decision is decision
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"))
    assert sampler.should_sample(None, 1, "GET /").decision is decision
    kept = sampler.should_sample(None, 1, "chat gpt-4o", attributes=CALL).decision
    assert kept is (Decision.RECORD_ONLY if decision is Decision.DROP else Decision.RECORD_AND_SAMPLE)


def test_a_provider_that_is_set_after_install_is_attached(tmp_path: Path) -> None:
    """Recording may begin before the application sets its provider."""
    script = f"""
import otel_prompt_trace as pt
from opentelemetry import trace
pt.install(store={str(tmp_path / "store")!r}, spool={str(tmp_path / "spool")!r})
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
with trace.get_tracer("late").start_as_current_span("chat", attributes={{
    "gen_ai.operation.name": "chat", "gen_ai.input.messages": "hello"}}) as span:
    print("gen_ai.input.messages" in span.attributes)
print(pt.flush(20).ok, [d for d, _ in pt.open_store({str(tmp_path / "store")!r}).qids()] != [])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "True", "True"], done.stderr
