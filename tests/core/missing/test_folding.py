"""The folding: what changes on the way is gone from it, and every place leads back to the original."""

from __future__ import annotations

from unicodedata import combining

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.missing import escapes
from otel_prompt_trace.core.missing.folding import Folded
from otel_prompt_trace.core.missing.haystack import WALL, Haystack
from otel_prompt_trace.core.segments import Segment
from tests.core.missing.ways import WAYS, texts

PARTS = [
    *(
        "a",
        "B",
        "\u00e9",
        "e\u0301",
        "\u0301",
        "\u0323",
        "\ud55c",
        "\uac00",
        "\ufb01",
        "\u3300",
        "\ufdfa",
        "\u0130",
        "\u00df",
    ),
    *(
        "\U0001f642",
        "\U0001f468\u200d\U0001f469",
        "\ud83d",
        "\udc00",
        "\x00",
        "\u202e",
        "\ufeff",
        "\u00a0",
        "\x85",
        " ",
        "\n",
    ),
    *(
        "\r",
        "\\",
        "\\n",
        "\\u00e9",
        "\\ud83d\\ude42",
        "\\u0301",
        "\\x41",
        "\\U0001F642",
        "\\\\u0041",
        "\\*",
        "&",
        "&amp;",
    ),
    *(
        "&amp;lt;",
        "&#769;",
        "&#x1F642;",
        "&#99999999;",
        "&nope;",
        "&copy",
        ";",
        "%",
        "%25",
        "%E6%97%A5",
        "%cc%81",
        "%ff",
    ),
    *("%2525", "+", "#", "x", "u", "25"),
]

hostile = st.lists(st.sampled_from(PARTS) | st.characters(), max_size=25).map("".join)


@given(hostile)
@settings(deadline=None, max_examples=300)
def test_every_place_leads_back(text: str) -> None:
    """Whatever the text: places rise, lie within it, and cover it but for what is gone; no NUL is left."""
    folded = Folded(text)
    assert len(folded) == len(folded.text)
    assert WALL not in folded.text
    reached = 0
    for at in range(len(folded)):
        start, stop = folded.start(at), folded.stop(at + 1)
        if start is not None:
            assert start >= reached
            reached = start
        if start is not None and stop is not None:
            assert 0 <= start < stop <= len(text)
            assert len(Folded(text[start:stop]).text) >= 1
    assert folded.reach(len(text), whole=False) == len(folded)


@given(hostile, st.data())
@settings(deadline=None, max_examples=200)
def test_what_is_between_two_places_has_the_folding_between_them(text: str, data: st.DataObject) -> None:
    """``[start, stop)`` of the original, folded by itself, is what was found: so what is found there is there."""
    folded = Folded(text)
    low = data.draw(st.integers(0, len(folded)))
    high = data.draw(st.integers(low, len(folded)))
    if low == high or combining(folded.text[low]) or (high < len(folded) and combining(folded.text[high])):
        return
    start, stop = folded.start(low), folded.stop(high)
    if start is not None and stop is not None:
        assert Folded(text[start:stop]).text == folded.text[low:high]


@given(texts(), st.sampled_from(sorted(WAYS)))
@settings(deadline=None, max_examples=200)
def test_every_way_has_the_same_folding(text: str, way: str) -> None:
    """What ways change is what the folding leaves out."""
    assert Folded(WAYS[way][1](text)).text == Folded(text).text


@given(hostile, st.integers(0, 60), st.integers(0, 60))
@settings(deadline=None, max_examples=200)
def test_what_is_owned_is_not_free(text: str, one: int, other: int) -> None:
    """Of the owned characters none is left in what is free, and of the others all that are units of their own."""
    start, end = sorted((min(one, len(text)), min(other, len(text))))
    haystack = Haystack([Segment("p", text)], [(0, start, end)])
    assert len(haystack.free) == len(haystack.text)
    for at, char in enumerate(haystack.text[:-1]):
        if combining(char) or combining(haystack.text[at + 1]):
            continue
        place = haystack.place(at, 1)
        if place is not None:
            outside = place[2] <= start or place[1] >= end
            assert haystack.free[at] == (char if outside else WALL)


def test_what_was_cut_is_never_found() -> None:
    """The filler of a text that a policy cut stands for nothing."""
    text = "kept \ufffc\ufffc\ufffc kept"
    haystack = Haystack([Segment("p", text, cuts=((5, 8),))], [])
    assert haystack.text == f"kept{WALL * 3}kept{WALL}"


@pytest.mark.parametrize(
    ("step", "text", "decoded"),
    [
        (escapes.html, "&lt;&#60;&#x3C;&eacute;&apos;&nbsp;&amp;lt;", "<<<\u00e9'\xa0&lt;"),
        (escapes.html, "a & b &copy &nope; &#99999999; &#x;", "a & b &copy &nope; &#99999999; &#x;"),
        (escapes.json, r"\"\\n\n\u00e9\ud83d\ude42\/\ud83d", '"\\n\n\u00e9\U0001f642/\ud83d'),
        (escapes.json, r"\x41 \q \u12", r"\x41 \q \u12"),
        (escapes.python, r"\x41\'\n\u00e9\U0001f642\t\\x41", "A'\n\u00e9\U0001f642\t\\x41"),
        (escapes.url, "%E6%97%A5+%20%2B%zz%ff", "\u65e5+ +%zz%ff"),
        (escapes.form, "a+b%2Bc", "a b+c"),
        (escapes.markdown, r"\*a\_ \n \\", r"*a_ \n " + "\\"),
    ],
)
def test_one_layer_of_escapes(step: object, text: str, decoded: str) -> None:
    """Decoded once; what is no escape stays."""
    assert callable(step)
    assert step(text) == decoded
