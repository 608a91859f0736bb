"""Records that diversion alone made, joined to the archived spans of the same calls: by any sighting's span id.

Real spans of several instrumentations, through one provider into an OTLP JSON file, and a real store beside it. The
application was not changed: nobody opened a query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from opentelemetry import trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import Span

import otel_prompt_trace as pt
from otel_prompt_trace.batch import CensusReport, run_census
from otel_prompt_trace.diversion.hook import completion_hook
from tests.batch.worlds import Tracing, collector_lines

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
DETAILS = "gen_ai.client.inference.operation.details"


def messages(text: str) -> list[dict[str, Any]]:
    """A prompt of one message."""
    return [{"role": "user", "parts": [{"type": "text", "content": text}]}]


@dataclass
class Application:
    """What runs, and what came of it."""

    tracing: Tracing
    folder: Path

    def request(self) -> Any:
        """A request of the application's, as a context manager."""
        tracer = self.tracing.provider.get_tracer("web")
        return tracer.start_as_current_span("GET /", kind=trace.SpanKind.SERVER)

    def start(self, scope: str, text: str | None = "hello", parent: Span | None = None, **facts: Any) -> Span:
        """A model-call span of an instrumentation, below what is current or a given span."""
        content = {} if text is None else {"gen_ai.input.messages": json.dumps(messages(text))}
        context = None if parent is None else trace.set_span_in_context(parent)
        return self.tracing.provider.get_tracer(scope).start_span(
            scope, context, attributes={**CHAT, **content, **facts}
        )

    def census(self, archive: list[Path] | None = None) -> CensusReport:
        """Store everything and run the batch over it."""
        assert pt.flush(20).ok
        spans = [self.tracing.close()] if archive is None else archive
        return run_census(pt.open_store(self.folder / "store"), spans, self.folder / "out")

    def stripped(self) -> list[Path]:
        """The archive as a collector leaves it that takes our attributes off."""
        self.tracing.close()
        bare = [_without_ours(span) for span in self.tracing.finished]
        path = self.folder / "stripped.json"
        path.write_bytes(b"".join(collector_lines(bare)))
        return [path]

    def joins(self) -> list[tuple[str, str]]:
        """Name of the span and kind of the join, of everything that is joined."""
        read = f"SELECT span_name, joined_by FROM '{self.folder}/out/joins.parquet' WHERE state = 'joined'"
        rows: list[tuple[str, str]] = duckdb.execute(read).fetchall()
        return sorted(rows)


def _without_ours(span: ReadableSpan) -> ReadableSpan:
    kept = {key: value for key, value in (span.attributes or {}).items() if not key.startswith("prompt_trace.")}
    return ReadableSpan(
        span.name, span.context, span.parent, span.resource, kept, kind=span.kind,
        start_time=span.start_time, end_time=span.end_time, instrumentation_scope=span.instrumentation_scope,
    )  # fmt: skip


@pytest.fixture
def app(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Application]:
    """Recording by diversion alone; the provider's limits can be given."""
    tracing = Tracing(tmp_path / "spans.jsonl", **getattr(request, "param", {}))
    place: dict[str, Any] = {"store": str(tmp_path / "store"), "spool": str(tmp_path / "spool")}
    pt.install(tracer_provider=tracing.provider, **place)
    yield Application(tracing, tmp_path)
    pt.uninstall()
    tracing.close()


def sound(report: CensusReport, calls: int, spans: int) -> None:
    """Every call has its spans, every span its call, and a prompt that was read off a span is never exact."""
    assert report.spans_without_payload == report.payloads_without_span == ()
    assert (len(report.rows), report.joins) == (calls, {"joined": spans})
    assert {(row.span_joined, row.verdict) for row in report.rows} == {("pass", "unknown")}
    assert report.payload_problems == report.span_problems == ()


def siblings(app: Application) -> None:
    """The span further in is no child of the outer one."""
    outer = app.start("outer")
    app.start("inner").end()
    outer.end()


def nested(app: Application) -> None:
    """The usual case."""
    outer = app.start("outer")
    app.start("inner", parent=outer).end()
    outer.end()


def stream(app: Application) -> None:
    """The outer span ends at the last event, before the inner one."""
    outer = app.start("outer")
    inner = app.start("inner", parent=outer)
    outer.end()
    inner.end()


@pytest.mark.parametrize("shape", [siblings, nested, stream], ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("ours", [True, False], ids=["with qid", "without qid"])
def test_two_instrumentations_of_one_call(app: Application, shape: Any, ours: bool) -> None:
    """Both spans are joined to the one call by their own ids, whether or not our attributes reached the archive."""
    for _ in range(2):
        with app.request():
            shape(app)
    report = app.census() if ours else app.census(app.stripped())
    sound(report, calls=2, spans=4)
    kind = "span" if ours else "trace_span"
    assert app.joins() == [("inner", kind)] * 2 + [("outer", kind)] * 2


@pytest.mark.parametrize("ours", [True, False], ids=["with qid", "without qid"])
def test_several_calls_of_one_request(app: Application, ours: bool) -> None:
    """Each span goes to its own call: two in sequence, two in parallel, and an agent's span that is none."""
    with app.request():
        agent = app.start("agent", None)
        agent.set_attribute("gen_ai.operation.name", "invoke_agent")
        for number in range(2):
            app.start("inner", f"sequence {number}", agent).end()
        pair = [app.start("inner", f"parallel {number}", agent) for number in range(2)]
        for span in pair:
            span.end()
        agent.end()
    sound(app.census() if ours else app.census(app.stripped()), calls=4, spans=4)
    assert app.joins() == [("inner", "span" if ours else "trace_span")] * 4


@pytest.mark.parametrize("late", [False, True], ids=["within", "after"])
def test_the_span_id_of_a_log_record(app: Application, late: bool) -> None:
    """Content that came in log records alone, while the span was open or after it had ended: the span is the call's."""
    logger = LoggerProvider(shutdown_on_exit=False).get_logger("inner")
    with app.request():
        span = app.start("inner", None)
        scope = trace.set_span_in_context(span)
        if late:
            span.end()
        given = {"gen_ai.input.messages": json.dumps(messages("by log"))}
        logger.emit(event_name=DETAILS, attributes=given, context=scope)
        span.end()
    report = app.census()
    sound(report, calls=1, spans=1)
    assert app.joins() == [("inner", "span")]
    assert report.rows[0].total == len("by log")


@pytest.mark.parametrize("ours", [True, False], ids=["with qid", "without qid"])
def test_the_span_of_a_hook(app: Application, ours: bool) -> None:
    """The hook of an inner instrumentation hands content over, its spans carry none: both spans are the call's."""
    with app.request():
        outer = app.start("outer", None)
        inner = app.start("inner", None, outer)
        completion_hook().on_completion(inputs=messages("by hook"), outputs=[], system_instruction=[], span=inner)
        inner.end()
        outer.end()
    report = app.census() if ours else app.census(app.stripped())
    sound(report, calls=1, spans=2)
    assert {name for name, _ in app.joins()} == {"inner", "outer"}
    assert report.rows[0].total == len("by hook")


def test_the_hook_of_an_outer_span(app: Application) -> None:
    """The outer instrumentation's hook tells of the call that ended inside its span."""
    with app.request():
        outer = app.start("outer", None)
        app.start("inner", "by attribute", outer).end()
        completion_hook().on_completion(inputs=messages("by hook"), outputs=[], system_instruction=[], span=outer)
        outer.end()
    report = app.census()
    sound(report, calls=1, spans=2)
    assert report.rows[0].total == len("by hook")  # the stronger evidence is read


@pytest.mark.parametrize("app", [{"sampler": ALWAYS_OFF}], indirect=True, ids=["0 %"])
def test_an_unsampled_call_says_why_it_has_no_span(app: Application) -> None:
    """The payload is kept, and what is missing of its spans is named, not passed over."""
    with app.request():
        siblings(app)
    report = app.census()
    (missing,) = report.payloads_without_span
    assert "not sampled" in missing.detail
    assert [row.span_joined for row in report.rows] == ["fail"]
    assert report.spans_without_payload == ()


def test_a_span_beside_the_calls_is_no_orphan(app: Application) -> None:
    """Spans of the application, and content on spans that are no calls, ask for no payload of their own."""
    with app.request(), app.tracing.provider.get_tracer("web").start_as_current_span("step") as step:
        step.set_attribute("input.value", "something")
        app.start("inner").end()
    sound(app.census(), calls=1, spans=1)
