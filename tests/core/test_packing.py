"""Packing: what fits into a budget by which rule, and that the budget holds whatever counts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace import tokens
from otel_prompt_trace.core.census import census
from otel_prompt_trace.core.packing import Chunk, Packing, pack
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.exceptions import ConfigurationError


def words(text: str) -> int:
    """A counter that is additive over blanks, so that a test can be done in the head."""
    return len(text.split())


def real(text: str) -> int:
    """A public tokenizer, which is not additive."""
    found = tokens.count(text, "cl100k_base")
    assert found is not None
    return found


def chunks(*sizes: int) -> list[Chunk]:
    """Chunks a, b, c … of these many words."""
    return [Chunk(chr(97 + n), " ".join([chr(97 + n)] * size), n + 1) for n, size in enumerate(sizes)]


def ids(given: tuple[Chunk, ...]) -> str:
    """The chunks' ids in one word."""
    return "".join(chunk.chunk_id for chunk in given)


@pytest.mark.parametrize(
    ("rule", "kept", "dropped"), [("continue", "ac", "bd"), ("break", "a", "bcd")], ids=["continue", "break"]
)
@pytest.mark.parametrize("measure", ["joined", "texts"])
def test_the_two_rules_keep_different_sets(rule: str, measure: str, kept: str, dropped: str) -> None:
    """The second does not fit: one rule tries the third, the other does not."""
    packed = pack(chunks(5, 6, 4, 3), 10, words, rule=rule, measure=measure)  # type: ignore[arg-type]
    assert (ids(packed.kept), ids(packed.dropped)) == (kept, dropped)
    assert packed.event["rule"] == rule
    assert packed.event["dropped"] == list(dropped)


def test_the_budget_is_for_what_is_rendered_unless_it_is_for_the_texts() -> None:
    """Templates and separators take tokens too: six words and four of the template are more than nine."""
    form = {"template": "number {rank} is {text}", "separator": " "}
    joined = pack(chunks(3, 3), 9, words, measure="joined", **form)  # type: ignore[arg-type]
    assert (ids(joined.kept), joined.tokens) == ("a", 6)
    texts = pack(chunks(3, 3), 9, words, measure="texts", **form)  # type: ignore[arg-type]
    assert (ids(texts.kept), texts.tokens) == ("ab", 12)
    assert texts.text == "number 1 is a a a number 2 is b b b"


@pytest.mark.parametrize("budget", [0, 1, 2])
def test_nothing_fits_or_all_of_nothing(budget: int) -> None:
    """An empty packing has no text and no tokens, and an empty chunk fits into any budget."""
    packed = pack(chunks(3), budget, words)
    assert (packed.kept, ids(packed.dropped), packed.text, packed.tokens) == ((), "a", "", 0)
    assert pack([], budget, words).tokens == 0
    assert ids(pack([Chunk("e", "", 1)], budget, words).kept) == "e"


def test_what_is_added_to_a_prompt_is_what_was_counted() -> None:
    """Each text as a piece with its id, all else as literals: the census of it is exact, its text the packing's."""
    packed = pack(chunks(2, 2), 100, words, template="[{id}, {{{rank}}}]\n{text}\n", separator="---\n")
    prompt = packed.add_to(Prompt().add("system", "Be brief."))
    assert prompt.text == "Be brief." + packed.text
    assert packed.text == "[a, {1}]\na a\n---\n[b, {2}]\nb b\n"
    found = census(prompt)
    assert (found.verdict, found.unaccounted) == ("exact", 0)
    rag = [p for p in found.located if p.producer == "rag"]
    assert [(p.source_id, p.piece.text, p.piece.trust) for p in rag] == [
        ("a", "a a", "retrieved"),
        ("b", "b b", "retrieved"),
    ]


def test_an_id_that_looks_like_a_template_is_not_one() -> None:
    """Ids come from outside."""
    packed = pack([Chunk("{text}{0}", "words", 1)], 10, words, template="{id}: {text}")
    assert packed.text == "{text}{0}: words"


@pytest.mark.parametrize(
    "wrong",
    [
        {"rule": "skip"},
        {"measure": "characters"},
        {"template": "no text"},
        {"template": "{text} {text}"},
        {"template": "{text} {name}"},
        {"template": "{text!r}"},
        {"template": "{text:>10}"},
        {"template": "{text.upper}"},
        {"template": "{text"},
        {"template": 5},
        {"budget": -1},
        {"budget": True},
        {"budget": 1.5},
    ],
    ids=str,
)
def test_what_does_not_exist_is_refused(wrong: dict[str, object]) -> None:
    """With the values that it takes."""
    given: dict[str, object] = {"budget": 10, **wrong}
    with pytest.raises(ConfigurationError, match="it takes"):
        pack(chunks(1), count=words, **given)  # type: ignore[arg-type]


def test_the_event_has_counts_and_no_text() -> None:
    """What is recorded is small, and a policy has nothing to cut out of it."""
    packed = pack(chunks(2, 9), 4, words, rule="break")
    assert packed.event == {
        "kind": "retrieval",
        "dropped": ["b"],
        "rule": "break",
        "packing": {
            "budget": 4,
            "measure": "joined",
            "tokens": 2,
            "kept": 1,
            "chunks": [{"chunk_id": "a", "tokens": 2}, {"chunk_id": "b", "tokens": 9}],
        },
    }


TEXTS = st.text(st.sampled_from("ab =\n '1\u65e5\u00e9\U0001f468"), max_size=60)
FORMS = st.sampled_from(["{text}", "[{id}]\n{text}", "<{rank}>{text}</{rank}>", "{text}\n"])


def naive(given: list[Chunk], budget: int, rule: str, template: str, separator: str) -> list[str]:
    """Count the joined text anew for each chunk: what is quadratic, and what is meant."""
    kept: list[Chunk] = []
    for chunk in given:
        tried = [*kept, chunk]
        text = separator.join(template.format(text=c.text, id=c.chunk_id, rank=c.rank) for c in tried)
        if real(text) <= budget:
            kept = tried
        elif rule == "break":
            break
    return [chunk.chunk_id for chunk in kept]


@settings(deadline=None, max_examples=300)  # the tokenizer loads in the first one
@given(st.lists(TEXTS, max_size=8), st.integers(0, 120), st.sampled_from(["continue", "break"]), FORMS, TEXTS)
def test_sums_decide_only_what_counting_would_decide_alike(
    texts: list[str], budget: int, rule: str, template: str, separator: str
) -> None:
    """With a public tokenizer, which joins and parts tokens where texts meet, nothing is kept or dropped otherwise."""
    given = [Chunk(f"c{n}", text, n) for n, text in enumerate(texts, 1)]
    packed = pack(given, budget, real, rule=rule, template=template, separator=separator)  # type: ignore[arg-type]
    assert [chunk.chunk_id for chunk in packed.kept] == naive(given, budget, rule, template, separator)
    assert packed.tokens == real(packed.text) <= budget


def whole(packed: Packing, given: list[Chunk], budget: int) -> None:
    """Every chunk once, in order; the budget holds."""
    ranks = [chunk.rank for chunk in packed.kept]
    assert ranks == sorted(ranks)
    assert sorted(ranks + [chunk.rank for chunk in packed.dropped]) == [chunk.rank for chunk in given]
    assert packed.tokens <= budget


@given(st.lists(TEXTS, max_size=8), st.integers(0, 60), st.integers(0, 40), st.sampled_from(["continue", "break"]))
def test_the_budget_holds_with_a_counter_that_makes_more_of_the_whole_than_of_its_parts(
    texts: list[str], budget: int, more: int, rule: str
) -> None:
    """No tokenizer is so far from additive; if one were, what is rendered would still fit."""
    given = [Chunk(f"c{n}", text, n) for n, text in enumerate(texts, 1)]
    packed = pack(given, budget, lambda text: len(text) + more * text.count("\n\n"), rule=rule)  # type: ignore[arg-type]
    whole(packed, given, budget)


def test_it_is_not_quadratic() -> None:
    """A thousand chunks that all fit: the characters that are counted are a few times those of the chunks."""
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return words(text)

    given = [Chunk(f"c{n}", "word " * 50, n) for n in range(1, 1_001)]
    packed = pack(given, 10**6, count, template="[{id}]\n{text}")
    assert len(packed.kept) == 1_000
    assert counted < 3 * len(packed.text)
