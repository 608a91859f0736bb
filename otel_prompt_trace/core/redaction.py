"""Redaction: what must not be kept in a text is found by a function of yours, or by the ready patterns here.

It is applied to every text of every event at the one place where events enter the pipeline, and fails closed: a
function that raises, or answers with what can't be understood, costs the text, which is cut whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

Found: TypeAlias = "tuple[int, int] | tuple[int, int, str]"
Redactor: TypeAlias = Callable[[str], "Iterable[Found]"]

LABEL = "redact"
_FAILED = f"{LABEL}:failed"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_KEY_CHARACTER = r"[A-Za-z0-9_-]"

_PATTERNS: dict[str, re.Pattern[str]] = {
    "email": re.compile(r"[\w.%+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})*\.[^\W\d_][\w-]{1,62}"),
    "phone": re.compile(r"(?<![\w+])(?:\+|00)[1-9][0-9]{0,2}(?:[ ./()-]{0,2}[0-9]){6,12}(?!\w)"),
    "iban": re.compile(r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"),
    # As they are printed: in one, by fours, or as American Express does; the first digit is that of a bank's card.
    "credit_card": re.compile(
        r"(?<![0-9])(?:[2-6][0-9]{12,18}|[2-6][0-9]{3}(?:([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{1,4}(?:\1[0-9]{1,3})?"
        r"|([ -])[0-9]{6}\2[0-9]{4,5}))(?![0-9])"
    ),
    "ipv4": re.compile(rf"(?<![0-9.])(?:{_OCTET}\.){{3}}{_OCTET}(?!\.?[0-9])"),
    "secret": re.compile(
        rf"(?<!{_KEY_CHARACTER})(?:(?:sk|pk|rk)[-_](?={_KEY_CHARACTER}*[A-Za-z0-9]{{16}}){_KEY_CHARACTER}+"
        rf"|gh[pousr]_[A-Za-z0-9]{{20,}}|github_pat_{_KEY_CHARACTER}{{20,}}|AKIA[A-Z0-9]{{16}}(?!{_KEY_CHARACTER})"
        rf"|xox[abpr]-{_KEY_CHARACTER}{{10,}}|(?<!\.)eyJ{_KEY_CHARACTER}{{8,}}\.{_KEY_CHARACTER}{{8,}}\.{_KEY_CHARACTER}{{8,}})"
        r"|(?i:\bbearer) +[A-Za-z0-9._~+/-]{16,}=*"
    ),
}  # fmt: skip
PATTERNS = tuple(_PATTERNS)


def redactor(given: Any) -> Redactor:
    """One function from a function, the name of a ready pattern, or several of these.

    Raises:
        ValueError: there is no such pattern.
    """
    if isinstance(given, str):
        if given not in _PATTERNS:
            raise ValueError(f"no pattern {given!r}: there are {', '.join(PATTERNS)}")
        return _by_pattern(given)
    if callable(given):
        return given  # type: ignore[no-any-return]
    return _AllOf(tuple(redactor(item) for item in given))


@dataclass(frozen=True, slots=True)
class _AllOf:
    """What any of them finds; equal where it is made of the same."""

    several: tuple[Redactor, ...]

    def __call__(self, text: str) -> Iterable[Found]:
        for one in self.several:
            yield from one(text)


def places(redact: Redactor, text: str) -> Sequence[tuple[int, int, str]]:
    """Start, end and label of what is to be cut out of a text; all of it where the function fails."""
    try:
        found = [_place(item, len(text)) for item in redact(text)]
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - whatever it was: what could not be looked at is not kept
        return [(0, len(text), _FAILED)] if text else []
    return [place for place in found if place[0] < place[1]]


def _place(found: Any, length: int) -> tuple[int, int, str]:
    if not isinstance(found, tuple | list) or not 2 <= len(found) <= 3 or any(isinstance(n, bool) for n in found[:2]):
        raise ValueError("no place")
    start, end = found[0].__index__(), found[1].__index__()  # neither a float nor a text of digits is a place
    if not 0 <= start <= end <= length:
        raise ValueError("a place outside the text")
    named = len(found) == 3 and isinstance(found[2], str) and _NAME.fullmatch(found[2])
    return start, end, f"{LABEL}:{found[2]}" if named else LABEL


@cache
def _by_pattern(name: str) -> Redactor:
    pattern = _PATTERNS[name]

    length = {"credit_card": _card, "iban": _iban}.get(name, len)

    def matches(text: str) -> Iterable[Found]:
        for match in pattern.finditer(text):
            if found := length(match[0]):
                yield match.start(), match.start() + found, name

    return matches


def _card(text: str) -> int:
    """The length of a text whose digits pass the check of card numbers (ISO/IEC 7812-1), else 0."""
    digits = [int(digit) for digit in text if digit.isdigit()]
    total = sum(digits[-1::-2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return len(text) if 13 <= len(digits) <= 19 and total % 10 == 0 else 0


def _iban(text: str) -> int:
    """The length of the account number that a text begins with (ISO 13616), 0 for none: capitals may follow it."""
    end = len(text)
    while end > 0:
        number = text[:end].replace(" ", "")
        if len(number) >= 15 and int("".join(str(int(c, 36)) for c in number[4:] + number[:4])) % 97 == 1:
            return end
        end = text.rfind(" ", 0, end)
    return 0
