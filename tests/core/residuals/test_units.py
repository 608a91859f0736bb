"""Units tile a text, and a text that stands inside another has its units there."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.core.residuals.units import BLANK, solid, units
from otel_prompt_trace.core.text import FILLER

TEXT = st.text(st.sampled_from("ab .,\n!{}。\u2028\ud800" + FILLER), max_size=200)


@given(TEXT)
def test_units_tile_the_text(text: str) -> None:
    """No character is lost or counted twice, of whatever the text is made."""
    row = units(text)
    assert sum(unit.chars for unit in row) == len(text)
    assert solid(row) <= sum(map(len, text.split()))


@given(st.lists(st.text("ab ", min_size=1, max_size=20).filter(str.strip), min_size=3, max_size=8), TEXT, TEXT)
def test_a_text_inside_another_has_the_same_units(lines: list[str], before: str, after: str) -> None:
    """But for the two at its borders."""
    text = "\n".join(lines)
    inner = [unit.key for unit in units(text)][1:-1]
    outer = [unit.key for unit in units(f"{before}{text}{after}")]
    assert any(outer[at : at + len(inner)] == inner for at in range(len(outer) + 1))


@pytest.mark.parametrize("text", ["", " \n\t ", FILLER * 5, f" {FILLER} "])
def test_what_has_no_characters_of_its_own_is_blank(text: str) -> None:
    """White space, and what a policy cut: it is like nothing else."""
    assert {unit.key for unit in units(text)} <= {BLANK}
    assert solid(units(text)) == 0


def test_white_space_around_a_unit_does_not_matter() -> None:
    """The same sentence on a line of its own and in a paragraph."""
    assert units("One.\nTwo.\n\n")[1].key == units("One.  Two. Three.")[1].key


@pytest.mark.parametrize(
    "text", ["a" * 2_000_000, "a." * 1_000_000, '{"a":1,' * 300_000, "\n" * 2_000_000, ". " * 500_000]
)
def test_long_texts_cost_no_more_than_their_length(text: str) -> None:
    """One repeated letter, nothing but ends of sentences, JSON in one line."""
    begun = time.perf_counter()
    assert sum(unit.chars for unit in units(text)) == len(text)
    assert time.perf_counter() - begun < 5
