"""2,108 prompts of retrieval applications, built from real passages and questions: offsets as the builder has them.

The builder knows where it put each text. Two variants are told otherwise on purpose. ``one_blob`` declares the whole
prompt as one piece, which accounts for nothing. ``strip`` renders the texts stripped, so that the builder calls them
absent; the declared text does stand there, across the joiner, and is located.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from otel_prompt_trace.core.census import Census, census
from otel_prompt_trace.core.pieces import Piece
from tests.corpus.conftest import Lines

pytestmark = pytest.mark.corpus

PROMPTS = 2_108
APART = {"one_blob": 24, "strip": 24}


@pytest.fixture(scope="module")
def results(corpus_lines: Lines) -> list[tuple[dict[str, Any], Census]]:
    """Every record with its census, pieces in declared order."""

    def records() -> Iterator[dict[str, Any]]:
        yield from corpus_lines("rag_plain")
        yield from corpus_lines("rag_variants")

    def pieces(record: dict[str, Any]) -> list[Piece]:
        return [Piece(p["producer"], p["text"], source_id=p["id"]) for p in record["pieces"]]

    return [(record, census(record["prompt"], pieces(record))) for record in records()]


def differences(record: dict[str, Any], found: Census) -> list[str]:
    """Where a census is not what the builder says."""
    expected, different = record["expected"], []
    for name, value in {
        "total_chars": found.total,
        "covered_chars": found.covered,
        "unaccounted_chars": found.unaccounted,
        "verdict": found.verdict,
    }.items():
        if value != expected[name]:
            different.append(f"{name}: {value}, not {expected[name]}")
    for piece, placed in zip(record["pieces"], found.pieces, strict=True):
        if not piece["text"]:
            right = placed.state == "empty"
        elif piece["verbatim"]:
            right = (placed.state, placed.start, placed.end) == ("located", piece["start"], piece["end"])
        else:
            right = placed.state == "unlocatable"
        if not right:
            different.append(
                f"{placed.piece.label}: {placed.state} {placed.start}-{placed.end}, not {piece['start']}-{piece['end']}"
            )
    unlocatable = sorted((p.producer, p.source_id or "") for p in found.unlocatable)
    if unlocatable != sorted((p["producer"], p["id"] or "") for p in expected["unlocatable"]):
        different.append(f"unlocatable: {unlocatable}")
    return different


def test_the_corpus_is_whole(results: list[tuple[dict[str, Any], Census]]) -> None:
    """No prompt is passed over in silence: their number, and that of the two variants told apart."""
    variants = Counter(record["variant"] for record, _ in results)
    print_table(results)
    assert len(results) == PROMPTS
    assert {name: variants[name] for name in APART} == APART


def test_every_offset_total_and_verdict_is_the_builder_s(results: list[tuple[dict[str, Any], Census]]) -> None:
    """For all prompts of all variants but the two, every single piece of them."""
    compared, wrong = 0, {}
    for record, found in results:
        if record["variant"] not in APART:
            compared += 1
            different = differences(record, found)
            if different:
                wrong[record["qid"], record["variant"]] = different
    assert wrong == {}
    assert compared == PROMPTS - sum(APART.values())


def test_one_blob_accounts_for_nothing(results: list[tuple[dict[str, Any], Census]]) -> None:
    """The builder says exact, and the rule stands over the builder: unknown, nothing covered."""
    blobs = [found for record, found in results if record["variant"] == "one_blob"]
    assert len(blobs) == APART["one_blob"]
    for found in blobs:
        assert [p.state for p in found.pieces] == ["whole_prompt"]
        assert (found.covered, found.unaccounted, found.verdict) == (0, found.total, "unknown")
        assert "whole_prompt_piece" in found.reasons


def test_strip_is_located_across_the_joiner(results: list[tuple[dict[str, Any], Census]]) -> None:
    """Some text that the builder calls absent stands there to the character, and every located piece is verified."""
    stripped = [(record, found) for record, found in results if record["variant"] == "strip"]
    assert len(stripped) == APART["strip"]
    for record, found in stripped:
        assert found.total == record["expected"]["total_chars"]
        across = 0
        for piece, placed in zip(record["pieces"], found.pieces, strict=True):
            if placed.state == "located":
                assert record["prompt"][placed.start : placed.end] == piece["text"]
                across += not piece["verbatim"]
        assert across > 0
        assert found.verdict != "exact"


def print_table(results: list[tuple[dict[str, Any], Census]]) -> None:
    """What the counts are, for whoever runs this with ``-s``."""
    rows: dict[str, Counter[str]] = {}
    for record, found in results:
        row = rows.setdefault(record["variant"], Counter())
        row["prompts"] += 1
        row["pieces"] += len(found.pieces)
        row["located"] += len(found.located)
        row["total"] += found.total
        row["unaccounted"] += found.unaccounted
        row[found.verdict] += 1
    names = ["prompts", "pieces", "located", "total", "unaccounted", "exact", "mismatch", "unknown"]
    print(f"\n{'variant':<26}" + "".join(f"{name:>12}" for name in names))
    for variant, row in [*sorted(rows.items()), ("all", sum(rows.values(), Counter()))]:
        print(f"{variant:<26}" + "".join(f"{row[name]:>12,}" for name in names))
