"""What an edit changed in a text, as the lines of a unified diff, in bounded time and length.

A prompt's lines are long, so a text is compared sentence by sentence. What both texts begin and end with is left out
first: an edit in a large text costs what the edit costs. Two stretches that are too large to be compared are shown by
their beginnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

_PARTS = 250  # on either side, above which a stretch is not compared: that is quadratic
_LINES = 60
_CONTEXT = 40  # characters
_LONGEST = 240  # characters of a line as shown

_END = re.compile(r"(?<=\n)|(?<=[.!?] )|(?<=[\u3002\uff01\uff1f])")


def edits(old: str, new: str) -> tuple[str, ...]:
    """The lines: ``@@ -[start:end] +[start:end] @@`` in code points, then what stood there (-) and stands there (+).

    ↵ ends a line that ends in a newline; … stands for what is left out.
    """
    before, after = _parts(old), _parts(new)
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    middle_old, middle_new = before[head : len(before) - tail], after[head : len(after) - tail]
    offset = sum(map(len, before[:head]))
    lines = list(_hunks(middle_old, middle_new, offset))
    if len(lines) > _LINES:
        lines = [*lines[:_LINES], f"… {len(lines) - _LINES} more lines"]
    return tuple(lines)


def _hunks(old: Sequence[str], new: Sequence[str], offset: int) -> Iterator[str]:
    if len(old) > _PARTS or len(new) > _PARTS:
        yield from _hunk("".join(old), "".join(new), offset, offset)
        return
    starts_old, starts_new = _offsets(old, offset), _offsets(new, offset)
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from _hunk("".join(old[a:b]), "".join(new[c:d]), starts_old[a], starts_new[c])


def _hunk(old: str, new: str, start_old: int, start_new: int) -> Iterator[str]:
    yield f"@@ -[{start_old}:{start_old + len(old)}] +[{start_new}:{start_new + len(new)}] @@"
    same = 0
    if old and new:  # the beginning and the end that both have in common say little
        same = _common(old, new)
        ending = min(_common(old[::-1], new[::-1]), len(old) - same, len(new) - same)
        first, last = max(0, same - _CONTEXT), max(0, ending - _CONTEXT)
        old, new = (
            ("…" if first else "") + text[first : len(text) - last] + ("…" if last else "") for text in (old, new)
        )
    for sign, text in (("-", old), ("+", new)):
        for whole in text.splitlines(keepends=True)[: _LINES + 1]:
            line = f"{whole[:-1]}↵" if whole.endswith("\n") else whole
            more = len(line) - _LONGEST
            yield sign + (line if more <= 0 else f"{line[:_LONGEST]}… {more} more characters")


def _parts(text: str) -> list[str]:
    return [part for part in _END.split(text) if part]


def _offsets(parts: Sequence[str], offset: int) -> list[int]:
    starts = [offset]
    for part in parts:
        starts.append(starts[-1] + len(part))
    return starts


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many items both begin with."""
    least = min(len(one), len(other))
    if one[:least] == other[:least]:
        return least
    low, high = 0, least
    while high - low > 1:  # by halves: comparing slices is faster than comparing items
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
