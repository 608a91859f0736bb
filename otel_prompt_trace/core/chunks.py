"""Which retrieved chunks stand in a prompt, and which do not: by name, in the order of their rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otel_prompt_trace.core.census import Census
from otel_prompt_trace.core.pieces import Placed
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.text import as_text
from otel_prompt_trace.core.usage import token_count


def located_chunks(record: Record, census: Census | None) -> list[Placed]:
    """The located pieces whose source is a retrieved chunk, in declared order."""
    retrieved = set(record.chunk_ids)
    return [p for p in census.located if p.source_id in retrieved] if census else []


def chunks_in_prompt(record: Record, census: Census | None) -> list[str]:
    """Ids of the retrieved chunks that stand in the prompt, by rank. Located, not merely declared."""
    located = {p.source_id for p in located_chunks(record, census)}
    return [chunk for chunk in record.chunk_ids if chunk in located]


def chunks_dropped(record: Record, census: Census | None) -> list[str]:
    """Ids of the retrieved chunks that do not stand in the prompt, by rank."""
    kept = set(chunks_in_prompt(record, census))
    return [chunk for chunk in record.chunk_ids if chunk not in kept]


def packings(record: Record) -> Iterator[dict[str, Any]]:
    """What was recorded of each packing of chunks into a budget."""
    for event in record.of("retrieval"):
        found = event.get("packing")
        if isinstance(found, dict):
            yield found


def packed_tokens(record: Record) -> dict[str, int]:
    """The tokens of each chunk's text, as the application counted them when it packed."""
    counted: dict[str, int] = {}
    for packing in packings(record):
        chunks = packing.get("chunks")
        for chunk in chunks if isinstance(chunks, list) else ():
            tokens = token_count(chunk.get("tokens")) if isinstance(chunk, dict) else None
            if tokens is not None:
                counted[as_text(chunk.get("chunk_id"))] = tokens
    return counted


def rules_of_dropped(record: Record) -> dict[str, str | None]:
    """The chunks that the application says it dropped, each with the rule; None where it named no rule."""
    rules: dict[str, str | None] = {}
    for event in record.of("retrieval"):
        dropped, rule = event.get("dropped"), event.get("rule")
        for chunk in dropped if isinstance(dropped, list) else ():
            rules[as_text(chunk)] = as_text(rule) if rule else rules.get(as_text(chunk))
    return rules
