"""``local.yaml`` and ``jaeger.yaml`` with the real programs: spans arrive in Jaeger and in the archive."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from opentelemetry.trace import Status, StatusCode

from otel_prompt_trace.batch.archive import SpanArchive
from otel_prompt_trace.batch.spans import Span
from otel_prompt_trace.core.events import Problem
from tests.collector.conftest import StartCollector
from tests.collector.running import Jaeger, tags
from tests.collector.sending import application, send_spans
from tests.waiting import until

pytestmark = pytest.mark.integration


def test_spans_arrive_in_jaeger_and_in_the_archive(
    start_collector: StartCollector, jaeger: Jaeger, tmp_path: Path
) -> None:
    """By the trace's id and by the qid, with timings to the microsecond, attributes, events and status."""
    collector = start_collector("local.yaml", JAEGER_OTLP_ENDPOINT=jaeger.otlp)
    qid, service = f"Q-{uuid.uuid4().hex}", f"shop-{uuid.uuid4().hex[:8]}"
    with (
        application(collector.grpc, service) as tracer,
        tracer.start_as_current_span("query", attributes={"prompt_trace.qid": qid}) as query,
    ):
        with tracer.start_as_current_span("search", attributes={"top_k": 5, "names": ["a", "b"]}) as search:
            search.add_event("found", {"hits": 5})
        query.set_status(Status(StatusCode.ERROR, "as it happens"))
    trace_id = f"{query.get_span_context().trace_id:032x}"

    until(lambda: len(jaeger.trace(trace_id)) == 2)
    found = {span["operationName"]: span for span in jaeger.trace(trace_id)}
    assert {span["spanID"] for span in jaeger.find(service, **{"prompt_trace.qid": qid})} == {
        span["spanID"] for span in found.values()
    }
    assert jaeger.find(service, **{"prompt_trace.qid": "Q-another"}) == []
    for name, span in (("query", query), ("search", search)):
        assert span.start_time is not None
        assert found[name]["startTime"] == span.start_time // 1000
        assert found[name]["duration"] == ((span.end_time or 0) - span.start_time) // 1000
    assert tags(found["query"]).items() >= {"prompt_trace.qid": qid, "error": True}.items()
    assert tags(found["search"])["top_k"] == 5
    (event,) = found["search"]["logs"]
    assert tags(event).items() >= {"event": "found", "hits": 5}.items()

    archive = tmp_path / "spans"
    until(lambda: len(read(archive)) == 2)
    archived = {span.name: span for span in read(archive)}
    assert (archived["query"].trace_id, archived["query"].qid, archived["query"].status_code) == (
        trace_id,
        qid,
        "ERROR",
    )
    assert (archived["search"].start_ns, archived["search"].end_ns) == (search.start_time, search.end_time)
    assert archived["search"].parent_span_id == archived["query"].span_id
    assert archived["search"].attributes == {"top_k": 5, "names": ["a", "b"]}


def read(folder: Path) -> list[Span]:
    """What the batch reads; a last line that is being written is none yet."""
    if not folder.is_dir() or not list(folder.iterdir()):
        return []
    return [item for item in SpanArchive([folder]) if not isinstance(item, Problem)]


def test_a_restart_adds_to_the_archive(start_collector: StartCollector, jaeger: Jaeger, tmp_path: Path) -> None:
    """And a stopped collector has written all that it acknowledged."""
    collector = start_collector("local.yaml", JAEGER_OTLP_ENDPOINT=jaeger.otlp)
    sent = send_spans(collector.grpc, 700)
    assert collector.program.stop() == 0
    collector.start_again()
    sent += send_spans(collector.grpc, 300)
    assert collector.program.stop() == 0
    lines = (tmp_path / "spans" / "spans.jsonl").read_text().splitlines()
    assert all(set(json.loads(line)) == {"resourceSpans"} for line in lines)
    assert sorted(span.span_id for span in read(tmp_path / "spans")) == sorted(sent)
