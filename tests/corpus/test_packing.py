"""The corpus' own clamp, done again: the same chunks are dropped.

Its builder took the five best passages and kept, by rank, each whose text fits into what is left of 1,400 tokens of
``cl100k_base``: the rule ``continue``, the budget for the chunks' texts. It kept the texts of what is in a prompt, so a
dropped passage is known where it stands in another prompt of the same source.
"""

from __future__ import annotations

from typing import Any

import pytest

from otel_prompt_trace import tokens
from otel_prompt_trace.core.packing import Chunk, pack
from tests.corpus.conftest import Lines

pytestmark = pytest.mark.corpus

BUDGET = 1_400
PROMPTS, WHOLLY_KNOWN = 1_388, 1_071

_counted: dict[str, int] = {}


def count(text: str) -> int:
    """Tokens, each text once."""
    if text not in _counted:
        found = tokens.count(text, "cl100k_base")
        assert found is not None
        _counted[text] = found
    return _counted[text]


@pytest.fixture(scope="module")
def recipes(corpus_lines: Lines) -> list[tuple[dict[str, Any], list[Chunk]]]:
    """Every prompt with those of its retrieved chunks whose text is known."""
    records = list(corpus_lines("rag_plain"))
    texts = {
        (record["source"], record["lang"], piece["id"]): piece["text"]
        for record in records
        for piece in record["pieces"]
        if piece["producer"] == "rag"
    }
    found = []
    for record in records:
        ids = [(hit["rank"], hit["chunk_id"]) for hit in record["retrieved"]]
        named = [(rank, chunk, texts.get((record["source"], record["lang"], chunk))) for rank, chunk in ids]
        found.append((record, [Chunk(chunk, text, rank) for rank, chunk, text in named if text is not None]))
    return found


def test_the_same_chunks_are_dropped(recipes: list[tuple[dict[str, Any], list[Chunk]]]) -> None:
    """Wherever all five are known exactly those; elsewhere those that are known, for the unknown ones were dropped."""
    whole = dropping = 0
    for record, chunks in recipes:
        packed = pack(chunks, BUDGET, count, rule="continue", measure="texts")
        known = {chunk.chunk_id for chunk in chunks}
        assert [c.chunk_id for c in packed.dropped] == [c for c in record["chunks_dropped"] if c in known]
        assert len(packed.kept) == record["chunks_in_prompt"]
        whole += len(chunks) == len(record["retrieved"])
        dropping += bool(packed.dropped)
    assert (len(recipes), whole) == (PROMPTS, WHOLLY_KNOWN)
    assert dropping > 50


def test_the_other_rule_and_the_other_measure_drop_others(recipes: list[tuple[dict[str, Any], list[Chunk]]]) -> None:
    """So the test above could fail: each of the two says something else of some of these prompts."""
    other = {"break": 0, "joined": 0}
    for record, chunks in recipes:
        if len(chunks) < len(record["retrieved"]):
            continue
        stopped = pack(chunks, BUDGET, count, rule="break", measure="texts")
        joined = pack(chunks, BUDGET, count, rule="continue", template="[{id}]\n{text}")
        other["break"] += [c.chunk_id for c in stopped.dropped] != record["chunks_dropped"]
        other["joined"] += [c.chunk_id for c in joined.dropped] != record["chunks_dropped"]
        assert joined.tokens <= BUDGET
    assert min(other.values()) > 20, other
