"""The verdict: exact, mismatch or unknown, by the first rule that applies, with every reason that applies.

Mismatch means that something is shown to be wrong. Unknown means that it can't be shown to be right, and unknown
is never ok. Exact means that every character has a producer and nothing speaks against it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Verdict = Literal["exact", "mismatch", "unknown"]
Evidence = Literal["wire", "declared", "hook", "attributes"]

EVIDENCE: tuple[Evidence, ...] = ("wire", "declared", "hook", "attributes")  # strongest first

BROKEN = (
    "sha256_failed",
    "duplicate_piece",
    "contested_piece",
    "provider_count_below_prompt",
    "remainder_suspected",
)
OPEN = (
    "no_pieces",
    "weak_evidence",
    "cut_without_offsets",
    "whole_prompt_piece",
    "held_by_reference",
    "undeclared_model_visible_part",
    "unlocatable_piece",
    "ambiguous_piece",
    "unreadable_event",
    "after_end",
    "missing_messages",
    "dropped_attributes",
    "no_prompt",
)
GAP = "gap"
_ALL = (*BROKEN, *OPEN, GAP)


def verdict(reasons: Iterable[str]) -> Verdict:
    """The verdict for a set of reasons (names of this module).

    Raises:
        ValueError: a reason that no rule knows: a new reason must be given its place here first.
    """
    given = set(reasons)
    strange = given.difference(_ALL)
    if strange:
        raise ValueError(f"unknown reasons: {', '.join(sorted(strange))}")
    if given.intersection(BROKEN):
        return "mismatch"
    if given.intersection(OPEN):
        return "unknown"
    return "mismatch" if GAP in given else "exact"


def in_order(reasons: Iterable[str]) -> tuple[str, ...]:
    """The reasons in the order of the rules, each once."""
    given = set(reasons)
    return tuple([reason for reason in _ALL if reason in given]) if given else ()


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The verdict over several calls: mismatch before unknown before exact; None for no calls."""
    given = set(verdicts)
    order: tuple[Verdict, ...] = ("mismatch", "unknown", "exact")
    for candidate in order:
        if candidate in given:
            return candidate
    return None
