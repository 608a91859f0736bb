"""One layer of escapes, taken off. What is no escape stays as it is: these never fail.

Only escapes in full are known (an entity ends in a semicolon), since "&copy" in a link is no sign of copyright.
"""

from __future__ import annotations

import re

ENTITY = r"(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31})"

_HTML = re.compile(f"&({ENTITY});")
_PAIR = r"u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
_JSON = re.compile(rf'\\(?:{_PAIR}|u([0-9a-fA-F]{{4}})|(["\\/bfnrt]))')
_PYTHON = re.compile(
    r"""\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U(000[0-9a-fA-F]{5}|0010[0-9a-fA-F]{4})|(["'\\nrt]))"""
)
_PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_MARKDOWN = re.compile(r"\\([!-/:-@\[-`{-~])")
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def html(text: str) -> str:
    """Without named, decimal and hexadecimal character references."""
    return _HTML.sub(lambda match: entity(match[1]) or match[0], text) if "&" in text else text


def entity(name: str) -> str | None:
    """What a reference stands for, given what is between ``&`` and ``;``; None if nothing."""
    from html.entities import html5  # here: two thousand names that hardly a prompt has a use for

    if not name.startswith("#"):
        return html5.get(name + ";")
    code = int(f"0{name[1:]}", 0) if name[1] in "xX" else int(name[1:])
    return chr(code) if code <= 0x10FFFF else None


def json(text: str) -> str:
    """The inside of a JSON string, decoded."""
    return _JSON.sub(_from_json, text) if "\\" in text else text


def _from_json(match: re.Match[str]) -> str:
    high, low, code, char = match.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    return chr(int(code, 16)) if code else _CONTROLS.get(char, char)


def python(text: str) -> str:
    """The inside of a Python string as ``repr`` writes it, decoded."""
    return _PYTHON.sub(_from_python, text) if "\\" in text else text


def _from_python(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    return chr(int(code, 16)) if code else _CONTROLS.get(match[4], match[4])


def url(text: str) -> str:
    """Without percent-encoded UTF-8."""
    return _PERCENT.sub(lambda match: percent(match[0]) or match[0], text) if "%" in text else text


def form(text: str) -> str:
    """As :func:`url`, where ``+`` stands for a space."""
    return url(text.replace("+", " "))


def percent(run: str) -> str | None:
    """What a run of ``%XX`` stands for; None if it is no UTF-8."""
    try:
        return bytes.fromhex(run.replace("%", "")).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def markdown(text: str) -> str:
    """Without the backslashes before punctuation."""
    return _MARKDOWN.sub(r"\1", text) if "\\" in text else text
