"""The template residual of 1,388 real prompts: one number for each template, whatever was retrieved and asked."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from otel_prompt_trace import tokens
from otel_prompt_trace.core.counting import TokenCounts
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.template import track
from tests.core.by_hand import Script
from tests.corpus.conftest import Lines

pytestmark = pytest.mark.corpus


def counted(record: dict[str, Any]) -> TokenCounts:
    """The counts of one prompt, declared as its builder says."""
    script = Script()
    script("query", question=record["question"], origin="query")
    script("retrieval", hits=record["retrieved"], dropped=record["chunks_dropped"], rule="continue")
    pieces = []
    for piece in record["pieces"]:
        trust = {"rag": "retrieved", "user": "user"}.get(piece["producer"], "owner")
        named = {} if piece["id"] is None else {"source_id": piece["id"]}
        pieces.append({"producer": piece["producer"], "text": piece["text"], "trust": trust, **named})
    script.call("k1", record["prompt"], *pieces, model="cl100k_base")
    return grade(script.record(), tokens.count).calls[0].tokens


def test_one_template_has_one_size(corpus_lines: Lines) -> None:
    """Grouped by system text, every prompt with a chunk has the same template, and the residual adds up."""
    found: dict[str, list[tuple[str, int, TokenCounts]]] = defaultdict(list)
    chunkless = 0
    for record in corpus_lines("rag_plain"):
        counts = counted(record)
        assert counts.prompt == record["prompt_tokens_cl100k"]
        if not record["chunks_in_prompt"]:
            chunkless += 1
            assert counts.template is None
            continue
        assert counts.chunks is not None
        assert counts.template == counts.prompt - counts.chunks > 0
        found[record["system"]].append((record["qid"], 1, counts))
    assert sum(map(len, found.values())) + chunkless == 1_388
    for system, calls in found.items():
        (template,) = track(calls)
        assert template.changes == [], (system, template.sentence)


def test_a_rider_is_a_change(corpus_lines: Lines) -> None:
    """Among the prompts that it was put into nothing but the rider tells them from those without it."""
    calls = defaultdict(list)
    for record in corpus_lines("rag_variants"):
        if record["variant"] in ("all_declared", "undeclared_rider") and record["chunks_in_prompt"]:
            calls[record["variant"]].append((record["qid"], 1, counted(record)))
    plain, ridden = calls["all_declared"][:3], calls["undeclared_rider"][:3]
    sizes = {name: {c.around for _, _, c in calls[name]} for name in calls}
    assert sizes["all_declared"].isdisjoint(sizes["undeclared_rider"])
    (template,) = track([*plain, *ridden])
    assert ridden[0][0] in {change.qid for change in template.changes}
