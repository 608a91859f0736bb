"""Which span belongs to which call: every rule of the join, and every way in which nothing joins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from opentelemetry.sdk.trace import SpanLimits

from otel_prompt_trace.batch import CensusReport, run_census
from tests.batch.worlds import Reader, Tracing, exact_prompt, qid_of, sealed, span_ids

QID, OTHER = qid_of(1), qid_of(2)


@pytest.fixture
def tracing(tmp_path: Path) -> Iterator[Tracing]:
    tracing = Tracing(tmp_path / "spans.jsonl")
    yield tracing
    tracing.close()


@pytest.fixture
def reader() -> Reader:
    return Reader()


def joined(report: CensusReport, tmp_path: Path) -> list[tuple[Any, ...]]:
    """The joins as (state, call, span name, joined_by), from the table that was written."""
    return duckdb.sql(
        f"SELECT state, call, span_name, joined_by FROM '{tmp_path}/out/joins.parquet' ORDER BY ALL"
    ).fetchall()


def take(reader: Reader, tracing: Tracing, tmp_path: Path, **options: Any) -> CensusReport:
    return run_census(reader, [tracing.close()], tmp_path / "out", **options)


def test_exact_span(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """A call recorded in a span with its qid joins it; query and stage spans expect no payload of their own."""
    with (
        tracing.ours.start_as_current_span("query", attributes={"prompt_trace.qid": QID}),
        tracing.ours.start_as_current_span("search", attributes={"prompt_trace.qid": QID}),
    ):
        pass
    with tracing.call(QID) as span:
        reader.put(sealed(QID, {"prompt": exact_prompt(), "span": span}))
    report = take(reader, tracing, tmp_path)
    assert joined(report, tmp_path) == [("joined", "call-1", "call", "span")]
    assert (report.exit_code, report.rows[0].span_joined, report.joins) == (0, "pass", {"joined": 1})


def test_span_without_qid_joins_by_its_ids(reader: Reader, tmp_path: Path) -> None:
    """The qid was evicted by 130 attributes: trace and span id still find the call, and the loss is told."""
    tracing = Tracing(tmp_path / "spans.jsonl", span_limits=SpanLimits(max_span_attributes=128))
    with tracing.call(QID) as span:
        span.set_attributes({f"llm.input_messages.{n}.message.content": "x" for n in range(128)})
        assert "prompt_trace.qid" not in span.attributes
        reader.put(sealed(QID, {"prompt": exact_prompt(), "span": span}))
    report = take(reader, tracing, tmp_path)
    assert joined(report, tmp_path) == [("joined", "call-1", "call", "trace_span")]
    ((detail,),) = duckdb.sql(f"SELECT detail FROM '{tmp_path}/out/joins.parquet'").fetchall()
    assert detail == "the span carries no prompt_trace.qid; 2 attributes were dropped from it"
    assert report.exit_code == 0


def test_span_of_another_query_is_never_joined(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """The recorded ids lead to a span with another qid: both sides are named, neither is joined."""
    with tracing.call(OTHER) as span:
        reader.put(sealed(QID, {"prompt": exact_prompt(), "span": span}))
    reader.put(sealed(OTHER, {"prompt": exact_prompt()}, {"prompt": exact_prompt()}))
    report = take(reader, tracing, tmp_path)
    assert report.payloads_without_span[0].detail == f"its span carries another qid, {OTHER}"
    assert [item.qid for item in report.spans_without_payload] == [OTHER]
    assert report.exit_code == 3


def test_call_without_ids_joins_by_qid(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """A call recorded outside any span takes the one span of its query that expects a payload."""
    with tracing.chat(**{"prompt_trace.qid": QID}):
        pass
    reader.put(sealed(QID, {"prompt": exact_prompt()}))
    report = take(reader, tracing, tmp_path)
    assert joined(report, tmp_path) == [("joined", "call-1", "chat m", "qid")]


def test_calls_without_ids_join_by_digest_before_order(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """Spans in the other order than the calls: equal digests decide, and what is left is matched by order."""
    calls = [{"prompt": exact_prompt(f"question {n}")} for n in (1, 2, 3)]
    events = sealed(QID, *calls)
    digests = [event["sha256"] for event in events if event["kind"] == "request"]
    spans = []
    for digest in (digests[1], digests[0], None):
        with tracing.call(QID, **({} if digest is None else {"prompt_trace.sha256": digest})) as span:
            spans.append(span_ids(span)["span_id"])
    reader.put(events)
    take(reader, tracing, tmp_path)
    found = duckdb.sql(f"SELECT call, span_id FROM '{tmp_path}/out/joins.parquet' ORDER BY call").fetchall()
    assert found == [("call-1", spans[1]), ("call-2", spans[0]), ("call-3", spans[2])]


def test_calls_without_ids_are_not_guessed(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """Two calls and one span, and no digest: which call it was can't be told, so all three are named."""
    with tracing.call(QID):
        pass
    reader.put(sealed(QID, {"prompt": exact_prompt("a")}, {"prompt": exact_prompt("b")}))
    report = take(reader, tracing, tmp_path)
    assert (len(report.payloads_without_span), len(report.spans_without_payload)) == (2, 1)
    assert "its query has 1 spans here, and none that is surely its own" in report.payloads_without_span[0].detail
    assert report.spans_without_payload[0].detail == "the record of its query holds 2 call(s), none of this span"


def test_digests_that_differ_are_two_prompts(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """One call, one span, but another digest: that span's prompt is not the one that is stored."""
    with tracing.call(QID, **{"prompt_trace.sha256": "00" * 32}):
        pass
    reader.put(sealed(QID, {"prompt": exact_prompt()}))
    report = take(reader, tracing, tmp_path)
    assert report.joins == {"payload_without_span": 1, "span_without_payload": 1}


def test_payload_without_span(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """A call whose span never reached the archive is named with its ids, and counts as unknown."""
    elsewhere = Tracing(tmp_path / "not-given.jsonl")
    with elsewhere.call(QID) as span:
        reader.put(sealed(QID, {"prompt": exact_prompt(), "span": span}))
    elsewhere.close()
    report = take(reader, tracing, tmp_path)
    (lost,) = report.payloads_without_span
    assert {"trace_id": lost.trace_id, "span_id": lost.span_id} == span_ids(span)
    assert "not in the archive" in lost.detail
    assert (report.exit_code, report.rows[0].verdict, report.rows[0].span_joined) == (3, "exact", "fail")


def test_span_without_payload(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """Spans that ought to have a payload and have none: ours, an instrumentation's, each named once."""
    with tracing.ours.start_as_current_span("query", attributes={"prompt_trace.qid": QID}), tracing.call(QID):
        pass
    with tracing.chat():
        pass
    with tracing.theirs.start_as_current_span("llm", attributes={"openinference.span.kind": "LLM"}):
        pass
    with tracing.theirs.start_as_current_span("embed", attributes={"gen_ai.operation.name": "embeddings"}):
        pass
    report = take(reader, tracing, tmp_path)
    assert sorted((item.span_name, item.qid, item.detail) for item in report.spans_without_payload) == [
        ("call", QID, "nothing is stored of its query"),
        ("chat m", None, "it carries no prompt_trace.qid, and no recorded call names it"),
        ("llm", None, "it carries no prompt_trace.qid, and no recorded call names it"),
    ]
    assert report.exit_code == 3


def test_query_that_vanished_without_a_call_is_named_once(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """Only query and stage spans are left of a query: its first span stands for the lost payload."""
    with (
        tracing.ours.start_as_current_span("query", attributes={"prompt_trace.qid": QID}),
        tracing.ours.start_as_current_span("search", attributes={"prompt_trace.qid": QID}),
    ):
        pass
    report = take(reader, tracing, tmp_path)
    assert [(item.span_name, item.qid) for item in report.spans_without_payload] == [("query", QID)]


def test_instrumentation_inside_our_call_is_a_sighting(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """q.call() around an instrumented client: the client's span, without qid, belongs to the same call."""
    with tracing.call(QID) as span:
        reader.put(sealed(QID, {"prompt": exact_prompt(), "span": span}))
        with tracing.theirs.start_as_current_span("chain"), tracing.chat(), tracing.chat():
            pass
    report = take(reader, tracing, tmp_path)
    assert joined(report, tmp_path) == [
        ("joined", "call-1", "call", "span"),
        ("joined", "call-1", "chat m", "nesting"),
        ("joined", "call-1", "chat m", "nesting"),
    ]
    assert report.exit_code == 0


def test_two_model_calls_inside_one_recorded_call(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """Two requests went out under one declaration: neither is taken for the recorded one."""
    with tracing.call(QID) as span:
        reader.put(sealed(QID, {"prompt": exact_prompt(), "span": span}))
        for _ in range(2):
            with tracing.chat():
                pass
    report = take(reader, tracing, tmp_path)
    assert report.joins == {"joined": 1, "span_without_payload": 2}
    assert {item.qid for item in report.spans_without_payload} == {QID}
    assert "one of 2 model-call spans" in report.spans_without_payload[0].detail


def test_model_call_around_the_recorded_span_is_a_sighting(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """A framework's span around the client's: the call is the inner one, and the outer one is no lost payload."""
    with (
        tracing.theirs.start_as_current_span("outer", attributes={"openinference.span.kind": "LLM"}),
        tracing.chat(**{"prompt_trace.qid": QID}) as span,
    ):
        reader.put(sealed(QID, {"prompt": exact_prompt(), "span": span}))
    report = take(reader, tracing, tmp_path)
    assert joined(report, tmp_path) == [
        ("joined", "call-1", "chat m", "span"),
        ("joined", "call-1", "outer", "nesting"),
    ]


def test_seen_ids_join(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """A call joins by any span in which it was seen, also where its own was not exported."""
    with tracing.chat() as span:
        events = sealed(QID, {"prompt": exact_prompt()})
        told = {"kind": "content", "call": "call-1", "route": "hook", **span_ids(span)}
        events.append({**events[-1], **told, "seq": events[-1]["seq"] + 1})
        request = next(event for event in events if event["kind"] == "request")
        request |= {"trace_id": span_ids(span)["trace_id"], "span_id": "ab" * 8}
        reader.put(events)
    report = take(reader, tracing, tmp_path)
    assert joined(report, tmp_path) == [("joined", "call-1", "chat m", "trace_span")]


def test_child_query_keeps_its_own_spans(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """A query inside a call of another: a span inside it belongs to the inner query, whoever lost what."""
    with tracing.call(QID) as span:
        reader.put(sealed(QID, {"prompt": exact_prompt(), "span": span}))
        with tracing.ours.start_as_current_span("query", attributes={"prompt_trace.qid": OTHER}), tracing.chat():
            pass
    reader.put(sealed(OTHER))
    report = take(reader, tracing, tmp_path)
    (lost,) = report.spans_without_payload
    assert (lost.qid, lost.span_name, lost.detail) == (OTHER, "chat m", "the record of its query holds no call")


def test_several_calls_in_one_span(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """Two bodies sent within one span are two calls; both join it."""
    with tracing.chat(**{"prompt_trace.qid": QID}) as span:
        reader.put(sealed(QID, *({"prompt": exact_prompt(text), "span": span} for text in "ab")))
    report = take(reader, tracing, tmp_path)
    assert [row.span_joined for row in report.rows] == ["pass", "pass"]
    assert report.exit_code == 0


def test_duplicate_exports_count_once(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """A batch that was exported twice: each span counts once, and the repeats are reported."""
    with tracing.call(QID) as span, tracing.chat():
        reader.put(sealed(QID, {"prompt": exact_prompt(), "span": span}))
    path = tracing.close()
    once = run_census(reader, [path], None)
    path.write_bytes(path.read_bytes() * 3)
    report = run_census(reader, [path], None)
    assert (once.spans, once.duplicates, report.spans, report.duplicates, report.span_lines) == (2, 0, 2, 4, 6)
    assert (report.joins, report.rows) == (once.joins, once.rows)
    assert "4 repeated and counted once" in "\n".join(report.lines())


def test_illegal_qid_of_a_span(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """A qid outside the grammar is reported, never looked up, and the span joins by its ids."""
    with tracing.call("../../etc/passwd") as span:
        reader.put(sealed(QID, {"prompt": exact_prompt(), "span": span}))
    report = take(reader, tracing, tmp_path)
    assert joined(report, tmp_path) == [("joined", "call-1", "call", "trace_span")]
    (problem,) = report.span_problems
    assert "carries an illegal qid, '../../etc/passwd'" in problem.reason
    assert report.exit_code == 3
    assert {qid for qid, _ in reader.asked} == {QID}


def test_span_that_is_its_own_ancestor(reader: Reader, tracing: Tracing, tmp_path: Path) -> None:
    """A cycle of parents ends, and the spans in it are named like any others."""
    first, second = '"spanId":"00000000000000aa"', '"spanId":"00000000000000bb"'
    span = '{"traceId":"%s",%s,"parentSpanId":"%s","name":"chat","attributes":[%s]}'
    operation = '{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}}'
    trace = "0af7651916cd43dd8448eb211c80319c"
    spans = [
        span % (trace, first, "00000000000000bb", operation),
        span % (trace, second, "00000000000000aa", operation),
    ]
    spans.append(span % (trace, '"spanId":"00000000000000cc"', "00000000000000cc", operation))
    tracing.path.write_text('{"resourceSpans":[{"scopeSpans":[{"spans":[' + ",".join(spans) + "]}]}]}\n")
    report = run_census(reader, [tracing.path], None)
    assert len(report.spans_without_payload) == 3
