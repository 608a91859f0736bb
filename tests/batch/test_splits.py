"""Whatever files and lines the spans come in, the result is the same; and a day's worth of them is no trouble."""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.batch import CensusReport, run_census
from tests.batch.worlds import Reader, Tracing, collector_lines, exact_prompt, qid_of, sealed


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Reader, list[bytes], CensusReport]:
    """Queries of every fate; the spans, each as a line of its own in the collector's form; the result of one file."""
    reader, tracing = Reader(), Tracing(tmp_path_factory.mktemp("world") / "spans.jsonl")
    for number in range(8):
        qid = qid_of(number)
        with tracing.ours.start_as_current_span("query", attributes={"prompt_trace.qid": qid}):
            calls = []
            for prompt in (exact_prompt(f"question {number}"), "nobody's text"):
                with tracing.call(qid) as span, tracing.chat():
                    calls.append({"prompt": prompt, "span": span if number % 4 else None})
        if number != 5:
            reader.put(sealed(qid, *calls, stages={"search": number}))
    with tracing.chat():
        pass
    report = run_census(reader, [tracing.close()], None)
    return reader, collector_lines(tracing.finished, per_line=1), report


def outcome(report: CensusReport) -> dict[str, Any]:
    shown = report.to_dict()
    return {name: shown[name] for name in shown if name not in ("span_lines", "duplicate_spans", "written", "left_out")}


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_result_does_not_depend_on_the_split(
    world: tuple[Reader, list[bytes], CensusReport], data: st.DataObject
) -> None:
    """The same spans in any order, over any lines and files, some twice, some compressed: one and the same result."""
    reader, lines, expected = world
    order = data.draw(st.permutations(range(len(lines))))
    repeats = data.draw(st.lists(st.sampled_from(range(len(lines))), max_size=5))
    with tempfile.TemporaryDirectory() as folder:
        split = Path(folder) / "split"
        split.mkdir()
        left = [json.loads(lines[n])["resourceSpans"] for n in (*order, *repeats)]
        number = 0
        while left:
            size = data.draw(st.integers(1, 12))
            resources, left = [r for group in left[:size] for r in group], left[size:]
            text = json.dumps({"resourceSpans": resources}).encode() + b"\n"
            packed = data.draw(st.booleans())
            name = f"{data.draw(st.integers(0, 3))}.jsonl" + (".gz" if packed else "")
            with (split / name).open("ab") as file:  # gzip members follow each other, as appending exporters leave them
                file.write(gzip.compress(text) if packed else text)
            number += 1
        report = run_census(reader, [split], None)
    assert outcome(report) == outcome(expected)
    assert (report.duplicates, report.span_lines) == (len(repeats), number)
    assert len(report.spans_without_payload) > 1
    assert expected.joins["joined"] > 20


def test_ten_thousand_spans(tmp_path: Path) -> None:
    """10,000 spans of 2,000 queries: every call joined, every lost one of either side named, nothing else."""
    reader = Reader()
    rng = random.Random(7)
    path = tmp_path / "spans.jsonl"
    lost_payloads, lost_spans = set(rng.sample(range(2000), 20)), set(rng.sample(range(2000), 30))
    with path.open("w") as file:
        for number in range(2000):
            qid, trace = qid_of(number), f"{number + 1:032x}"
            ids = {"trace_id": trace, "span_id": f"{5 * number + 2:016x}"}
            if number not in lost_payloads:
                events = sealed(qid, {"prompt": exact_prompt(f"question {number}")})
                for event in events:
                    if event["kind"] in ("request", "response"):
                        event.update(ids)
                reader.put(events)
            names = ["query", "call", "chat", "http", "search"]
            parents = ["", 5 * number + 1, 5 * number + 2, 5 * number + 3, 5 * number + 1]
            spans = [
                _span(trace, 5 * number + 1 + n, p, name, qid)
                for n, (name, p) in enumerate(zip(names, parents, strict=True))
            ]
            kept = (
                [span for span in spans if span["name"] in ("query", "search", "http")]
                if number in lost_spans
                else spans
            )
            file.write(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": kept}]}]}) + "\n")
    report = run_census(reader, [path], tmp_path / "out")
    assert report.spans == 10_000 - 2 * len(lost_spans)
    assert len(report.rows) == report.totals.exact == 2000 - len(lost_payloads)
    assert {item.qid for item in report.payloads_without_span} == {qid_of(n) for n in lost_spans - lost_payloads}
    assert {item.qid for item in report.spans_without_payload} == {qid_of(n) for n in lost_payloads}
    assert report.joins["joined"] == 2 * (2000 - len(lost_payloads | lost_spans))
    assert report.exit_code == 3


def _span(trace: str, number: int, parent: int | str, name: str, qid: str) -> dict[str, Any]:
    attributes = {"chat": {"gen_ai.operation.name": "chat"}, "http": {}}.get(name, {"prompt_trace.qid": qid})
    if name == "call":
        attributes = {**attributes, "prompt_trace.chars": "30"}
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "parentSpanId": parent if isinstance(parent, str) else f"{parent:016x}",
        "name": name,
        "startTimeUnixNano": str(1_796_000_000_000_000_000 + number),
        "endTimeUnixNano": str(1_796_000_000_000_001_000 + number),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }
