"""Nested pieces: counted once, told apart from duplicates, and how much they say again."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core import overlaps as limits
from otel_prompt_trace.core.census import Census, census
from otel_prompt_trace.core.overlaps import overlaps
from otel_prompt_trace.core.pieces import Piece
from tests.core.test_census import owned_and_left

Told = tuple[list[dict[str, Any]], list[tuple[str, str]], int]


def embedding(turns: int) -> Told:
    """Messages of which each question carries the whole transcript so far; its pieces, and what they say again."""
    messages, pieces, again = [], [], 0
    transcript = before = ""
    for n in range(turns):
        question, answer = f"What of the year {1900 + n}?", f"In {1900 + n} nothing of note came to pass."
        messages += [
            {"role": "user", "content": transcript + question},
            {"role": "assistant", "content": answer},
        ]
        pieces += [("history", transcript), ("user", question), ("model", answer)]
        if transcript:
            again += (
                len(before) + len(f"What of the year {1899 + n}?") + len(f"In {1899 + n} nothing of note came to pass.")
            )
        before = transcript
        transcript += f"User: {question}\nAssistant: {answer}\n"
    return messages, pieces, again


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("turns", [2, 3, 12, 40])
def test_history_inside_history(turns: int, ordered: bool) -> None:
    """All is declared and all is located: no duplicate, nothing contested, no character twice; and what is repeated."""
    messages, pieces, again = embedding(turns)
    found = census(messages, pieces, ordered=ordered)
    assert (found.verdict, found.unaccounted) == ("exact", 0)
    assert {p.state for p in found.pieces if p.piece.text} == {"located"}
    assert sum(found.by_producer().values()) == found.total
    assert (found.overlaps().by_producer, found.overlaps().complete) == ({"history": again}, True)


def test_history_that_nobody_declared() -> None:
    """The texts of earlier turns are located in their own messages; the transcripts are the gaps."""
    messages, pieces, _ = embedding(4)
    found = census(messages, [piece for piece in pieces if piece[0] != "history"])
    assert {p.state for p in found.pieces} == {"located"}
    assert [g.text for g in found.gaps] == [text for producer, text in pieces if producer == "history" and text]
    assert found.overlaps().by_producer == {}


@pytest.mark.parametrize("ordered", [True, False])
def test_a_question_inside_a_chunk(ordered: bool) -> None:
    """It stands on its own as well: two pieces, two places, and of the chunk's characters some are the question's."""
    chunk, question = "## Path parameters\nDeclare them in the path.", "Path parameters"
    found = census(f"{chunk}\n\nQuestion: {question}", [("rag", chunk), ("user", question)], ordered=ordered)
    assert [(p.state, p.start) for p in found.pieces] == [("located", 0), ("located", len(chunk) + 12)]
    assert found.overlaps().by_producer == {"rag": len(question)}
    lost = census(f"{chunk}\n\nQuestion: ?", [("rag", chunk), ("user", question)], ordered=ordered)
    assert (lost.pieces[1].state, lost.reasons) == ("contested", ("contested_piece", "gap"))
    assert lost.overlaps().by_producer == {"rag": len(question)}


@pytest.mark.parametrize("ordered", [True, False])
def test_a_duplicate_is_not_nested(ordered: bool) -> None:
    """A second declaration of a text that stands once says nothing again; nor does one that stands twice."""
    once = census("One two.\nThree.", [("a", "One two."), ("b", "One two."), ("c", "Three.")], ordered=ordered)
    assert sorted(p.state for p in once.pieces) == ["duplicate", "located", "located"]
    assert once.overlaps().by_producer == {}
    twice = census("One two.\nOne two.", [("a", "One two."), ("b", "One two.")], ordered=ordered)
    assert twice.overlaps().by_producer == {}


def test_what_is_no_text_of_its_own() -> None:
    """White space, and a word inside a longer word, are in every text and say nothing of where it came from."""
    found = census("a book\nof ours\nok", [("rag", "a book\nof ours"), ("t", "\n"), ("user", "ok")])
    assert found.verdict == "exact"
    assert found.overlaps().by_producer == {}


def test_an_inline_piece_says_nothing_again() -> None:
    """It rides inside the other, and its characters are its own."""
    found = census("Dear Ann, hi. Bye", [("t", "Dear Ann, hi."), Piece("name", "Ann", inline=True), ("end", " Bye")])
    assert found.by_producer() == {"t": 10, "name": 3, "end": 4}
    assert found.overlaps().by_producer == {}


texts = st.text("ab .", min_size=1, max_size=5)


@given(st.lists(texts, min_size=1, max_size=6), st.lists(texts, max_size=4))
@settings(deadline=None, max_examples=200)
def test_no_producer_repeats_more_than_it_owns(rendered: list[str], more: list[str]) -> None:
    """Whatever is declared: the repeated characters are some of those that are owned."""
    pieces = [(f"p{n % 3}", text) for n, text in enumerate([*rendered, *more])]
    found: Census = census("|".join(rendered), pieces)
    nested, owned = found.overlaps(), found.by_producer()
    assert all(0 < count <= owned[producer] for producer, count in nested.by_producer.items())
    assert sum(nested.by_producer.values()) <= len(owned_and_left(found)[0])


def test_too_many_texts_are_left_out_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest are looked for; the count is what was found, and not called complete."""
    messages, pieces, again = embedding(30)
    found = census(messages, pieces)
    monkeypatch.setattr(limits, "LOOKS", 50)
    short = found.overlaps()
    assert not short.complete
    assert 0 < short.by_producer["history"] < again
    monkeypatch.setattr(limits, "CHARS", 10)
    assert not found.overlaps().complete


def test_hard_inputs_come_to_an_end() -> None:
    """One letter in all lengths, and many texts in a long prompt."""
    letters = "a" * 200_000
    began = time.perf_counter()
    pieces = [("all", letters), *[("p", "a" * n) for n in range(1, 400)], ("z", "!")]
    assert not census(letters + "!", pieces).overlaps().complete
    many = [f"{n}." * 20 for n in range(3_000)]
    found = census("".join(many), [(f"p{n % 2}", text) for n, text in enumerate(many)])
    overlaps([segment.text for segment in found.segments], found.pieces)
    assert time.perf_counter() - began < 20
