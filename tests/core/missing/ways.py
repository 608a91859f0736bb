"""What renderers, client libraries and people do to a text on its way into a prompt, each under the reason's name."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from unicodedata import normalize
from urllib.parse import quote, quote_plus

from hypothesis import strategies as st

Way = Callable[[str], str]


def as_decimal(text: str) -> str:
    """Character references by number for all that is not ASCII, and for the five of XML."""
    return "".join(f"&#{ord(c)};" if ord(c) > 127 or c in "<>&\"'" else c for c in text)


def as_hex(text: str) -> str:
    """The same in hexadecimal."""
    return "".join(f"&#x{ord(c):X};" if ord(c) > 127 or c in "<>&\"'" else c for c in text)


def as_named(text: str) -> str:
    """Names where there are any, as PHP and Twig write them."""
    return text.encode("ascii", "xmlcharrefreplace").decode() if not text.isascii() else html.escape(text)


def in_json(text: str, *, ascii_only: bool = True) -> str:
    """The inside of a JSON string."""
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def to_crlf(text: str) -> str:
    """Windows' line endings."""
    return re.sub(r"\r\n|\r|\n", "\r\n", text)


WAYS: dict[str, tuple[str, Way]] = {
    "strip": ("trimmed", str.strip),
    "rstrip": ("trimmed", str.rstrip),
    "a template's end": ("dropped_newline", lambda text: re.sub(r"\r?\n\Z", "", text)),
    "one space for each run": ("collapsed_whitespace", lambda text: re.sub(r"\s+", " ", text)),
    "one newline for two": ("collapsed_whitespace", lambda text: re.sub(r"\n+", "\n", text)),
    "tabs": ("changed_whitespace", lambda text: text.replace("  ", "\t ")),
    "no white space": ("changed_whitespace", lambda text: re.sub(r"\s+", "", text)),
    "indented": ("changed_whitespace", lambda text: re.sub(r"\n(?=\S)", "\n    ", text)),
    "CRLF": ("line_endings", to_crlf),
    "LF": ("line_endings", lambda text: re.sub(r"\r\n|\r", "\n", text)),
    "CR": ("line_endings", lambda text: re.sub(r"\r\n|\n", "\r", text)),
    "NEL": ("line_endings", lambda text: re.sub(r"\r\n|\n", "\x85", text)),
    "separators": ("line_endings", lambda text: re.sub(r"\r\n|\n", "\u2028", text)),
    "NFC": ("nfc", lambda text: normalize("NFC", text)),
    "NFD": ("nfd", lambda text: normalize("NFD", text)),
    "NFKC": ("nfkc", lambda text: normalize("NFKC", text)),
    "NFKD": ("nfkd", lambda text: normalize("NFKD", text)),
    "autoescape": ("html_escaped", lambda text: html.escape(text).replace("&quot;", "&#34;")),
    "HTML": ("html_escaped", html.escape),
    "XML": ("html_escaped", lambda text: text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")),
    "decimal": ("html_escaped", as_decimal),
    "hexadecimal": ("html_escaped", as_hex),
    "references": ("html_escaped", as_named),
    "HTML twice": ("html_escaped_twice", lambda text: html.escape(html.escape(text))),
    "JSON": ("json_escaped", in_json),
    "JSON in UTF-8": ("json_escaped", lambda text: in_json(text, ascii_only=False)),
    "JSON with slashes": ("json_escaped", lambda text: in_json(text).replace("/", "\\/")),
    "JSON twice": ("json_escaped_twice", lambda text: in_json(in_json(text))),
    "repr": ("python_escaped", lambda text: repr(text)[1:-1]),
    "URL": ("url_encoded", lambda text: quote(text, safe="", errors="surrogatepass")),
    "form": ("url_encoded", lambda text: quote_plus(text, errors="surrogatepass")),
    "Markdown": ("markdown_escaped", lambda text: re.sub(r"([*_#|~])", r"\\\1", text)),
    "upper case": ("case", str.upper),
    "lower case": ("case", str.lower),
    "only what is seen": ("invisible_characters", lambda text: re.sub("[\x00\u200b-\u200f\u202a-\u202e]", "", text)),
}  # fmt: skip

_words = st.text(
    st.sampled_from([*"abcdeFGHIJxyz0123éüñçŁ日本語がждя한ไทย", "\U0001f642", "ﬁ", "½", "\u0301", "\u0323", "\u05d0"]),
    min_size=1,
    max_size=9,
)
_between = st.sampled_from(
    [" ", " ", " ", "\n", "  ", "\n\n", "\r\n", ", ", " & ", ' "', "' ", " <b> ", " *", "_ ", "/", "\u200d"]
)
_edge = st.sampled_from(["", "", "", "\n", "\n\n", " ", "\r\n"])


@st.composite
def texts(draw: st.DrawFn, least: int = 6) -> str:
    """Words in several scripts, with what ways change between them and at the edges; no escapes."""
    words = draw(st.lists(_words, min_size=least, max_size=least + 10))
    inside = "".join(draw(_between) + word for word in words)
    return draw(_edge) + "Say" + inside + " end." + draw(_edge)
