"""From an application to the census: spans over the production collector into the archive, payloads into the store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
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
QUERIES = 20


def run(words: list[str], variables: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A Python process of this checkout."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.timeout(240)
def test_spans_and_payloads_meet_again(
    start_collector: StartCollector, spans_bucket: Bucket, jaeger: Jaeger, tmp_path: Path
) -> None:
    """Every query of the application is in Jaeger with its stages and its link, and in the census exact and joined."""
    collector = start_collector(
        "production.yaml",
        **{**spans_bucket.variables, "JAEGER_OTLP_ENDPOINT": jaeger.otlp, "JAEGER_SAMPLING_PERCENTAGE": "100"},
    )
    server = spans_bucket.server
    store = server.url(prefix=f"chain/{uuid.uuid4().hex}")
    variables = {**server.environment, "PROMPT_TRACE_STORE": store, "PROMPT_TRACE_SPOOL": str(tmp_path / "spool")}
    done = run(["tests.collector.application", collector.grpc, str(QUERIES)], variables, tmp_path)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["delivered"]
    assert len(said["told"]) == QUERIES

    started = time.monotonic()
    for qid, trace_id in said["told"]:
        until(lambda trace_id=trace_id: len(jaeger.trace(trace_id)) == 4)
        spans = {span["operationName"]: tags(span) for span in jaeger.trace(trace_id)}
        assert {"search", "generate"} <= {name.rpartition(" ")[2] for name in spans}
        assert max(len(str(value)) for each in spans.values() for value in each.values()) < 300
        assert all(each["prompt_trace.qid"] == qid for each in spans.values())
        (link,) = span_links(next(iter(spans.values())), {"traceID": trace_id})
        assert link.url == f"http://127.0.0.1:8765/q/{qid}?trace={trace_id}"
        assert trace_links({"traceID": trace_id})[0].url.endswith(f"/t/{trace_id}")
    print(f"in Jaeger {time.monotonic() - started:.1f} s after the application's end")
    assert {span["spanID"] for qid, _ in said["told"][:1] for span in jaeger.find("shop", **{"prompt_trace.qid": qid})}

    until(lambda: len(set(spans_bucket.span_ids())) == 4 * QUERIES)
    assert WORDS not in json.dumps([span.raw for span in spans_bucket.archived()])
    words = ["otel_prompt_trace.cli", "census", "--spans", spans_bucket.url, "--store", store, "--json"]
    done = run(words, variables, tmp_path)
    report = json.loads(done.stdout)
    assert done.returncode == 0, report
    assert report["spans"] == 4 * QUERIES
    assert [report[each] for each in ("spans_without_payload", "payloads_without_span", "problems", "left_out")] == [
        [], [], [], [],
    ]  # fmt: skip
    assert {call["qid"]: (call["verdict"], call["span_joined"]) for call in report["calls"]} == {
        qid: ("exact", "pass") for qid, _ in said["told"]
    }
