"""One trace through everything: application, collector, Jaeger, archive, S3, the batch, the command and the viewer."""

from __future__ import annotations

import json
import statistics
import time
import urllib.request
from functools import partial
from typing import Any

import pytest

from otel_prompt_trace.exceptions import NotFound
from otel_prompt_trace.store import PayloadStore
from tests.collector.links import span_links, trace_links
from tests.collector.running import tags
from tests.end_to_end.chain import Chain
from tests.instrumentations.replay_server import ReplayServer
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

_LARGEST = 128  # characters that a text of a span may have once its content is taken off
_QUESTION = "May I return this lamp after three weeks? I kept the box."


def test_one_trace_is_whole_at_every_station(chain: Chain, model: ReplayServer) -> None:
    """A declared query and one of an unchanged application: found by every id, and as they were sent."""
    model.thinks = 1.0  # or a call may be over before the digest of its prompt is taken, which is not on its span then
    declared, entry = chain.shop.tell(f"query {_QUESTION}"), chain.shop.tell(f"ask {_QUESTION}")
    flushed = chain.shop.tell("flush")
    assert (flushed["ok"], flushed["exported"], flushed["lost"]) == (True, True, 0)
    sent = {declared["qid"]: model.requests[0], entry["qid"]: model.requests[1]}

    names = {
        declared["trace_id"]: ["chat gpt-4o", "query", "render", "search"],
        entry["trace_id"]: ["POST /ask", "chat gpt-4o", "render", "search"],
    }
    until(lambda: all(len(chain.jaeger.trace(trace_id)) >= len(found) for trace_id, found in names.items()), 60)
    until(lambda: len(chain.archived()) == flushed["spans"], 60)
    for trace_id, expected in names.items():
        assert sorted(span["operationName"] for span in chain.jaeger.trace(trace_id)) == expected
    _by_qid(chain, declared, entry)
    _timings(chain, declared)
    _small(chain, names)
    _payloads(chain, sent)
    _batch(chain)
    _viewer(chain, declared, entry)


def _by_qid(chain: Chain, *asked: dict[str, Any]) -> None:
    """Jaeger finds the trace by the tag as well, and each call's span carries it."""
    for each in asked:
        found = chain.jaeger.find(chain.service, **{"prompt_trace.qid": each["qid"]})
        assert {span["traceID"] for span in found} == {each["trace_id"]}
        (chat,) = [span for span in found if span["operationName"].startswith("chat")]
        assert tags(chat)["prompt_trace.qid"] == each["qid"]
        assert len(tags(chat)["prompt_trace.sha256"]) == 64


def _timings(chain: Chain, declared: dict[str, Any]) -> None:
    """Each stage's span in Jaeger has the duration that the archive has, and spans what the record says."""
    in_archive = {span.span_id: span for span in chain.archived()}
    record = chain.records.get(declared["qid"])
    assert set(record.ms) == {"search", "render"}
    for span in chain.jaeger.trace(declared["trace_id"]):
        archived = in_archive[span["spanID"]]
        assert span["duration"] == ((archived.end_ns or 0) - (archived.start_ns or 0)) // 1000
        stage = span["operationName"]
        if stage in record.ms:
            assert record.ms[stage] >= {"search": 20, "render": 10}[stage]
            assert span["duration"] / 1000 >= record.ms[stage] - 1


def _small(chain: Chain, traces: dict[str, list[str]]) -> None:
    """No text of a span is long, and no content is on any, in Jaeger as in the archive."""
    spans = [span for trace_id in traces for span in chain.jaeger.trace(trace_id)]
    values = [value for span in spans for each in (span, *span["logs"]) for value in tags(each).values()]
    assert max(len(str(value)) for value in values) <= _LARGEST
    written = json.dumps(spans) + "".join(path.read_text() for path in chain.archive.iterdir())
    for content in ("assistant of a shop", "three weeks", "category 3", "Within 14 days"):
        assert content not in written


def _payloads(chain: Chain, sent: dict[str, bytes]) -> None:
    """``get`` prints the record, and with ``--body`` the very bytes that the model host received."""
    for qid, body in sent.items():
        printed = chain.command("get", qid)
        assert printed.returncode == 0, printed.stderr
        record = json.loads(printed.stdout)
        assert (record["qid"], record["output"], record["evidence"]) == (qid, "Within 14 days.", "wire")
        assert _QUESTION in [part["text"] for part in record["prompt"]]
        assert chain.command("get", qid, "--body").stdout == body
    assert chain.command("show", next(iter(sent))).returncode in {0, 3}


def _batch(chain: Chain) -> None:
    """Archive and payloads join without a remainder; the declared query's prompt is covered to the last character."""
    done = chain.command("census", "--json", "--spans", str(chain.archive))
    report = json.loads(done.stdout)
    assert report["spans_without_payload"] == report["payloads_without_span"] == report["problems"] == []
    assert (report["queries"], report["totals"]["calls"], report["duplicate_spans"]) == (2, 2, 0)
    assert {call["span_joined"] for call in report["calls"]} == {"pass"}
    assert min(call["unaccounted"] for call in report["calls"]) == 0


def _viewer(chain: Chain, declared: dict[str, Any], entry: dict[str, Any]) -> None:
    """The addresses that Jaeger's page would open, for a span and for a trace, answer with the record."""
    with chain.viewer() as address:
        for each in (declared, entry):
            trace = {"traceID": each["trace_id"]}
            (chat,) = [s for s in chain.jaeger.trace(each["trace_id"]) if s["operationName"].startswith("chat")]
            for links, is_list in ((span_links(tags(chat), trace), False), (trace_links(trace), True)):
                (link,) = links
                assert link.url.startswith("http://127.0.0.1:8765/")
                url = link.url.replace("http://127.0.0.1:8765", address)
                with urllib.request.urlopen(url, timeout=60) as page:
                    text = page.read().decode()
                assert each["qid"] in text
                assert "kept the box" in text
                request = urllib.request.Request(url, headers={"Accept": "application/json"})
                with urllib.request.urlopen(request, timeout=60) as answer:
                    found = json.load(answer)
                assert (found["queries"][0]["record"] if is_list else found)["qid"] == each["qid"]


def test_how_long_until_it_can_be_read(chain: Chain, capsys: pytest.CaptureFixture[str]) -> None:
    """From the moment in which the call returned: the payload by its qid in S3, the trace in Jaeger. Printed."""
    took: dict[str, list[float]] = {"payload readable by qid": [], "trace visible in Jaeger": []}
    chain.shop.tell(f"ask {_QUESTION}")  # what is made once is made
    store = chain.store
    for number in range(4):
        asked = chain.shop.tell(f"{('ask', 'query')[number % 2]} {_QUESTION}")
        waiting = {
            "payload readable by qid": partial(_is_readable, store, asked["qid"]),
            "trace visible in Jaeger": partial(_is_visible, chain, asked["trace_id"]),
        }
        while waiting:
            for name in [name for name, there in waiting.items() if there()]:
                took[name].append(time.time() - asked["returned"])
                del waiting[name]
            assert time.time() - asked["returned"] < 60, f"not within a minute: {list(waiting)}"
            time.sleep(0.005)
    with capsys.disabled():
        for name, seconds in took.items():
            middle = statistics.median(seconds)
            print(f"\nfrom 'call returned' to '{name}': median {middle:.2f} s, at most {max(seconds):.2f} s", end="")
    assert all(len(seconds) == 4 for seconds in took.values())


def _is_visible(chain: Chain, trace_id: str) -> bool:
    return len(chain.jaeger.trace(trace_id)) == 4


def _is_readable(store: PayloadStore, qid: str) -> bool:
    try:
        record = store.get(qid)
    except NotFound:
        return False
    return len(record.calls) == 1 and record.calls[0].response is not None
