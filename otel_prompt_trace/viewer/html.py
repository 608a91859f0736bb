"""HTML from values of any type: everything is escaped that is not :class:`Html` already.

Characters that do not print (control and bidirectional characters, lone surrogates) are spelled out, so that a page
shows them and obeys none, and always encodes as UTF-8.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import orjson

from otel_prompt_trace.core.text import CutText, wrap

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 1.5rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
h3 { font-size: 1rem; margin-bottom: .3rem; }
table { border-collapse: collapse; margin: .5rem 0; } caption { text-align: left; font-weight: 600; }
th, td { text-align: left; vertical-align: top; padding: .15rem .9rem .15rem 0; overflow-wrap: anywhere; }
th { font-weight: 600; white-space: nowrap; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid #8886; border-radius: 4px; padding: .6rem;
  margin: .3rem 0 .8rem; max-height: 40rem; overflow-y: auto; }
.exact, .pass, .stored { color: #1a7f37; } .mismatch, .fail, .problem { color: #cf222e; }
.unknown, .spooled { color: #9a6700; } .note { opacity: .75; }
"""
STYLE_SOURCE = "'sha256-" + base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode() + "'"

_VOID = frozenset({"meta", "br"})
_STATES = frozenset({"exact", "mismatch", "unknown", "pass", "fail", "stored", "spooled", "problem"})


class Html(str):
    """A text that is HTML, made by this module alone."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: str) -> Html:
    """An element; children of any type are escaped unless they are :class:`Html`, attributes always.

    A trailing underscore of an attribute's name is left out: ``class_``.
    """
    written = "".join(f' {key.rstrip("_")}="{escape(visible(value))}"' for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{written}>")
    inner = "".join(map(content, children))
    if name == "pre":  # a parser drops one newline at the beginning: ours, not the text's own
        inner = "\n" + inner
    return Html(f"<{name}{written}>{inner}</{name}>")


def content(value: object) -> Html:
    """A value as HTML text."""
    return value if isinstance(value, Html) else Html(escape(visible(plain(value)), quote=False))


def join(parts: Iterable[object]) -> Html:
    """Parts one after another, each as :func:`content` has it."""
    return Html("".join(map(content, parts)))


def link(address: str, *children: object) -> Html:
    """A link to a page of ours, or to the Jaeger that was configured."""
    return tag("a", *(children or (address,)), href=address)


def state(word: object) -> Html:
    """A verdict, a check's status or a record's state in its colour; any other word without."""
    text = plain(word)
    return tag("span", text, class_=text) if text in _STATES else content(text)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, most: int = 200, caption: str = "") -> Html:
    """A table of at most ``most`` rows, which says how many more there are; nothing where there is no row."""
    if not rows:
        return Html()
    head = tag("tr", *(tag("th", column) for column in columns)) if any(columns) else Html()
    body = join(tag("tr", *(tag("td", cell) for cell in row)) for row in rows[:most])
    title = tag("caption", caption) if caption else Html()
    left = len(rows) - most
    return join((tag("table", title, head, body), note(f"and {left:,} more, in the JSON") if left > 0 else Html()))


def note(*children: object) -> Html:
    """A remark of ours."""
    return tag("p", *children, class_="note")


def document(title: str, *body: object) -> bytes:
    """A whole page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width"),
        tag("title", title),
        tag("style", Html(_STYLE)),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', *body), lang='en')}\n".encode()


def visible(text: str) -> str:
    """A text in which what does not print is spelled out; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def plain(value: Any) -> str:
    """A value of any type as text: JSON for what is no text; a filler for each character that a policy took."""
    if isinstance(value, str):
        return value
    if isinstance(value, CutText):
        return value.filled
    return "" if value is None else orjson.dumps(wrap(value)).decode()
