"""The report: the exit code, and that all that went wrong is named in both of its forms."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from otel_prompt_trace.batch.report import COLUMNS, CallRow, CensusReport, Unjoined
from otel_prompt_trace.core.events import Problem

ROW: dict[str, Any] = {
    "qid": "Q", "call": "c", "number": 1, "total": 10, "covered": 10, "unaccounted": 0, "unlocatable": 0,
    "verdict": "exact", "reasons": (), "span_joined": "pass",
}  # fmt: skip
EXACT = CallRow(**ROW)
MISMATCH = CallRow(**{**ROW, "number": 2, "covered": 4, "unaccounted": 6, "verdict": "mismatch", "reasons": ("gap",)})
UNKNOWN = CallRow(
    **{**ROW, "number": 3, "verdict": "unknown", "reasons": ("no_prompt",), "span_joined": "fail"}
    | dict.fromkeys(("total", "covered", "unaccounted", "unlocatable"))
)
LOST_SPAN = Unjoined("Q", None, "0" * 31 + "1", "0" * 15 + "2", "chat m", "nothing is stored of its query")
LOST_CALL = Unjoined("Q", "c", None, None, None, "recorded without a span")


@pytest.mark.parametrize(
    ("rows", "more", "code"),
    [
        ([EXACT], {}, 0),
        ([EXACT, MISMATCH, UNKNOWN], {}, 1),
        ([EXACT, UNKNOWN], {}, 3),
        ([], {}, 3),
        ([EXACT], {"spans_without_payload": (LOST_SPAN,)}, 3),
        ([EXACT], {"payloads_without_span": (LOST_CALL,)}, 3),
        ([MISMATCH], {"payloads_without_span": (LOST_CALL,)}, 1),
        ([EXACT], {"without_calls": ("R",)}, 3),
        ([EXACT], {"failed": ("R",)}, 3),
        ([EXACT], {"span_problems": (Problem("f", 1, "torn"),)}, 3),
        ([EXACT], {"payload_problems": (Problem("f", 1, "torn"),)}, 3),
        ([EXACT], {"erased": 2, "duplicates": 5, "left_out": ("notes.txt",)}, 0),
    ],
)
def test_exit_code(rows: list[CallRow], more: dict[str, Any], code: int) -> None:
    """0 only where all is exact, joined and readable; 1 for any mismatch; 3 for all between."""
    assert CensusReport(rows=tuple(rows), **more).exit_code == code


def test_everything_is_named_in_both_forms() -> None:
    """Each lost span, lost payload, problem and file left out stands in the text and in the JSON."""
    report = CensusReport(
        rows=(EXACT, MISMATCH, UNKNOWN),
        queries=2,
        without_calls=("RETRIEVAL",),
        erased=1,
        joins={"joined": 2, "span_without_payload": 1, "payload_without_span": 1},
        spans_without_payload=(LOST_SPAN,),
        payloads_without_span=(LOST_CALL,),
        spans=4,
        duplicates=3,
        span_lines=9,
        span_problems=(Problem("spans.jsonl", 7, "torn line at the end"),),
        payload_problems=(Problem("key", 0, "wrong magic"),),
        left_out=("notes.txt", "odd-\udcff"),
    )
    text = "\n".join(report.lines())
    for named in (
        "3 calls of 2 queries: 1 exact, 1 mismatch, 1 unknown",
        "20 characters: 14 covered, 6 unaccounted; 0 pieces unlocatable",
        "4 spans in 9 lines, 3 repeated and counted once; 2 joins",
        "1 erased queries are hidden",
        f"  span {LOST_SPAN.span_id} of trace {LOST_SPAN.trace_id} (chat m), query Q: nothing is stored of its query",
        "  query Q, call c: recorded without a span",
        "  RETRIEVAL",
        "  spans.jsonl:7: torn line at the end",
        "  key: wrong magic",
        "  notes.txt",
    ):
        assert named in text.split("\n")
    shown = orjson.loads(orjson.dumps(report.to_dict()))
    assert shown["exit_code"] == 1
    assert [call["verdict"] for call in shown["calls"]] == ["exact", "mismatch", "unknown"]
    assert shown["totals"] == {
        "calls": 3, "total": 20, "covered": 14, "unaccounted": 6, "unlocatable": 0,
        "exact": 1, "mismatch": 1, "unknown": 1,
    }  # fmt: skip
    assert shown["spans_without_payload"][0]["span_id"] == LOST_SPAN.span_id
    assert shown["payloads_without_span"][0]["detail"] == "recorded without a span"
    assert shown["problems"] == [
        {"source": "spans.jsonl", "line": 7, "reason": "torn line at the end"},
        {"source": "key", "line": None, "reason": "wrong magic"},
    ]
    assert shown["left_out"] == ["notes.txt", "odd-\\udcff"]


def test_table_has_a_row_for_each_call() -> None:
    """Cells stand under the columns; a count that is not known is no zero."""
    report = CensusReport(rows=(EXACT, UNKNOWN))
    assert report.table() == [
        ("Q", "1", "10", "10", "0", "0", "exact", "", "joined"),
        ("Q", "3", "-", "-", "-", "-", "unknown", "no_prompt", "none"),
    ]
    head, first, second, *_ = report.lines()
    assert head.split() == list(COLUMNS)
    assert first.index("exact") == second.index("unknown") == head.index("verdict")
