"""What stands where a language model would: it quotes, it measures, and it says what it is.

Invariants:

- Every answer begins with :data:`NOTICE`. After it stands one sentence of the prompt, verbatim: the one that
  matches the question best, the earlier one where two match equally well. The same prompt has the same answer.
- Every number of the usage is measured on the very messages: a prompt's tokens are those of its texts and roles in
  the encoding :data:`ENCODING`, and of the chat wrapper as OpenAI's cookbook publishes it (3 a message, 1 for a name,
  3 where the reply begins).
- Cached tokens are those of the longest prefix shared with an earlier prompt, under the published rules of prompt
  caching: none below 1,024 tokens, and always a multiple of 128.

Sources: https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken,
https://platform.openai.com/docs/guides/prompt-caching
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from otel_prompt_trace import tokens
from otel_prompt_trace.demo.handbook import Chunk
from otel_prompt_trace.demo.retrieval import Index

__all__ = ["ENCODING", "MODEL", "NOTICE", "Completion", "Message", "StandIn", "answer"]

MODEL = "stand-in-1"
ENCODING = "o200k_base"
NOTICE = "[stand-in model: no language model was asked] "

_NO_MATCH = "No sentence of the prompt shares a word with the question."
_START, _SEPARATOR, _END, _NAME = -1, -2, -3, -4  # the wrapper's tokens; a text's ids are never negative
_REPLY = (_START, -5, _SEPARATOR)  # the wrapper goes on to "assistant" and stops before the text
_CACHE_FROM = 1024
_CACHE_STEP = 128
_AFTER_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_BLANK_LINE = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat request: a role, its text, and the optional name of the participant."""

    role: str
    text: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer in ``pieces`` (their concatenation is the text) and its measured usage, all in tokens."""

    pieces: tuple[str, ...]
    finish_reason: Literal["stop", "length"]
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int

    @property
    def text(self) -> str:
        """The whole answer."""
        return "".join(self.pieces)


class StandIn:
    """The stand-in with its memory of earlier prompts; safe to use from several threads."""

    def __init__(self) -> None:
        self._earlier: list[list[int]] = []
        self._lock = threading.Lock()

    def complete(self, messages: Sequence[Message], max_tokens: int | None = None) -> Completion:
        """Answer a chat.

        Raises:
            ValueError: the tokenizer gave up on a text, so that its usage could not be measured.
        """
        prompt = _prompt_tokens(messages)
        pieces, length, finish_reason = _cut(answer(messages), max_tokens)
        return Completion(pieces, finish_reason, len(prompt), self._cached(prompt), length)

    def _cached(self, prompt: list[int]) -> int:
        with self._lock:
            shared = max((_common_prefix(prompt, earlier) for earlier in self._earlier), default=0)
            self._earlier.append(prompt)
        return shared - shared % _CACHE_STEP if shared >= _CACHE_FROM else 0


def answer(messages: Sequence[Message]) -> str:
    """The notice and the sentence that answers best: by BM25 over the sentences, as the retriever ranks chunks.

    The question is the last paragraph of the last user message. Sentences are taken from the system and developer
    messages and from what stands above the question. A question is none, nor is a line that has no end (a heading).
    """
    asked_at = max((number for number, message in enumerate(messages) if message.role == "user"), default=None)
    question = ""
    sources = []
    for number, message in enumerate(messages):
        if number == asked_at:
            *above, question = _BLANK_LINE.split(message.text.strip())
            sources += above
        elif message.role in ("system", "developer"):
            sources.append(message.text)
    sentences = [sentence for source in sources for sentence in _sentences(source) if not sentence.endswith("?")]
    asked = " ".join(sentence for sentence in _sentences(question) if sentence.endswith("?")) or question
    best = Index([Chunk(str(number), "", sentence) for number, sentence in enumerate(sentences)]).search(asked, 1)
    return NOTICE + (best[0].chunk.text if best else _NO_MATCH)


def _sentences(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from (part for part in _AFTER_SENTENCE.split(line.strip()) if part.endswith((".", "!", "?")))


def _cut(text: str, max_tokens: int | None) -> tuple[tuple[str, ...], int, Literal["stop", "length"]]:
    """The text in words, without the last ones if it is longer than ``max_tokens``; its tokens; how it ended."""
    pieces = re.findall(r"\s*\S+", text)
    length = len(_encode(text))
    if max_tokens is None or length <= max_tokens:
        return tuple(pieces), length, "stop"
    while pieces and length > max_tokens:
        pieces.pop()
        length = len(_encode("".join(pieces)))
    return tuple(pieces), length, "length"


def _prompt_tokens(messages: Sequence[Message]) -> list[int]:
    ids: list[int] = []
    for message in messages:
        ids.append(_START)
        ids += _encode(message.role)
        if message.name is not None:
            ids += [_NAME, *_encode(message.name)]
        ids += [_SEPARATOR, *_encode(message.text), _END]
    return [*ids, *_REPLY]


def _encode(text: str) -> list[int]:
    ids = tokens.encode(text, ENCODING)
    if ids is None:
        raise ValueError(f"a text of {len(text)} characters can't be counted in {ENCODING}")
    return ids


def _common_prefix(one: list[int], other: list[int]) -> int:
    for position, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return position
    return min(len(one), len(other))
