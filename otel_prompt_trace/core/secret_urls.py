"""What may be secret in a URL: its user's name and password, and the values of its query.

Host, path and the names in its query stay: they say what was asked, and of whom.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s]*")
_RAW_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}:(?:\\?/|\\u002[fF]){2}")
_CHARACTER = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL)
_QUERY_VALUE = re.compile(r"[^&;=#]*=([^&;#]*)|([^&;#]+)")  # a part without a name is a value too


def in_url(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of what may be secret in a text that is a URL (RFC 3986), none in any other."""
    if "://" not in text[:34] or _URL.fullmatch(text) is None:
        return
    begin = text.index("://") + 3
    end = min((at for at in (text.find(mark, begin) for mark in "/?#\\") if at >= 0), default=len(text))
    at = text.rfind("@", begin, end)
    if at > begin:
        yield begin, at
    fragment = text.find("#", begin)
    last = len(text) if fragment < 0 else fragment
    query = text.find("?", begin, last)
    if query < 0:
        return
    for value in _QUERY_VALUE.finditer(text, query + 1, last):
        start, end = value.span(1 if value[1] is not None else 2)
        if end > start:
            yield start, end


def may_begin(text: str, at: int) -> bool:
    """Whether a URL may begin at this place in a JSON text, escaped or not."""
    return _RAW_URL.match(text, at) is not None


def in_json(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The same of a URL between the quotes of a JSON text: each place in full escapes."""
    if _RAW_URL.match(text, start, end) is None:
        return
    if text.find("\\", start, end) < 0:
        yield from ((start + a, start + b) for a, b in in_url(text[start:end]))
        return
    found = list(_CHARACTER.finditer(text, start, end))
    for a, b in in_url("".join(_unescaped(character[0]) for character in found)):
        yield found[a].start(), found[b - 1].end()


def _unescaped(character: str) -> str:
    """One character for one escape: half of a pair stays half."""
    return character if character[0] != "\\" else str(json.loads(f'"{character}"'))
