"""Diagnosis: the four factors, each 1, 0 or unknown, with the evidence, and the sentence that they come to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.core.diagnosis import Diagnosis, Manifest, diagnose, known_ids
from otel_prompt_trace.core.diagnosis.quoting import LEAST, longest_quote
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.text import sha256_text
from tests.core.by_hand import Script

TEXTS = {
    "a": "Parcels are kept at the depot for ten working days and are then returned to the sender. ",
    "b": "A depot manager may extend the storage of a parcel once, by at most five working days. ",
    "c": "Lost parcels are paid for. ",
}


def asked(
    inside: str = "ab",
    *,
    hits: Any = "abc",
    dropped: str = "c",
    rule: str | None = "continue",
    rider: str = "",
    output: Any = "I do not know.",
    declare: bool = True,
    policy: str = "store",
    **retrieval: Any,
) -> Record:
    """A query that found some chunks and put some of them into its prompt."""
    script = Script()
    if hits is not None:
        found = [{"rank": n, "chunk_id": chunk, "score": 1 / n} for n, chunk in enumerate(hits, 1)]
        named = {} if rule is None else {"rule": rule}
        script("retrieval", hits=found, dropped=list(dropped), **named, **retrieval)
    pieces = [{"producer": "rag", "text": TEXTS[chunk], "source_id": chunk} for chunk in inside] if declare else []
    prompt = "Context: " + "".join(TEXTS[chunk] for chunk in inside) + rider
    script.call("k1", prompt, {"producer": "system", "text": "Context: "}, *pieces)
    if output is not None:
        script("response", call="k1", output=output, finish_reason="stop")
    return script.record(policy)


def look(record: Record, expected: str, entries: list[dict[str, Any]] | None = None) -> Diagnosis:
    """The diagnosis of the one call, with a manifest of these entries."""
    manifest = None
    if entries is not None:
        manifest = Manifest(expected, known_ids(record))
        for entry in entries:
            manifest.add(entry)
    calls = grade(record).calls
    return diagnose(record, expected, calls[0] if calls else None, manifest)


def values(found: Diagnosis) -> tuple[Any, ...]:
    """In the index, retrieved, rendered, used."""
    assert [factor.name for factor in found.factors] == ["in the index", "retrieved", "rendered", "used"]
    assert all(factor.evidence for factor in found.factors)
    return tuple(factor.value for factor in found.factors)


WHOLE = [{"chunk_id": chunk, "text": text} for chunk, text in TEXTS.items()]


class TestChunk:
    """A chunk by its id."""

    def test_all_factors_are_one(self) -> None:
        """Retrieved at a rank, rendered at offsets, quoted."""
        found = look(asked(output=f"It says: {TEXTS['a'][:60]}"), "a", WHOLE)
        assert values(found) == (1, 1, 1, 1)
        assert found.factors[1].evidence == "a: rank 1 of 3, score 1.0"
        assert found.factors[2].evidence == "rag:a at prompt [9:97]"
        assert (found.exit_code, found.zero) == (0, None)
        assert found.sentence.startswith("No factor was zero")

    def test_not_in_the_index(self) -> None:
        """By the manifest; what follows could be nothing else."""
        found = look(asked(), "z", WHOLE)
        assert values(found) == (0, 0, 0, None)
        assert found.sentence == "The factor that was zero: in the index."
        assert found.exit_code == 1

    def test_in_the_index_and_not_retrieved(self) -> None:
        """With what the manifest tells of its text, it is known not to be in the prompt either."""
        entries = [*WHOLE, {"chunk_id": "z", "text": "Zebras are not shipped."}]
        found = look(asked(), "z", entries)
        assert values(found) == (1, 0, 0, None)
        assert found.factors[1].evidence == f"not among the 3 hits; the last of them has score {1 / 3}"
        assert found.sentence == "The factor that was zero: retrieved."

    def test_without_a_manifest(self) -> None:
        """Whether it was in the index is then unknown, and is said to be."""
        found = look(asked(), "z")
        assert values(found) == (None, 0, 0, None)
        assert found.sentence == "The factor that was zero: retrieved; whether it was in the index is unknown."

    @pytest.mark.parametrize("rule", ["continue", "break", None])
    def test_dropped_by_a_rule(self, rule: str | None) -> None:
        """The rule is the evidence, with the budget where it was packed."""
        packing = {"budget": 40, "chunks": [{"chunk_id": "c", "tokens": 7}]}
        found = look(asked(rule=rule, packing=packing), "c")
        assert values(found) == (1, 1, 0, None)
        named = f"by the rule '{rule}'" if rule else "by a rule that was not named"
        assert found.factors[2].evidence == f"the application dropped c {named}: 7 tokens, out of a budget of 40"
        assert (found.sentence, found.exit_code) == ("The factor that was zero: rendered.", 1)

    def test_neither_in_the_prompt_nor_said_to_be_dropped(self) -> None:
        """Where every character is another's it is not there; where some are nobody's, that is not known."""
        assert values(look(asked(dropped=""), "c")) == (1, 1, 0, None)
        found = look(asked(dropped="", rider="What is this?"), "c")
        assert values(found) == (1, 1, None, None)
        assert "--manifest" in found.factors[2].evidence
        assert found.exit_code == 3
        assert values(look(asked(dropped="", rider="What is this?"), "c", WHOLE)) == (1, 1, 0, None)

    def test_declared_and_not_there(self) -> None:
        """With what stands there in its place, as a hint."""
        script = Script()
        script("retrieval", hits=[{"rank": 1, "chunk_id": "a"}])
        piece = {"producer": "rag", "text": TEXTS["a"], "source_id": "a"}
        script.call("k1", "Context: " + TEXTS["a"].upper(), {"producer": "system", "text": "Context: "}, piece)
        found = look(script.record(), "a")
        assert values(found) == (1, 1, 0, None)
        assert "rag:a is unlocatable" in found.factors[2].evidence
        assert found.factors[2].evidence.count("upper and lower case in prompt at 9..97") == 1

    def test_there_and_not_declared(self) -> None:
        """Its text is what was rendered, whoever names it."""
        found = look(asked(declare=False), "a", WHOLE)
        assert values(found) == (1, 1, 1, None)
        assert "prompt [9:97]" in found.factors[2].evidence

    def test_another_text_under_its_id(self) -> None:
        """An index that was built anew."""
        found = look(asked(), "a", [{"chunk_id": "a", "sha256": sha256_text("of old")}])
        assert found.factors[0].evidence.endswith("with another text than the one that was declared")
        same = look(asked(), "a", [{"chunk_id": "a", "sha256": sha256_text(TEXTS["a"])}])
        assert same.factors[0].evidence == "the manifest of 1 chunks has it"

    def test_a_manifest_of_another_index(self) -> None:
        """Is named as such."""
        entries = [{**entry, "index_version": "v2"} for entry in WHOLE]
        found = look(asked(index_version="v1"), "z", entries)
        assert found.factors[0].evidence == "the manifest of 3 chunks (of index v2; the query asked v1) has no such id"

    def test_what_was_retrieved_was_in_the_index(self) -> None:
        """Whatever a manifest of another day says."""
        assert values(look(asked(), "a", []))[0] == 1

    def test_named_in_the_answer(self) -> None:
        """A citation is no quote: what it shows is that the model has seen the id."""
        found = look(asked(output="See [a]."), "a")
        assert found.factors[3].value is None
        assert found.factors[3].evidence == "the answer names a and quotes none of it"
        assert found.sentence == (
            "No factor is known to be zero: it was in the index, retrieved, rendered; whether it was used is unknown."
        )

    @pytest.mark.parametrize("output", [None, "", [], 5])
    def test_without_an_answer(self, output: Any) -> None:
        """Nothing can be said."""
        assert look(asked(output=output), "a").factors[3].evidence == "no answer was recorded"

    def test_quoted_in_a_tool_call(self) -> None:
        """An answer may be any JSON value."""
        output = [{"tool_calls": [{"function": {"arguments": f'{{"note": "{TEXTS["a"]}"}}'}}]}]
        assert values(look(asked(output=output), "a")) == (1, 1, 1, 1)

    def test_without_a_retrieval(self) -> None:
        """It may have come from anywhere."""
        assert values(look(asked(hits=None), "a")) == (None, None, 1, None)

    def test_hits_without_ids(self) -> None:
        """It may be one of them."""
        found = look(asked(hits=["a", None]), "z")
        assert found.factors[1].evidence == "1 of 2 hits have no id"
        assert found.factors[1].value is None

    def test_under_a_policy(self) -> None:
        """Offsets and ids are kept: a chunk is found by name, what it says is not known."""
        found = look(asked(policy="hash"), "a")
        assert values(found) == (1, 1, 1, None)
        assert look(asked(policy="hash"), "Parcels are kept").factors[2].value is None


class TestText:
    """A text, or a part of one."""

    def test_a_part_of_a_chunk(self) -> None:
        """In its chunk, at its place."""
        found = look(asked(output="They are kept for ten working days."), "ten working days", WHOLE)
        assert (found.taken_as, found.chunks) == ("text", ("a",))
        assert values(found) == (1, 1, 1, 1)
        assert found.factors[0].evidence == "the manifest of 3 chunks has it in a"
        assert found.factors[2].evidence == "prompt [43:59], of rag:a"

    def test_of_a_chunk_that_was_dropped(self) -> None:
        """Which the manifest knows by its text."""
        found = look(asked(), "parcels are paid", WHOLE)
        assert values(found) == (1, 1, 0, None)
        assert "dropped c by the rule 'continue'" in found.factors[2].evidence

    def test_of_no_chunk(self) -> None:
        """By a manifest that has every text."""
        found = look(asked(), "zebras are not shipped", WHOLE)
        assert values(found) == (0, 0, 0, None)
        assert found.sentence == "The factor that was zero: in the index."

    def test_a_manifest_of_digests(self) -> None:
        """Holds a whole text or nothing that can be said."""
        digests = [{"chunk_id": chunk, "sha256": sha256_text(text)} for chunk, text in TEXTS.items()]
        assert values(look(asked(), TEXTS["b"], digests))[0] == 1
        assert values(look(asked(), "zebras are not shipped", digests))[0] is None

    def test_without_the_texts_of_the_hits(self) -> None:
        """It may have been in one that was dropped."""
        found = look(asked(), "zebras are not shipped")
        assert values(found) == (None, None, 0, None)
        assert found.factors[1].evidence == "the texts of 1 of 3 hits are not known here: c"

    @pytest.mark.parametrize(
        ("expected", "changed"),
        [
            ("TEN WORKING  DAYS", "white space collapsed, upper and lower case"),
            ("ten\nworking days", "white space collapsed"),
            ("ten working\u00a0days", "Unicode form NFKC"),
        ],
    )
    def test_another_form_is_a_hint(self, expected: str, changed: str) -> None:
        """What was changed, and where it stands then; never a place of its own."""
        found = look(asked(), expected, WHOLE)
        assert found.factors[2].value == 0
        assert f"; in another form: {changed} in prompt at 43..59: " in found.factors[2].evidence

    def test_text_of_the_template_or_of_nobody(self) -> None:
        """Wherever it stands, it stands in the prompt."""
        assert look(asked(), "Context:").factors[2].evidence == "prompt [0:8], of system"
        found = look(asked(rider="Answer in French."), "in French")
        assert found.factors[2].evidence.endswith("which nobody declared")

    def test_content_that_lies_elsewhere(self) -> None:
        """What the provider holds can't be searched."""
        script = Script()
        script.call("k1", "Why?", {"producer": "user", "text": "Why?"}, parameters={"previous_response_id": "r1"})
        assert look(script.record(), "ten working days").factors[2].value is None

    def test_a_text_that_hits_brought_along(self) -> None:
        """A retriever may tell the texts itself."""
        script = Script()
        hits = [{"rank": 1, "chunk_id": "a", "text": TEXTS["a"]}, {"rank": 2, "chunk_id": "c", "content": TEXTS["c"]}]
        script("retrieval", hits=hits)
        script.call("k1", "Context: none", {"producer": "system", "text": "Context: "})
        assert values(look(script.record(), "are paid for")) == (1, 1, 0, None)
        assert values(look(script.record(), "zebras are shipped")) == (None, 0, 0, None)


def test_a_query_without_a_call() -> None:
    """The first two factors can be told all the same."""
    script = Script()
    script("retrieval", hits=[{"rank": 1, "chunk_id": "a"}])
    assert values(look(script.record(), "a")) == (1, 1, None, None)


def test_a_word_is_an_id_unless_it_stands_somewhere() -> None:
    """So that an id which nobody knows is not looked for in the prompt."""
    assert look(asked(), "handbook#7").taken_as == "chunk"
    assert look(asked(), "depot").taken_as == "text"
    assert look(asked(), "not there").taken_as == "text"
    call = grade(asked()).calls[0]
    assert diagnose(asked(), "depot", call, taken_as="chunk").taken_as == "chunk"
    assert diagnose(asked(), "a", call, taken_as="text").taken_as == "text"


@pytest.mark.parametrize("entry", [None, [], "a", 5, {}, {"text": "x"}, {"chunk_id": None}, {"chunk_id": True}])
def test_what_is_no_entry(entry: object) -> None:
    """Is refused, so that a wrong file is not taken for an empty index."""
    with pytest.raises(ValueError, match=r"no (object|chunk_id)"):
        Manifest("a").add(entry)


class TestQuotes:
    """The longest run of characters that one text has from another."""

    @given(st.text("ab c", max_size=120), st.text("ab c", max_size=60), st.text("ab c", max_size=60))
    def test_what_is_quoted_is_found(self, source: str, before: str, after: str) -> None:
        """Any run of 40 characters, wherever it stands; and what is found stands in both."""
        found = longest_quote(source, f"{before}|{source}|{after}")
        whole = " ".join(source.split())
        assert (found is not None) == (len(whole) >= LEAST)
        assert found is None or (found in whole and len(found) >= LEAST)

    @given(st.text("ab c", max_size=200), st.text("ab c", max_size=200))
    def test_nothing_is_made_up(self, source: str, text: str) -> None:
        """Nor is a run passed over that is long enough."""
        found = longest_quote(source, text)
        one, other = " ".join(source.split()), " ".join(text.split())
        runs = {one[at : at + LEAST] for at in range(len(one) - LEAST + 1)}
        shared = any(other[at : at + LEAST] in runs for at in range(len(other) - LEAST + 1))
        assert shared or found is None
        assert found is None or (found in one and found in other and len(found) >= LEAST)

    def test_a_source_that_repeats_its_beginning(self) -> None:
        """The place that is quoted is not the first that begins so."""
        start, rest = "It is said in the rul", "es that parcels are kept. "
        source = f"{start}ing of May, and more. {start}{rest}"
        assert longest_quote(source, f"{start}{rest}") == (start + rest).strip()

    def test_it_is_not_quadratic(self) -> None:
        """A hundred thousand characters of one letter on both sides."""
        assert longest_quote("a" * 100_000, "a" * 100_000) == "a" * 100_000
        assert longest_quote("a" * 100_000, "ab" * 100_000) is None
