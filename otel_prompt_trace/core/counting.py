"""The tokens of one call: of its prompt, of its chunks, and of the template around them.

Invariants:

- A count is the application's own where it gave one, else that of the model's public encoding, else None: never an
  estimate. Of a prompt of which a policy cut any part nothing is counted.
- The template residual is the prompt's count less those of its chunks, each counted alone. Tokens are not additive, so
  it may be off by a token or two wherever a chunk begins or ends.
- What is tracked across queries can't be off, as it is counted without the chunks: the text around them, without what
  the user and tools said, and without the chunks' ids. Equal texts between two chunks count once, so that it does not
  depend on how many chunks there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.census import Census
from otel_prompt_trace.core.chunks import located_chunks, packed_tokens
from otel_prompt_trace.core.pieces import Placed
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.usage import token_count

CountTokens = Callable[[str, str], "int | None"]  # (text, model) -> tokens; None without a public encoding
Span = tuple[int, int]

_VARYING = frozenset({"user", "retrieved", "tool", "child"})  # trust labels of texts that differ with each query
_NEAR = 40  # characters within which a chunk's id stands before or after it


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens; None where it can't be counted.

    ``chunks`` are those of the located chunks, ``template`` is the residual: the prompt's less these. ``declared`` are
    those of all other located pieces. ``around`` and ``between`` are the template's own text: outside the chunks, and
    between two of them (None for fewer than two). All but ``prompt`` are None where no retrieved chunk is located.
    """

    model: str | None
    prompt: int | None
    chunks: int | None = None
    declared: int | None = None
    around: int | None = None
    between: int | None = None

    @property
    def template(self) -> int | None:
        """The template residual."""
        return None if self.prompt is None or self.chunks is None else self.prompt - self.chunks


def count_call(record: Record, call: Call, census: Census | None, count_tokens: CountTokens | None) -> TokenCounts:
    """The tokens of a call, by the application's own count and by ``count_tokens``."""
    model = call.encoding
    counter = _Counter(count_tokens, model)
    prompt = token_count((call.declared_request or call.request or {}).get("prompt_tokens"))
    cut = call.prompt is None or any(segment.cuts for segment in call.prompt.segments)
    if call.prompt is not None and not cut and prompt is None:
        prompt = counter.all(segment.text for segment in call.prompt.segments)
    chunks = located_chunks(record, census)
    if not chunks or census is None:
        return TokenCounts(model, prompt)
    packed = packed_tokens(record)
    counted = [None if p.piece.text is None or cut else counter.one(p.piece.text) for p in chunks]
    told = [packed.get(p.source_id or "") if n is None else n for p, n in zip(chunks, counted, strict=True)]
    of_chunks = None if None in told else sum(n or 0 for n in told)
    if cut:
        return TokenCounts(model, prompt, of_chunks)
    texts = _Stretches(census, chunks, (record.query or {}).get("question"))
    around, between = texts.template()
    return TokenCounts(
        model,
        prompt,
        of_chunks,
        declared=counter.all(texts.declared()),
        around=counter.all(around),
        between=counter.all(dict.fromkeys(between)) if between else None,
    )


class _Counter:
    """Counts each text once."""

    def __init__(self, count_tokens: CountTokens | None, model: str | None) -> None:
        self._count, self._model = count_tokens, model
        self._known: dict[str, int | None] = {"": 0}

    def one(self, text: str) -> int | None:
        if self._count is None or self._model is None:
            return None
        if text not in self._known:
            try:
                self._known[text] = self._count(text, self._model)
            except Exception:  # noqa: BLE001 - a tokenizer is somebody else's code: the record is worth more than a count
                self._known[text] = None
        return self._known[text]

    def all(self, texts: Iterable[str]) -> int | None:
        total = 0
        for text in texts:
            found = self.one(text)
            if found is None:
                return None
            total += found
        return total


class _Stretches:
    """The texts of a prompt outside its chunks."""

    def __init__(self, census: Census, chunks: Sequence[Placed], question: object) -> None:
        self._texts = [segment.text for segment in census.segments]
        self._chunks = _spans(chunks, len(self._texts))
        self._located = _spans(census.located, len(self._texts))
        varying = (
            p
            for p in census.located
            if p.piece.trust in _VARYING or p.piece.inferred or (question is not None and p.piece.text == question)
        )
        self._varying = _spans([*varying, *chunks], len(self._texts))
        self._ids = {(p.segment, p.start): p.source_id or "" for p in chunks}
        self._ids_after = {(p.segment, p.end): p.source_id or "" for p in chunks}

    def declared(self) -> Iterator[str]:
        """What other pieces cover."""
        for text, located, chunks in zip(self._texts, self._located, self._chunks, strict=True):
            yield from (text[start:end] for start, end in _without(located, chunks))

    def template(self) -> tuple[list[str], list[str]]:
        """The template's own texts around the chunks, and between two of them, without the chunks' ids."""
        around: list[str] = []
        between: list[str] = []
        for number, text in enumerate(self._texts):
            chunks = self._chunks[number]
            for start, end in _without([(0, len(text))], self._varying[number]):
                inside = bool(chunks) and chunks[0][1] <= start and end <= chunks[-1][0]
                (between if inside else around).append(self._nameless(number, start, end))
        return around, between

    def _nameless(self, number: int, start: int, end: int) -> str:
        """A stretch without the ids of the chunks before and after it."""
        text = self._texts[number][start:end]
        before, after = self._ids_after.get((number, start)), self._ids.get((number, end))
        if after:
            at = text.rfind(after, max(0, len(text) - len(after) - _NEAR))
            text = text if at < 0 else text[:at] + text[at + len(after) :]
        if before:
            at = text.find(before, 0, len(before) + _NEAR)
            text = text if at < 0 else text[:at] + text[at + len(before) :]
        return text


def _spans(placed: Iterable[Placed], segments: int) -> list[list[Span]]:
    """The places of pieces, by segment, in order, those that overlap or touch as one."""
    found: list[list[Span]] = [[] for _ in range(segments)]
    for p in placed:
        if p.segment is not None and p.start is not None and p.end is not None:
            found[p.segment].append((p.start, p.end))
    return [_merged(spans) for spans in found]


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _without(spans: Sequence[Span], taken: Sequence[Span]) -> Iterator[Span]:
    """What is left of disjoint spans in order, without others in order."""
    at = 0
    for start, end in spans:
        reached = start
        while at < len(taken) and taken[at][1] <= start:
            at += 1
        here = at
        while here < len(taken) and taken[here][0] < end:
            if taken[here][0] > reached:
                yield reached, taken[here][0]
            reached = max(reached, taken[here][1])
            here += 1
        if reached < end:
            yield reached, end
