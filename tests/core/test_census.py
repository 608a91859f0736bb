"""The census: what no declared producer accounts for, and when it may say that this is nothing."""

from __future__ import annotations

import time
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.census import Census, Gap, Visible, census, take
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.core.segments import Segment, Split, split
from tests.core.published_census import naive_census
from tests.core.test_assignment import any_piece, assert_sound, prompts

TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]


def owned_and_left(found: Census) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """The characters inside located pieces, and those inside gaps, as (segment, position)."""
    owned = {(p.segment or 0, n) for p in found.located for n in range(p.start or 0, p.end or 0)}
    left = {(g.segment, n) for g in found.gaps for n in range(g.start, g.end)}
    return owned, left


@given(prompts, st.lists(any_piece(), max_size=8), st.booleans())
@settings(deadline=None, max_examples=200)
def test_every_character_is_owned_or_in_a_gap(texts: list[str], pieces: list[Piece], ordered: bool) -> None:
    """Counted here one by one: the residual is the total less the located offsets, and gaps are maximal."""
    prompt = Split(tuple(Segment(f"p{n}", text) for n, text in enumerate(texts)))
    found = take(prompt, pieces, ordered=ordered)
    assert_sound(texts, found.pieces)
    owned, left = owned_and_left(found)
    everything = {(n, position) for n, text in enumerate(texts) for position in range(len(text))}
    assert owned | left == everything
    assert not owned & left
    assert (found.total, found.covered, found.unaccounted) == (len(everything), len(owned), len(left))
    assert sum(found.by_producer().values()) == found.covered
    for gap in found.gaps:
        assert texts[gap.segment][gap.start : gap.end] == gap.text != ""
        assert gap.path == f"p{gap.segment}"
        assert len(gap) == len(gap.text)
        assert (gap.segment, gap.start - 1) not in left
        assert (gap.segment, gap.end) not in left


@given(prompts, st.lists(any_piece(), max_size=8), st.booleans())
@settings(deadline=None, max_examples=200)
def test_never_exact_while_a_character_is_unaccounted_for(texts: list[str], pieces: list[Piece], ordered: bool) -> None:
    """Exact means every character, at least two producers' texts, and nothing that was declared and not found."""
    found = take(Split(tuple(Segment(str(n), text) for n, text in enumerate(texts))), pieces, ordered=ordered)
    if found.verdict == "exact":
        assert found.unaccounted == 0
        assert found.reasons == ()
        assert {p.state for p in found.pieces} <= {"located", "empty", "not_placed"}
        assert found.located
        assert not any(p.piece.text == "".join(texts) for p in found.located)
    if found.unaccounted:
        assert "gap" in found.reasons


@given(st.text("ab ", min_size=1, max_size=20), st.data())
@settings(deadline=None, max_examples=200)
def test_a_character_slipped_in_is_seen(prompt: str, data: st.DataObject) -> None:
    """Cut into pieces that are all declared it is exact; one more character anywhere between them and it is not.

    Two pieces at least must hold more than whitespace: else one producer is all there is.
    """
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(prompt) - 1)), max_size=4)) - {len(prompt)})
    parts = [prompt[a:b] for a, b in zip([0, *cuts], [*cuts, len(prompt)], strict=True)]
    pieces = [(f"p{n}", part) for n, part in enumerate(parts)]
    solid = sum(bool(part.strip()) for part in parts)
    several = len(parts) > 1 and (solid > 1 or (solid == 0 and len(set(pieces)) > 1))
    assert census(prompt, pieces).verdict == ("exact" if several else "unknown")
    at = data.draw(st.integers(0, len(parts)))
    slipped = "".join(parts[:at]) + "Z" + "".join(parts[at:])
    found = census(slipped, pieces)
    assert found.verdict != "exact"
    assert found.unaccounted > 0


class TestBesideThePublishedCensus:
    """Both over the same input: where the naive census is wrong, and that it is right elsewhere."""

    def test_repeated_text(self) -> None:
        """Two pieces, both "ok": the naive one finds the first twice and calls the second's characters unaccounted."""
        pieces = [("a", "ok"), ("b", "ok")]
        assert naive_census("ok\n\nok", pieces).unaccounted == 4
        found = census("ok\n\nok", pieces)
        assert (found.unaccounted, [g.text for g in found.gaps]) == (2, ["\n\n"])

    def test_a_word_inside_a_longer_one(self) -> None:
        """The naive one locates "ok" in "book", and calls a piece located that is not there."""
        naive = naive_census("a book", [("a", "ok"), ("t", "a ")])
        assert (naive.unlocatable, naive.unaccounted) == ([], 2)
        found = census("a book", [("a", "ok"), ("t", "a ")])
        assert ([p.producer for p in found.unlocatable], found.unaccounted) == (["a"], 4)

    def test_an_empty_piece(self) -> None:
        """The naive one finds nothing everywhere, and so an empty piece is located."""
        assert naive_census("text", [("empty", "")]).unlocatable == []
        found = census("text", [("empty", "")])
        assert [p.state for p in found.pieces] == ["empty"]
        assert (found.covered, found.located, found.verdict) == (0, (), "unknown")

    def test_a_piece_declared_twice_that_stands_once(self) -> None:
        """The naive one is content; ours says which declaration has no text."""
        pieces = [("a", "once"), ("b", "once"), ("t", " only")]
        assert naive_census("once only", pieces) == (9, 9, 0, [])
        assert census("once only", pieces).reasons == ("duplicate_piece",)

    def test_overlapping_finds(self) -> None:
        """The naive one lets two producers own the same characters."""
        pieces = [("a", "one two"), ("b", "two three")]
        assert naive_census("one two three", pieces).unaccounted == 0
        found = census("one two three", pieces)
        assert (found.verdict, found.unaccounted) == ("mismatch", 4)

    @pytest.mark.parametrize(
        ("prompt", "pieces"),
        [
            ("Be brief.\n\nWhy?", [("system", "Be brief."), ("user", "Why?")]),
            ("Be brief.\n\nWhy?", [("system", "Be brief."), ("user", "How?")]),
            ("Be brief.\n\nWhy?", [("system", "Be brief."), ("t", "\n\n"), ("user", "Why?")]),
            ("保持期間は十年です。\nなぜですか", [("rag", "保持期間は十年です。"), ("user", "なぜですか")]),
            ("a\r\nb\x00c", [("x", "a\r\n"), ("y", "c")]),
        ],
    )
    def test_where_the_naive_one_is_right_ours_agrees(self, prompt: str, pieces: list[tuple[str, str]]) -> None:
        """Distinct texts that stand once are no hard case for anybody."""
        naive, found = naive_census(prompt, pieces), census(prompt, pieces)
        assert naive == (found.total, found.covered, found.unaccounted, [p.producer for p in found.unlocatable])

    @given(
        st.lists(st.text("abc", min_size=1, max_size=5).map("<{}>".format), min_size=2, max_size=6, unique=True),
        st.sampled_from(["", "\n\n", " | "]),
    )
    @settings(deadline=None, max_examples=100)
    def test_they_agree_on_distinct_texts(self, texts: list[str], joiner: str) -> None:
        """Counts, gaps and losses are the same wherever the simple way is sound."""
        prompt, pieces = joiner.join(texts), [(f"p{n}", text) for n, text in enumerate([*texts, "<zzz>"])]
        naive, found = naive_census(prompt, pieces), census(prompt, pieces)
        assert naive == (found.total, found.covered, found.unaccounted, [p.producer for p in found.unlocatable])


@pytest.mark.parametrize("rest", [[], [("x", "wh"), ("y", "ole")], [("gone", "elsewhere")]])
def test_no_producer_may_be_the_whole_prompt(rest: list[tuple[str, str]]) -> None:
    """One blob says nothing about its parts: it is flagged, covers nothing, and the verdict is unknown."""
    found = census("whole", [("blob", "whole"), *rest])
    assert found.pieces[0].state == "whole_prompt"
    assert "whole_prompt_piece" in found.reasons
    assert found.verdict == "unknown"
    assert found.by_producer().get("blob") is None


def test_the_true_parts_are_found_beside_a_whole_prompt_piece() -> None:
    """Since the blob covers nothing it takes no character from the pieces that tell more."""
    found = census("Be brief. Why?", [("all", "Be brief. Why?"), ("system", "Be brief."), ("user", "Why?")])
    assert [p.state for p in found.pieces] == ["whole_prompt", "located", "located"]
    assert [g.text for g in found.gaps] == [" "]


def test_a_whole_prompt_declared_twice_is_a_duplicate_as_well() -> None:
    """It stands once."""
    found = census("whole", [("a", "whole"), ("b", "whole")])
    assert [p.state for p in found.pieces] == ["whole_prompt", "duplicate"]
    assert found.verdict == "mismatch"


def test_a_whole_prompt_by_recorded_offsets_is_one_too() -> None:
    """Whether it was searched for, placed, or is known by its digest alone."""
    placed = Piece("blob", "whole", segment=0, start=0, end=5)
    assert census("whole", [placed]).reasons == ("whole_prompt_piece", "gap")
    cut = Split((Segment("prompt", "\ufffc" * 5, cuts=((0, 5),)),))
    assert "whole_prompt_piece" in take(cut, [Piece("blob", None, chars=5, segment=0, start=0, end=5)]).reasons


def test_of_several_pieces_that_hold_all_the_longest_is_set_aside_first() -> None:
    """One rides inside another: which producer goes first does not depend on the order of the pieces."""
    pieces = [
        Piece("outer", " \ncc "),
        Piece("inner", "\ncc \n", offered=True),
        Piece("inner", "cc", inline=True, offered=True),
    ]
    states = set()
    for row in permutations(pieces):
        placed = census(" \ncc \n", row, ordered=False).pieces
        states.add(tuple(sorted((p.producer, p.piece.text, p.state) for p in placed)))
    assert len(states) == 1


def test_one_piece_a_message_is_not_the_whole_prompt() -> None:
    """A system message and a question, one producer each: that is what a prompt should look like."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    assert census(messages, [("system", "Be brief."), ("user", "Why?")]).verdict == "exact"
    alone = [{"role": "system", "content": ""}, {"role": "user", "content": "Why?"}]
    assert census(alone, [("user", "Why?")]).reasons == ("whole_prompt_piece", "gap")


@pytest.mark.parametrize("pieces", [None, [], [("e", "")], [Piece("o", "elsewhere", offered=True)]])
@pytest.mark.parametrize("prompt", ["", "text", [], [{"role": "user", "content": "text"}]])
def test_no_pieces_is_unknown(prompt: Any, pieces: Any) -> None:
    """Nobody declared anything for this prompt, so nothing can be shown of it, be it empty or not."""
    found = census(prompt, pieces)
    assert "no_pieces" in found.reasons
    assert found.verdict == "unknown"


def test_an_unlocatable_piece_is_unknown_even_with_a_gap() -> None:
    """The gap may be just that piece in another form."""
    found = census("Task: x.\n", [("t", "Task: x.\n\n")])
    assert (found.verdict, found.reasons) == ("unknown", ("unlocatable_piece", "gap"))
    assert [p.piece.label for p in found.unlocatable] == ["t"]


def test_a_gap_alone_is_a_mismatch() -> None:
    """Everything declared is there, and something else is there as well."""
    found = census("system\n\nuser", [("s", "system"), ("u", "user")])
    assert (found.verdict, found.reasons) == ("mismatch", ("gap",))
    assert found.gaps == (Gap(0, 6, 8, "\n\n", "prompt"),)
    assert (found.total, found.covered, found.unaccounted) == (12, 10, 2)


def test_offsets_and_totals_are_code_points_of_the_original() -> None:
    """Not bytes, not UTF-16 units, not a folded copy: ß, combining marks and emoji count as they stand."""
    prompt = "Straße 👩‍👩‍👧 e\u0301 \ud83d!"
    found = census(prompt, [("a", "Straße "), ("b", "👩‍👩‍👧 "), ("c", "e\u0301 \ud83d"), ("d", "!")])
    assert [(p.start, p.end) for p in found.located] == [(0, 7), (7, 13), (13, 17), (17, 18)]
    assert (found.total, found.verdict) == (18, "exact")


def test_each_producer_has_its_characters() -> None:
    """In the order of first appearance; the inline piece owns its own, the outer one the rest."""
    pieces: list[Any] = [
        ("template", "Dear Ann and Bob: "),
        Piece("names", "Ann", inline=True),
        Piece("names", "Bob", inline=True),
    ]
    found = census("Dear Ann and Bob: hello.", [*pieces, ("user", "hello."), ("template", "")])
    assert list(found.by_producer().items()) == [("template", 12), ("names", 6), ("user", 6)]
    assert found.verdict == "exact"


def test_an_inline_piece_in_undeclared_text_covers_just_itself() -> None:
    """What is around it stays a gap."""
    found = census("Dear Ann, hello.", [Piece("name", "Ann", inline=True), ("end", " hello.")])
    assert [g.text for g in found.gaps] == ["Dear ", ","]


def test_pairs_and_pieces_may_be_mixed_and_anything_else_is_refused() -> None:
    """A clear error for a wrong argument, instead of a census of something else."""
    assert census("ab", [("a", "a"), Piece("b", "b")]).verdict == "exact"
    wrong: Any
    for wrong in (("a", 5), ("a",), ["a", "b"], "ab", 5, (1, "a")):
        with pytest.raises(TypeError, match="a piece is a Piece or a"):
            census("ab", [wrong])
    with pytest.raises(TypeError, match="a prompt is"):
        census(5, [])


def test_a_prompt_object_brings_its_own_pieces() -> None:
    """They can be replaced by others, as any prompt's."""
    prompt = Prompt().add("a", "one ").add("b", "two")
    assert census(prompt).verdict == "exact"
    assert census(prompt, [("x", "one")]).unaccounted == 4
    assert census(prompt, []).reasons == ("no_pieces", "gap")


def test_an_image_does_not_count_and_does_not_hide() -> None:
    """It is listed beside the segments; the total is that of the text; and somebody must say that it is theirs."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "text", "text": " this?"}, image]}
    ]
    texts: list[Any] = [("a", "What is"), ("b", " this?")]
    found = census(messages, texts)
    assert (found.total, found.reasons, len(found.outside)) == (13, ("undeclared_model_visible_part",), 1)
    assert found.visible == (Visible("messages[0].content[2].image_url.url", declared=False),)
    for declared in (
        ("c", "data:image/png;base64,iVBO"),
        Piece("c", None, value=image),
        Piece("c", None, value=image["image_url"]),
    ):
        found = census(messages, [*texts, declared])
        assert (found.verdict, found.pieces[-1].state) == ("exact", "visible")
        assert all(part.declared for part in found.visible)


class TestModelVisibleParts:
    """Tool definitions and schemas: the model may see them, only the provider knows how."""

    PROMPT = split("one two")
    PIECES = (Piece("a", "one "), Piece("b", "two"))

    def found(self, *more: Piece, **visible: Any) -> Census:
        """A census with such parts."""
        return take(self.PROMPT, (*self.PIECES, *more), visible=visible)

    def test_undeclared(self) -> None:
        """Nobody declared them: unknown, and their length is in no total."""
        found = self.found(tools=TOOLS)
        assert (found.verdict, found.reasons) == ("unknown", ("undeclared_model_visible_part",))
        assert (found.total, found.visible) == (7, (Visible("tools", declared=False),))

    def test_declared_as_a_value(self) -> None:
        """The same JSON value accounts for them."""
        found = self.found(Piece("tools", None, value=TOOLS), tools=TOOLS)
        assert (found.verdict, found.pieces[-1].state) == ("exact", "visible")
        assert found.visible == (Visible("tools", declared=True),)

    def test_declared_in_part(self) -> None:
        """One of two parts is not both."""
        found = self.found(Piece("t", None, value=TOOLS), tools=TOOLS, response_format={"type": "json_object"})
        assert found.reasons == ("undeclared_model_visible_part",)

    def test_another_value(self) -> None:
        """A tool definition that was changed on its way is not the one that was declared."""
        found = self.found(Piece("tools", None, value=[*TOOLS, {}]), tools=TOOLS)
        assert found.reasons == ("undeclared_model_visible_part", "unlocatable_piece")

    def test_offered_and_not_used(self) -> None:
        """Tools that the query declares and this call goes without."""
        found = self.found(Piece("tools", None, value=TOOLS, offered=True))
        assert (found.verdict, found.pieces[-1].state) == ("exact", "not_placed")

    def test_without_a_text(self) -> None:
        """Nothing but tools was sent, and they are declared."""
        found = take(split(""), [Piece("tools", None, value=TOOLS)], visible={"tools": TOOLS})
        assert (found.reasons, found.verdict) == ((), "exact")

    def test_alone(self) -> None:
        """Declared tools do not account for a text: it has no pieces."""
        found = take(self.PROMPT, [Piece("tools", None, value=TOOLS)], visible={"tools": TOOLS})
        assert found.reasons == ("no_pieces", "gap")


class TestCutParts:
    """What a policy took is accounted for by offsets, or by nobody."""

    def test_with_offsets(self) -> None:
        """Place and length stay: the census of what is left is as good as that of the whole."""
        cut = Split((Segment("prompt", "Hi \ufffc\ufffc\ufffc!", cuts=((3, 6),)),))
        pieces = [Piece("a", "Hi "), Piece("b", None, chars=3, segment=0, start=3, end=6), Piece("c", "!")]
        assert take(cut, pieces).verdict == "exact"
        assert take(cut, pieces[:1] + pieces[2:]).reasons == ("cut_without_offsets", "gap")
        assert take(cut, pieces[:2]).reasons == ("gap",)

    def test_partly_covered(self) -> None:
        """One character of the cut that nobody owns is enough."""
        cut = Split((Segment("prompt", "\ufffc\ufffc\ufffc!", cuts=((0, 3),)),))
        pieces = [Piece("b", None, chars=2, segment=0, start=0, end=2), Piece("c", "!")]
        assert "cut_without_offsets" in take(cut, pieces).reasons

    def test_ten_thousand_cuts(self) -> None:
        """A prompt of many cut parts is counted at once."""
        cuts = tuple((2 * n, 2 * n + 1) for n in range(10_000))
        segment = Segment("prompt", "\ufffc." * 10_000, cuts=cuts)
        pieces = [Piece("p", None, chars=1, segment=0, start=start, end=end) for start, end in cuts]
        found = take(Split((segment,)), pieces)
        assert (found.reasons, found.unaccounted) == (("gap",), 10_000)


class TestOneProducerAlone:
    """No producer may be the whole prompt, in however many pieces it declares it."""

    @pytest.mark.parametrize(
        "pieces",
        [
            [("app", "Be brief."), ("app", " Why?\n")],
            [("app", "Be brief."), ("app", " Why?"), ("literal", "\n")],
            [("app", "Be brief."), ("app", "Why?")],
            [("app", "Be brief. Why?"), ("glue", "\n")],
            [("app", "Be"), ("app", " brief. Why?"), Piece("inner", " ", inline=True)],
            [("app", "Be brief. Why?"), Piece("user", "Why?", inline=True)],
        ],
    )
    @pytest.mark.parametrize("ordered", [True, False])
    def test_its_pieces_are_flagged_and_cover_nothing(self, pieces: list[Any], ordered: bool) -> None:
        """Whitespace between them, a gap or another's, does not make it an honest declaration."""
        found = census("Be brief. Why?\n", pieces, ordered=ordered)
        alone = [p.state for p in found.pieces if p.producer == "app"]
        assert alone == ["whole_prompt"] * len(alone)
        assert (found.verdict, found.reasons) == ("unknown", ("whole_prompt_piece", "gap"))
        assert "app" not in found.by_producer()

    @pytest.mark.parametrize("name", ["rest", "system", "user", "a-7f3e"])
    def test_its_name_does_not_matter(self, name: str) -> None:
        """One piece that holds all but white space, whatever it is called and whatever rides inside."""
        inside = [Piece("style", "brief", inline=True), Piece("user", "Why?", inline=True)]
        found = census("Be brief. Why?\n", [(name, "Be brief. Why?"), *inside])
        assert found.pieces[0].state == "whole_prompt"
        assert (found.verdict, "whole_prompt_piece" in found.reasons) == ("unknown", True)

    def test_over_several_messages(self) -> None:
        """The same producer for the system's text and the question."""
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
        assert census(messages, [("app", "Be brief."), ("app", "Why?")]).reasons == ("whole_prompt_piece", "gap")

    def test_a_second_producer_of_a_word_is_enough(self) -> None:
        """Two producers, each with characters of its own."""
        assert census("Be brief. Why?", [("app", "Be brief."), ("app", " "), ("user", "Why?")]).verdict == "exact"
        inside = [("app", "Be"), ("app", " brief."), Piece("style", "brief", inline=True)]
        assert census("Be brief.", inside).verdict == "exact"

    def test_the_true_parts_are_found_beside_it(self) -> None:
        """What it covered is free for those that tell more; its own duplicates stay duplicates."""
        pieces = [("all", "Be brief."), ("all", " Why?"), ("all", " Why?"), ("s", "Be brief"), ("u", "Why?")]
        found = census("Be brief. Why?", pieces)
        assert [p.state for p in found.pieces] == ["whole_prompt", "whole_prompt", "duplicate", "located", "located"]
        assert [g.text for g in found.gaps] == [". "]


@pytest.mark.parametrize(
    "data", [{"type": "input_audio", "input_audio": {"data": "UklGRg", "format": "wav"}}, {"x": b"%PDF"}]
)
def test_what_is_binary_must_be_declared(data: dict[str, Any]) -> None:
    """Each part by a declaration of its own: one audio that is declared does not account for two."""
    text = [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]
    pieces: list[Any] = [("a", "a "), ("b", "b")]
    twice = [{"role": "user", "content": [*text, data, dict(data)]}]
    declared = Piece("c", None, value=data)
    assert census(twice, pieces).reasons == ("undeclared_model_visible_part",)
    assert census(twice, [*pieces, declared]).reasons == ("undeclared_model_visible_part",)
    assert census(twice, [*pieces, declared, declared]).verdict == "exact"


def test_a_signature_beside_a_text_is_nothing_to_declare() -> None:
    """It vouches for the thinking that it stands beside; an encrypted text has nothing beside it."""
    thinking = [
        {"role": "user", "content": "a "},
        {"content": [{"type": "thinking", "thinking": "b", "signature": "Zm9v"}]},
    ]
    assert census(thinking, [("a", "a "), ("b", "b")]).verdict == "exact"
    hidden = [*thinking, {"type": "reasoning", "encrypted_content": "Zm9v"}]
    assert census(hidden, [("a", "a "), ("b", "b")]).reasons == ("undeclared_model_visible_part",)


@pytest.mark.parametrize("count", [5_000, 20_000])
def test_a_text_that_stands_nowhere_is_searched_for_once(count: int) -> None:
    """However often it is declared: the time is that of one search, and each declaration is unlocatable."""
    begun = time.perf_counter()
    found = census("ab " * 200_000, [("p", "ab c")] * count)
    assert len(found.unlocatable) == count
    assert time.perf_counter() - begun < 3
