"""Places that the declared order leaves no choice about.

Each text is looked for behind the one before it. Where all that stand anywhere are found so, a placement in the
declared order exists; and a text of which no second occurrence lies between its neighbours has the same place in every
such placement. It costs about one look at the prompt, wherever the texts stand.
"""

from __future__ import annotations

from collections.abc import Sequence

from otel_prompt_trace.core.assignment.board import Place
from otel_prompt_trace.core.words import is_word, splits_word


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


def leftmost(texts: Sequence[str], row: Sequence[str]) -> list[Place | None] | None:
    """The first place of each text behind the one before it; None for one that stands nowhere, or not once more.

    None altogether where a text does stand, but not behind those before it, or only as a part of a longer word.
    """
    places: list[Place | None] = []
    letters: Letters | None = None
    absent: set[str] = set()
    found_before: set[str] = set()
    at, reached = 0, 0
    for number, text in enumerate(row):
        if text in absent or (letters is not None and letters.lack(text)):
            places.append(None)
            continue
        after = row[number + 1] if number + 1 < len(row) else ""
        found = _first(texts, text, at, reached, after)
        if found is None:
            if texts and text not in found_before and _stands_elsewhere(texts, text, at, reached):
                return None
            letters = letters or Letters(texts)
            absent.add(text)  # from here on
        else:
            found_before.add(text)
            at, reached = found[0], found[1] + len(text)
        places.append(found)
    return places


def _first(texts: Sequence[str], text: str, at: int, reached: int, after: str) -> Place | None:
    """The first place from there on; a bare word stands as a word of its own, or touches what is before or after."""
    word = is_word(text)
    low = reached
    for segment in range(at, len(texts)):
        body = texts[segment]
        start = body.find(text, low)
        while start >= 0:
            end = start + len(text)
            if (
                not word
                or not splits_word(body, start, end)
                or (start == reached and segment == at and start > 0)
                or (after and body.startswith(after, end))
            ):
                return segment, start
            start = body.find(text, start + 1)
        low = 0
    return None


def _stands_elsewhere(texts: Sequence[str], text: str, at: int, reached: int) -> bool:
    """Whether a text that was not found from there on stands before, or, a bare word, as a part of a longer one."""
    if any(text in body for body in texts[:at]):
        return True
    stop = len(texts[at]) if is_word(text) else reached + len(text) - 1
    return texts[at].find(text, 0, stop) >= 0 or (is_word(text) and any(text in body for body in texts[at + 1 :]))


def without_choice(texts: Sequence[str], row: Sequence[str], places: Sequence[Place | None]) -> list[bool]:
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
