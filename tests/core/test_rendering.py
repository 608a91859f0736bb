"""The declared prompt in the request as sent: what stands where, what was added, and what the check says of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.core.checks import Check
from otel_prompt_trace.core.grade import CallGrade, grade
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.rendering import Added, carry_over, compare
from otel_prompt_trace.core.segments import Segment, Split
from tests.core.by_hand import Script

_TEXTS = st.lists(st.text("ab \n", max_size=6), max_size=5)


def split_of(*texts: str, root: str = "messages") -> Split:
    """A prompt of these texts."""
    return Split(tuple(Segment(f"{root}[{n}].content", text) for n, text in enumerate(texts)))


@given(_TEXTS, _TEXTS, st.sampled_from(["messages", "input"]))
def test_what_always_holds(declared: list[str], sent: list[str], root: str) -> None:
    """Each place holds its text, no two overlap, and what is added is the rest of what was sent."""
    there = split_of(*sent, root=root)
    found = compare(split_of(*declared), there)
    taken: set[tuple[int, int]] = set()
    for text, place in zip(declared, found.places, strict=True):
        if place is None:
            continue
        number, start = place
        assert sent[number][start : start + len(text)] == text
        characters = {(number, n) for n in range(start, start + len(text))}
        assert not characters & taken
        taken |= characters
    assert sum(part.chars for part in found.added) + len(taken) == there.total
    for part in found.added:
        number = [segment.path for segment in there.segments].index(part.path)
        assert part.chars == len(sent[number]) - sum(1 for place in taken if place[0] == number)


@given(st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=5), st.randoms())
def test_what_stands_somewhere_as_a_segment_is_found(texts: list[str], random: Any) -> None:
    """Whatever the order: every declared text has its place, and nothing is added."""
    shuffled = random.sample(texts, len(texts))
    found = compare(split_of(*texts), split_of(*shuffled, root="input"))
    assert None not in found.places
    assert found.added == ()
    if shuffled == texts:
        assert not found.moved


@given(_TEXTS, _TEXTS, st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(0, 6)), max_size=6))
def test_pieces_are_carried_over(declared: list[str], sent: list[str], places: list[tuple[int, int, int]]) -> None:
    """A piece keeps its text at its new offsets; one whose segment is gone loses its place, and nothing else."""
    pieces = [
        Piece("p", declared[n][start:end], segment=n, start=start, end=end)
        for n, start, end in places
        if n < len(declared) and start <= end <= len(declared[n])
    ]
    rendering = compare(split_of(*declared), split_of(*sent))
    for before, piece in zip(pieces, carry_over(pieces, rendering), strict=True):
        assert (piece.text, piece.producer) == (before.text, before.producer)
        if piece.segment is None:
            assert rendering.places[before.segment or 0] is None
            assert (piece.start, piece.end) == (None, None)
        else:
            assert sent[piece.segment][piece.start : piece.end] == before.text


def test_pieces_without_a_place_stay_as_they_are() -> None:
    """They are searched for; a number of a segment that there is not is no place."""
    rendering = compare(split_of("a"), split_of("a"))
    loose = Piece("p", "a")
    assert carry_over([loose], rendering) == (loose,)
    assert carry_over([Piece("p", "a", segment=7, start=0, end=1)], rendering)[0].segment is None


EXAMPLES: list[tuple[str, list[str], list[str], list[Any], list[Any], bool]] = [
    ("unchanged", ["A", "B"], ["A", "B"], [(0, 0), (1, 0)], [], False),
    ("merged", ["A", "B", "q"], ["A\n\nB", "q"], [(0, 0), (0, 3), (1, 0)], [(0, 2)], False),
    ("moved", ["A", "B"], ["B", "A"], [(1, 0), (0, 0)], [], True),
    ("wrapped", ["A", "q"], ["<s>A</s>", "q"], [(0, 3), (1, 0)], [(0, 7)], False),
    ("changed", ["A  B", "q"], ["A B", "q"], [None, (1, 0)], [(0, 3)], False),
    ("gone", ["A", "q"], ["q"], [None, (0, 0)], [], False),
    ("added", ["q"], ["You are kind.", "q"], [(1, 0)], [(0, 13)], False),
    ("twice", ["A", "A"], ["A"], [(0, 0), None], [], False),
    ("twice in one", ["A", "A"], ["A-A"], [(0, 0), (0, 2)], [(0, 1)], False),
    ("a short text in a long one", ["a", "b a b"], ["b a b", "a"], [(1, 0), (0, 0)], [], True),
    ("empty", ["", "q"], ["", "q"], [(0, 0), (1, 0)], [], False),
]


@pytest.mark.parametrize("case", EXAMPLES, ids=[case[0] for case in EXAMPLES])
def test_examples(case: tuple[str, list[str], list[str], list[Any], list[Any], bool]) -> None:
    """What client libraries do to a prompt."""
    _, declared, sent, places, added, moved = case
    found = compare(split_of(*declared), split_of(*sent))
    assert list(found.places) == places
    assert list(found.added) == [Added(f"messages[{number}].content", chars) for number, chars in added]
    assert found.moved is moved


def graded(
    declared: Any, sent: dict[str, Any] | None, *pieces: dict[str, Any], evidence: str = "wire"
) -> tuple[CallGrade, Check]:
    """The grade of a call that was declared and sent, and the check of the two."""
    script = Script()
    if declared is not None:
        script.call("c1", declared, *pieces)
    if sent is not None:
        script("request", call="c1", evidence="wire", api="openai.chat", host="api.example", path="/p",
               body=json.dumps(sent).encode())  # fmt: skip
    call = grade(script.record()).calls[0]
    (check,) = [check for check in call.checks if check.name == "sent_as_rendered"]
    return call, check


def messages(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in pairs]


def placed(producer: str, segment: int, text: str, start: int = 0) -> dict[str, Any]:
    """A piece that the application placed: the recorder keeps its offsets only."""
    return {"producer": producer, "segment": segment, "start": start, "end": start + len(text)}


def test_system_and_developer_merged_into_one() -> None:
    """Both are located in the request as sent; the joiner is named, and stays unaccounted: two characters."""
    system, developer, question = "Be kind.", "Be brief.", "Why?"
    call, check = graded(
        messages(("system", system), ("developer", developer), ("user", question)),
        {"model": "m", "messages": messages(("system", f"{system}\n\n{developer}"), ("user", question))},
        placed("a", 0, system),
        placed("b", 1, developer),
        placed("c", 2, question),
    )
    assert check.status == "pass"
    assert "3 text(s) stand unchanged" in check.detail
    assert "api.example" in check.detail
    assert "messages[0].content (2 characters)" in check.detail
    assert call.census is not None
    assert [(p.producer, p.state, p.segment, p.start, p.end) for p in call.census.pieces] == [
        ("a", "located", 0, 0, 8), ("b", "located", 0, 10, 19), ("c", "located", 1, 0, 4),
    ]  # fmt: skip
    assert (call.census.unaccounted, call.verdict) == (2, "mismatch")


def test_sent_just_as_it_was_declared() -> None:
    """Nothing is added, and the verdict is exact."""
    prompt = messages(("system", "Be kind."), ("user", "Why?"))
    call, check = graded(prompt, {"model": "m", "messages": prompt}, placed("a", 0, "Be kind."), placed("b", 1, "Why?"))
    assert (check.status, check.detail) == ("pass", "2 text(s) stand unchanged in what was sent to api.example")
    assert call.verdict == "exact"


def test_a_declared_string_within_a_body() -> None:
    """The application declares what it renders; its client puts it into a message."""
    call, check = graded("Be kind. Why?", {"model": "m", "input": "Be kind. Why?"}, placed("a", 0, "Be kind. "),
                         placed("b", 0, "Why?", 9))  # fmt: skip
    assert check.status == "pass"
    assert call.census is not None
    assert [p.state for p in call.census.pieces] == ["located", "located"]


def test_in_another_order() -> None:
    """It still stands unchanged; that it moved is said."""
    prompt = messages(("user", "Why?"), ("system", "Be kind."))
    _, check = graded(prompt, {"model": "m", "messages": prompt[::-1]})
    assert (check.status, "in another order" in check.detail) == ("pass", True)


def test_a_text_that_was_changed_fails() -> None:
    """Even by one line ending: no folded copy counts. Its piece loses its place and is unlocatable."""
    call, check = graded(
        messages(("system", "a\r\nb"), ("user", "Why?")),
        {"model": "m", "messages": messages(("system", "a\nb"), ("user", "Why?"))},
        placed("a", 0, "a\r\nb"),
        placed("b", 1, "Why?"),
    )
    assert check.status == "fail"
    assert "1 of 2" in check.detail
    assert call.census is not None
    assert [p.state for p in call.census.pieces] == ["unlocatable", "located"]
    assert call.verdict != "exact"


def test_unknown_without_both() -> None:
    """Nothing sent was captured, or nothing was declared."""
    assert graded("Why?", None)[1].status == "unknown"
    assert graded(None, {"model": "m", "input": "Why?"})[1].status == "unknown"
