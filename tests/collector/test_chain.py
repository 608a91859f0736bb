"""From an application to the census: spans over the production collector into the archive, payloads into the store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.collector.application import WORDS
from tests.collector.bucket import Bucket
from tests.collector.conftest import StartCollector
from tests.collector.links import span_links, trace_links
from tests.collector.running import Jaeger, tags
from tests.waiting import until

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
SPANS = 4  # of a query: the query, two stages, the call


class Chain:
    """Application, collector, Jaeger and stores, and what each says after the application has ended."""

    def __init__(self, start: StartCollector, bucket: Bucket, jaeger: Jaeger, folder: Path) -> None:
        variables = {**bucket.variables, "JAEGER_OTLP_ENDPOINT": jaeger.otlp, "JAEGER_SAMPLING_PERCENTAGE": "100"}
        self.collector = start("production.yaml", **variables)
        self.bucket, self.jaeger, self._folder = bucket, jaeger, folder
        self.store = bucket.server.url(prefix=f"chain/{uuid.uuid4().hex}")
        self._variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),
            "PROMPT_TRACE_STORE": self.store,
            "PROMPT_TRACE_SPOOL": str(folder / "spool"),
            **bucket.server.environment,
        }

    def answer(self, queries: int) -> dict[str, str]:
        """Let the application answer so many queries and end; the trace of each qid."""
        done = self._run("tests.collector.application", self.collector.grpc, str(queries))
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        assert said["delivered"]
        assert len(said["told"]) == queries
        return dict(said["told"])

    def census(self) -> tuple[int, dict[str, Any]]:
        """The command over archive and store: its exit code and its report."""
        words = ("--spans", self.bucket.url, "--store", self.store, "--json")
        done = self._run("otel_prompt_trace.cli", "census", *words)
        return done.returncode, json.loads(done.stdout)

    def _run(self, module: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", module, *words]
        return subprocess.run(
            command, env=self._variables, cwd=self._folder, capture_output=True, text=True, timeout=500
        )


@pytest.fixture
def chain(start_collector: StartCollector, spans_bucket: Bucket, jaeger: Jaeger, tmp_path: Path) -> Chain:
    """Everything that stands between an application and a census, in production's configuration."""
    return Chain(start_collector, spans_bucket, jaeger, tmp_path)


def test_a_query_is_found_everywhere(chain: Chain) -> None:
    """In Jaeger by trace and by qid, its stages timed, its values small, its links right; in the census exact."""
    told = chain.answer(20)
    for qid, trace_id in told.items():
        until(lambda trace_id=trace_id: len(chain.jaeger.trace(trace_id)) == SPANS)
        spans = {span["operationName"]: span for span in chain.jaeger.trace(trace_id)}
        assert {"search", "generate"} <= set(spans)
        assert all(span["duration"] > 0 for span in spans.values())
        values = [tags(span) for span in spans.values()]
        assert max(len(str(value)) for each in values for value in each.values()) < 300
        assert all(each["prompt_trace.qid"] == qid for each in values)
        (link,) = span_links(values[0], {"traceID": trace_id})
        assert link.url == f"http://127.0.0.1:8765/q/{qid}?trace={trace_id}"
        assert trace_links({"traceID": trace_id})[0].url.endswith(f"/t/{trace_id}")
        assert {each["spanID"] for each in chain.jaeger.find("shop", **{"prompt_trace.qid": qid})} == {
            each["spanID"] for each in spans.values()
        }
    until(lambda: len(set(chain.bucket.span_ids())) == SPANS * len(told))
    assert WORDS not in json.dumps([span.raw for span in chain.bucket.archived()])
    code, report = chain.census()
    assert (code, report["spans"]) == (0, SPANS * len(told))
    for left in ("spans_without_payload", "payloads_without_span", "problems", "left_out"):
        assert report[left] == []
    verdicts = {call["qid"]: (call["verdict"], call["span_joined"]) for call in report["calls"]}
    assert verdicts == dict.fromkeys(told, ("exact", "pass"))


@pytest.mark.timeout(900)
def test_counts_at_every_station(chain: Chain) -> None:
    """200 calls and their 800 spans: every station has all of them, once. ``tests/end_to_end`` has many more."""
    queries = 200
    spans = SPANS * queries
    told = chain.answer(queries)
    exported = {"awss3/spans": spans, "otlp_grpc/jaeger": spans}
    until(lambda: chain.collector.counted("exporter_sent_spans") == exported, 120)
    counts = {
        "received": sum(chain.collector.counted("receiver_accepted_spans").values()),
        "refused": sum(chain.collector.counted("receiver_refused_spans").values()),
        **chain.collector.counted("exporter_sent_spans"),
        "in the archive": len(chain.bucket.span_ids()),
        "distinct": len(set(chain.bucket.span_ids())),
    }
    until(lambda: chain.jaeger.trace(list(told.values())[-1]))
    counts["in Jaeger"] = sum(len(chain.jaeger.trace(trace_id)) for trace_id in told.values())
    code, report = chain.census()
    counts |= {"census: spans": report["spans"], "census: calls": len(report["calls"])}
    print(counts)
    assert counts.pop("refused") == 0
    assert counts.pop("census: calls") == queries
    assert set(counts.values()) == {spans}
    assert code == 0
    assert {call["qid"] for call in report["calls"]} == set(told)
    assert {call["verdict"] for call in report["calls"]} == {"exact"}
