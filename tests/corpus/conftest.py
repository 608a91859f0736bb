"""Where the corpus of real prompts is. It is not part of this repository."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "PROMPT_TRACE_CORPUS"
BESIDE = Path(__file__).parents[2].parent / "shared" / "corpus"

Lines = Callable[[str], Iterator[dict[str, Any]]]


@pytest.fixture(scope="session")
def corpus_lines() -> Lines:
    """A function that reads one of the corpus' files, record by record."""
    folder = Path(os.environ.get(VARIABLE) or BESIDE) / "rag"
    if not folder.is_dir():
        pytest.skip(f"no corpus of real prompts at {folder}: set {VARIABLE} to its folder")

    def lines(name: str) -> Iterator[dict[str, Any]]:
        with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)

    return lines
