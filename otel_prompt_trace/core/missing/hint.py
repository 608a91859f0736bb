"""What is said of a piece that was not found. A hint is no proof: it never counts as located."""

from __future__ import annotations

from dataclasses import dataclass

WORDS = {
    "trimmed": "white space trimmed",
    "dropped_newline": "trailing newline dropped",
    "collapsed_whitespace": "white space collapsed",
    "changed_whitespace": "white space changed",
    "line_endings": "line endings changed",
    "invisible_characters": "invisible characters dropped or added",
    "nfc": "Unicode form NFC",
    "nfd": "Unicode form NFD",
    "nfkc": "Unicode form NFKC",
    "nfkd": "Unicode form NFKD",
    "unicode_form": "another Unicode form",
    "html_escaped": "HTML or XML escapes",
    "html_escaped_twice": "HTML or XML escapes, twice",
    "html_unescaped": "declared with HTML or XML escapes",
    "json_escaped": "JSON escapes",
    "json_escaped_twice": "JSON escapes, twice",
    "json_unescaped": "declared with JSON escapes",
    "python_escaped": "Python string escapes",
    "url_encoded": "URL encoding",
    "url_decoded": "declared with URL encoding",
    "markdown_escaped": "Markdown escapes",
    "markdown_unescaped": "declared with Markdown escapes",
    "case": "upper and lower case",
    "several_changes": "several changes of white space, escapes, Unicode form or case",
    "truncated": "truncated",
    "split": "split by an inserted text",
}


@dataclass(frozen=True, slots=True)
class Hint:
    """Why a piece was not found, and the place where it would stand.

    ``reason`` is a name of :data:`WORDS`, or two of them joined by ``+``. ``segment[start:end]``, in code points of
    the original text, is what stands there instead. ``detail`` tells lengths, and never the text.
    """

    reason: str
    segment: int
    start: int
    end: int
    detail: str

    def words(self, path: str) -> str:
        """The hint for people; ``path`` is that of the segment."""
        named = ", ".join(WORDS[name] for name in self.reason.split("+"))
        return f"{named} in {path} at {self.start}..{self.end}: {self.detail}"


def longer(declared: int, standing: int) -> str:
    """How the length of what stands differs from that of what was declared."""
    apart = standing - declared
    if not apart:
        return "as long as declared"
    return f"{abs(apart)} character{'s' * (abs(apart) != 1)} {'longer' if apart > 0 else 'shorter'}"
