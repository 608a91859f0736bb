"""Checks: statements about a record that can fail, each ``pass``, ``fail`` or ``unknown`` with a detail.

Unknown means that the check was not exercised: what it needs is not in the record. It is shown as ``?`` and is
never counted as passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from otel_prompt_trace.core.census import Census
from otel_prompt_trace.core.derive import Derivation
from otel_prompt_trace.core.record import Call, Record
from otel_prompt_trace.core.text import as_text, sha256_text
from otel_prompt_trace.core.usage import normalize

Status = Literal["pass", "fail", "unknown"]
CountTokens = Callable[[str, str], "int | None"]  # (text, model) -> tokens; None without a public encoding

_COMPLETE = frozenset({"stop", "end_turn", "stop_sequence", "tool_calls", "tool_use", "function_call", "completed"})
_CUT = frozenset({"length", "max_tokens", "max_output_tokens", "content_filter", "refusal", "incomplete", "error"})
# The chat format of OpenAI's models adds three tokens a message and three for the reply; four leave room for a name.
_WRAPPER_TOKENS_PER_MESSAGE = 4
_WRAPPER_TOKENS_PER_REPLY = 3


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a call (``call`` is its number) or of the whole query (``call`` is None)."""

    name: str
    status: Status
    detail: str
    call: int | None = None


def check_query(record: Record) -> Iterator[Check]:
    """The checks that concern the query as a whole."""
    yield _single_end(record)


def check_call(record: Record, derivation: Derivation, prompt_tokens: int | None) -> Iterator[Check]:
    """The checks of one call; ``prompt_tokens`` is the local count of its prompt, where there is one."""
    number = derivation.call.number
    for name, (status, detail) in _outcomes(record, derivation, prompt_tokens).items():
        yield Check(name, status, detail, number)


def integrity(call: Call) -> tuple[Status, str]:
    """Whether every segment of the stored prompt has the digest that was taken when it was recorded."""
    if call.request is None or call.prompt is None:
        return "unknown", "no prompt was recorded"
    entries = call.request.get("segments")
    described = {
        as_text(e.get("path")): e for e in (entries if isinstance(entries, list) else ()) if isinstance(e, dict)
    }
    if len(described) > len(call.prompt.segments):
        return "fail", f"{len(call.prompt.segments)} segments, {len(described)} were recorded"
    unkeyed = 0
    for segment in call.prompt.segments:
        entry = described.get(segment.path)
        if entry is None:
            return "unknown", f"{segment.path} has no digest"
        if entry.get("chars") != len(segment.text):
            return "fail", f"{segment.path}: {len(segment.text)} characters, {entry.get('chars')} were recorded"
        if "sha256" not in entry or segment.cuts:
            unkeyed += 1
        elif entry["sha256"] != sha256_text(segment.text):
            return "fail", f"{segment.path}: sha256 differs from the recorded one"
    if unkeyed:
        return "unknown", f"{unkeyed} of {len(call.prompt.segments)} segments are kept as keyed digests"
    return "pass", f"sha256 of {len(call.prompt.segments)} segment(s) verified"


def _outcomes(record: Record, derivation: Derivation, prompt_tokens: int | None) -> dict[str, tuple[Status, str]]:
    call, census = derivation.call, derivation.census
    return {
        "payload_integrity": integrity(call),
        "duplicate_piece": _none_in(census, "duplicate"),
        "whole_prompt_piece": _none_in(census, "whole_prompt"),
        "sent_as_rendered": _sent_as_rendered(call),
        "chunk_identity": _chunk_identity(record, census),
        "chunks_located": _chunks_located(record, census),
        "rank_prefix": _rank_prefix(record, census),
        "token_identity": _token_identity(call, prompt_tokens),
        "expected_tokens": ("unknown", "no expected number of tokens was declared"),
        "finish_reason": _finish_reason(call),
        "span_joined": ("unknown", "answered by the batch, which has the spans"),
    }


def _single_end(record: Record) -> Check:
    ends = len(record.ends)
    if ends == 1:
        return Check("single_end", "pass", "one end")
    if ends == 0:
        return Check("single_end", "unknown", "no end: still running, or its process ended first")
    return Check("single_end", "fail", f"{ends} ends")


def _none_in(census: Census | None, state: str) -> tuple[Status, str]:
    if census is None or not census.pieces:
        return "unknown", "no pieces were declared"
    found = [p.piece.label for p in census.pieces if p.state == state]
    return ("fail", ", ".join(found)) if found else ("pass", f"none of {len(census.pieces)} pieces")


def chunks_in_prompt(record: Record, census: Census | None) -> list[str]:
    """Ids of the retrieved chunks that stand in the prompt, by rank. Located, not merely declared."""
    located = {p.source_id for p in census.located if p.source_id is not None} if census else set()
    return [chunk for hit in record.retrieved if (chunk := as_text(hit.get("chunk_id"))) in located]


def chunks_dropped(record: Record, census: Census | None) -> list[str]:
    """Ids of the retrieved chunks that do not stand in the prompt, by rank."""
    kept = set(chunks_in_prompt(record, census))
    return [chunk for hit in record.retrieved if (chunk := as_text(hit.get("chunk_id"))) not in kept]


def _sent_as_rendered(call: Call) -> tuple[Status, str]:
    if call.evidence != "wire":
        return "unknown", "the request was not captured on the wire"
    found = call.rendering
    if found is None:
        return "unknown", "no prompt was declared to compare with"
    host = as_text((call.request or {}).get("host"))
    gone = sum(place is None for place in found.places)
    added = ", ".join(f"{part.path} ({part.chars} characters)" for part in found.added)
    said = f"; added by the client library: {added}" if added else ""
    said += "; in another order" if found.moved else ""
    if gone:
        return "fail", f"{gone} of {len(found.places)} declared text(s) do not stand in what was sent to {host}{said}"
    return "pass", f"{len(found.places)} text(s) stand unchanged in what was sent to {host}{said}"


def _chunk_identity(record: Record, census: Census | None) -> tuple[Status, str]:
    if not record.retrieved or census is None:
        return "unknown", "nothing was retrieved"
    retrieved = [as_text(hit.get("chunk_id")) for hit in record.retrieved]
    kept, absent, declared = chunks_in_prompt(record, census), chunks_dropped(record, census), list(record.dropped)
    sum_of = f"{len(kept)} in prompt + {len(absent)} dropped = {len(kept) + len(absent)} of {len(retrieved)} retrieved"
    both = sorted(set(kept) & set(declared))
    if both:
        return "fail", f"said to be dropped, yet in the prompt: {', '.join(both)}"
    strange = sorted(set(declared) - set(retrieved))
    if strange:
        return "fail", f"said to be dropped, but never retrieved: {', '.join(strange)}"
    unsaid = [chunk for chunk in absent if chunk not in declared]
    if unsaid:
        return "unknown", f"{sum_of}; neither in the prompt nor said to be dropped: {', '.join(unsaid)}"
    named = f" ({', '.join(absent)})" if absent else ""
    return "pass", sum_of + named


def _chunks_located(record: Record, census: Census | None) -> tuple[Status, str]:
    retrieved = {as_text(hit.get("chunk_id")) for hit in record.retrieved}
    named = [p for p in census.pieces if p.source_id is not None and p.source_id in retrieved] if census else []
    declared = [p for p in named if p.state not in ("not_placed", "empty")]
    if not declared:
        return "unknown", "no piece names a retrieved chunk as its source"
    lost = [f"{p.piece.label} ({p.note or p.state})" for p in declared if p.state != "located"]
    return ("fail", "; ".join(lost)) if lost else ("pass", f"{len(declared)} located by offset")


def _rank_prefix(record: Record, census: Census | None) -> tuple[Status, str]:
    kept = set(chunks_in_prompt(record, census))
    ranks = [_rank(hit.get("rank"), number) for number, hit in enumerate(record.retrieved, 1)]
    inside = [rank for rank, hit in zip(ranks, record.retrieved, strict=True) if as_text(hit.get("chunk_id")) in kept]
    if not inside:
        return "unknown", "no retrieved chunk stands in the prompt"
    skipped = [rank for rank in ranks if rank < max(inside) and rank not in inside]
    if not skipped:
        return "pass", f"ranks {min(inside)} to {max(inside)}"
    named = ", ".join(str(rank) for rank in skipped)
    rule = next((event["rule"] for event in record.of("retrieval") if event.get("rule")), None)
    if rule == "continue":
        return "pass", f"rank {named} was skipped, as the application's rule 'continue' may"
    return "fail", f"rank {named} is missing while rank {max(inside)} is in the prompt"


def _rank(rank: object, number: int) -> int:
    return rank if isinstance(rank, int) else number


def _token_identity(call: Call, local: int | None) -> tuple[Status, str]:
    reported = normalize((call.response or {}).get("usage")).get("input_tokens")
    if reported is None:
        return "unknown", "the provider reported no input tokens"
    if local is None:
        return "unknown", f"{reported} reported; no public encoding to count the prompt with"
    gap = reported - local
    if gap < 0:
        return "fail", f"{local} counted here, only {reported} reported: the provider was given less"
    if gap == 0:
        return "pass", f"{local} counted here = {reported} reported"
    messages = len({s.path.partition(".")[0] for s in call.prompt.segments}) if call.prompt else 1
    wrapper = _WRAPPER_TOKENS_PER_REPLY + _WRAPPER_TOKENS_PER_MESSAGE * messages
    seen = f"{local} counted here, {reported} reported: {gap} more"
    if gap <= wrapper and not call.visible:
        return "pass", f"{seen}, within the chat wrapper of {messages} message(s)"
    candidates = [name.replace("_", " ") for name in call.visible]
    candidates += sorted({f"{part.kind} parts" for part in call.prompt.outside}) if call.prompt else []
    return "unknown", f"{seen}; " + (f"candidates: {', '.join(candidates)}" if candidates else "unexplained")


def _finish_reason(call: Call) -> tuple[Status, str]:
    reason: Any = (call.response or {}).get("finish_reason")
    if reason is None:
        return "unknown", "no finish reason"
    name = as_text(reason).lower()  # Google's are in capitals
    if name in _COMPLETE:
        return "pass", as_text(reason)
    return ("fail", f"the answer was cut: {reason}") if name in _CUT else ("unknown", as_text(reason))
