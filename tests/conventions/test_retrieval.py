"""Hits of a retriever, by rank, in the forms in which they are written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_prompt_trace.core.conventions.message_events import Carried
from otel_prompt_trace.core.conventions.projection import project

HITS = [
    {"rank": 1, "chunk_id": "a", "score": 0.9, "text": "A"},
    {"rank": 2, "chunk_id": "b", "score": 0.5, "text": "B"},
]
DOCUMENTS = [{"id": "a", "score": 0.9, "content": "A"}, {"id": "b", "score": 0.5, "content": "B"}]


def flat(prefix: str) -> dict[str, Any]:
    """Documents as OpenInference flattens them."""
    return {f"{prefix}.{n}.document.{name}": v for n, d in enumerate(DOCUMENTS) for name, v in d.items()}


@pytest.mark.parametrize(
    ("content", "source"),
    [
        (flat("retrieval.documents"), "retrieval.documents"),
        (flat("reranker.output_documents"), "reranker.output_documents"),
        ({**flat("retrieval.documents"), **flat("reranker.input_documents")}, "retrieval.documents"),
        ({"gen_ai.retrieval.documents": DOCUMENTS}, "gen_ai.retrieval.documents"),
        ({"gen_ai.retrieval.documents": json.dumps(DOCUMENTS)}, "gen_ai.retrieval.documents"),
        ({"retrieval.documents": [{"document": d} for d in DOCUMENTS]}, "retrieval.documents"),
    ],
)
def test_documents(content: dict[str, Any], source: str) -> None:
    """The same two hits in every form."""
    assert project(content, {"openinference.span.kind": "RETRIEVER"}).retrieval == {"hits": HITS, "source": source}


@pytest.mark.parametrize("name", ["db.query.result", "db.search.result"])
def test_events_of_a_vector_database(name: str) -> None:
    """One event a hit; a distance is its score, and the id may stand in the metadata."""
    events = [
        Carried(name, {f"{name}.id": "a", f"{name}.score": 0.9, f"{name}.document": "A"}),
        Carried(name, {f"{name}.metadata": '{"chunk_id": "b"}', f"{name}.distance": "0.5", f"{name}.document": "B"}),
    ]
    assert project({}, {}, events).retrieval == {"hits": HITS, "source": name}


def test_a_hole_keeps_the_ranks() -> None:
    """A document that is missing is reported, and the ones behind it keep their rank."""
    content = {key: value for key, value in flat("retrieval.documents").items() if ".0." not in key}
    assert project(content).retrieval == {
        "hits": [HITS[1]],
        "source": "retrieval.documents",
        "missing": ["retrieval.documents.0"],
    }


def test_what_was_searched_for() -> None:
    """The text of the search goes with its hits."""
    found = project({"gen_ai.retrieval.documents": DOCUMENTS, "gen_ai.retrieval.query.text": "why"}).retrieval
    assert found is not None
    assert found["question"] == "why"


@pytest.mark.parametrize(
    ("document", "hit"),
    [
        ("just text", {"chunk_id": None, "score": None, "text": "just text"}),
        ({"id": 7, "score": "n/a"}, {"chunk_id": "7", "score": None}),
        ({"id": "a", "score": float("inf")}, {"chunk_id": "a", "score": float("inf")}),
        ({}, {"chunk_id": None, "score": None}),
        (None, {"chunk_id": None, "score": None}),
    ],
)
def test_odd_documents(document: Any, hit: dict[str, Any]) -> None:
    """A document that lacks an id or a score is a hit all the same; nothing is made up for it."""
    found = project({"gen_ai.retrieval.documents": [document]}).retrieval
    assert found is not None
    assert found["hits"] == [{"rank": 1, **hit}]


def test_no_documents() -> None:
    """A span without documents has no retrieval."""
    assert project({"reranker.query": "why", "retrieval.documents": []}).retrieval is None
