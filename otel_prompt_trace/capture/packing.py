"""``pack()``: ranked chunks into a token budget, with what was dropped and why in the record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from otel_prompt_trace.capture.context import current_query
from otel_prompt_trace.capture.guard import never_raises
from otel_prompt_trace.capture.hits import as_chunks
from otel_prompt_trace.core import packing
from otel_prompt_trace.core.packing import Measure, Packing, Rule
from otel_prompt_trace.core.text import utf8
from otel_prompt_trace.exceptions import ConfigurationError


def pack(
    chunks: Iterable[Any],
    budget: int,
    *,
    model: str | None = None,
    count: Callable[[str], int] | None = None,
    rule: Rule = "continue",
    measure: Measure = "joined",
    template: str = "{text}",
    separator: str = "\n\n",
) -> Packing:
    r"""Pack ranked chunks into a token budget; inside a query, what was dropped is recorded with the rule.

    >>> packing = pt.pack(hits, budget=1400, model="gpt-4o", template="[{id}]\n{text}")
    >>> packing.add_to(prompt)

    Args:
        chunks: best first: mappings or objects with an id (``chunk_id``, ``id`` …) and a text (``text``, ``content``,
            ``page_content``), (id, text) pairs, or (chunk, score) pairs of such.
        budget: tokens.
        model: a model with a public encoding, or an encoding's name, to count with.
        count: a function that counts the tokens of a text, in its place.
        rule: what becomes of the chunks after one that does not fit: ``continue`` tries them, ``break`` drops them.
        measure: what the budget is for: ``joined``, the text that is rendered; ``texts``, the sum over the chunks' own
            texts, whatever stands between them.
        template: how one chunk is rendered: ``{text}`` once, and ``{id}`` and ``{rank}``.
        separator: between two chunks.

    Returns:
        ``.kept`` and ``.dropped`` (chunks with ``chunk_id``, ``text``, ``rank``, ``tokens``, and ``source``, the object
        that you gave), ``.tokens`` of ``.text``, and ``.add_to(prompt)``.

    Raises:
        ConfigurationError: there is no such rule, measure or template, or nothing to count with.
        TypeError: a chunk has no id or no text.
    """
    counter = _counter(model) if count is None else count
    packed = packing.pack(
        as_chunks(chunks),
        budget,
        counter,
        rule=rule,
        measure=measure,
        template=template,
        separator=separator,
    )
    _record(packed)
    return packed


@never_raises
def _record(packed: Packing) -> None:
    query = current_query()
    if query is not None:
        query.note(packed.event)


def _counter(model: str | None) -> Callable[[str], int]:
    from otel_prompt_trace import tokens

    if model is None or not tokens.prepare(model):
        raise ConfigurationError(
            f"model={model!r}: no public encoding of it can be read here. Give count=, a function that counts tokens, "
            "or the name of an encoding; the rank files come with 'otel-prompt-trace[tokens]'"
        )
    known: str = model

    def count(text: str) -> int:
        found = tokens.count(text, known)
        # Where the tokenizer gives up: every token is at least one byte, so this many are never too few.
        return len(utf8(text)) if found is None else found

    return count
