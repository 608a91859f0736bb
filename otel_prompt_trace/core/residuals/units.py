"""A text as a row of units: short runs that end where a line, a sentence or a long clause ends.

Invariants:

- The units tile the text: their lengths add up to its length.
- Where a unit ends depends on the characters around that place alone, so that a text which stands inside another has
  the same units there, but for the ones at its borders.
- A unit is known by a digest of its text without the white space around it. The digest holds within one process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from otel_prompt_trace.core.text import FILLER

_SENTENCE = re.compile(r"[^\n.!?…。！？]*(?:[\n.!?…。！？]+\s*|\Z)")  # noqa: RUF001 - the ends of sentences in other scripts
_CLAUSE = re.compile(r"[^,;:(){}\[\]，；：、]*(?:[,;:(){}\[\]，；：、]+\s*|\Z)")  # noqa: RUF001
_LONG = 300  # characters: a sentence that is longer is no sentence (minified JSON, say), and is taken in clauses
_MOST = 20_000  # units of one text; what follows is one more

BLANK = 0  # the key of a unit without characters of its own: white space, or what a policy cut


class Unit(NamedTuple):
    """One unit: its digest, its characters, and how many of them are no white space."""

    key: int
    chars: int
    solid: int


def units(text: str) -> tuple[Unit, ...]:
    """The units of a text, in order."""
    parts: list[str] = []
    for part in _SENTENCE.findall(text):
        if len(part) > _LONG:
            parts += _CLAUSE.findall(part)
        else:
            parts.append(part)
    if len(parts) > _MOST:
        parts[_MOST:] = ["".join(parts[_MOST:])]
    return tuple(_unit(part) for part in parts if part)


def solid(row: Iterable[Unit]) -> int:
    """Characters of some units that are no white space."""
    return sum(unit.solid for unit in row)


def _unit(part: str) -> Unit:
    content = part.strip()
    if FILLER in content and not content.replace(FILLER, "").strip():
        return Unit(BLANK, len(part), 0)
    return Unit(hash(content) or 1, len(part), sum(map(len, content.split()))) if content else Unit(BLANK, len(part), 0)
