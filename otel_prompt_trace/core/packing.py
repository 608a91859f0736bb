"""Packing: which ranked chunks go into a token budget, and which are left out by which rule.

Invariants:

- ``tokens`` of a :class:`Packing` is the count of the very text that it renders, and where the budget is for that text
  it is never above it, whatever the counter does.
- Each chunk is kept or dropped, in the order of rank: none is cut, none is moved.
- ``continue`` skips a chunk that does not fit and goes on with the next; ``break`` stops at the first. They keep
  different sets of the same chunks, so the rule is a part of the result.

Tokens are not additive: where two texts meet, a tokenizer may join or part what it counted otherwise. So the count of
the joined text decides. To count it anew for each chunk would be quadratic; the sum of the parts stands in for it
where it is further from the budget than :data:`JOINT` tokens a joint. Should the joined text turn out to be above the
budget all the same, all is decided again by counting. What may remain: a chunk is dropped that would have fitted, if
the parts' counts are more than that above the joined text's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Literal

from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.exceptions import ConfigurationError

Rule = Literal["continue", "break"]
Measure = Literal["joined", "texts"]
RULES: tuple[Rule, ...] = ("continue", "break")
MEASURES: tuple[Measure, ...] = ("joined", "texts")
JOINT = 4  # tokens by which the count at a joint is taken to differ at most, before the joined text itself is counted
_FIELDS = ("id", "rank", "text")

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A ranked chunk. ``tokens`` is the count of its text alone, 0 before it was packed."""

    chunk_id: str
    text: str
    rank: int
    tokens: int = 0
    source: Any = field(default=None, repr=False, compare=False)  # the application's own object


@dataclass(frozen=True, slots=True)
class Template:
    """How one chunk is rendered: what stands before its text and after it, with places for its id and rank."""

    before: tuple[tuple[str, str | None], ...]  # literal text, then the field that follows it
    after: tuple[tuple[str, str | None], ...]

    @classmethod
    def parse(cls, template: str) -> Template:
        """Of a format string with ``{text}`` once, and ``{id}`` and ``{rank}`` as often as needed.

        Raises:
            ConfigurationError: it is no such format string.
        """
        try:
            parts = [(literal, name) for literal, name, spec, form in Formatter().parse(template) if not (spec or form)]
            whole = sum(1 for _ in Formatter().parse(template)) == len(parts)
        except (ValueError, TypeError):
            parts, whole = [], False
        names = [name for _, name in parts if name is not None]
        if not whole or names.count("text") != 1 or not set(names) <= set(_FIELDS):
            raise ConfigurationError(f"template={template!r}: it takes {{text}} once, and {{id}} and {{rank}}")
        at = next(n for n, (_, name) in enumerate(parts) if name == "text")
        return cls((*parts[:at], (parts[at][0], None)), tuple(parts[at + 1 :]))

    def around(self, chunk: Chunk) -> tuple[str, str]:
        """What stands before and after the chunk's text."""
        named = {"id": chunk.chunk_id, "rank": str(chunk.rank)}
        before, after = (
            "".join(literal + ("" if name is None else named[name]) for literal, name in parts)
            for parts in (self.before, self.after)
        )
        return before, after


@dataclass(frozen=True, slots=True)
class Packing:
    """Chunks packed into a budget.

    ``tokens`` is the count of ``text``. ``measure`` says what the budget is for: ``joined``, that text, or ``texts``,
    the chunks' own texts, each counted alone.
    """

    kept: tuple[Chunk, ...]
    dropped: tuple[Chunk, ...]
    tokens: int
    budget: int
    rule: Rule
    measure: Measure
    template: Template
    separator: str

    @property
    def text(self) -> str:
        """The kept chunks as rendered, joined by the separator."""
        return self.separator.join(f"{before}{chunk.text}{after}" for chunk, before, after in self._rendered())

    def add_to(
        self, prompt: Prompt, producer: str = "rag", *, trust: str = "retrieved", policy: str = "store"
    ) -> Prompt:
        """Add the kept chunks to a prompt: each text as a piece with its id, the rest as literals. Returns the prompt.

        Raises:
            ConfigurationError: there is no such trust label or policy.
        """
        joiner = ""
        for chunk, before, after in self._rendered():
            if joiner + before:
                prompt.literal(joiner + before)
            prompt.add(producer, chunk.text, source_id=chunk.chunk_id, trust=trust, policy=policy)
            if after:
                prompt.literal(after)
            joiner = self.separator
        return prompt

    @property
    def event(self) -> Event:
        """What is recorded of it: ids, counts and the rule, and no text."""
        counted = [{"chunk_id": c.chunk_id, "tokens": c.tokens} for c in (*self.kept, *self.dropped)]
        packing = {"budget": self.budget, "measure": self.measure, "tokens": self.tokens, "kept": len(self.kept)}
        dropped = [chunk.chunk_id for chunk in self.dropped]
        return {"kind": "retrieval", "dropped": dropped, "rule": self.rule, "packing": {**packing, "chunks": counted}}

    def _rendered(self) -> list[tuple[Chunk, str, str]]:
        return [(chunk, *self.template.around(chunk)) for chunk in self.kept]


def pack(
    chunks: Sequence[Chunk],
    budget: int,
    count: Count,
    *,
    rule: Rule = "continue",
    measure: Measure = "joined",
    template: str = "{text}",
    separator: str = "\n\n",
) -> Packing:
    """Pack chunks into a budget: see the module docstring.

    Args:
        chunks: best first.
        budget: tokens.
        count: the number of tokens of a text.
        rule: ``continue`` or ``break``.
        measure: what the budget is for: ``joined``, the rendered text with templates and separators; ``texts``, the
            sum over the kept chunks' texts, each counted alone.
        template: how one chunk is rendered: ``{text}`` once, ``{id}`` and ``{rank}``.
        separator: between two chunks.

    Raises:
        ConfigurationError: a rule, a measure, a template or a budget that does not exist.
    """
    _check(rule, measure, budget)
    form = Template.parse(template)
    counted = [Chunk(c.chunk_id, c.text, c.rank, count(c.text), c.source) for c in chunks]
    if measure == "texts":
        fits = _sums(counted, budget, rule)
        return _packing(counted, fits, budget, count, rule, measure, form, separator)
    sizes = _Sizes(counted, form, separator, count)
    packing = _packing(counted, sizes.fitting(budget, rule), budget, count, rule, measure, form, separator)
    if packing.tokens > budget:
        fits = sizes.fitting(budget, rule, always=True)
        packing = _packing(counted, fits, budget, count, rule, measure, form, separator)
    return packing


def _check(rule: object, measure: object, budget: object) -> None:
    for name, value, known in (("rule", rule, RULES), ("measure", measure, MEASURES)):
        if value not in known:
            raise ConfigurationError(f"{name}={value!r}: it takes {', '.join(known)}")
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < 0:
        raise ConfigurationError(f"budget={budget!r}: it takes a number of tokens, 0 or more")


def _packing(
    chunks: Sequence[Chunk],
    fits: set[int],
    budget: int,
    count: Count,
    rule: Rule,
    measure: Measure,
    template: Template,
    separator: str,
) -> Packing:
    kept = tuple(chunk for n, chunk in enumerate(chunks) if n in fits)
    dropped = tuple(chunk for n, chunk in enumerate(chunks) if n not in fits)
    packing = Packing(kept, dropped, 0, budget, rule, measure, template, separator)
    tokens = count(packing.text) if kept else 0
    return Packing(kept, dropped, tokens, budget, rule, measure, template, separator)


def _sums(chunks: Sequence[Chunk], budget: int, rule: Rule) -> set[int]:
    fits: set[int] = set()
    left = budget
    for number, chunk in enumerate(chunks):
        if chunk.tokens <= left:
            fits.add(number)
            left -= chunk.tokens
        elif rule == "break":
            break
    return fits


class _Sizes:
    """The number of tokens of what is rendered, by sums as long as they can't err, by counting where they may."""

    def __init__(self, chunks: Sequence[Chunk], template: Template, separator: str, count: Count) -> None:
        self._chunks = chunks
        self._around = [template.around(chunk) for chunk in chunks]
        self._separator = separator
        self._count = count
        self._literals: dict[str, int] = {}

    def fitting(self, budget: int, rule: Rule, *, always: bool = False) -> set[int]:
        """The numbers of the chunks that fit; ``always`` counts the joined text for each of them."""
        fits: set[int] = set()
        texts: list[str] = []
        sure, doubt = 0, 0  # tokens so far, and by how many they may be wrong
        for number, chunk in enumerate(self._chunks):
            before, after = self._around[number]
            head = (self._separator if texts else "") + before
            literals = [text for text in (head, after) if text]
            size = sure + chunk.tokens + sum(map(self._literal, literals))
            slack = doubt + JOINT * (len(literals) + bool(texts and not head))
            if always or size - slack <= budget < size + slack:
                size, slack = self._count("".join([*texts, head, chunk.text, after])), 0
            if size <= budget:
                fits.add(number)
                texts += [head, chunk.text, after]
                sure, doubt = size, slack
            elif rule == "break":
                break
        return fits

    def _literal(self, text: str) -> int:
        if text not in self._literals:
            self._literals[text] = self._count(text)
        return self._literals[text]
