"""Which change turned one text into another, where both have the same folding.

A change is known by two functions: what of the declared text and what of the standing text must be equal. Names are
those of :data:`hint.WORDS`. A change that explains all of the text is looked for first, then one that explains all but
white space at an edge; of two changes the one that a renderer made last comes first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise, takewhile
from typing import Literal
from unicodedata import combining, normalize

from otel_prompt_trace.core.missing import escapes
from otel_prompt_trace.core.missing.folding import MARKS, UNSEEN, one_case

_LONG_EDGE = 64  # white space at an edge beyond this is compared as it is, and in no other form
_LIKELY = frozenset({"collapsed_whitespace", "changed_whitespace", "invisible_characters", "case"})  # of a short text
_ENDING = re.compile("\r\n|[\r\x85\u2028\u2029]")
_SEEN = re.compile(r"[\\+]")  # has no place, and is nothing that is trimmed
_WHITE = re.compile(r"\s+")
_UNSEEN = re.compile(f"[{UNSEEN}]+")

_Step = Callable[[str], str]
_Form = Literal["NFC", "NFD", "NFKC", "NFKD"]


def _same(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Change:
    """``declared`` of what was declared equals ``standing`` of what stands; ``names`` of both say what it is called."""

    declared: _Step
    standing: _Step
    names: Callable[[str, str], tuple[str, ...]]
    loose: bool = False  # white space, of which there may be any amount

    def holds(self, declared: str, standing: str) -> bool:
        """Whether this change turns the one into the other."""
        return self.declared(declared) == self.standing(standing)

    def then(self, other: Change) -> Change:
        """Both: this one was made last, and is undone first."""
        return Change(
            lambda text: other.declared(self.declared(text)),
            lambda text: other.standing(self.standing(text)),
            lambda left, right: (
                *self.names(left, right),
                *other.names(self.declared(left), self.standing(right)),
            ),
            self.loose or other.loose,
        )


@dataclass(frozen=True, slots=True)
class Found:
    """``reason`` for ``[start, end)``; ``tight`` if it is one change, and one that hardly happens by accident."""

    reason: str
    start: int
    end: int
    tight: bool


def _normal(form: _Form) -> _Step:
    def normalized(text: str) -> str:
        if text.isascii() or _many_marks(text):
            return text
        return normalize(form, text)

    return normalized


def _many_marks(text: str) -> bool:
    """Whether a letter has so many marks that ordering them would take long."""
    if not any(combining(char) and combining(later) for char, later in pairwise(text[:: MARKS // 2])):
        return False
    return any(marks and sum(1 for _ in run) > MARKS for marks, run in groupby(text, lambda char: combining(char) > 0))


def _twice(step: _Step) -> _Step:
    return lambda text: step(step(text))


def _both(step: _Step, name: str) -> Change:
    return Change(step, step, lambda *_: (name,))


def _escaped(step: _Step, name: str) -> Change:
    return Change(_same, step, lambda *_: (name,))


def _unescaped(step: _Step, name: str) -> Change:
    return Change(step, _same, lambda *_: (name,))


def _form(loosest: _Form, *forms: _Form) -> Change:
    """Named by the form that stands."""

    def names(_: str, standing: str) -> tuple[str]:
        return (next((form.lower() for form in forms if _normal(form)(standing) == standing), "unicode_form"),)

    return Change(_normal(loosest), _normal(loosest), names)


def _one_space(text: str) -> str:
    return _WHITE.sub(" ", text)


def _no_space(text: str) -> str:
    return _WHITE.sub("", text)


def _less_space(declared: str, standing: str) -> tuple[str]:
    if _normal("NFKC")(declared) == standing:  # it makes a space of a space that does not break
        return ("nfkc",)
    runs = zip(_WHITE.findall(declared), _WHITE.findall(standing), strict=False)
    fewer = [len(stood) - len(stands) for stood, stands in runs]
    less = (any(fewer) and min(fewer) >= 0) or set(_WHITE.findall(standing)) == {" "}
    return ("collapsed_whitespace" if less else "changed_whitespace",)


CHANGES = (
    _both(lambda text: _ENDING.sub("\n", text), "line_endings"),
    _form("NFD", "NFC", "NFD"),
    _escaped(escapes.html, "html_escaped"),
    _escaped(escapes.json, "json_escaped"),
    _escaped(escapes.python, "python_escaped"),
    _escaped(escapes.url, "url_encoded"),
    _escaped(escapes.form, "url_encoded"),
    _escaped(escapes.markdown, "markdown_escaped"),
    _escaped(_twice(escapes.json), "json_escaped_twice"),
    _escaped(_twice(escapes.html), "html_escaped_twice"),
    _unescaped(escapes.html, "html_unescaped"),
    _unescaped(escapes.json, "json_unescaped"),
    _unescaped(escapes.url, "url_decoded"),
    _unescaped(escapes.markdown, "markdown_unescaped"),
    Change(_one_space, _one_space, _less_space, loose=True),
    Change(_no_space, _no_space, lambda *_: ("changed_whitespace",), loose=True),
    _form("NFKD", "NFKC", "NFKD"),
    _both(lambda text: _UNSEEN.sub("", text), "invisible_characters"),
    _both(one_case, "case"),
)
_UNCHANGED = Change(_same, _same, lambda *_: ())


def explain(declared: str, core: tuple[int, int], body: str, place: tuple[int, int], room: tuple[int, int]) -> Found:
    """Why ``declared`` does not stand at ``place`` of ``body``; a reason that is empty says that it does.

    Args:
        declared: the text.
        core: what of it has a place, the rest being white space and the like at its edges.
        body: the segment.
        place: where the core stands.
        room: how far the edges can reach.
    """
    text, lead, tail = declared[slice(*core)], declared[: core[0]], declared[core[1] :]
    standing, before, behind = body[slice(*place)], body[room[0] : place[0]], body[place[1] : room[1]]
    runs = _WHITE.findall(standing)
    most = _LONG_EDGE if any(len(run) > 1 for run in runs) else 1 if runs or not _WHITE.search(text) else 0
    start, end = place
    partial: Change | None = None
    for change in _explaining(text, standing):
        if change.loose and partial is not None:
            continue  # what is known to be trimmed is not called changed
        ahead, beyond = _reach(change, lead, before, most, -1), _reach(change, tail, behind, most, 1)
        if ahead is not None and beyond is not None:
            names = change.names(text, standing) or change.names(declared, body[start - ahead : end + beyond])
            return Found(
                "+".join(names), start - ahead, end + beyond, len(names) == 1 and not _LIKELY.issuperset(names)
            )
        partial = partial or change
    kept = common(lead[::-1], before[::-1]), common(tail, behind)
    lost = lead[: len(lead) - kept[0]], tail[kept[1] :]
    whole = start - kept[0], end + kept[1]
    if partial is None or _SEEN.search("".join(lost)):
        return Found("several_changes", *whole, tight=False)
    edge = "dropped_newline" if lost in (("", "\n"), ("", "\r\n")) else "trimmed"
    names = (*partial.names(text, standing), edge)
    return Found("+".join(names), *whole, tight=False)


def between(declared: str, standing: str) -> str | None:
    """The changes that turn one text into the other, edges included; empty for none, None if nothing known does."""
    change = next(_explaining(declared, standing), None)
    return None if change is None else "+".join(change.names(declared, standing))


def _explaining(declared: str, standing: str) -> Iterator[Change]:
    """The single changes that hold, then pairs of them."""
    if declared == standing:
        yield _UNCHANGED
        yield from (change for change in CHANGES if not change.loose)
        return
    applied = [(change, change.declared(declared), change.standing(standing)) for change in CHANGES]
    pending = [step for step in applied if step[1:] != (declared, standing)]
    yield from (change for change, left, right in pending if left == right)
    for first, left, right in pending:
        yield from (first.then(second) for second, *_ in pending if second is not first and second.holds(left, right))


def _reach(change: Change, edge: str, beside: str, most: int, step: int) -> int | None:
    """How many characters of ``beside`` are ``edge``, changed; None where it is not there. -1 counts from the end."""
    if not edge:
        return 0
    if change.loose:
        return _white(edge, beside[::step], most)
    if len(edge) > _LONG_EDGE:
        return len(edge) if beside[::step].startswith(edge[::step]) else None
    widest = range(min(len(beside), _LONG_EDGE * 4), -1, -1)
    return next((n for n in widest if change.holds(edge, beside[:n] if step > 0 else beside[len(beside) - n :])), None)


def _white(edge: str, beside: str, most: int) -> int | None:
    """As much white space as was declared at most: one character where each run was collapsed to one, or none."""
    kinds = {*edge, " "}
    count = sum(1 for _ in takewhile(kinds.__contains__, beside[: min(len(edge), most)]))
    if count and "\r" in edge and beside[count - 1 : count + 1] in ("\r\n", "\n\r"):
        count += 1  # the two are one line ending
    return count if (count or not most) and edge.isspace() else None


def common(one: Iterable[object], other: Iterable[object]) -> int:
    """How many items two sequences have in common from their beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
