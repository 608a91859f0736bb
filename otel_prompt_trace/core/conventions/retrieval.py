"""What a retriever or a reranker gave back, as ``{rank, chunk_id, score, text}``, ranks counting from 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from otel_prompt_trace.core.conventions.candidate import Candidate
from otel_prompt_trace.core.conventions.indexed import nested
from otel_prompt_trace.core.conventions.message_events import Carried
from otel_prompt_trace.core.conventions.values import first_of, given, items, mapping, text

_ID = ("chunk_id", "id", "doc_id", "document_id", "source_id")
_SCORE = ("score", "similarity", "distance")
_TEXT = ("content", "text", "page_content", "document", "entity")
_QUERIES = ("gen_ai.retrieval.query.text", "reranker.query", "gen_ai.memory.query.text")
_FLAT = ("reranker.output_documents", "retrieval.documents")
_LISTS = ("gen_ai.retrieval.documents", "gen_ai.memory.records")
_EVENTS = ("db.query.result", "db.search.result")


def retrieval(content: Mapping[str, Any], events: Iterable[Carried] = ()) -> Candidate | None:
    """The hits and, where it is there, the text that was searched for."""
    for found in (*(_flat(content, key) for key in _FLAT), *(_list(content, key) for key in _LISTS), _from(events)):
        if found is not None:
            query = text(first_of(content, _QUERIES))
            return found._replace(fields={**found.fields, **given({"question": query})})
    return None


def _flat(content: Mapping[str, Any], key: str) -> Candidate | None:
    whole = items(content.get(key))
    if whole is not None:
        return Candidate(key, {"hits": _ranked(whole, range(1, len(whole) + 1))}) if whole else None
    found, indexes, missing = nested(content, key)
    ranks = [int(index) + 1 for index in indexes]  # of the documents that are there: a hole keeps its rank
    return Candidate(key, {"hits": _ranked(found, ranks)}, tuple(missing)) if found else None


def _list(content: Mapping[str, Any], key: str) -> Candidate | None:
    found = items(content.get(key))
    return Candidate(key, {"hits": _ranked(found, range(1, len(found) + 1))}) if found else None


def _from(events: Iterable[Carried]) -> Candidate | None:
    documents = []
    name = ""
    for carried in events:
        if carried.name in _EVENTS:
            name = name or carried.name
            prefix = carried.name + "."
            documents.append({key.removeprefix(prefix): value for key, value in carried.attributes.items()})
    return Candidate(name, {"hits": _ranked(documents, range(1, len(documents) + 1))}) if documents else None


def _ranked(documents: list[Any], ranks: Iterable[int]) -> list[dict[str, Any]]:
    return [_hit(document, rank) for document, rank in zip(documents, ranks, strict=True)]


def _hit(document: Any, rank: int) -> dict[str, Any]:
    if isinstance(document, str) and mapping(document) is None:
        return {"rank": rank, "chunk_id": None, "score": None, "text": document}
    fields = mapping(document) or {}
    inner = mapping(fields.get("document"))
    fields = {**fields, **inner} if inner is not None else fields
    about = mapping(fields.get("metadata")) or {}
    chunk = first_of(fields, _ID)
    chunk = first_of(about, _ID) if chunk is None else chunk
    hit = {"rank": rank, "chunk_id": None if chunk is None else str(chunk), "score": _number(first_of(fields, _SCORE))}
    body = next((found for name in _TEXT if (found := text(fields.get(name))) is not None), None)
    return {**hit, **given({"text": body})}


def _number(score: Any) -> float | None:
    try:
        return None if score is None or isinstance(score, bool) else float(score)
    except (TypeError, ValueError, OverflowError):
        return None
