"""Checks of what was recorded and sent: digests, ends, pieces, the rendering, the finish reason."""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.census import Census
from otel_prompt_trace.core.checks.check import Check, Outcome
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.text import as_text, sha256_text

_COMPLETE = frozenset({"stop", "end_turn", "stop_sequence", "tool_calls", "tool_use", "function_call", "completed"})
_CUT = frozenset({"length", "max_tokens", "max_output_tokens", "content_filter", "refusal", "incomplete", "error"})


def integrity(call: Call) -> Outcome:
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


def single_end(record: Record) -> Check:
    """A query ends once."""
    ends = len(record.ends)
    if ends == 1:
        return Check("single_end", "pass", "one end")
    if ends == 0:
        return Check("single_end", "unknown", "no end: still running, or its process ended first")
    return Check("single_end", "fail", f"{ends} ends")


def none_in(census: Census | None, state: str) -> Outcome:
    """No piece of this state, by name."""
    if census is None or not census.pieces:
        return "unknown", "no pieces were declared"
    found = [p.piece.label for p in census.pieces if p.state == state]
    return ("fail", ", ".join(found)) if found else ("pass", f"none of {len(census.pieces)} pieces")


def sent_as_rendered(call: Call) -> Outcome:
    """Whether the declared prompt stands unchanged in the request as sent; what the client library added is named."""
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


def finish_reason(call: Call) -> Outcome:
    """Whether the model ended its answer itself."""
    reason: Any = (call.response or {}).get("finish_reason")
    if reason is None:
        return "unknown", "no finish reason"
    name = as_text(reason).lower()  # Google's are in capitals
    if name in _COMPLETE:
        return "pass", as_text(reason)
    return ("fail", f"the answer was cut: {reason}") if name in _CUT else ("unknown", as_text(reason))
