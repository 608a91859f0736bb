"""Retrieval: BM25 as published, ties by order, and a clamp that goes on after a chunk that does not fit."""

from __future__ import annotations

import math

import pytest

from otel_prompt_trace import tokens
from otel_prompt_trace.demo.conversation import indexed
from otel_prompt_trace.demo.handbook import CHUNKS, Chunk
from otel_prompt_trace.demo.retrieval import Hit, Index, clamp, words

QUESTION = "How long do we keep customer records after an account is closed?"
BUDGET = 720


def chunks(*texts):
    return [Chunk(f"c{number}", "", text) for number, text in enumerate(texts)]


def found(hits):
    return [(hit.rank, hit.chunk.chunk_id) for hit in hits]


def in_o200k(text):
    count = tokens.count(text, "o200k_base")
    assert count is not None
    return count


def test_scores_by_hand():
    """Three chunks of 2, 3 and 1 words (mean 2), "a" in two of them: idf = ln 1.6, norms 1.2 and 1.65."""
    first, second = Index(chunks("a b", "A, a c", "d")).search("a", 5)
    assert found([first, second]) == [(1, "c1"), (2, "c0")]
    assert first.score == pytest.approx(math.log(1.6) * 2 * 2.2 / (2 + 1.65), rel=1e-12)
    assert first.score == pytest.approx(0.56657972, abs=1e-8)
    assert second.score == pytest.approx(math.log(1.6), rel=1e-12)


def test_a_score_is_the_sum_over_distinct_words():
    """Words of the question add up; asking for one twice changes nothing; an absent one adds nothing."""
    index = Index(chunks("a b", "a a c", "d"))
    score = {word: {hit.chunk.chunk_id: hit.score for hit in index.search(word, 5)} for word in "abc"}
    both = index.search("a b b zebra", 5)
    assert {hit.chunk.chunk_id: hit.score for hit in both} == pytest.approx(
        {"c0": score["a"]["c0"] + score["b"]["c0"], "c1": score["a"]["c1"]}
    )


def test_a_word_of_every_chunk_still_counts():
    """A word that stands everywhere has a small weight above zero, never a negative one."""
    assert [hit.score > 0 for hit in Index(chunks("a b", "a c")).search("a", 5)] == [True, True]


def test_ties_keep_the_order_of_the_index():
    """Equal scores rank in index order, whichever way the chunks were found."""
    assert found(Index(chunks("x y", "y x", "z", "x y")).search("y x", 3)) == [(1, "c0"), (2, "c1"), (3, "c3")]


def test_no_shared_word_is_no_hit():
    """A chunk without a word of the question is not returned to fill up top_k, and an empty index has no hits."""
    assert Index(chunks("a b", "c d")).search("e?", 5) == []
    assert Index([]).search("a", 5) == []
    assert Index(chunks("", "...")).search("a", 5) == []


def test_top_k_must_be_positive():
    """A top_k of zero is a mistake of the caller and is named."""
    with pytest.raises(ValueError, match="top_k"):
        Index(chunks("a")).search("a", 0)


def test_words_are_lower_case_runs_of_letters_and_digits():
    """Punctuation, case and Markdown play no part; accents do."""
    assert words("## Élan's 45p — a_b, Größe") == ["élan", "s", "45p", "a_b", "größe"]


@pytest.mark.parametrize("index", [CHUNKS, indexed()], ids=["handbook", "conversation"])
def test_the_question_finds_both_policies_and_the_clamp_drops_one(index):
    """Five chunks are found, the outdated policy above the new one; one is dropped from the middle: 4 + 1 = 5."""
    hits = Index(index).search(QUESTION, 5)
    ids = [hit.chunk.chunk_id for hit in hits]
    assert ids[:2] == ["retention-2019#customer-records", "retention-2024#customer-records"]
    assert set(ids[2:]) == {"records#legal-hold", "records#backups", "records#deletion-requests"}
    kept, dropped = clamp(hits, BUDGET, in_o200k)
    assert [hit.chunk.chunk_id for hit in dropped] == ["records#backups"]
    assert dropped[0].rank == 4
    assert sorted([*kept, *dropped], key=lambda hit: hit.rank) == hits
    assert [hit.rank for hit in kept] == [1, 2, 3, 5]


def test_the_drop_does_not_hang_on_a_token():
    """Fifty tokens more or less in the budget drop the same chunk, so another tokenizer tells the same story."""
    hits = Index(CHUNKS).search(QUESTION, 5)
    for budget in (BUDGET - 50, BUDGET + 50):
        assert [hit.chunk.chunk_id for hit in clamp(hits, budget, in_o200k)[1]] == ["records#backups"]


def test_clamp_skips_what_does_not_fit_and_goes_on():
    """Sizes 3, 5, 2, 1 under a budget of 6 keep 3, 2 and 1: the last token is used, none beyond it."""
    hits = [Hit(rank, chunk, 1.0) for rank, chunk in enumerate(chunks("aaa", "bbbbb", "cc", "d"), start=1)]
    assert tuple(map(found, clamp(hits, 6, len))) == ([(1, "c0"), (3, "c2"), (4, "c3")], [(2, "c1")])
    assert tuple(map(found, clamp(hits, 5, len))) == ([(1, "c0"), (3, "c2")], [(2, "c1"), (4, "c3")])
    assert clamp(hits, 0, len) == ([], hits)
    assert clamp([], 6, len) == ([], [])
