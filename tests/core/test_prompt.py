"""``Prompt``: what it builds is what is sent, and its offsets need no search."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core import prompt as module
from otel_prompt_trace.core.census import census
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.prompt import Prompt, replay
from otel_prompt_trace.core.segments import split

words = st.text(st.characters(exclude_categories=()), max_size=6)
steps = st.lists(st.tuples(st.sampled_from(["add", "literal", "message"]), words), max_size=12)


def built(plan: list[tuple[str, str]], *, messages: bool) -> Prompt:
    """A prompt by a plan."""
    prompt = Prompt()
    if messages:
        prompt.message("system")
    for step, text in plan:
        if step == "add":
            prompt.add("producer", text, source_id="s", trust="user")
        elif step == "literal":
            prompt.literal(text)
        elif messages:
            prompt.message(text)
    return prompt


def test_the_example_in_the_docstring() -> None:
    """What the docstring shows is what happens."""
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted > 2


@given(steps, st.booleans())
@settings(deadline=None, max_examples=200)
def test_offsets_are_right_by_construction(plan: list[tuple[str, str]], messages: bool) -> None:
    """Every piece stands at its offsets, the pieces fill the segments, and the length is that of the texts."""
    prompt = built(plan, messages=messages)
    segments = prompt.segments
    for piece in prompt.pieces:
        assert piece.segment is not None
        assert segments[piece.segment].text[piece.start : piece.end] == piece.text
    assert len(prompt) == sum(len(s.text) for s in segments) == sum(len(p.text or "") for p in prompt.pieces)
    assert prompt.is_messages is messages


@given(steps)
@settings(deadline=None, max_examples=100)
def test_its_segments_are_those_of_the_messages_that_are_sent(plan: list[tuple[str, str]]) -> None:
    """Taking the sent list apart gives the same paths, roles and texts as the prompt has."""
    prompt = built(plan, messages=True)
    assert split(prompt.messages()).segments == prompt.segments


@given(steps, st.booleans())
@settings(deadline=None, max_examples=200)
def test_its_census_finds_every_piece_where_it_was_put(plan: list[tuple[str, str]], messages: bool) -> None:
    """No gap, and every piece with characters is located at its own place, unless one producer is all there is."""
    prompt = built(plan, messages=messages)
    found = census(prompt)
    pieces = [p for p in found.pieces if p.piece.text]
    solid = {p.producer for p in pieces if p.piece.text and not p.piece.text.isspace()}
    if len(solid or {p.producer for p in pieces}) > 1:
        assert found.unaccounted == 0
        assert [(p.segment, p.start, p.end) for p in pieces] == [
            (p.piece.segment, p.piece.start, p.piece.end) for p in pieces
        ]
        assert found.verdict == "exact"
    else:
        assert found.verdict == "unknown"


def test_a_single_string() -> None:
    """Without messages it is one string, and one user message for whoever needs a list."""
    prompt = Prompt().add("system", "Be brief.", trust="policy").literal("\n\n").add("user", "Why?", source_id="q1")
    assert str(prompt) == prompt.text == "Be brief.\n\nWhy?"
    assert prompt.messages() == [{"role": "user", "content": "Be brief.\n\nWhy?"}]
    assert [(p.label, p.trust) for p in prompt.pieces] == [
        ("system", "policy"),
        ("literal", "owner"),
        ("user:q1", "unknown"),
    ]


def test_several_messages() -> None:
    """Each message has a segment of its own, and an empty one is kept."""
    prompt = Prompt().message("system").add("system", "Be brief.").message("assistant").message("user").add("u", "Why?")
    assert prompt.messages() == [
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "Why?"},
    ]
    assert [p.segment for p in prompt.pieces] == [0, 2]


def test_several_messages_have_no_single_text() -> None:
    """Joining them with something of our own would be text that nobody sent."""
    prompt = Prompt().message("system").add("system", "a").message("user").add("user", "b")
    with pytest.raises(ValueError, match="use messages"):
        _ = prompt.text
    with pytest.raises(ValueError, match="use messages"):
        str(prompt)
    assert len(prompt) == 2
    assert repr(prompt) == "Prompt(chars=2, pieces=2)"


def test_one_message_has_a_text() -> None:
    """There is only one it could be."""
    assert Prompt().message("user").add("user", "a").text == "a"


def test_text_before_the_first_message_belongs_to_none() -> None:
    """It would silently be left out of the messages."""
    with pytest.raises(ValueError, match="before the first message"):
        Prompt().add("system", "a").message("user")


@pytest.mark.parametrize("text", [None, 5, b"bytes", ["a"]])
def test_a_piece_s_text_is_a_string(text: object) -> None:
    """``str()`` of something is not what the application meant to send."""
    with pytest.raises(TypeError, match="a piece's text is a str"):
        Prompt().add("rag", text)  # type: ignore[arg-type]


def test_an_empty_prompt() -> None:
    """Nothing was added: one empty string."""
    assert (Prompt().text, len(Prompt()), Prompt().messages(), Prompt().pieces) == ("", 0, [], ())


@given(steps, st.booleans())
@settings(deadline=None, max_examples=200)
def test_replaying_the_placement_gives_the_prompt(plan: list[tuple[str, str]], messages: bool) -> None:
    """The recorded pieces in their places are the characters that were sent, in any order of the record."""
    prompt = built(plan, messages=messages)
    texts = tuple(s.text for s in prompt.segments)
    expected = texts if prompt.pieces else None
    assert replay(prompt.pieces, len(texts)) == expected
    distinct = tuple(p for p in prompt.pieces if p.text)
    if distinct:
        assert replay(distinct[::-1], len(texts)) == texts


@pytest.mark.parametrize(
    ("pieces", "segments"),
    [
        ((), 1),
        ((Piece("a", "x"),), 1),  # declared, not placed
        ((Piece("a", "x", segment=0, start=1, end=2),), 1),  # a hole before it
        ((Piece("a", "x", segment=0, start=0, end=1), Piece("b", "y", segment=0, start=2, end=3)), 1),
        ((Piece("a", None, segment=0, start=0, end=1, chars=1),), 1),  # its text was withheld
        ((Piece("a", "x", segment=1, start=0, end=1),), 1),  # no such segment
        ((Piece("a", "x", segment=-1, start=0, end=1),), 0),
    ],
)
def test_a_placement_that_does_not_build_a_prompt_replays_to_nothing(pieces: tuple[Piece, ...], segments: int) -> None:
    """With a hole or without a text there is nothing to compare, and nothing is made up."""
    assert replay(pieces, segments) is None
