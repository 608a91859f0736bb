"""The completion hook, against each way in which an upload in the background fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import otel_prompt_trace as pt
from otel_prompt_trace.diversion.hook import completion_hook

CALL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}


@dataclass
class Part:
    """As the GenAI utilities hand them over."""

    content: Any
    type: str = "text"


@dataclass
class Message:
    """A message of parts."""

    role: str
    parts: list[Any] = field(default_factory=list)


@dataclass
class Setting:
    """A provider, its exporter, and where payloads go."""

    provider: TracerProvider
    exporter: InMemorySpanExporter
    folder: Path

    def complete(self, text: str, **handed: Any) -> str:
        """One call whose content only the hook carries; the qid."""
        with self.provider.get_tracer("app").start_as_current_span("chat gpt-4o", attributes=CALL) as span:
            inputs = handed.pop("inputs", [Message("user", [Part(text)])])
            outputs = handed.pop("outputs", [Message("assistant", [Part("an answer")])])
            completion_hook().on_completion(inputs=inputs, outputs=outputs, span=span, **handed)
            context = span.get_span_context()
        return f"{context.trace_id:032x}-{context.span_id:016x}"


@pytest.fixture
def setting(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Setting]:
    """Recording into a folder; the sampler can be given."""
    provider = TracerProvider(sampler=getattr(request, "param", None))
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), tracer_provider=provider)
    yield Setting(provider, exporter, tmp_path)
    pt.uninstall()


def test_every_reference_of_many_calls_resolves(setting: Setting) -> None:
    """200 calls at once: 200 spans with references, and each leads to its own payload."""
    qids = [setting.complete(f"question {number}") for number in range(200)]
    assert pt.flush(60).ok
    store = pt.open_store(setting.folder / "store")
    for number, qid in enumerate(qids):
        (call,) = store.get(qid).calls
        assert (call.evidence, call.prompt and call.prompt.segments[0].text) == ("hook", f"question {number}")
    refs = [(span.attributes or {})["gen_ai.input.messages_ref"] for span in setting.exporter.get_finished_spans()]
    assert len(set(refs)) == 200
    assert all((setting.folder / "store" / str(ref)).is_dir() for ref in refs)


def test_no_reference_without_a_payload(tmp_path: Path) -> None:
    """Where nothing can be kept, nothing is stamped."""
    provider = TracerProvider()
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    unreachable = "s3://payloads?endpoint_url=http://127.0.0.1:9&region=us-east-1"
    pt.install(
        store=unreachable, spool=str(tmp_path), durability="memory", memory_max_bytes=65536, tracer_provider=provider
    )
    try:
        Setting(provider, exporter, tmp_path).complete("x" * 100_000)
    finally:
        pt.uninstall()
    (span,) = exporter.get_finished_spans()
    assert not [key for key in span.attributes or {} if key.endswith("_ref")]


def test_the_store_down_at_the_start_loses_nothing(setting: Setting) -> None:
    """A store that comes up later has everything: the spool held it."""
    pt.uninstall()
    spool = str(setting.folder / "later")
    unreachable = "s3://payloads?endpoint_url=http://127.0.0.1:9&region=us-east-1"
    pt.install(store=unreachable, spool=spool, tracer_provider=setting.provider)
    qid = setting.complete("held back")
    pt.uninstall()
    from otel_prompt_trace.pipeline.drain import drain

    store = pt.open_store(setting.folder / "store")
    drain(Path(spool), store)
    assert store.get(qid).calls[0].prompt is not None


def test_what_changes_later_is_stored_as_it_was(setting: Setting) -> None:
    """Arguments are copied at call time; two instruction lists with the same joined text stay two."""
    message = Message("user", [Part("before")])
    one = setting.complete("", inputs=[message], system_instruction=[Part("ab"), Part("c")])
    message.parts[0].content = "after"
    two = setting.complete("", inputs=[message], system_instruction=[Part("a"), Part("bc")])
    assert pt.flush(20).ok
    store = pt.open_store(setting.folder / "store")
    texts = [[s.text for s in store.get(qid).calls[0].prompt.segments] for qid in (one, two)]  # type: ignore[union-attr]
    assert texts == [["ab", "c", "before"], ["a", "bc", "after"]]


def test_a_value_that_json_lacks_is_marked_and_costs_nothing_else(setting: Setting) -> None:
    """A datetime in tool arguments is kept as what it is, beside the rest."""
    when = datetime(2026, 11, 30, tzinfo=timezone.utc)
    qid = setting.complete("", inputs=[Message("user", [Part("text"), Part({"when": when}, "tool_call")])])
    assert pt.flush(20).ok
    (content,) = [e for e in pt.open_store(setting.folder / "store").get(qid).of("content") if e["route"] == "hook"]
    first, second = content["values"]["gen_ai.input.messages"][0]["parts"]
    assert first["content"] == "text"
    assert "datetime" in str(second["content"]["when"])


@pytest.mark.parametrize("setting", [ALWAYS_OFF], indirect=True, ids=["0 %"])
def test_an_unsampled_call_is_no_orphan(setting: Setting) -> None:
    """A dropped span's payload carries its trace id, and is found by it."""
    qid = setting.complete("kept")
    assert pt.flush(20).ok
    assert setting.exporter.get_finished_spans() == ()
    record = pt.open_store(setting.folder / "store").get(qid)
    assert {event["trace_id"] for event in record.events} == {qid.partition("-")[0]}


def test_a_forked_child_writes(setting: Setting) -> None:
    """A child that was forked after recording began records and delivers its own."""
    setting.complete("parent")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            qid = setting.complete("child")
            pt.flush(20)
            os.write(writer, qid.encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        qid = pipe.read()
    os.waitpid(child, 0)
    (call,) = pt.open_store(setting.folder / "store").get(qid).calls
    assert call.prompt is not None
    assert call.prompt.segments[0].text == "child"
