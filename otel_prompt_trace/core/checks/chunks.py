"""Checks of what was retrieved against what stands in the prompt, by name."""

from __future__ import annotations

from otel_prompt_trace.core.census import Census
from otel_prompt_trace.core.checks.check import Outcome
from otel_prompt_trace.core.chunks import chunks_dropped, chunks_in_prompt, rules_of_dropped
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.text import as_text


def chunk_identity(record: Record, census: Census | None) -> Outcome:
    """Retrieved is in the prompt plus dropped."""
    if not record.retrieved or census is None:
        return "unknown", "nothing was retrieved"
    retrieved, declared = record.chunk_ids, set(record.dropped)
    nameless = sum(1 for hit in record.retrieved if hit.get("chunk_id") is None)
    kept, absent = chunks_in_prompt(record, census), chunks_dropped(record, census)
    sum_of = f"{len(kept)} in prompt + {len(absent)} dropped = {len(kept) + len(absent)} of {len(retrieved)} retrieved"
    both = sorted(declared.intersection(kept))
    if both:
        return "fail", f"said to be dropped, yet in the prompt: {', '.join(both)}"
    strange = sorted(declared.difference(retrieved))
    if strange and not nameless:
        return "fail", f"said to be dropped, but never retrieved: {', '.join(strange)}"
    unsaid = [chunk for chunk in absent if chunk not in declared]
    if unsaid:
        return "unknown", f"{sum_of}; neither in the prompt nor said to be dropped: {', '.join(unsaid)}"
    if nameless:
        return "unknown", f"{sum_of}; {nameless} hit(s) have no id"
    named = f" ({', '.join(absent)})" if absent else ""
    return "pass", sum_of + named


def chunks_located(record: Record, census: Census | None) -> Outcome:
    """Every piece that names a retrieved chunk stands where it is said to."""
    retrieved = set(record.chunk_ids)
    named = [p for p in census.pieces if p.source_id is not None and p.source_id in retrieved] if census else []
    declared = [p for p in named if p.state not in ("not_placed", "empty")]
    if not declared:
        return "unknown", "no piece names a retrieved chunk as its source"
    lost = [f"{p.piece.label} ({p.note or p.state})" for p in declared if p.state != "located"]
    return ("fail", "; ".join(lost)) if lost else ("pass", f"{len(declared)} located by offset")


def rank_prefix(record: Record, census: Census | None) -> Outcome:
    """The chunks in the prompt are the best of each retrieval, unless the application's rule skips what is too long."""
    kept, rules = set(chunks_in_prompt(record, census)), rules_of_dropped(record)
    if not kept:
        return "unknown", "no retrieved chunk stands in the prompt"
    named_rules = {as_text(event["rule"]) for event in record.of("retrieval") if event.get("rule")}
    only = named_rules.pop() if len(named_rules) == 1 else None
    passed: list[str] = []
    for event in record.of("retrieval"):
        hits = event.get("hits")
        named = [hit for hit in hits if isinstance(hit, dict)] if isinstance(hits, list) else []
        ranks = {
            as_text(hit["chunk_id"]): _rank(hit.get("rank"), n)
            for n, hit in enumerate(named, 1)
            if hit.get("chunk_id") is not None
        }
        inside = {rank for chunk, rank in ranks.items() if chunk in kept}
        if not inside:
            continue
        last = max(inside)
        skipped = {chunk: rank for chunk, rank in ranks.items() if rank < last and rank not in inside}
        names = ", ".join(as_text(rank) for rank in sorted(set(skipped.values())))
        if not skipped:
            passed.append(f"ranks {as_text(min(inside))} to {as_text(last)}")
        elif {rules.get(chunk) or only for chunk in skipped} == {"continue"}:
            passed.append(f"rank {names} was skipped, as the application's rule 'continue' may")
        else:
            rule = "; the rule 'break' stops at the first that does not fit" if only == "break" else ""
            return "fail", f"rank {names} is missing while rank {as_text(last)} is in the prompt{rule}"
    return "pass", "; ".join(passed)


def _rank(rank: object, number: int) -> int:
    return rank if isinstance(rank, int) else number
