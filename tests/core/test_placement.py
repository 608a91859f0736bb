"""Placements: where the pieces stand, as the function itself shows it, and what is never claimed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.core.census import census, take
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.placement import Placement, Rendered, trace
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.core.segments import Split

Pieces = tuple[Piece, ...]


def rendered(function: Callable[[Pieces], Any], *pieces: Piece | tuple[str, str], elapsed_ns: int = 0) -> Rendered:
    """What a function makes of pieces, as ``place`` hands it on."""
    given_ = tuple(piece if isinstance(piece, Piece) else Piece(*piece) for piece in pieces)
    return Rendered(Placement("app:render", function, "0" * 64), function(given_), given_, elapsed_ns)


def places(found: Rendered) -> dict[str, tuple[int | None, int | None, int | None]]:
    """Label, segment and offsets of every piece that is not left out."""
    return {piece.label: (piece.segment, piece.start, piece.end) for piece in found.pieces}


def joined(pieces: Pieces) -> str:
    """A heading, and each text on a line of its own."""
    return "Context:\n" + "\n".join(piece.text or "" for piece in pieces)


class TestText:
    """A function that gives one string."""

    def test_offsets_are_those_of_the_function(self) -> None:
        """Also of a text that stands earlier in the heading, or inside another piece, where a search would go wrong."""
        found = rendered(joined, ("a", "Context:"), ("b", "say ok"), ("c", "ok"))
        assert places(found) == {"a": (0, 9, 17), "b": (0, 18, 24), "c": (0, 25, 27)}
        assert found.text == "Context:\nContext:\nsay ok\nok"

    def test_equal_texts_are_told_apart(self) -> None:
        """Each is where the function put it, in another order than they were declared."""
        found = rendered(lambda p: f"{p[1].text}|{p[0].text}", Piece("a", "x", source_id="1"), Piece("a", "x"))
        assert places(found) == {"a:1": (0, 2, 3), "a": (0, 0, 1)}

    def test_what_is_left_out_is_said_to_be(self) -> None:
        """A rule that packs into a budget by length gives the same answer for the stand-ins."""

        def packed(pieces: Pieces) -> str:
            kept: list[str] = []
            for piece in pieces:
                if sum(map(len, kept)) + len(piece.text or "") <= 10:
                    kept.append(piece.text or "")
            return " ".join(kept)

        found = rendered(packed, ("a", "12345"), ("b", "too long for it"), ("c", "123"))
        assert places(found) == {"a": (0, 0, 5), "c": (0, 6, 9)}
        assert [event.get("left_out") for event in found.placed] == [None, True, None]
        assert found.placed[1]["text"] == "too long for it"

    def test_a_trimmed_text_does_not_stand_whole(self) -> None:
        """It is searched for, and the census says that it is not there; the others keep their offsets."""
        found = rendered(lambda p: "\n".join((x.text or "").strip() for x in p), ("a", " one "), ("b", "two"))
        assert places(found) == {"a": (None, None, None), "b": (0, 4, 7)}
        assert census(found.text, found.pieces).reasons == ("unlocatable_piece", "gap")

    def test_a_text_cut_at_its_end_does_not_stand_whole(self) -> None:
        """What follows it may complete it by chance: it is not claimed."""
        found = rendered(lambda p: (p[0].text or "")[:2] + "c" + (p[1].text or ""), ("a", "abc"), ("b", "z"))
        assert found.text == "abcz"
        assert places(found) == {"a": (None, None, None), "b": (0, 3, 4)}

    @pytest.mark.parametrize(
        "function",
        [
            lambda p: (p[0].text or "").upper() + (p[1].text or ""),
            lambda p: (p[0].text or "").replace("one", "1") + (p[1].text or ""),
            lambda p: "found" if "one" in (p[0].text or "") else joined(p),
            lambda p: " ".join((p[0].text or "").split()) + (p[1].text or ""),
            lambda p: (p[0].text or "")[-3:] + (p[1].text or ""),
            lambda p: "\ue005" + joined(p),
            lambda p: [{"content": joined(p)}] if "one" in (p[0].text or "") else joined(p),
        ],
    )
    def test_a_function_that_looks_into_texts_shows_nothing(self, function: Callable[[Pieces], Any]) -> None:
        """Whatever it does to a text, no offset is claimed for any: they are searched for."""
        pieces = (Piece("a", "one  and ten"), Piece("b", "two"))
        assert trace(function, pieces, function(pieces)) is None

    def test_a_function_that_gives_something_else_each_time(self) -> None:
        """A clock, a counter: what it gave before is what counts, and nothing is claimed of it."""
        count = iter(range(10, 100))
        found = rendered(lambda p: f"{next(count)} {joined(p)}", ("a", "one"))
        assert places(found) == {"a": (None, None, None)}
        assert found.text.startswith("10 ")

    def test_an_error_of_the_second_time_is_nobodys(self) -> None:
        """The prompt was rendered: recording around it never raises."""
        count = iter(["first"])
        found = rendered(lambda p: f"{next(count)} {joined(p)}", ("a", "one"))
        assert [event["text"] for event in found.placed] == ["one"]

    def test_a_slow_function_is_not_asked_twice_while_a_model_waits(self) -> None:
        """Beyond the budget the call goes out with pieces to be searched for; asked for by name, the offsets come."""
        asked: list[int] = []
        found = rendered(lambda p: asked.append(1) or joined(p), ("a", "one"), elapsed_ns=2_000_001)
        assert ("start" in found.placed[0], len(asked)) == (False, 1)
        assert places(found) == {"a": (0, 9, 12)}

    def test_white_space_and_values_are_handed_over_as_they_are(self) -> None:
        """They have no stand-in: a rule that asks whether there is any text gives the same answer."""

        def render(pieces: Pieces) -> str:
            return "".join(p.text or "" for p in pieces if p.text is not None and (p.text.strip() or len(p.text) > 1))

        found = rendered(
            render, ("a", "one"), ("glue", "\n\n"), ("b", " "), ("c", "two"), Piece("tools", None, value=[1])
        )
        assert places(found)["c"] == (0, 5, 8)
        assert found.placed[-1] == {"kind": "piece", "producer": "tools", "trust": "unknown", "given": 4, "value": [1]}

    def test_more_pieces_than_there_are_characters(self) -> None:
        """Then there is nothing to tell them apart by."""
        pieces = tuple(Piece("a", "x") for _ in range(7_000))
        assert trace(joined, pieces, joined(pieces)) is None


class TestMessages:
    """A function that gives messages, with parts of any shape."""

    def test_each_text_in_its_segment(self) -> None:
        """Content that is a string, and content in parts; names and roles of the envelope are no content."""

        def render(pieces: Pieces) -> list[Any]:
            parts = [{"type": "text", "text": f"- {piece.text}"} for piece in pieces[1:]]
            return [{"role": "system", "content": pieces[0].text}, {"role": "user", "content": parts}]

        found = rendered(render, ("system", "Be brief."), ("rag", "chunk"), ("user", "Why?"))
        assert places(found) == {"system": (0, 0, 9), "rag": (1, 2, 7), "user": (2, 2, 6)}
        assert [segment.path for segment in found.segments][1:] == [
            "messages[1].content[0].text",
            "messages[1].content[1].text",
        ]
        with pytest.raises(ValueError, match="app:render gave messages"):
            _ = found.text

    def test_a_string_is_one_user_message(self) -> None:
        """For an API that takes messages."""
        assert rendered(joined, ("a", "x")).messages() == [{"role": "user", "content": "Context:\nx"}]


class TestPrompt:
    """A function that builds a :class:`Prompt`, which knows its offsets already."""

    @staticmethod
    def build(pieces: Pieces) -> Prompt:
        """The first and the last of them, literals between."""
        prompt = Prompt().message("system").add(pieces[0].producer, pieces[0].text or "").message("user")
        return prompt.literal("Q: ").add(pieces[-1].producer, pieces[-1].text or "")

    def test_its_pieces_are_recorded_with_the_numbers_of_the_given_ones(self) -> None:
        """So that it can be asked again; what it did without is beside them."""
        found = rendered(self.build, ("s", "Be brief."), ("rag", "chunk"), ("u", "Why?"))
        numbers = [(event["producer"], event.get("given"), event.get("left_out")) for event in found.placed]
        assert numbers == [("s", 0, None), ("literal", None, None), ("u", 2, None), ("rag", 1, True)]
        assert [piece.label for piece in found.pieces] == ["s", "literal", "u"]
        assert len(found.messages()) == 2

    def test_withheld_texts(self) -> None:
        """Of the prompt's own pieces and of those that were given and are not in it."""
        found = rendered(self.build, ("s", "S"), Piece("rag", "secret", policy="hash"), ("u", "U"))
        assert found.withheld == ["secret"]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \nab"), max_size=12)


@given(st.lists(TEXTS, max_size=6), st.lists(TEXTS, min_size=1, max_size=7), st.randoms(use_true_random=False))
def test_an_offset_that_is_claimed_holds(texts: list[str], glue: list[str], random: Any) -> None:
    """Any texts in any order with any glue, some left out: text and place agree, no two places overlap, all are found.

    A character of the private use area in a text may cost the offsets; it never makes one wrong.
    """
    pieces = tuple(Piece(f"p{n}", text) for n, text in enumerate(texts))
    order = random.sample(range(len(texts)), random.randint(0, len(texts)))

    def render(given_: Pieces) -> str:
        return "".join(f"{glue[n % len(glue)]}{given_[k].text}" for n, k in enumerate(order)) + glue[-1]

    prompt = render(pieces)
    found = trace(render, pieces, prompt)
    if found is None:
        assert any("\ue000" <= c <= "\uf8ff" for c in prompt + "".join(texts))
        return
    for number, (segment, start, end) in found.places.items():
        assert (segment, prompt[start:end]) == (0, texts[number])
    spans = sorted(place[1:] for place in found.places.values())
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    solid = {n for n, text in enumerate(texts) if text and not text.isspace()}
    assert set(found.places) == solid & set(order)
    assert found.left_out == solid - set(order)
    placed = Rendered(Placement("a:b", render, None), prompt, pieces)
    taken = take(Split(placed.segments), placed.pieces)
    assert {p.producer for p in taken.pieces if p.state in ("located", "whole_prompt")} >= {
        f"p{n}" for n in found.places
    }
