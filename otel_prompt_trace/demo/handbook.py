"""The staff handbook of an invented company, cut into chunks.

Invariants:

- A chunk is one ``## `` section: its text is a verbatim slice of its file, heading included, without the line ends
  after it. What stands above the first section (title, owner, date of the policy) is in no chunk.
- A chunk's id is ``<file>#<heading in lower case, with hyphens>``, unique, and does not move when others are added.
- The index version is computed from ids, titles and texts: it changes if and only if one of them does.

``retention-2019`` and ``retention-2024`` are two versions of one policy. Both are indexed, and the sections do not
say which of them is in force. That is the fault which the demo lets the reader find.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources

__all__ = ["CHUNKS", "INDEX_VERSION", "Chunk", "index_version", "load"]

_SECTION = re.compile(r"^## (?P<title>.+)\n(?:(?!## ).*(?:\n|\Z))*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One section: ``chunk_id`` such as ``retention-2019#customer-records``, its heading, its verbatim text."""

    chunk_id: str
    title: str
    text: str

    @property
    def document(self) -> str:
        """The name of the file that the chunk comes from, such as ``retention-2019``."""
        return self.chunk_id.partition("#")[0]


def load() -> tuple[Chunk, ...]:
    """All chunks, by file name and then in the order of the file."""
    folder = resources.files(__package__) / "handbook"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".md")), key=lambda entry: entry.name)
    return tuple(chunk for file in files for chunk in _split(file.name[:-3], file.read_bytes().decode()))


def index_version(chunks: Iterable[Chunk]) -> str:
    """The first 12 hex digits of the sha256 over ids, titles and texts, in order."""
    content = [(chunk.chunk_id, chunk.title, chunk.text) for chunk in chunks]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


def _split(document: str, markdown: str) -> Iterator[Chunk]:
    for section in _SECTION.finditer(markdown):
        title = section["title"].strip()
        slug = re.sub(r"\W+", "-", title.lower()).strip("-")
        yield Chunk(f"{document}#{slug}", title, section[0].rstrip("\n"))


CHUNKS = load()
INDEX_VERSION = index_version(CHUNKS)
