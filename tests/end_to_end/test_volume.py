"""Twenty thousand spans and five thousand calls: what was sent is at every station, and nothing else is."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.collector.running import tags
from tests.end_to_end.chain import Chain
from tests.instrumentations.replay_server import ReplayServer
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

CALLS = 5000
SPANS = 4 * CALLS


def test_counts_are_equal_at_every_station(
    chain: Chain, model: ReplayServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sent, recorded, stored, received, archived, in Jaeger, joined: equal, with no copy, no loss and no remainder."""
    made = chain.shop.tell(f"many {CALLS}")
    flushed = chain.shop.tell("flush")
    qids = set(made["qids"])
    assert (len(qids), len(model.requests), flushed["spans"]) == (CALLS, CALLS, SPANS)

    recorded = flushed["after"]["prompt_trace.event.recorded"]
    assert flushed["exported"]
    assert (flushed["ok"], flushed["lost"], flushed["waiting"], flushed["stored"]) == (True, 0, 0, recorded)
    assert flushed["before"]["prompt_trace.event.recorded"] == recorded
    assert sum(flushed["before"][f"prompt_trace.{name}"] for name in ("event.processed", "queue.size")) == recorded
    assert flushed["after"]["prompt_trace.event.processed"] == recorded
    assert chain.shop.stop() == 0
    assert "dropp" not in chain.shop.said().lower()

    store = chain.store
    with ThreadPoolExecutor(8) as pool:
        records = {record.qid: record for record in pool.map(store.get, qids)}
    stored = sum(len(record.events) for record in records.values())
    assert stored == recorded
    assert {qid for _, qid in store.qids()} == qids
    assert Counter(len(record.calls) for record in records.values()) == {1: CALLS}
    assert not any(record.problems for record in records.values())
    bodies = Counter(record.calls[0].request["sha256"] for record in records.values() if record.calls[0].request)
    assert max(bodies.values()) == 1

    until(lambda: sum(chain.collector.counted("receiver_accepted_spans").values()) == SPANS, 60)
    assert sum(chain.collector.counted("receiver_refused_spans").values()) == 0
    until(
        lambda: chain.collector.counted("exporter_sent_spans") == {"otlp_grpc/jaeger": SPANS, "file/spans": SPANS}, 60
    )
    assert sum(chain.collector.counted("exporter_send_failed_spans").values()) == 0
    until(lambda: len(chain.archived()) == SPANS, 60)
    archived = chain.archived()
    assert len({(span.trace_id, span.span_id) for span in archived}) == SPANS

    until(lambda: len(chain.in_jaeger()) == SPANS, 120)
    in_jaeger = chain.in_jaeger()
    assert {(s["traceID"], s["spanID"]) for s in in_jaeger} == {(s.trace_id, s.span_id) for s in archived}
    assert {tags(span)["prompt_trace.qid"] for span in in_jaeger if "prompt_trace.qid" in tags(span)} == qids

    done = chain.command("census", "--json", "--spans", str(chain.archive))
    report = json.loads(done.stdout)
    assert report["spans_without_payload"] == report["payloads_without_span"] == report["problems"] == []
    assert (report["queries"], report["totals"]["calls"], report["spans"]) == (CALLS, CALLS, SPANS)
    assert (report["duplicate_spans"], report["without_calls"], report["failed"]) == (0, [], [])
    assert {call["span_joined"] for call in report["calls"]} == {"pass"}
    with capsys.disabled():
        print(
            f"\n{CALLS:,} calls and {SPANS:,} spans in {made['seconds']:.0f} s; events: {recorded:,} recorded = "
            f"{stored:,} stored; spans: {flushed['spans']:,} sent = {SPANS:,} received = {len(archived):,} archived = "
            f"{len(in_jaeger):,} in Jaeger; calls: {len(model.requests):,} sent = {len(records):,} stored = "
            f"{report['totals']['calls']:,} joined",
            end="",
        )
