"""The published shape of a record: what ``prompt-trace get`` prints, under names that stay.

A query with one call has the call's fields at the top; with several they stand per call in ``calls``.
"""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.core.census import Census
from otel_prompt_trace.core.chunks import chunks_dropped, chunks_in_prompt
from otel_prompt_trace.core.grade import CallGrade, Grade
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.segments import Split
from otel_prompt_trace.core.text import wrap
from otel_prompt_trace.core.token_identity import token_identity
from otel_prompt_trace.core.usage import normalize

_QUERY_EXTRAS = ("user", "session", "tenant", "conversation_id", "origin", "parent")


def published(record: Record, grade: Grade) -> dict[str, Any]:
    """The record as a JSON-ready dict: see the module docstring; texts JSON can't carry are wrapped."""
    query = record.query or {}
    shape: dict[str, Any] = {
        "qid": record.qid,
        "ts": query.get("ts") or (record.events[0].get("ts") if record.events else None),
        "question": query.get("question"),
        "index_version": record.first("retrieval", "index_version"),
        "embed_model": record.first("retrieval", "embed_model"),
        "gen_model": None,
        "temperature": None,
        "top_k": record.first("retrieval", "top_k"),
        "retrieved": [{name: hit.get(name) for name in ("rank", "chunk_id", "score")} for hit in record.retrieved],
    }
    if len(grade.calls) == 1:
        shape |= _call(record, grade.calls[0])
    else:
        del shape["gen_model"], shape["temperature"]
        shape["calls"] = [{"call": g.call.id, "number": g.call.number, **_call(record, g)} for g in grade.calls]
    shape["ms"] = record.ms
    shape["verdict"] = grade.verdict
    for name in _QUERY_EXTRAS:
        if query.get(name) is not None:
            shape[name] = query[name]
    for name, events in (("feedback", record.of("feedback")), ("tool_calls", record.of("tool_call"))):
        if events:
            shape[name] = list(events)
    shape |= _blemishes(record)
    wrapped: dict[str, Any] = wrap(shape)
    return wrapped


def _call(record: Record, grade: CallGrade) -> dict[str, Any]:
    call, census = grade.call, grade.census
    request, response = call.request or {}, call.response or {}
    shape = {
        "gen_model": request.get("model"),
        "temperature": request.get("temperature"),
        "prompt": _prompt(call.prompt, request),
        "prompt_tokens": grade.prompt_tokens,
        "chunks_in_prompt": len(chunks_in_prompt(record, census)),
        "chunks_dropped": chunks_dropped(record, census),
        "output": response.get("output"),
        "finish_reason": response.get("finish_reason"),
        "usage": normalize(response.get("usage")),
        "tokens": _tokens(grade),
        "evidence": call.evidence,
        "census": None if census is None else _census(grade),
    }
    held = [part for part in (call.prompt.outside if call.prompt is not None else ()) if part.kind == "reference"]
    if held:
        shape["held_by_reference"] = [{"path": part.path, "what": part.detail} for part in held]
    if call.attempts:
        shape["as_sent_to"] = call.attempts[0].host
        named = ("bytes", "sha256", "hmac_sha256", "parts")
        shape["body"] = {name: request[name] for name in named if name in request}
        shape["attempts"] = [
            {"attempt": a.number, "host": a.host, "path": a.path, "status": a.status, "ms": a.ms}
            | ({"error": a.error} if a.error else {})
            | ({"unfinished": True} if a.unfinished else {})
            for a in call.attempts
        ]
    if call.unfinished:
        shape["unfinished"] = True
    if response.get("error"):
        shape["error"] = response["error"]
    return shape


def _prompt(prompt: Split | None, request: dict[str, Any]) -> Any:
    if prompt is None:
        return None
    if request.get("messages") is None and "body" not in request:
        return request.get("prompt")
    if len(prompt.segments) == 1:
        return prompt.segments[0].stored or prompt.segments[0].text
    return [{"path": s.path, "role": s.role, "text": s.stored or s.text} for s in prompt.segments]


def _census(grade: CallGrade) -> dict[str, Any]:
    census = grade.census
    if census is None:
        return {}
    overlaps = census.overlaps()
    shape: dict[str, Any] = {
        "total": census.total,
        "covered": census.covered,
        "unaccounted": census.unaccounted,
        "unlocatable": [p.piece.label for p in census.unlocatable],
        "not_found": not_found(census),
        "verdict": grade.verdict,
        "reasons": list(grade.reasons),
        "by_producer": census.by_producer(),
        "gaps": [{"path": gap.path, "start": gap.start, "end": gap.end} for gap in census.gaps],
    }
    if overlaps.by_producer:  # of what each owns, what other pieces say as well
        shape["overlap_by_producer"] = overlaps.by_producer
    return shape


def _tokens(grade: CallGrade) -> dict[str, Any]:
    """The prompt's count beside the provider's, what may be between them, and the parts of it."""
    found, counts = token_identity(grade.call, grade.prompt_tokens), grade.tokens
    counted = {"counted": found.counted, "reported": found.reported, "cached": found.cached, "gap": found.gap}
    return {**counted, "candidates": list(found.candidates), "chunks": counts.chunks, "template": counts.template}


def not_found(census: Census) -> list[dict[str, Any]]:
    """The pieces that have no place of their own, each with what is known of why; ``hint`` is null without a reason.

    The hint's ``start`` and ``end`` are code points of the text at ``path``.
    """
    return [
        {
            "producer": p.piece.producer,
            "source_id": p.piece.source_id,
            "state": p.state,
            "chars": p.piece.length,
            "note": p.note,
            "hint": None
            if p.hint is None
            else {
                "reason": p.hint.reason,
                "path": census.segments[p.hint.segment].path,
                "segment": p.hint.segment,
                "start": p.hint.start,
                "end": p.hint.end,
                "detail": p.hint.detail,
            },
        }
        for p in census.pieces
        if p.state in ("unlocatable", "contested", "duplicate")
    ]


def _blemishes(record: Record) -> dict[str, Any]:
    """What is not as it should be: shown only where there is something to show."""
    shape: dict[str, Any] = {}
    if record.problems:
        shape["problems"] = [str(problem) for problem in record.problems]
    if record.unreadable:
        shape["unreadable"] = list(record.unreadable)
    if record.foreign:
        shape["foreign"] = list(record.foreign)
    if record.waiting:
        shape["waiting"] = record.waiting
    if len(record.ends) > 1:
        shape["ends"] = len(record.ends)
    return shape
