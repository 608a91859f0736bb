"""The handbook: chunks are verbatim, named once, and versioned by their content."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from pathlib import Path

import pytest

from otel_prompt_trace.demo import handbook
from otel_prompt_trace.demo.handbook import CHUNKS, INDEX_VERSION, index_version, load

FOLDER = Path(handbook.__file__).parent / "handbook"
FILES = sorted(FOLDER.glob("*.md"), key=lambda path: path.name)


def test_ids_are_unique_and_well_formed():
    """No two chunks share an id, and an id is the file's name, a hash sign and the heading's slug."""
    ids = [chunk.chunk_id for chunk in CHUNKS]
    assert len(set(ids)) == len(ids) >= 25
    assert all(re.fullmatch(r"[a-z0-9-]+#[a-z0-9-]+", name) for name in ids)
    assert {chunk.document for chunk in CHUNKS} == {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_chunks_are_the_file_without_its_head(path):
    """Joined by a blank line, a file's chunks are every character from its first section to its end."""
    markdown = path.read_text(encoding="utf-8")
    texts = [chunk.text for chunk in CHUNKS if chunk.document == path.stem]
    assert "\n\n".join(texts) + "\n" == markdown[markdown.index("## ") :]
    assert len(texts) == len(re.findall(r"^## ", markdown, re.MULTILINE))
    assert all(text.startswith("## ") and len(text.split()) > 100 for text in texts)


def test_no_text_stands_in_two_chunks():
    """No paragraph is repeated, so that a chunk found in a prompt is that chunk and no other."""
    paragraphs = [line for chunk in CHUNKS for line in chunk.text.splitlines() if line and not line.startswith("#")]
    assert len(set(paragraphs)) == len(paragraphs)


def test_both_versions_of_the_retention_policy_are_indexed():
    """Seven years and three years stand side by side, and neither section says which of them is in force."""
    texts = {chunk.chunk_id: chunk.text for chunk in CHUNKS}
    old, new = texts["retention-2019#customer-records"], texts["retention-2024#customer-records"]
    assert "kept for seven years after an account is closed" in old
    assert "kept for three years after an account is closed" in new
    assert not re.search(r"2019|2024|replace|supersed|in force", old + new, re.IGNORECASE)
    assert "Replaces the retention policy" in (FOLDER / "retention-2024.md").read_text(encoding="utf-8")


def test_index_version_is_computed():
    """The version is the digest of the content, computed here a second time, and loading again does not move it."""
    content = json.dumps([[chunk.chunk_id, chunk.title, chunk.text] for chunk in CHUNKS]).encode()
    assert hashlib.sha256(content).hexdigest()[:12] == INDEX_VERSION == index_version(load())


@pytest.mark.parametrize("field", ["chunk_id", "title", "text"])
def test_index_version_moves_with_every_field(field):
    """One character more in any field, or a chunk less, is another index."""
    changed = dataclasses.replace(CHUNKS[-1], **{field: getattr(CHUNKS[-1], field) + "."})
    versions = {INDEX_VERSION, index_version([*CHUNKS[:-1], changed]), index_version(CHUNKS[:-1])}
    assert len(versions) == 3
