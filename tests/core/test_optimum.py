"""How well the assignment does: against everything that could be tried, and when more is declared.

What is compared is the number of characters that are covered. The optimum is over all ways to give each piece one place
or none, no two over the same character, a bare word inside a longer one only where it touches another piece. Of the
long runs, marked ``slow``, each takes minutes; the same properties run briefly with all other tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core import assignment
from otel_prompt_trace.core.assignment import assign
from otel_prompt_trace.core.assignment.rearranged import ALL_SPOTS, PIECES
from otel_prompt_trace.core.census import take
from otel_prompt_trace.core.pieces import Piece, Placed
from otel_prompt_trace.core.segments import Segment, Split
from otel_prompt_trace.core.words import is_word
from tests.absent import VARIABLE
from tests.core.optimum import is_fragment, optimum, spots
from tests.core.test_assignment import assert_sound, narrow

Texts = list[str]
ALPHABETS = ["ab", "ab ", "ab .\n", "日本。", "กข ", "abcdefgh ", "aé1_ "]


class Rendered(NamedTuple):
    """A prompt by construction: its segments, and of each text its segment and start, in the order of rendering."""

    texts: Texts
    row: list[tuple[str, int, int]]


@st.composite
def rendered(draw: st.DrawFn, *, segments: int = 2, pieces: int = 4, longest: int = 5) -> Rendered:
    """Texts in a row, some with something undeclared before them."""
    alphabet = draw(st.sampled_from(ALPHABETS))
    texts: Texts = []
    row: list[tuple[str, int, int]] = []
    for number in range(draw(st.integers(1, segments))):
        body = ""
        for _ in range(draw(st.integers(1, pieces))):
            body += draw(st.sampled_from(["", "", "", "\n", " | ", "<", alphabet[0]]))
            text = draw(st.text(alphabet, min_size=1, max_size=longest))
            row.append((text, number, len(body)))
            body += text
        texts.append(body)
    return Rendered(texts, row)


MUTATIONS: list[Callable[[str], list[str]]] = [
    *[lambda text: [text]] * 6,  # as it stands
    lambda text: [text[:-1]],
    lambda text: [text[1:]],
    lambda text: [text + text[:1]],
    lambda text: [text.upper()],
    lambda text: [text, text],
    lambda text: [],
    lambda text: [text[:2], text[2:]],
]


@st.composite
def mutated(draw: st.DrawFn, most: int, **sizes: int) -> tuple[Texts, list[str]]:
    """A prompt, and at most so many of its texts as somebody may have declared them."""
    found = draw(rendered(**sizes))
    pieces = [text for old, _, _ in found.row for text in draw(st.sampled_from(MUTATIONS))(old) if text]
    if draw(st.booleans()):
        pieces = draw(st.permutations(pieces))
    return found.texts, pieces[:most]


def split(texts: Sequence[str]) -> Split:
    """The segments of a prompt."""
    return Split(tuple(Segment(f"messages[{n}].content", text) for n, text in enumerate(texts)))


def parts(texts: Texts, pieces: list[str]) -> list[str]:
    """Without those that are the whole prompt, which have no place."""
    filled = [text for text in texts if text]
    return [piece for piece in pieces if [piece] != filled]


def placed(texts: Texts, pieces: Sequence[str], *, ordered: bool) -> tuple[Placed, ...]:
    """The assignment of texts, each by another producer."""
    return assign(split(texts).segments, [Piece(f"p{n}", text) for n, text in enumerate(pieces)], ordered=ordered)


def covered(found: Sequence[Placed]) -> int:
    """Characters of located pieces; none of them is inline."""
    return sum((p.end or 0) - (p.start or 0) for p in found if p.state == "located")


def best(case: tuple[Texts, list[str]], ordered: bool) -> None:
    """Just as many characters as can be, and each piece where it is said to stand."""
    texts, pieces = case[0], parts(*case)
    assume(all(len(spots(texts, piece)) <= ALL_SPOTS for piece in pieces))
    found = placed(texts, pieces, ordered=ordered)
    assert_sound(texts, found)
    assert covered(found) == optimum(texts, pieces)


def bounded(case: tuple[Texts, list[str]], ordered: bool) -> None:
    """Never more than can be, and at least a quarter of it, where no bare word stands inside a longer one."""
    texts, pieces = case[0], parts(*case)
    found = placed(texts, pieces, ordered=ordered)
    assert_sound(texts, found)
    most = optimum(texts, pieces)
    assert covered(found) <= most
    if not any(is_word(piece) and is_fragment(texts, spot) for piece in pieces for spot in spots(texts, piece)):
        assert 4 * covered(found) >= most


def more_is_not_less(case: Rendered, declared: list[int], noise: list[str], recorded: bool, ordered: bool) -> None:
    """Declare some texts that are there, then others as well, the same noise beside both: no fewer are covered."""

    def pieces(chosen: set[int]) -> list[Piece]:
        row = [
            Piece(f"p{n}", text, segment=at, start=start, end=start + len(text)) if recorded else Piece(f"p{n}", text)
            for n, (text, at, start) in enumerate(case.row)
            if n in chosen
        ]
        return [*row, *[Piece(f"n{n}", text) for n, text in enumerate(noise)]]

    prompt = split(case.texts)
    few, more = set(declared[: len(declared) // 2]), set(declared)
    before, after = (take(prompt, pieces(chosen), ordered=ordered) for chosen in (few, more))
    assume("whole_prompt_piece" not in after.reasons)
    assert after.covered >= before.covered


def all_that_is_there_is_found(case: Rendered, chosen: set[int]) -> None:
    """Declared in their order, texts that were rendered are all located, however many and however alike."""
    row = [(text, at, start) for n, (text, at, start) in enumerate(case.row) if n in chosen]
    spans = {(at, start, start + len(text)) for text, at, start in row}
    assume(not any(is_fragment(case.texts, span) for span in spans))
    pieces = [text for text, _, _ in row]
    assume(parts(case.texts, pieces) == pieces)
    found = placed(case.texts, pieces, ordered=True)
    assert_sound(case.texts, found)
    assert covered(found) == sum(map(len, pieces))


few = mutated(6, segments=2, pieces=3, longest=5)
small = mutated(PIECES, segments=2, pieces=4, longest=5)
larger = mutated(12, segments=2, pieces=6, longest=4)
some = rendered(segments=2, pieces=4, longest=4)
subset = st.lists(st.integers(0, 7), max_size=8, unique=True)
brief = settings(deadline=None, max_examples=200)
# Where all tests run a tenth of them does: the rest takes a quarter of an hour.
EXAMPLES = 1_000 if os.environ.get(VARIABLE) == "1" else 10_000
long = settings(derandomize=True, deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))


@given(few, st.booleans())
@brief
def test_small_prompts_are_covered_as_well_as_can_be(case: tuple[Texts, list[str]], ordered: bool) -> None:
    """Of a few pieces, right, cut, changed, lost or doubled, as much is located as any way to place them locates."""
    best(case, ordered)


@given(larger, st.booleans())
@settings(deadline=None, max_examples=100)
def test_larger_ones_are_not_far_from_it(case: tuple[Texts, list[str]], ordered: bool) -> None:
    """A piece keeps out at most what is as long as itself, what overlaps its two ends, and itself elsewhere."""
    bounded(case, ordered)


@given(some, subset, st.lists(narrow, max_size=2), st.booleans(), st.booleans())
@brief
def test_more_that_is_there_never_covers_less(
    case: Rendered, declared: list[int], noise: list[str], recorded: bool, ordered: bool
) -> None:
    """Recorded or searched for, in order or not, beside texts that stand there by chance."""
    more_is_not_less(case, declared, noise if not recorded else [], recorded, ordered)


@given(rendered(segments=3, pieces=12, longest=6), st.sets(st.integers(0, 35)))
@brief
def test_all_that_is_there_is_found_in_order(case: Rendered, chosen: set[int]) -> None:
    """No number is too large for this: what the order has room for is placed."""
    all_that_is_there_is_found(case, chosen)


@given(larger)
@brief
def test_the_short_way_comes_to_what_the_long_one_comes_to(case: tuple[Texts, list[str]]) -> None:
    """What needs no weighing is placed where it would be after all of it."""
    texts, pieces = case
    short = placed(texts, pieces, ordered=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assignment, "evident", lambda *_, **__: None)
        assert placed(texts, pieces, ordered=True) == short


@given(rendered(segments=3, pieces=5), st.booleans())
@brief
def test_recorded_offsets_are_taken_by_either_way(case: Rendered, ordered: bool) -> None:
    """Each piece where the builder put it, be it the short way or the long one."""
    assume(len(case.row) > 1)
    pieces = [
        Piece(f"p{n}", text, segment=at, start=start, end=start + len(text))
        for n, (text, at, start) in enumerate(case.row)
    ]
    there = [(at, start) for _, at, start in case.row]
    for shown in (pieces, pieces[::-1]):
        found = assign(split(case.texts).segments, shown, ordered=ordered)
        assert [(p.segment, p.start) for p in found] == (there if shown is pieces else there[::-1])


@pytest.mark.slow
@pytest.mark.timeout(3600)
class TestLongRuns:
    """The same with many examples."""

    @given(small, st.booleans())
    @settings(long, max_examples=EXAMPLES // 5)  # it is the optimum that takes its time
    def test_small_prompts_are_covered_as_well_as_can_be(self, case: tuple[Texts, list[str]], ordered: bool) -> None:
        """As above, with as many pieces as are ever moved at once."""
        best(case, ordered)

    @given(larger, st.booleans())
    @settings(long, max_examples=EXAMPLES // 3)
    def test_larger_ones_are_not_far_from_it(self, case: tuple[Texts, list[str]], ordered: bool) -> None:
        """As above."""
        bounded(case, ordered)

    @given(some, subset, st.lists(narrow, max_size=2), st.booleans(), st.booleans())
    @long
    def test_more_that_is_there_never_covers_less(
        self, case: Rendered, declared: list[int], noise: list[str], recorded: bool, ordered: bool
    ) -> None:
        """As above."""
        more_is_not_less(case, declared, noise if not recorded else [], recorded, ordered)

    @given(rendered(segments=3, pieces=12, longest=6), st.sets(st.integers(0, 35)))
    @long
    def test_all_that_is_there_is_found_in_order(self, case: Rendered, chosen: set[int]) -> None:
        """As above."""
        all_that_is_there_is_found(case, chosen)
