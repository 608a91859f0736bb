"""Quotes: the longest run of characters that one text has from another.

White space is collapsed on both sides. Cost is linear in both: the source is known by every 20th window of 20
characters, so a run of 40 always holds one of them, and each hit is extended once.
"""

from __future__ import annotations

LEAST = 40  # characters; a shorter run is a turn of phrase
_WINDOW = LEAST // 2


def longest_quote(source: str, text: str) -> str | None:
    """The longest run of at least :data:`LEAST` characters of ``source`` that stands in ``text``, or None."""
    source, text = " ".join(source.split()), " ".join(text.split())
    windows: dict[str, int] = {}
    for place in range(0, len(source) - _WINDOW + 1, _WINDOW):
        windows.setdefault(source[place : place + _WINDOW], place)
    best, reached, at = "", 0, 0
    while at <= len(text) - _WINDOW:
        start = windows.get(text[at : at + _WINDOW])
        if start is None:
            at += 1
            continue
        left, right = 0, _WINDOW
        while at - left > reached and start - left > 0 and text[at - left - 1] == source[start - left - 1]:
            left += 1
        while at + right < len(text) and start + right < len(source) and text[at + right] == source[start + right]:
            right += 1
        if left + right > len(best):
            best = text[at - left : at + right]
        at = reached = at + right
    return best if len(best) >= LEAST else None
