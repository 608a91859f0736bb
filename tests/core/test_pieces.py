"""Pieces: what a producer declared."""

from __future__ import annotations

import pytest

from otel_prompt_trace.core.pieces import TRUST, Piece, Placed, as_pieces


def test_a_pair_is_a_piece() -> None:
    """The short form is for whoever has no more to say."""
    piece = Piece("b", "y", trust="user")
    assert as_pieces([("a", "x"), piece]) == (Piece("a", "x"), piece)
    assert as_pieces([]) == ()


@pytest.mark.parametrize(
    "wrong", [("a", None), ("a", b"x"), (1, "x"), ("a", "x", "y"), ["a", "x"], "ax", None, {"a": "x"}]
)
def test_anything_else_is_an_error(wrong: object) -> None:
    """By the name of its type."""
    with pytest.raises(TypeError, match=f"not {type(wrong).__name__}"):
        as_pieces([wrong])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("piece", "length"),
    [
        (Piece("a", "日本👩‍👩‍👧"), 7),
        (Piece("a", ""), 0),
        (Piece("a", None, chars=9), 9),
        (Piece("a", None), 0),
        (Piece("a", None, value={"x": 1}), 0),
    ],
)
def test_its_length_is_in_code_points(piece: Piece, length: int) -> None:
    """Also where only its length was kept."""
    assert piece.length == length


def test_its_label_names_producer_and_source() -> None:
    """As reports do."""
    assert Piece("rag", "x").label == "rag"
    assert Piece("rag", "x", source_id="7").label == "rag:7"
    placed = Placed(Piece("rag", "x", source_id="7"), "located", 0, 1, 2)
    assert (placed.producer, placed.source_id) == ("rag", "7")


def test_the_trust_labels() -> None:
    """A closed set."""
    assert set(TRUST) == {"owner", "policy", "tool", "child", "retrieved", "user", "unknown"}
    assert Piece("a", "x").trust in TRUST
