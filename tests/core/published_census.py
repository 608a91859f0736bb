"""The census as it is mostly written: look for each piece, and count what the found intervals do not cover.

It is here to be compared with. Its faults are those of its kind: every search finds the first occurrence, a short
word is found inside a longer one, and an empty piece is found everywhere.
"""

from __future__ import annotations

from typing import NamedTuple


class Naive(NamedTuple):
    """What the naive census says."""

    total: int
    covered: int
    unaccounted: int
    unlocatable: list[str]


def naive_census(prompt: str, pieces: list[tuple[str, str]]) -> Naive:
    """Search, union, subtract."""
    covered: set[int] = set()
    unlocatable = []
    for producer, text in pieces:
        start = prompt.find(text)
        if start < 0:
            unlocatable.append(producer)
        else:
            covered.update(range(start, start + len(text)))
    return Naive(len(prompt), len(covered), len(prompt) - len(covered), unlocatable)
