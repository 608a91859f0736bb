"""Where words begin and end, as far as it matters for telling "ok" from a part of "book"."""

from __future__ import annotations

from otel_prompt_trace.core.text import FILLER

LONGEST_WORD = 100  # characters; a run of a million letters is no word, and each place of it would cost its length


def is_word(text: str) -> bool:
    """Whether a text is one bare word: it can then be found inside a longer one by accident."""
    if len(text) > LONGEST_WORD or " " in text:
        return False
    return text.isalnum() or all(_in_word(char) for char in text)


def splits_word(body: str, start: int, end: int) -> bool:
    """Whether ``body[start:end]`` begins or ends in the middle of a word."""
    return (start > 0 and _joins(body[start - 1], body[start])) or (
        end < len(body) and _joins(body[end - 1], body[end])
    )


def _in_word(char: str) -> bool:
    return char in ("_", FILLER) or char.isalnum()  # a character that was cut may have been a letter


def _joins(left: str, right: str) -> bool:
    """Whether two neighbouring characters are in one word. Scripts without spaces have no such thing."""
    return _in_word(left) and _in_word(right) and not (_unspaced(left) or _unspaced(right))


def _unspaced(char: str) -> bool:
    code = ord(char)
    return (
        0x0E00 <= code < 0x0F00  # Thai, Lao
        or 0x1000 <= code < 0x10A0  # Burmese
        or 0x1780 <= code < 0x1800  # Khmer
        or (code >= 0x2E80 and char != FILLER)  # the scripts of East Asia, and all that follows them
    )
