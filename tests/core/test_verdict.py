"""The verdict: the table of reasons, the first rule that applies, and no reason without a place in it."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.verdict import BROKEN, EVIDENCE, GAP, OPEN, in_order, verdict, worst

TABLE = {
    "sha256_failed": "mismatch",
    "duplicate_piece": "mismatch",
    "contested_piece": "mismatch",
    "provider_count_below_prompt": "mismatch",
    "remainder_suspected": "mismatch",
    "no_pieces": "unknown",
    "weak_evidence": "unknown",
    "cut_without_offsets": "unknown",
    "whole_prompt_piece": "unknown",
    "held_by_reference": "unknown",
    "undeclared_model_visible_part": "unknown",
    "unlocatable_piece": "unknown",
    "ambiguous_piece": "unknown",
    "unreadable_event": "unknown",
    "after_end": "unknown",
    "missing_messages": "unknown",
    "dropped_attributes": "unknown",
    "no_prompt": "unknown",
    "gap": "mismatch",
}


@pytest.mark.parametrize(("reason", "expected"), [*TABLE.items()])
def test_each_reason_alone(reason: str, expected: str) -> None:
    """What is shown to be wrong is a mismatch; what can't be shown to be right is unknown."""
    assert verdict([reason]) == expected


def test_the_table_is_complete() -> None:
    """Every reason that the module knows has its line above."""
    assert set(TABLE) == {*BROKEN, *OPEN, GAP}


def test_no_reason_is_exact() -> None:
    """Exact is what nothing speaks against."""
    assert verdict([]) == "exact"


@pytest.mark.parametrize(("one", "other"), [*combinations(TABLE, 2)])
def test_the_first_rule_that_applies_decides(one: str, other: str) -> None:
    """Something broken outweighs anything open, and anything open outweighs a gap, in either order of telling."""
    reasons = {one, other}
    expected = "mismatch" if reasons & set(BROKEN) else "unknown"
    assert verdict([one, other]) == verdict([other, one, one]) == expected


@pytest.mark.parametrize("reasons", [["gaps"], ["gap", "Gap"], ["sha256_failed", ""], [*TABLE, "new_reason"]])
def test_a_reason_that_no_rule_knows_is_an_error(reasons: list[str]) -> None:
    """A new reason, or a misspelt one, must not pass for exact."""
    with pytest.raises(ValueError, match="unknown reasons"):
        verdict(reasons)


@given(st.lists(st.sampled_from(list(TABLE))))
@settings(deadline=None, max_examples=100)
def test_all_reasons_are_listed_once_in_the_order_of_the_rules(reasons: list[str]) -> None:
    """Whoever reads the list sees first what decided."""
    listed = in_order(reasons)
    assert set(listed) == set(reasons)
    assert list(listed) == [reason for reason in TABLE if reason in reasons]
    if listed:
        assert verdict(listed[:1]) == verdict(reasons)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], None),
        (["exact", "exact"], "exact"),
        (["exact", "unknown"], "unknown"),
        (["unknown", "mismatch", "exact"], "mismatch"),
    ],
)
def test_a_record_is_as_bad_as_its_worst_call(verdicts: list[str], expected: str | None) -> None:
    """One mismatch among a hundred exact calls is what somebody must see."""
    assert worst(verdicts) == expected  # type: ignore[arg-type]


def test_evidence_is_listed_strongest_first() -> None:
    """The bytes as sent, the string as handed over, a hook, attributes."""
    assert EVIDENCE == ("wire", "declared", "hook", "attributes")
