"""Records from outside: whatever stands in a field, the record is graded, printed, diagnosed and compared."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from otel_prompt_trace.core.diagnosis import diagnose
from otel_prompt_trace.core.diff import diff_calls
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.published import published
from otel_prompt_trace.core.record import project
from otel_prompt_trace.core.template import track
from otel_prompt_trace.core.text import wrap

HUGE = int("f" * 5_000, 16)
NUMBERS: list[Any] = [0, 1, -1, -1.5, float("nan"), True, 2**63, HUGE]
LISTS: list[Any] = [[], [1, None], [[HUGE]], [[[[1]]]], [5, 3], [3, HUGE]]
ODD = [*NUMBERS, *LISTS, "[/] \x1b[2J \ud83d", "", None, {}, {"a": [1]}, b"\xff", {"chunks": 5}, {"chunks": [5]}]
HITS = [{"rank": 1, "chunk_id": "a"}, {"rank": 2, "chunk_id": "b"}]
BASE: dict[str, dict[str, Any]] = {
    "query": {"question": "?"},
    "retrieval": {"hits": HITS, "dropped": ["b"], "rule": "break"},
    "piece": {"call": "c", "producer": "rag", "text": "abc", "source_id": "a"},
    "request": {"call": "c", "prompt": "say abc", "model": "m", "evidence": "declared"},
    "response": {"call": "c", "output": "abc", "usage": {"input_tokens": 5}},
    "end": {"ms": {}},
}
FIELDS = {
    "query": "question policy origin",
    "retrieval": "hits dropped rule top_k packing chunk_tokens template_tokens index_version",
    "piece": "producer text source_id trust start end segment inline value hmac_sha256 chars",
    "request": "prompt messages model encoding prompt_tokens parameters tools response_format evidence segments "
    "temperature body held_by_reference",
    "response": "output usage finish_reason error",
    "end": "ms",
}


def told(lines: dict[str, dict[str, Any]]) -> None:
    """All that can be said of it, as JSON."""
    events = [
        {
            "v": "1.0",
            "kind": kind,
            "qid": "q1",
            "ts": f"2026-11-30T00:00:00.{n:09d}Z",
            "writer": "w",
            "seq": n,
            **fields,
        }
        for n, (kind, fields) in enumerate(lines.items(), 1)
    ]
    record = project("q1", events)
    graded = grade(record, lambda text, _model: len(text.split()))
    shape: list[Any] = [published(record, graded)]
    calls = graded.calls
    for expected in ("a", "b", "abc", "not there", ""):
        found = diagnose(record, expected, calls[0] if calls else None)
        shape += [found.sentence, [factor.evidence for factor in found.factors], found.exit_code]
    if calls:
        compared = diff_calls(calls[0], calls[0])
        assert not compared.different
        shape += [template.sentence for template in track((record.qid, 1, call.tokens) for call in calls)]
    shape += [check.detail for call in calls for check in call.checks]
    assert orjson.loads(orjson.dumps(wrap(shape)))


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind, fields in FIELDS.items() for field in fields.split()]
)
def test_a_field_of_any_type(kind: str, field: str) -> None:
    """And a field that is not there."""
    for value in ODD:
        told({**BASE, kind: {**BASE[kind], field: value}})
    told({**BASE, kind: {name: item for name, item in BASE[kind].items() if name != field or name == "call"}})


@pytest.mark.parametrize("field", ["rank", "chunk_id", "score", "text"])
def test_a_hit_of_any_type(field: str) -> None:
    """Also among others that are as they should be."""
    for value in ODD:
        hits = [{"rank": 1, "chunk_id": "a"}, {"rank": 2, "chunk_id": "b", field: value}, value]
        told({**BASE, "retrieval": {"hits": hits, "dropped": ["b", value]}})


@pytest.mark.parametrize("field", ["budget", "tokens", "chunks", "measure", "kept"])
def test_a_packing_of_any_type(field: str) -> None:
    """Its chunks as well."""
    for value in ODD:
        chunks = [{"chunk_id": "b", "tokens": value}, {"chunk_id": value}, value]
        packing = {"budget": 9, "tokens": 5, "chunks": chunks, field: value}
        told({**BASE, "retrieval": {**BASE["retrieval"], "packing": packing, "chunk_tokens": 5, "top_k": value}})


@pytest.mark.parametrize("kind", list(BASE))
def test_a_kind_that_is_missing(kind: str) -> None:
    """A record may begin or end anywhere."""
    told({name: fields for name, fields in BASE.items() if name != kind})
