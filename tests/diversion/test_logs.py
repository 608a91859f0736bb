"""Content in log records: taken out before any exporter's processor sees it, and kept under the call of its span."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry import trace
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import Logger, LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, InMemoryLogRecordExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import otel_prompt_trace as pt
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.diversion.hook import completion_hook
from tests.wire import replies as say
from tests.wire.model_host import ModelHost

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
QUESTION, ANSWER = "what is in paragraph 7?", "nothing of that kind"
LONG = "a line of a log\n" * 600
DETAILS = "gen_ai.client.inference.operation.details"
MESSAGES = [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]
ANSWERS = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}], "finish_reason": "stop"}]


class Logged:
    """A logger provider with a batch processor in front of an exporter, as zero-code instrumentation sets it up."""

    def __init__(self) -> None:
        self.exporter: Any = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
        self.provider = LoggerProvider(shutdown_on_exit=False)
        self.processor = BatchLogRecordProcessor(self.exporter, schedule_delay_millis=60_000)

    def add_processor(self) -> None:
        """The exporter's processor."""
        self.provider.add_log_record_processor(self.processor)

    def exported(self) -> list[Any]:
        """What came out, after a flush."""
        assert self.provider.force_flush()
        return [found.log_record for found in self.exporter.get_finished_logs()]


@pytest.fixture
def tracing(tmp_path: Path) -> Iterator[Callable[..., TracerProvider]]:
    """Install on a provider of its own, when it is called."""
    provider = TracerProvider(shutdown_on_exit=False)
    place: dict[str, Any] = {"store": str(tmp_path / "store"), "spool": str(tmp_path / "spool")}

    def begin(**settings: Any) -> TracerProvider:
        pt.install(tracer_provider=provider, **place, **settings)
        return provider

    yield begin
    pt.uninstall()


def record_of(tmp_path: Path) -> Record:
    """The one record, after a flush."""
    assert pt.flush(20).ok
    store = pt.open_store(tmp_path / "store")
    ((_, qid),) = store.qids()
    return store.get(qid)


def as_fields(logger: Logger, name: str, attributes: dict[str, Any], body: Any) -> None:
    """The form that takes the parts of a record."""
    logger.emit(event_name=name, attributes=attributes, body=body, context=None)


def as_record(logger: Logger, name: str, attributes: dict[str, Any], body: Any) -> None:
    """The form that takes a record."""
    logger.emit(LogRecord(event_name=name, attributes=attributes, body=body))


def named_by_attribute(logger: Logger, name: str, attributes: dict[str, Any], body: Any) -> None:
    """As events were written before records had names."""
    logger.emit(LogRecord(attributes={"event.name": name, **attributes}, body=body))


EMIT = [as_fields, as_record, named_by_attribute]
ORDERS = ["processor first", "processor last", "provider last"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("emit", EMIT, ids=lambda emit: emit.__name__)
def test_no_exporter_sees_content(
    tmp_path: Path, tracing: Callable[..., TracerProvider], order: str, emit: Callable[..., None]
) -> None:
    """Whichever was there first, the exporter's processor, the logger, or recording: attributes and bodies go out bare.

    All of it stands in the record, under the call of the span in which it was emitted.
    """
    logged = None if order == "provider last" else Logged()
    if logged is not None and order == "processor first":
        logged.add_processor()
    early = None if logged is None else logged.provider.get_logger("app")
    provider = tracing()
    logged = logged or Logged()
    if order != "processor first":
        logged.add_processor()
    logger: Any = early or logged.provider.get_logger("app")
    with provider.get_tracer("app").start_as_current_span("chat m", attributes=CHAT) as span:
        attributes = {"gen_ai.input.messages": json.dumps(MESSAGES), "gen_ai.provider.name": "p"}
        emit(logger, DETAILS, attributes, None)
        emit(logger, "gen_ai.choice", {"gen_ai.system": "p"}, {"index": 0, "message": {"content": ANSWER}})
        emit(logger, "app.noted", {"note": LONG, "short": "kept"}, LONG)
        emit(logger, "app.said", {"short": "kept"}, "a body of the application's own")
    details, choice, noted, said = logged.exported()
    assert QUESTION not in str(details.attributes)
    assert details.attributes["gen_ai.provider.name"] == "p"
    assert choice.body is None
    assert (len(noted.attributes["note"]) < 128, noted.attributes["short"], len(noted.body) < 128) == (
        True,
        "kept",
        True,
    )
    assert said.body == "a body of the application's own"
    assert {found.span_id for found in (details, choice, noted, said)} == {span.get_span_context().span_id}

    record = record_of(tmp_path)
    (content,) = record.of("content")
    (call,) = record.calls
    assert content["call"] == call.id == f"{span.get_span_context().span_id:016x}"
    assert [name for event in content["events"] for name in event] == [DETAILS, "gen_ai.choice", "app.noted"]
    assert content["events"][2]["app.noted"] == {"attributes": {"note": LONG}, "body": LONG}
    assert call.prompt is not None
    assert ([s.text for s in call.prompt.segments], call.response and call.response["output"]) == ([QUESTION], ANSWER)


@pytest.mark.parametrize("order", ORDERS[:2])
def test_copy_leaves_records_as_they_are(tmp_path: Path, tracing: Callable[..., TracerProvider], order: str) -> None:
    """In mode ``copy`` the record is kept as well, and other consumers see what they saw before."""
    logged = Logged()
    if order == "processor first":
        logged.add_processor()
    provider = tracing(spans="copy")
    if order == "processor last":
        logged.add_processor()
    with provider.get_tracer("app").start_as_current_span("chat m", attributes=CHAT):
        logged.provider.get_logger("app").emit(
            LogRecord(event_name=DETAILS, attributes={"gen_ai.input.messages": json.dumps(MESSAGES)}, body=LONG)
        )
    (shown,) = logged.exported()
    assert (shown.attributes["gen_ai.input.messages"], shown.body) == (json.dumps(MESSAGES), LONG)
    assert record_of(tmp_path).calls[0].prompt is not None


def test_a_record_emitted_after_its_span_ended(tmp_path: Path, tracing: Callable[..., TracerProvider]) -> None:
    """It stands in the same record, under the call that the span named: a stream's last event comes late."""
    provider, logged = tracing(), Logged()
    logged.add_processor()
    tracer, logger = provider.get_tracer("app"), logged.provider.get_logger("app")
    with tracer.start_as_current_span("GET /", kind=trace.SpanKind.SERVER):
        span = tracer.start_span("chat m", attributes={**CHAT, "gen_ai.input.messages": json.dumps(MESSAGES)})
        span.end()
        late = trace.set_span_in_context(span)
        logger.emit(event_name=DETAILS, attributes={"gen_ai.output.messages": json.dumps(ANSWERS)}, context=late)
    (shown,) = logged.exported()
    assert ANSWER not in str(shown.attributes)
    record = record_of(tmp_path)
    (call,) = record.calls
    assert [seen.route for seen in call.seen] == ["attributes", "log"]
    assert {seen.span_id for seen in call.seen} == {f"{span.get_span_context().span_id:016x}"}
    assert call.prompt is not None
    assert ([s.text for s in call.prompt.segments], call.response and call.response["output"]) == ([QUESTION], ANSWER)


def test_a_record_within_a_query(tmp_path: Path, tracing: Callable[..., TracerProvider]) -> None:
    """Without any span of an instrumentation it belongs to the call, or the query, that is open."""
    tracing()
    logged = Logged()
    logged.add_processor()
    logger = logged.provider.get_logger("app")
    with pt.query() as q, q.call(model="m", prompt="declared") as call:
        logger.emit(LogRecord(event_name=DETAILS, attributes={"gen_ai.input.messages": json.dumps(MESSAGES)}))
        call.respond("ok")
    (shown,) = logged.exported()
    assert QUESTION not in str(shown.attributes)
    record = record_of(tmp_path)
    (recorded,) = record.calls
    assert record.qid == q.qid
    assert recorded.evidence == "declared"
    ((name, told),) = record.of("content")[0]["events"][0].items()
    assert (name, json.loads(told["attributes"]["gen_ai.input.messages"])) == (DETAILS, MESSAGES)


def test_a_record_without_trace_and_query(tmp_path: Path, tracing: Callable[..., TracerProvider]) -> None:
    """It is a record by itself: content that nobody can place is not lost."""
    tracing()
    logged = Logged()
    logged.add_processor()
    logged.provider.get_logger("app").emit(LogRecord(event_name="gen_ai.user.message", body={"content": QUESTION}))
    (shown,) = logged.exported()
    assert shown.body is None
    record = record_of(tmp_path)
    assert record.query is not None
    assert record.query["origin"] == "minted"
    (content,) = record.of("content")
    assert content["events"] == [{"gen_ai.user.message": {"attributes": {}, "body": {"content": QUESTION}}}]


def test_records_under_a_span_that_was_dropped(tmp_path: Path) -> None:
    """All that happens right below it is one record, by the span's id, with one beginning: logs, hook and wire."""
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), tracer_provider=provider)
    try:
        logged = Logged()
        logged.add_processor()
        with provider.get_tracer("app").start_as_current_span("GET /") as span, ModelHost([say.chat()]) as host:
            for _ in range(2):
                logged.provider.get_logger("app").emit(event_name="gen_ai.user.message", body={"content": QUESTION})
                completion_hook().on_completion(inputs=MESSAGES, span=span)
            body = {"model": "m", "messages": [{"role": "user", "content": QUESTION}]}
            httpx2.post(f"http://127.0.0.1:{host.port}/v1/chat/completions", json=body)
        record = record_of(tmp_path)
    finally:
        pt.uninstall()
    context = span.get_span_context()
    assert record.qid == f"{context.trace_id:032x}-{context.span_id:016x}"
    assert [event["kind"] for event in record.events].count("query") == 1
    assert [event["route"] for event in record.of("content")] == ["log", "hook"] * 2
    assert [event.get("evidence") for event in record.of("request")].count("wire") == 1


def test_after_uninstall_records_are_as_they_were(tracing: Callable[..., TracerProvider]) -> None:
    """The door is taken off again."""
    emit = Logger.emit
    tracing()
    assert Logger.emit is not emit
    pt.uninstall()
    assert Logger.emit is emit


def test_what_changes_later_is_kept_as_it_was(tmp_path: Path, tracing: Callable[..., TracerProvider]) -> None:
    """A body is copied when it is emitted, and the application's own object stays whole."""
    provider, logged = tracing(), Logged()
    logged.add_processor()
    body = {"content": QUESTION}
    given = LogRecord(event_name="gen_ai.user.message", body=body)
    with provider.get_tracer("app").start_as_current_span("chat m", attributes=CHAT):
        logged.provider.get_logger("app").emit(given)
        body["content"] = "something else"
    assert given.body is body
    (content,) = record_of(tmp_path).of("content")
    assert content["events"][0]["gen_ai.user.message"]["body"] == {"content": QUESTION}
