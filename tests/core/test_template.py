"""The template's tokens: what the prompt holds beyond its chunks, and how that is tracked over many calls."""

from __future__ import annotations

from typing import Any

import pytest

from otel_prompt_trace.core.counting import TokenCounts
from otel_prompt_trace.core.grade import Grade, grade
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.core.template import TemplateTrack, track
from tests.core.by_hand import Script
from tests.core.test_checks import words

SIZES = {"a": 5, "b": 3, "c-1.md#two words": 4, "1": 2}


def asked(
    kept: list[str], question: str = "Why is it so ?", *, rider: str = "", qid: str = "q1", **request: Any
) -> Grade:
    """A call of a template with five words around, three between two chunks, and their ids."""
    script = Script(qid=qid)
    script("query", question=question, origin="query")
    script("retrieval", hits=[{"rank": n, "chunk_id": chunk} for n, chunk in enumerate(SIZES, 1)])
    prompt = Prompt().add("system", f"In 1 or 2 words.{rider}")  # five, and the rider's
    for chunk in kept:
        prompt.literal(f"\n\n[ {chunk} ]\n").add("rag", "word " * SIZES[chunk], source_id=chunk, trust="retrieved")
        prompt.literal("end")
    prompt.literal("\n\n").add("user", question)
    pieces = [{name: item for name, item in placed.items() if name != "kind"} for placed in prompt.placed]
    script.call("k1", prompt.text, *pieces, **{"model": "public", **request})
    return grade(script.record(), words)


def counts(graded: Grade) -> TokenCounts:
    """Of the one call."""
    return graded.calls[0].tokens


def test_the_residual_is_the_prompt_less_its_chunks() -> None:
    """Whatever stands around them: system, ids, question."""
    found = counts(asked(["a", "b"]))
    assert (found.prompt, found.chunks, found.template) == (5 + 8 + 8 + 5, 8, 18)
    assert found.declared == 5 + 3 + 4 + 1 + 5


@pytest.mark.parametrize("kept", [["a", "b"], ["b", "a"], ["c-1.md#two words", "1"], ["a", "b", "1"]])
@pytest.mark.parametrize("question", ["Why ?", "Why is it so , in 1 word ?"])
def test_what_is_tracked_depends_on_the_template_alone(kept: list[str], question: str) -> None:
    """Other chunks, more of them, other ids and another question give the same numbers."""
    found = counts(asked(kept, question))
    assert (found.around, found.between) == (5 + 2 + 1, 1 + 2)


def test_one_chunk_has_nothing_between() -> None:
    """Which says nothing of the template between two."""
    found = counts(asked(["a"]))
    assert (found.around, found.between) == (8, None)


def test_without_chunks_without_an_encoding_or_with_a_cut_text_there_is_no_residual() -> None:
    """Unknown, never nought."""
    assert counts(asked([])).template is None
    assert counts(asked(["a"], model="secret")).template is None
    script = Script()
    script("retrieval", hits=[{"rank": 1, "chunk_id": "a"}])
    script.call("k1", "one two", {"producer": "rag", "text": "two", "source_id": "a"}, model="public")
    assert counts(grade(script.record("hash"), words)).template is None
    assert counts(grade(script.record(), words)).template == 1


def test_counts_of_the_packing_stand_in_where_there_is_no_encoding() -> None:
    """An application that counts for itself tells both numbers."""
    script = Script()
    packing = {"budget": 9, "tokens": 2, "measure": "texts", "kept": 1, "chunks": [{"chunk_id": "a", "tokens": 70}]}
    script("retrieval", hits=[{"rank": 1, "chunk_id": "a"}], packing=packing)
    piece = {"producer": "rag", "text": "two", "source_id": "a"}
    script.call("k1", "one two", piece, model="secret", prompt_tokens=100)
    assert counts(grade(script.record(), words)).template == 30


def follow(*graded: Grade) -> list[TemplateTrack]:
    """The tracks of these calls, in this order."""
    return list(track((g.qid, 1, g.calls[0].tokens) for g in graded))


def test_a_constant_template() -> None:
    """Said in one line, however many chunks there were."""
    (found,) = follow(asked(["a", "b"]), asked(["b"]), asked([]), asked(["b", "1", "a"], "Really ?"))
    assert found.constant
    assert found.sentence == "public: the template has 11 tokens, constant over 3 calls with chunks"


def test_a_rider_shows_where_it_came() -> None:
    """The first query with it is named, and the one where it went again."""
    rider = " Mind the gap."
    calls = [asked(["a", "b"], qid="q1"), asked(["b"], qid="q2"), asked(["a"], qid="q3", rider=rider)]
    (found,) = follow(*calls, asked(["a", "1"], qid="q4", rider=rider), asked(["a", "1"], qid="q5"))
    assert [(c.qid, c.after - c.before) for c in found.changes] == [("q3", 3), ("q5", -3)]
    assert found.sentence == (
        "public: the template changed from 11 tokens to 14 at q3 call 1, then 14 tokens to 11 at q5 call 1; "
        "5 calls with chunks"
    )


def test_a_template_that_always_changes() -> None:
    """Has no one size, and that is said as such."""
    (found,) = follow(*(asked(["a"], rider=" word" * n, qid=f"q{n}") for n in range(8)))
    assert found.sentence == "public: the template has 8 to 15 tokens, changed 7 times over 8 calls with chunks"


def test_each_model_has_its_own() -> None:
    """Two encodings count one template differently: that is no change."""
    one, other = asked(["a"]), asked(["a"], model="public")
    counted = counts(other)
    tracks = list(track([("q1", 1, counts(one)), ("q2", 1, TokenCounts("else", 9, 1, around=99)), ("q3", 1, counted)]))
    assert [(t.model, t.calls, t.constant) for t in tracks] == [("public", 2, True), ("else", 1, True)]


def test_nothing_to_track() -> None:
    """No chunks, no line."""
    assert follow(asked([]), asked(["a"], model="secret")) == []
