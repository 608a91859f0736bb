"""JSON text of which a policy took parts, read as what it still stands for: each string keeps the cuts within it.

A cut that took more than a string's own characters leaves text that is no JSON. It stays what it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from otel_prompt_trace.core.text import FILLER, Cut, CutText

_MARKS = range(0xE000, 0xF900)  # characters without a meaning of their own; one that the text does not use


def decode_cut(value: CutText) -> Any:
    """The list or object that a cut JSON text stands for; the text itself where it stands for none."""
    plain = "".join(run for run in value.runs if isinstance(run, str))
    escaped = plain.lower() if "\\u" in plain else ""
    mark = next((chr(code) for code in _MARKS if chr(code) not in plain and f"\\u{code:04x}" not in escaped), None)
    if mark is None or plain[:64].lstrip()[:1] not in ("[", "{"):
        return value
    cuts = iter([run for run in value.runs if isinstance(run, Cut)])
    try:
        found = _restored(json.loads("".join(_marked(value, mark))), mark, cuts)
    except (ValueError, RecursionError, StopIteration):
        return value
    return value if next(cuts, None) is not None or not isinstance(found, list | dict) else found


def _marked(value: CutText, mark: str) -> Iterator[str]:
    """The text with each cut as a row of marks, in quotes where a number stood."""
    before = ""
    for run in value.runs:
        if isinstance(run, str):
            before = run
            yield run
        else:
            bare = before.rstrip()[-1:] in (":", "[", ",") and run.policy == "credential"
            yield f'"{mark * run.chars}"' if bare else mark * run.chars
            before = ""


def _restored(value: Any, mark: str, cuts: Iterator[Cut]) -> Any:
    """Cuts come in the order in which their marks stand in the text."""
    if isinstance(value, str):
        return CutText(tuple(_runs(value, mark, cuts))) if mark in value else value
    if isinstance(value, dict):
        return {_name(name, mark, cuts): _restored(item, mark, cuts) for name, item in value.items()}
    return [_restored(item, mark, cuts) for item in value] if isinstance(value, list) else value


def _name(name: str, mark: str, cuts: Iterator[Cut]) -> str:
    if mark in name:
        for _ in _runs(name, mark, cuts):  # a name can't hold a cut: its characters are marked as cut, no more
            pass
    return name.replace(mark, FILLER)


def _runs(text: str, mark: str, cuts: Iterator[Cut]) -> Iterator[str | Cut]:
    at = 0
    while (found := text.find(mark, at)) >= 0:
        cut = next(cuts, None)
        if cut is None or not text.startswith(mark * cut.chars, found):
            raise ValueError("a mark that stands for no cut")
        if found > at:
            yield text[at:found]
        yield cut
        at = found + cut.chars
    if at < len(text):
        yield text[at:]
