"""Quotes: the longest run of characters that one text has from another.

White space is collapsed on both sides. Cost is linear in both: the source is known by every 20th window of 20
characters, so that a run of 40 holds one of them whole, and a window that comes back is known by its first places. In a
source that repeats itself a longer run than the one that is found may stand there.
"""

from __future__ import annotations

LEAST = 40  # characters; a shorter run is a turn of phrase
_WINDOW = LEAST // 2
_PLACES = 8


def longest_quote(source: str, text: str) -> str | None:
    """The longest run of at least :data:`LEAST` characters of ``source`` that stands in ``text``, or None."""
    source, text = " ".join(source.split()), " ".join(text.split())
    windows: dict[str, list[int]] = {}
    for place in range(0, len(source) - _WINDOW + 1, _WINDOW):
        known = windows.setdefault(source[place : place + _WINDOW], [])
        if len(known) < _PLACES:
            known.append(place)
    best, reached, at = "", 0, 0
    while at <= len(text) - _WINDOW:
        places = windows.get(text[at : at + _WINDOW])
        if places is None:
            at += 1
            continue
        left, right = max((_extent(source, place, text, at, reached) for place in places), key=sum)
        if left + right > len(best):
            best = text[at - left : at + right]
        if left + right >= LEAST:
            at = reached = at + right
        else:
            at += 1
    return best if len(best) >= LEAST else None


def _extent(source: str, place: int, text: str, at: int, reached: int) -> tuple[int, int]:
    """How far both texts agree before and after these places; what was looked at before is not looked at again."""
    left, right = 0, _WINDOW
    while at - left > reached and place - left > 0 and text[at - left - 1] == source[place - left - 1]:
        left += 1
    while at + right < len(text) and place + right < len(source) and text[at + right] == source[place + right]:
        right += 1
    return left, right
