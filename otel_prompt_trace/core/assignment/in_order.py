"""Places that the declared order leaves no choice about.

Each text is looked for behind the one before it. Where all that stand anywhere are found so, a placement in the
declared order exists; and a text of which no second occurrence lies between its neighbours has the same place in every
such placement. It costs about one look at the prompt, wherever the texts stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from otel_prompt_trace.core.assignment.board import Place
from otel_prompt_trace.core.words import is_word, splits_word

FRAGMENTS: Final = 2_000  # places that are passed over, where a bare word is a part of a longer one


class Letters:
    """The characters of a prompt: a text with another one stands nowhere, and need not be searched for."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._all: str | None = None

    def lack(self, text: str) -> bool:
        """Whether a character of the text stands nowhere in the prompt."""
        if self._all is None:
            self._all = "".join(set().union(*self._texts))
        return bool(text.strip(self._all))


@dataclass(frozen=True, slots=True)
class Order:
    """The leftmost places of texts in a row, and of each whether there is no other in any placement in that order."""

    places: Sequence[Place | None]
    forced: Sequence[bool]


def in_a_row(texts: Sequence[str], row: Sequence[str]) -> Order | None:
    """The places of texts that are, one after another, the prompt to the last character: nothing speaks for others."""
    if sum(map(len, row)) != sum(map(len, texts)):
        return None
    places: list[Place | None] = []
    at, reached = 0, 0
    for text in row:
        while at < len(texts) and reached == len(texts[at]):
            at, reached = at + 1, 0
        if at == len(texts) or not texts[at].startswith(text, reached):
            return None
        places.append((at, reached))
        reached += len(text)
    return Order(places, [True] * len(places))


def in_order(texts: Sequence[str], row: Sequence[str]) -> Order | None:
    """A place for each text behind the one before it; None for one that stands nowhere, or not once more.

    None altogether where a text does stand, but not behind those before it, or only as a part of a longer word.
    """
    places = _Walk(texts).leftmost(row)
    return None if places is None else Order(places, _without_choice(texts, row, places))


class _Walk:
    """Goes through the texts once, from left to right."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._at, self._reached = 0, 0
        self._fragments = FRAGMENTS
        self._letters: Letters | None = None  # when a first text was not found

    def leftmost(self, row: Sequence[str]) -> list[Place | None] | None:
        places: list[Place | None] = []
        seen: dict[str, bool] = {}  # whether there may be one more
        following = iter(row)
        next(following, None)
        for text in row:
            after = next(following, "")
            found = None
            if seen.get(text, True) and not (self._letters is not None and self._letters.lack(text)):
                found = self._first(text, after)
                if found is None and text not in seen and self._stands_elsewhere(text):
                    return None
                seen[text] = found is not None
                if found is None:
                    self._letters = self._letters or Letters(self._texts)
                else:
                    self._at, self._reached = found[0], found[1] + len(text)
            places.append(found)
        return places

    def _first(self, text: str, after: str) -> Place | None:
        """The first place from here on; a bare word stands as one of its own, or touches what is before or after."""
        word = is_word(text)
        low = self._reached
        for segment in range(self._at, len(self._texts)):
            body = self._texts[segment]
            start = body.find(text, low)
            while start >= 0:
                if not word or self._may_stand(segment, start, start + len(text), after):
                    return segment, start
                self._fragments -= 1
                start = body.find(text, start + 1) if self._fragments > 0 else -1
            low = 0
        return None

    def _may_stand(self, segment: int, start: int, end: int, after: str) -> bool:
        body = self._texts[segment]
        if not splits_word(body, start, end) or (after and body.startswith(after, end)):
            return True
        return start > 0 and (segment, start) == (self._at, self._reached)

    def _stands_elsewhere(self, text: str) -> bool:
        """Whether a text that was not found from here on stands before, or, a bare word, as a part of a longer one."""
        texts, at = self._texts, self._at
        if is_word(text) or any(text in body for body in texts[:at]):
            return any(text in body for body in texts)
        return bool(texts) and texts[at].find(text, 0, self._reached + len(text) - 1) >= 0


def _without_choice(texts: Sequence[str], row: Sequence[str], places: Sequence[Place | None]) -> list[bool]:
    """Which of the leftmost places are the rightmost as well, as far as that is easily told."""
    forced = [False] * len(row)
    segment, stop = len(texts) - 1, len(texts[-1]) if texts else 0  # what follows begins there, or before
    for number in range(len(row) - 1, -1, -1):
        place = places[number]
        if place is None:
            continue
        text, (at, start) = row[number], place
        if _stands_again(texts, text, at, start, segment, stop):
            stop -= len(text)
            while stop < 0 and segment > at:
                segment -= 1
                stop = len(texts[segment]) - len(text)
        else:
            forced[number] = True
            segment, stop = at, start
    return forced


def _stands_again(texts: Sequence[str], text: str, at: int, start: int, segment: int, stop: int) -> bool:
    """Whether there is a second place between the first one and where what follows begins at the latest."""
    if segment == at:
        return stop > start + len(text) and texts[at].find(text, start + 1, stop) >= 0
    return (
        texts[at].find(text, start + 1) >= 0
        or any(text in texts[between] for between in range(at + 1, segment))
        or texts[segment].find(text, 0, stop) >= 0
    )
