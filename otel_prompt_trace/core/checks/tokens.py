"""Checks of token counts: against what the provider reported, and against what was to be expected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otel_prompt_trace.core.checks.check import Outcome
from otel_prompt_trace.core.chunks import packings
from otel_prompt_trace.core.counting import TokenCounts
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.token_identity import TokenIdentity
from otel_prompt_trace.core.usage import token_count

_PER_JOINT = 1  # where two texts meet, their tokens are joined or parted: by how many, as a rule
Range = tuple[int, int]


def check_identity(found: TokenIdentity) -> Outcome:
    """The local count is the provider's, but for what the chat format adds."""
    counted, reported, gap = found.counted, found.reported, found.gap
    if reported is None:
        return "unknown", "the provider reported no input tokens"
    if counted is None or gap is None:
        return "unknown", f"{reported} reported; no public encoding to count the prompt with"
    if gap < 0:
        return "fail", f"{counted} counted here, only {reported} reported: the provider was given less"
    if gap == 0:
        return "pass", f"{counted} counted here = {reported} reported"
    seen = f"{counted} counted here, {reported} reported: {gap} more"
    if gap <= found.wrapper and not found.candidates:
        return "pass", f"{seen}, within the chat wrapper of {found.messages} message(s)"
    candidates = list(found.candidates)
    if candidates:
        candidates.insert(0, f"the chat wrapper of {found.messages} message(s)")
    return "unknown", f"{seen}; " + (f"candidates: {', '.join(candidates)}" if candidates else "unexplained")


def expected_tokens(record: Record, counts: TokenCounts, found: TokenIdentity) -> Outcome:
    """The prompt has as many tokens as ``top_k``, the chunk size and the template let expect."""
    chunks = _chunks_expected(record)
    if chunks is None:
        return "unknown", "no expected number of tokens was declared"
    template = _template_expected(record, counts)
    if template is None:
        return "unknown", "how many tokens the template takes was not declared, and can't be counted here"
    least, most = chunks[0] + template[0], chunks[1] + template[1]
    basis = f"expected {least} to {most}: chunks {_shown(chunks)}, template {_shown(template)}"
    said, statuses = [], []
    for name, tokens, beyond, excuse in (
        ("counted here", counts.prompt, 0, False),
        ("reported", found.reported, found.wrapper, bool(found.candidates)),
    ):
        if tokens is not None:
            off = tokens < least or tokens > most + beyond
            excused = off and excuse and tokens > most
            statuses.append("unknown" if excused else "fail" if off else "pass")
            note = f", of which some may be {', '.join(found.candidates)}" if excused else ""
            said.append(f"{tokens} {name}{note}")
    detail = f"{', '.join(said) or 'nothing counted'}; {basis}"
    if "fail" in statuses:
        return "fail", detail
    return ("pass" if "pass" in statuses else "unknown"), detail


def _chunks_expected(record: Record) -> Range | None:
    """The tokens that the chunks of a prompt may take; None where nothing was declared of them."""
    retrieved = record.chunk_ids
    sizes = list(_declared(record, "chunk_tokens"))
    packed = [tokens for packing in packings(record) if (tokens := token_count(packing.get("tokens"))) is not None]
    budgets = [budget for packing in packings(record) if (budget := token_count(packing.get("budget"))) is not None]
    joints = _PER_JOINT * (2 * len(retrieved) + 2)
    if not sizes:
        return (max(0, sum(packed) - joints), sum(packed) + joints) if packed else None
    asked = [n for event in record.of("retrieval") if (n := token_count(event.get("top_k"))) is not None]
    top_k = sum(asked) if asked else len(retrieved)
    there = min(top_k, len(retrieved)) if retrieved else top_k
    smallest, largest = min(low for low, _ in sizes), max(high for _, high in sizes)
    least, most = max(0, there - len(set(record.dropped))) * smallest, there * largest
    if budgets:
        most = min(most, sum(budgets))
    return max(0, min(least, most) - joints), most + joints


def _template_expected(record: Record, counts: TokenCounts) -> Range | None:
    declared = list(_declared(record, "template_tokens"))
    if declared:
        return min(low for low, _ in declared), max(high for _, high in declared)
    if counts.declared is None:
        return None
    return counts.declared, counts.declared


def _declared(record: Record, name: str) -> Iterator[Range]:
    """A number stands for at most that many; a pair for the least and the most."""
    for event in record.of("retrieval"):
        value: Any = event.get(name)
        if token_count(value) is not None:
            yield 0, value
        elif isinstance(value, list | tuple) and len(value) == 2:
            low, high = token_count(value[0]), token_count(value[1])
            if low is not None and high is not None and low <= high:
                yield low, high


def _shown(span: Range) -> str:
    return str(span[0]) if span[0] == span[1] else f"{span[0]} to {span[1]}"
