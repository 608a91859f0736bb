"""A text without what changes on the way from a producer into a prompt, and the way back to its offsets.

Escapes are decoded, however often they were applied; letters are decomposed and in one case; white space, characters
that nobody sees, backslashes and plus signs are gone. Two texts that differ in nothing else have the same folding.

Invariants:

- Only what stands between two units of the original (a character, a letter with its marks, an escape) has a place:
  half of an escape is none.
- A folded text holds no NUL: it can stand for what must not be found.
- Linear in the text, also for a letter with a hundred thousand marks.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import lru_cache
from unicodedata import combining, is_normalized, normalize

from otel_prompt_trace.core.missing import escapes

UNSEEN = r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
MARKS = 30  # on one letter; where there are more, the rest is taken for letters of their own

_UNIT = re.compile(
    r"(?P<backslash>\\+(?:U00[01][0-9a-fA-F]{5}|[uU][0-9a-fA-F]{4}(?:\\+[uU][dD][c-fC-F][0-9a-fA-F]{2})?|[xX][0-9a-fA-F]{2}"
    r"|[bfnrtBFNRT!-/:-@\[\]-`{-~])?)"
    rf"|(?P<entity>&(?:amp;)*{escapes.ENTITY};)"
    r"|(?P<percent>(?:%(?:25)*[0-9a-fA-F]{2})+)"
    r"|(?P<wide>[!-*,-~]?[^\x00-\x7f]+)"
    r"|[\x00-\x20\x7f+]+"
)
_OCTET = re.compile(r"%(?:25)*([0-9a-fA-F]{2})")
_HEX = re.compile(r"\\[xXuU]([0-9a-fA-F]+)")  # the last backslash alone: a run of them is looked at once
_GONE = re.compile(rf"[\s\\+{UNSEEN}]+")


class Folded:
    """``text`` is the folding; :meth:`start` and :meth:`stop` lead back.

    It is kept in runs: in an even one each character stands for one, any other is one unit.
    """

    def __init__(self, original: str) -> None:
        self.original = original
        self._parts: list[str] = []
        self._at: list[int] = []  # by run: where it begins in the folding,
        self._start: list[int] = []  # and where it begins
        self._stop: list[int] = []  # and ends in the original
        self._length = 0
        self._even: list[bool] = []  # whether each of its characters stands for one
        self._fold()
        self.text = "".join(self._parts)
        self._parts.clear()

    def __len__(self) -> int:
        return self._length

    def start(self, at: int) -> int | None:
        """Where the original of the character at ``at`` begins; None inside a unit."""
        run = bisect_right(self._at, at) - 1
        apart = at - self._at[run]
        return self._start[run] + apart if not apart or self._even[run] else None

    def stop(self, at: int) -> int | None:
        """Where the original of the character before ``at`` ends; None inside a unit."""
        run = bisect_left(self._at, at) - 1
        if at == self._end(run):
            return self._stop[run]
        return self._start[run] + at - self._at[run] if self._even[run] else None

    def reach(self, offset: int, *, whole: bool) -> int:
        """The first folded character that begins at ``offset`` or later; a unit across it counts if ``whole``."""
        run = bisect_left(self._start, offset)
        if run and self._stop[run - 1] > offset:
            if self._even[run - 1]:
                return self._at[run - 1] + offset - self._start[run - 1]
            return self._at[run - 1] if whole else self._end(run - 1)
        return self._at[run] if run < len(self._at) else self._length

    def _end(self, run: int) -> int:
        return self._at[run + 1] if run + 1 < len(self._at) else self._length

    def _fold(self) -> None:
        text, reached = self.original, 0
        for match in _UNIT.finditer(text):
            start, end = match.span()
            if start > reached:
                self._add(text[reached:start].lower(), reached, start, even=True)
            match match.lastgroup:
                case "wide":
                    self._add_wide(match[0], start)
                case "percent":
                    self._add_encoded(match[0], start)
                case "entity":
                    self._add(_fold_character(_from_entity(match[0])), start, end)
                case "backslash":
                    self._add(_fold_character(_from_backslash(match[0])), start, end)
            reached = end
        if reached < len(text):
            self._add(text[reached:].lower(), reached, len(text), even=True)

    def _add(self, folded: str, start: int, stop: int, *, even: bool = False) -> None:
        if not folded:
            return
        if not even and self._stop and combining(folded[0]):
            folded, start = self._with_its_letter(folded, start)
        even = even or len(folded) == stop - start == 1
        if even and self._even and self._even[-1] and self._stop[-1] == start:
            self._stop[-1] = stop
        else:
            self._at.append(self._length)
            self._start.append(start)
            self._stop.append(stop)
            self._even.append(even)
        self._parts.append(folded)
        self._length += len(folded)

    def _with_its_letter(self, marks: str, start: int) -> tuple[str, int]:
        """Marks that stand apart from the letter before them, with that letter: all its marks have one order."""
        last = self._parts[-1]
        count = 1
        while count < len(last) and combining(last[-count]):
            count += 1
        if count > MARKS:
            return marks, start
        if not self._even[-1]:
            count = len(last)
            start = self._start[-1]
        else:
            start = self._stop[-1] - count
        self._parts[-1] = last[:-count]
        self._length -= count
        self._stop[-1] = start
        if self._stop[-1] <= self._start[-1]:
            for column in (self._at, self._start, self._stop, self._even):
                column.pop()
        if not self._parts[-1]:
            self._parts.pop()
        return normalize("NFKD", last[-count:] + marks), start

    def _add_wide(self, run: str, start: int) -> None:
        if not combining(run[0]) and is_normalized("NFKD", run) and one_case(run) == run and not _GONE.search(run):
            self._add(run, start, start + len(run), even=True)
            return
        at = 0
        while at < len(run):
            end = at + 1
            while end < len(run) and end - at <= MARKS and combining(run[end]):
                end += 1
            self._add(_fold_character(run[at:end]), start + at, start + end)
            at = end

    def _add_encoded(self, run: str, start: int) -> None:
        """Percent-encoded bytes, character by character; one that is none of UTF-8 stands for itself."""
        octets = list(_OCTET.finditer(run))
        at = 0
        while at < len(octets):
            lead = int(octets[at][1], 16)
            length = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
            unit = octets[at : at + length]
            char = escapes.percent("".join(octet[1] for octet in unit))
            if char is None:
                unit = octets[at : at + 1]
                char = f"%{unit[0][1]}"
            self._add(_fold_character(char), start + unit[0].start(), start + unit[-1].end())
            at += len(unit)


def _from_entity(unit: str) -> str:
    name = unit[unit.rfind(";", 0, -1) + 1 : -1].removeprefix("&")  # what was escaped first
    return escapes.entity(name) or f"&{name};"


def _from_backslash(unit: str) -> str:
    """A character by its number, or the one behind the backslash; letters stand for white space."""
    if not unit[-1].isalnum():
        return unit[-1]
    codes = [int(digits, 16) for digits in _HEX.findall(unit)]
    if len(codes) == 2 and 0xD800 <= codes[0] < 0xDC00:
        codes = [0x10000 + ((codes[0] - 0xD800) << 10) + codes[1] - 0xDC00]
    return "".join(chr(code) for code in codes if code <= 0x10FFFF)


@lru_cache(maxsize=8192)
def _fold_character(text: str) -> str:
    """A letter with its marks, decomposed and in one case."""
    return _GONE.sub("", normalize("NFKD", one_case(normalize("NFKD", text))))


def one_case(text: str) -> str:
    """Without the difference between capitals and small letters; a dotless i is one in capitals."""
    return text.upper().casefold()
