"""Which chunks answer a question, and which of them fit.

Invariants:

- The score is Okapi BM25 and nothing else: for each distinct word ``t`` of the question that stands in a chunk,
  ``idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length))``, with
  ``idf(t) = ln(1 + (N - n + 0.5) / (n + 0.5))``: the 1 keeps the weight of a word that stands in most chunks above 0.
- Equal scores keep the order of the index, so that one question has one answer.
- A chunk without a word of the question is no hit: there may be fewer than ``top_k``.

Source: S. Robertson and H. Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, Foundations and Trends
in Information Retrieval 3(4), 2009, doi:10.1561/1500000019.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from otel_prompt_trace.demo.handbook import Chunk

__all__ = ["Hit", "Index", "clamp", "words"]

_K1 = 1.2
_B = 0.75
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that was found: ``rank`` from 1, ``score`` without a unit, above 0."""

    rank: int
    chunk: Chunk
    score: float


def words(text: str) -> list[str]:
    """Runs of letters and digits, in lower case."""
    return _WORD.findall(text.lower())


class Index:
    """A lexical index over chunks, held in memory."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = tuple(chunks)
        self._counts = [Counter(words(chunk.text)) for chunk in self._chunks]
        self._lengths = [count.total() for count in self._counts]
        self._mean_length = sum(self._lengths) / max(1, len(self._lengths))
        self._chunks_with = Counter(word for count in self._counts for word in count)

    def search(self, question: str, top_k: int) -> list[Hit]:
        """The best ``top_k`` chunks, best first.

        Raises:
            ValueError: ``top_k`` is below 1.
        """
        if top_k < 1:
            raise ValueError(f"top_k must be at least 1, not {top_k}")
        asked = list(dict.fromkeys(words(question)))
        scored = [(self._score(number, asked), number) for number in range(len(self._chunks))]
        best = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: (-pair[0], pair[1]))[:top_k]
        return [Hit(rank, self._chunks[number], score) for rank, (score, number) in enumerate(best, start=1)]

    def _score(self, number: int, asked: list[str]) -> float:
        counts = self._counts[number]
        norm = _K1 * (1 - _B + _B * self._lengths[number] / self._mean_length) if self._mean_length else _K1
        return sum(
            self._idf(word) * counts[word] * (_K1 + 1) / (counts[word] + norm) for word in asked if word in counts
        )

    def _idf(self, word: str) -> float:
        having = self._chunks_with[word]
        return math.log(1 + (len(self._chunks) - having + 0.5) / (having + 0.5))


def clamp(hits: Sequence[Hit], budget_tokens: int, count: Callable[[str], int]) -> tuple[list[Hit], list[Hit]]:
    """Split hits into those that fit into ``budget_tokens`` and those that do not: ``(kept, dropped)``.

    Hits are taken by rank. One that does not fit is dropped and the next is tried, so a kept hit may stand below a
    dropped one. ``count`` measures a chunk's text in tokens.
    """
    kept: list[Hit] = []
    dropped: list[Hit] = []
    left = budget_tokens
    for hit in hits:
        size = count(hit.chunk.text)
        if size <= left:
            kept.append(hit)
            left -= size
        else:
            dropped.append(hit)
    return kept, dropped
