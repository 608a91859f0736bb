"""Who owns which character: each piece where it stands, no character twice, the declared order as evidence."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.assignment import assign
from otel_prompt_trace.core.census import Census, census, take
from otel_prompt_trace.core.pieces import Piece, Placed
from otel_prompt_trace.core.segments import Segment, Split
from otel_prompt_trace.core.words import is_word, splits_word

Places = list[tuple[int | None, int | None] | str]


def places(prompt: Any, pieces: list[Any], *, ordered: bool = True) -> Places:
    """Start and end of each piece, or its state where it is not located."""
    found = census(prompt, pieces, ordered=ordered)
    return [(p.start, p.end) if p.state == "located" else p.state for p in found.pieces]


def assert_sound(texts: list[str], placed: tuple[Placed, ...]) -> None:
    """Every located piece stands where it is said to stand, and no character is owned twice."""
    outer: set[tuple[int, int]] = set()
    inner: set[tuple[int, int]] = set()
    for p in placed:
        if p.state != "located":
            assert (p.segment, p.start, p.end) == (None, None, None)
            continue
        assert p.segment is not None
        assert p.start is not None
        assert p.end is not None
        assert texts[p.segment][p.start : p.end] == p.piece.text
        owned = {(p.segment, position) for position in range(p.start, p.end)}
        taken = inner if p.piece.inline else outer
        assert owned
        assert not owned & taken
        taken |= owned


# A small alphabet and few texts, so that they repeat, nest and overlap.
narrow = st.one_of(st.text("ab \n", max_size=4), st.sampled_from(["a", "b", "ab", "a b", " a", "\n"]))
offsets = st.none() | st.integers(0, 8)


@st.composite
def any_piece(draw: st.DrawFn) -> Piece:
    """Any piece: recorded or not, rightly or wrongly, inline, offered, inferred."""
    inferred = draw(st.booleans())
    return Piece(
        draw(st.sampled_from(["x", "y", "z"])),
        draw(narrow),
        source_id=draw(st.none() | st.sampled_from(["1", "2"])),
        inline=draw(st.booleans()),
        offered=inferred or draw(st.booleans()),
        inferred=inferred,
        segment=draw(st.none() | st.integers(0, 2)),
        start=draw(offsets),
        end=draw(offsets),
    )


bodies = st.one_of(st.text("ab \n", max_size=10), st.lists(narrow, max_size=5).map("".join))
prompts = st.lists(bodies, max_size=3)


@given(prompts, st.lists(any_piece(), max_size=8), st.booleans())
@settings(deadline=None, max_examples=200)
def test_whatever_is_declared_the_result_is_sound(texts: list[str], pieces: list[Piece], ordered: bool) -> None:
    """Overlap-free, verified, one result per piece in its order, and the same again for the same arguments."""
    segments = [Segment(f"messages[{n}].content", text) for n, text in enumerate(texts)]
    placed = assign(segments, pieces, ordered=ordered)
    assert [p.piece for p in placed] == pieces
    assert_sound(texts, placed)
    assert assign(segments, pieces, ordered=ordered) == placed


@given(prompts, st.lists(any_piece(), max_size=6), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=200)
def test_without_an_order_the_order_of_declaration_changes_nothing(
    texts: list[str], pieces: list[Piece], random: Any
) -> None:
    """Shuffled, every piece has the same state and the same place (of equal pieces, one has the other's)."""
    prompt = Split(tuple(Segment(str(n), text) for n, text in enumerate(texts)))
    shuffled = list(pieces)
    random.shuffle(shuffled)
    one, other = take(prompt, pieces, ordered=False), take(prompt, shuffled, ordered=False)
    assert Counter(one.pieces) == Counter(other.pieces)
    assert (one.gaps, one.reasons, one.covered) == (other.gaps, other.reasons, other.covered)


@given(prompts, st.lists(any_piece(), max_size=8), st.booleans())
@settings(deadline=None, max_examples=200)
def test_a_text_that_stands_free_is_found(texts: list[str], pieces: list[Piece], ordered: bool) -> None:
    """Loud is not enough: an ordinary piece is given up only where every occurrence is taken or part of a word."""
    segments = [Segment(str(n), text) for n, text in enumerate(texts)]
    placed = assign(segments, pieces, ordered=ordered)
    taken = {
        (p.segment, n)
        for p in placed
        if p.state == "located" and not p.piece.inline
        for n in range(p.start or 0, p.end or 0)
    }
    for p in placed:
        if p.piece.text == "".join(texts):  # a piece that is the whole prompt has no place
            continue
        if p.state in ("duplicate", "contested", "unlocatable", "not_placed") and not p.piece.inline:
            for number, body in enumerate(texts):
                for start in range(len(body)):
                    end = start + len(p.piece.text or "")
                    free = not any((number, n) in taken for n in range(start, end))
                    if body.startswith(p.piece.text or "", start) and free:
                        assert is_word(p.piece.text or "")
                        assert splits_word(body, start, end)


@st.composite
def rendered(draw: st.DrawFn, *, gaps: bool) -> tuple[list[str], list[tuple[int, str, int]]]:
    """Segments that were built from texts in a row: (segment, text, start) of each, by construction."""
    alphabet = draw(st.sampled_from(["ab", "ab \n", "abcdefgh .,\n", "日本語。\n", "กขา "]))
    texts: list[str] = []
    built: list[tuple[int, str, int]] = []
    for number in range(draw(st.integers(1, 3))):
        body = ""
        for _ in range(draw(st.integers(1, 6))):
            if gaps and draw(st.booleans()):
                body += draw(st.sampled_from(["\n---\n", " | ", "<", "\n\n"]))
            text = draw(st.text(alphabet, min_size=1, max_size=8))
            built.append((number, text, len(body)))
            body += text
        texts.append(body)
    return texts, built


@given(rendered(gaps=False))
@settings(deadline=None, max_examples=200)
def test_texts_that_are_the_whole_prompt_in_a_row_stand_where_they_were_put(
    case: tuple[list[str], list[tuple[int, str, int]]],
) -> None:
    """With every text declared in order, however alike they are, the offsets are the builder's and nothing is left."""
    texts, built = case
    assume(sum(bool(text.strip()) for _, text, _ in built) > 1)
    prompt = Split(tuple(Segment(str(n), text) for n, text in enumerate(texts)))
    found = take(prompt, [Piece(f"p{n}", text) for n, (_, text, _) in enumerate(built)])
    assert [(p.segment, p.start) for p in found.pieces] == [(number, start) for number, _, start in built]
    assert (found.unaccounted, found.verdict) == (0, "exact")


@given(rendered(gaps=True), st.booleans())
@settings(deadline=None, max_examples=200)
def test_texts_that_stand_once_are_found_there_and_the_rest_is_the_gaps(
    case: tuple[list[str], list[tuple[int, str, int]]], ordered: bool
) -> None:
    """Where each text occurs just once there is one right answer, in either mode."""
    texts, built = case
    joined = "\0".join(texts)
    unique = [b for b in built if sum(joined.startswith(b[1], at) for at in range(len(joined))) == 1]
    fragments = [b for b in unique if is_word(b[1]) and splits_word(texts[b[0]], b[2], b[2] + len(b[1]))]
    assume(not fragments)
    assume(sum(bool(text.strip()) for _, text, _ in unique) > 1)
    prompt = Split(tuple(Segment(str(n), text) for n, text in enumerate(texts)))
    found = take(prompt, [Piece(f"p{n}", text) for n, (_, text, _) in enumerate(unique)], ordered=ordered)
    assert [(p.segment, p.start) for p in found.pieces] == [(number, start) for number, _, start in unique]
    assert found.unaccounted == sum(map(len, texts)) - sum(len(text) for _, text, _ in unique)


def test_each_declaration_takes_one_occurrence_in_order() -> None:
    """Three times declared, three times located, left to right, whatever stands between."""
    assert places("ok, ok, ok", [("a", "ok"), ("b", "ok"), ("c", "ok")]) == [(0, 2), (4, 6), (8, 10)]


def test_more_declared_than_stand_are_duplicates() -> None:
    """Of four declarations of a text that stands twice, two are located and two are duplicates."""
    pieces = [("a", "ok"), ("b", "ok"), ("c", "ok"), ("d", "ok")]
    assert places("ok, ok", pieces) == [(0, 2), (4, 6), "duplicate", "duplicate"]
    assert census("ok, ok", pieces).verdict == "mismatch"


def test_stands_nowhere_is_unlocatable_however_often_declared() -> None:
    """Only a text that stands nowhere at all is unlocatable, and then each of its declarations is."""
    assert places("hello", [("a", "ok"), ("b", "ok")]) == ["unlocatable", "unlocatable"]
    assert census("hello", [("a", "ok"), ("b", "ok")]).verdict == "unknown"


def test_inside_another_piece_is_contested() -> None:
    """It does stand there, but its characters have an owner: two producers claim them."""
    found = census("say: go home now", [("all", "go home now"), ("part", "home"), ("say", "say: ")])
    assert [p.state for p in found.pieces] == ["located", "contested", "located"]
    assert found.pieces[1].note == "stands only inside another piece, in segment 0 at 8"
    assert (found.verdict, found.reasons) == ("mismatch", ("contested_piece",))


def test_the_declared_order_tells_equal_texts_apart() -> None:
    """A question that also stands inside a chunk is located where it was rendered, not where it is found first."""
    prompt = "Q: Body?\nContext: Body? Yes.\nQ: Body?"
    pieces = [("rag", "Context: Body? Yes."), ("template", "\nQ: "), ("user", "Body?")]
    assert places(prompt, pieces) == [(9, 28), (28, 32), (32, 37)]


def test_a_piece_is_looked_for_between_its_neighbours_first() -> None:
    """Short separators belong where they were declared."""
    prompt = "\nfirst chunk\nsecond chunk\nthird"
    pieces = [("a", "first chunk"), ("sep", "\n"), ("b", "second chunk"), ("sep", "\n"), ("c", "third")]
    assert places(prompt, pieces) == [(1, 12), (12, 13), (13, 25), (25, 26), (26, 31)]


def test_a_piece_that_was_moved_is_found_elsewhere() -> None:
    """The client library put the last first: order is evidence, not a condition."""
    assert places("BBBB--AAAA", [("a", "AAAA"), ("b", "BBBB")]) == [(6, 10), (0, 4)]


def test_a_place_beside_a_neighbour_is_preferred() -> None:
    """Of two places between the neighbours, the one that touches one of them."""
    prompt = "[chunk one] - a - [chunk two]"
    pieces = [("a", "[chunk one]"), ("sep", " - "), ("b", "[chunk two]")]
    assert places(prompt, pieces)[1] == (11, 14)
    pieces = [("a", "[chunk"), ("sep", " - "), ("b", "[chunk two]")]
    assert places(prompt, pieces)[1] == (15, 18)


def test_an_empty_or_inline_piece_between_does_not_hide_the_neighbour() -> None:
    """What has no place of its own in the row is no neighbour."""
    prompt = "[chunk one] - a - [chunk two]"
    between = [("e", ""), Piece("i", "chunk", inline=True), ("sep", " - "), ("e", "")]
    assert places(prompt, [("a", "[chunk"), *between, ("b", "[chunk two]")])[3] == (15, 18)


@pytest.mark.parametrize("ordered", [True, False])
def test_recorded_offsets_come_first(ordered: bool) -> None:
    """What was known by construction is not searched for: the second occurrence, since it says so."""
    assert places("ok, ok", [Piece("a", "ok", segment=0, start=4, end=6)], ordered=ordered) == [(4, 6)]


@pytest.mark.parametrize(
    ("segment", "start", "end"),
    [
        (0, 3, 5),
        (0, 4, 5),
        (0, 4, 7),
        (1, 4, 6),
        (9, 4, 6),
        (-1, 4, 6),
        (0, -2, 6),
        (0, 6, 4),
        (0, 4, None),
        (None, 4, 6),
    ],
)
def test_wrong_recorded_offsets_are_not_believed(segment: int | None, start: int | None, end: int | None) -> None:
    """They are verified like any others; the piece is then searched for."""
    assert places("ok, go", [Piece("a", "go", segment=segment, start=start, end=end), ("b", "ok, ")]) == [
        (4, 6),
        (0, 4),
    ]


def test_recorded_offsets_do_not_own_a_character_twice() -> None:
    """Two pieces with the same recorded place: the second is found elsewhere, or is a duplicate."""
    twice = [Piece("a", "ok", segment=0, start=0, end=2), Piece("b", "ok", segment=0, start=0, end=2)]
    assert places("ok, ok", twice) == [(0, 2), (4, 6)]
    assert places("ok, go", twice) == [(0, 2), "duplicate"]
    inline = [Piece(p.producer, p.text, segment=0, start=0, end=2, inline=True) for p in twice]
    assert places("ok, go", [("t", "ok, go!"), *inline]) == ["unlocatable", (0, 2), "duplicate"]


def test_what_is_recorded_is_not_taken_again_by_others_in_a_row() -> None:
    """Two that were placed and two that were not, each pair the whole prompt: the second pair stands nowhere."""
    placed = [Piece("a", "Why?", segment=0, start=0, end=4), Piece("b", "Why?", segment=0, start=4, end=8)]
    assert places("Why?Why?", [*placed, ("c", "Why?"), ("d", "Why?")]) == [(0, 4), (4, 8), "duplicate", "duplicate"]


def test_offsets_of_a_lost_text_count_only_where_text_was_cut() -> None:
    """A digest can't be compared with characters in the clear, so an offset there proves nothing."""
    lost = Piece("a", None, chars=3, hmac_sha256="ff", segment=0, start=0, end=3)
    clear, cut = Segment("prompt", "abcdef"), Segment("prompt", "\ufffc\ufffc\ufffcdef", cuts=((0, 3),))
    assert take(Split((clear,)), [lost, Piece("b", "def")]).pieces[0].state == "unlocatable"
    assert take(Split((cut,)), [lost, Piece("b", "def")]).verdict == "exact"
    short = Piece("a", None, chars=2, hmac_sha256="ff", segment=0, start=0, end=3)
    assert take(Split((cut,)), [short, Piece("b", "def")]).pieces[0].state == "unlocatable"


def test_a_bare_word_is_not_located_inside_a_longer_word() -> None:
    """In "book" the letters of "ok" stand, not the word."""
    found = census("a book, a token", [("a", "ok"), ("t", "a ")])
    assert found.pieces[0].state == "unlocatable"
    assert found.pieces[0].note == "stands only inside a longer word"
    assert places("book: ok", [("a", "ok")]) == [(6, 8)]
    assert places("book ok book", [("a", "ok"), ("b", "ok")]) == [(5, 7), "duplicate"]


def test_a_bare_word_that_touches_another_piece_may_be_part_of_a_word() -> None:
    """Two pieces in a row can make one word."""
    assert places("go booking", [("a", "go boo"), ("b", "king")]) == [(0, 6), (6, 10)]


def test_a_bare_word_found_in_a_word_between_its_neighbours_is_found_whole_elsewhere() -> None:
    """The true occurrence was moved: it is not given up for the letters that stand between the neighbours."""
    assert places("one: a book. two: ok.", [("x", "one:"), ("w", "ok"), ("y", "two:")]) == [(0, 4), (18, 20), (13, 17)]


def test_what_a_withdrawn_word_had_taken_is_free_for_others() -> None:
    """The letters of a word that is given up do not keep a text from standing where they were."""
    assert places("abb\n", [("w", "bb"), ("x", "b\n")], ordered=False) == ["unlocatable", (2, 4)]
    assert places("aBe brief. an", [("s", "Be brief."), ("w", "a")]) == [(1, 10), (0, 1)]


def test_an_offered_word_that_stands_only_in_a_word_was_not_used() -> None:
    """An offer that this call did not take up decides nothing."""
    found = census("a book", [("t", "a "), Piece("o", "ok", offered=True)])
    assert found.pieces[1].state == "not_placed"


@pytest.mark.parametrize(
    ("prompt", "word", "place"),
    [
        ("東京都に住む。", "京都", (1, 3)),
        ("保持期間は十年です。", "十年", (5, 7)),
        ("ประเทศไทยสวยงาม", "ไทย", (6, 9)),
        ("ភាសាខ្មែរ", "ខ្មែរ", (4, 9)),
        ("កខគឃ", "ខគ", (1, 3)),
        ("မြန်မာစာ", "စာ", (6, 8)),
        ("ကခဂဃ", "ခဂ", (1, 3)),
        ("한국어를 배운다", "국어", (1, 3)),
        ("v2第3章", "第3章", (2, 5)),
    ],
)
def test_scripts_without_spaces_have_no_longer_words(prompt: str, word: str, place: tuple[int, int]) -> None:
    """In Japanese, Thai, Khmer, Burmese or Korean a text of letters alone may stand anywhere."""
    assert places(prompt, [("w", word)]) == [place]


@pytest.mark.parametrize("prompt", ["naïveté", "ПРИВЕТ", "straße_x", "x1y2"])
def test_words_of_scripts_with_spaces_are_words(prompt: str) -> None:
    """Accents, Cyrillic, the underscore and digits belong to a word as in any other."""
    assert places(prompt, [("w", prompt[1:-1])]) == ["unlocatable"]


def test_an_inline_piece_owns_its_characters_inside_another() -> None:
    """The outer piece is located whole, the inline one inside it, and neither contests the other."""
    pieces = [("template", "Dear Ann, hello."), Piece("name", "Ann", inline=True), ("end", " Bye")]
    assert places("Dear Ann, hello. Bye", pieces) == [(0, 16), (5, 8), (16, 20)]


def test_an_inline_piece_is_looked_for_inside_others_first() -> None:
    """It rides inside a declared text; the same letters in undeclared text before it are not it."""
    pieces = [("template", "Dear Ann, hello."), Piece("name", "Ann", inline=True)]
    assert places("To: Ann\nDear Ann, hello.", pieces) == [(8, 24), (13, 16)]
    assert places("To: Ann\nDear Bob", [("template", "Dear Bob"), Piece("name", "Ann", inline=True)]) == [
        (8, 16),
        (4, 7),
    ]


def test_an_inline_piece_across_two_others_rides_in_neither() -> None:
    """Its characters belong to two owners."""
    assert places("a b c d", [("x", "a b"), ("y", " c d"), Piece("i", "b c", inline=True)]) == [
        (0, 3),
        (3, 7),
        "contested",
    ]


def test_inline_pieces_take_one_occurrence_each() -> None:
    """As any other: two declarations, two places; a third is a duplicate."""
    pieces = [("t", "Ann and Ann."), *[Piece("name", "Ann", inline=True)] * 3, ("e", "!")]
    assert places("Ann and Ann.!", pieces) == [(0, 12), (0, 3), (8, 11), "duplicate", (12, 13)]


def test_an_inline_word_prefers_to_be_a_word() -> None:
    """Inside its template the whole word is meant, and its letters only where there is no other."""
    assert places("book ok!", [("t", "book ok"), Piece("i", "ok", inline=True), ("e", "!")])[1] == (5, 7)
    assert places("book id!", [("t", "book id"), Piece("i", "ok", inline=True), ("e", "!")])[1] == (2, 4)


def test_what_is_declared_goes_before_what_is_inferred() -> None:
    """The output of an earlier call must not take characters that the application has declared."""
    inferred = Piece("model", "solar panels", offered=True, inferred=True)
    pieces = [("say", "Find: "), ("a", "solar"), ("b", " panels"), inferred]
    for prompt in ("Find: solar panels", "Find: solar panels!"):
        assert places(prompt, pieces) == [(0, 6), (6, 11), (11, 18), "not_placed"]
        assert places(prompt, [("say", "Find: "), inferred]) == [(0, 6), (6, 18)]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_call_s_own_piece_goes_before_an_equal_offer(ordered: bool) -> None:
    """Whoever declared it for this call has the one occurrence, also if the offer was made first."""
    pieces = [Piece("a", "ok", offered=True), Piece("b", "ok"), ("c", "? ")]
    assert places("well? ok", pieces, ordered=ordered) == ["not_placed", (6, 8), (4, 6)]


def test_recorded_offsets_that_overlap_do_not_depend_on_the_order() -> None:
    """Without an order the longer one has the characters, whichever was declared first."""
    one, other = Piece("a", "ab", segment=0, start=0, end=2), Piece("b", "bcd", segment=0, start=1, end=4)
    assert places("abcd!", [one, other], ordered=False) == ["unlocatable", (1, 4)]
    assert places("abcd!", [other, one], ordered=False) == [(1, 4), "unlocatable"]


def test_pieces_are_found_in_their_segments() -> None:
    """Across a list of messages, and never across the border of two."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "brief? Be."}]
    found = census(messages, [("a", "Be brief."), ("b", "brief?"), ("c", " Be."), ("d", ".brief")])
    assert [(p.segment, p.start) for p in found.pieces] == [(0, 0), (1, 0), (1, 6), (None, None)]


LETTERS = "a" * 300_000


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(
    ("prompt", "pieces"),
    [
        (LETTERS, [("p", "a")] * 2_000),
        (LETTERS, [("p", "a" * length) for length in range(1, 500)]),
        (LETTERS + "!", [("all", LETTERS), *[("p", "a" * length) for length in range(1, 500)]]),
        ("ab" * 150_000 + " z", [("all", "ab" * 150_000), *[("p", ("ab" * n)[:n]) for n in range(1, 500)]]),
        ("ok " * 10_000, [("p", "ok")] * 10_000),
        ("ok " * 10_000, [("p", "ok")] * 12_000),
        ("ok, " * 10_000, [("p", "ok"), ("q", ", ")] * 10_000),
        ("ok " * 10_000, [("t", "ok " * 5_000)] * 2 + [Piece("p", "ok", inline=True)] * 10_000),
        ("\n" * 10_000, [Piece("p", "\n", segment=0, start=n, end=n + 1) for n in range(10_000)]),
    ],
    ids=["letter", "letters", "inside", "words", "10000", "12000", "separated", "inline", "recorded"],
)
def test_hard_inputs_come_to_an_end(prompt: str, pieces: list[Any], ordered: bool) -> None:
    """Text that nobody writes but anybody can send: the search gives up, says so, and stays sound."""
    began = time.perf_counter()
    found = census(prompt, pieces, ordered=ordered)
    assert time.perf_counter() - began < 20
    assert_sound([prompt], found.pieces)
    assert found.covered + found.unaccounted == found.total == len(prompt)


@pytest.mark.parametrize("ordered", [True, False])
def test_ten_thousand_occurrences_are_told_apart(ordered: bool) -> None:
    """Each of 10,000 equal declarations has its own place; 2,000 more are duplicates, and none is called ambiguous."""
    found = census("ok " * 10_000, [("p", "ok"), ("q", "ok")] * 6_000, ordered=ordered)
    assert Counter(p.state for p in found.pieces) == {"located": 10_000, "duplicate": 2_000}
    assert {p.start for p in found.located} == set(range(0, 30_000, 3))
    assert found.unaccounted == 10_000


def test_giving_up_is_loud() -> None:
    """A search that was cut short is no proof of absence: unknown, by name."""
    found: Census = census(LETTERS, [("p", "a" * length) for length in range(1, 500)], ordered=False)
    assert "ambiguous_piece" in found.reasons
    assert found.verdict == "unknown"
    assert any(p.note.startswith("ambiguous") for p in found.unlocatable)


def test_a_run_of_letters_longer_than_any_word_is_no_word() -> None:
    """A million equal letters in twenty million: each of the places would cost its length, so there is no choosing."""
    found = census("a" * 2_000_000, [("a", "a" * 1_000_000)])
    assert found.covered == 1_000_000
    assert not is_word("a" * 101)
    assert is_word("a" * 100)
