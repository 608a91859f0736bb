"""An ingest manifest: what an index was built from, one object a chunk.

An entry has a ``chunk_id``, and ``text`` or ``sha256`` (of the text's UTF-8); ``index_version`` where it is known.
A manifest may be as large as its index: entries go by one at a time, and only what is asked for stays.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from otel_prompt_trace.core.text import as_text, sha256_text

_KEPT = 20  # ids that hold the text; more of them say nothing more


@dataclass(slots=True)
class Manifest:
    """What a manifest says of one expectation.

    Args:
        expected: a chunk id or a text.
        wanted: ids whose texts are of use.
    """

    expected: str
    wanted: Container[str] = ()
    entries: int = 0
    textless: int = 0  # entries with a digest alone, in which nothing can be searched
    has_id: bool = False
    holding: list[str] = field(default_factory=list)  # ids of chunks that hold the expected text
    texts: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    versions: set[str] = field(default_factory=set)
    _digest: str = ""

    def __post_init__(self) -> None:
        self._digest = sha256_text(self.expected)

    def add(self, entry: Any) -> None:
        """The next entry.

        Raises:
            ValueError: it is no object, or has no chunk id.
        """
        if not isinstance(entry, Mapping):
            raise ValueError("no object")  # noqa: TRY004 - of what was read, not of a caller
        chunk = entry.get("chunk_id", entry.get("id"))
        if not isinstance(chunk, str | int) or isinstance(chunk, bool):
            raise ValueError("no chunk_id")  # noqa: TRY004 - as above
        name, text, digest = as_text(chunk), entry.get("text"), entry.get("sha256")
        self.entries += 1
        self.has_id = self.has_id or name == self.expected
        if entry.get("index_version") is not None:
            self.versions.add(as_text(entry["index_version"]))
        if isinstance(text, str):
            if self.expected and self.expected in text and len(self.holding) < _KEPT:
                self.holding.append(name)
        else:
            self.textless += 1
            if digest == self._digest and len(self.holding) < _KEPT:
                self.holding.append(name)
        if name == self.expected or name in self.wanted:
            if isinstance(text, str):
                self.texts[name] = text
            if isinstance(text, str) or isinstance(digest, str):
                self.digests[name] = sha256_text(text) if isinstance(text, str) else as_text(digest)
