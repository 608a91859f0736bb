"""What a retriever returns, in the many shapes it comes in: hits as ``{rank, chunk_id, score}``, chunks with texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from otel_prompt_trace.core.packing import Chunk

_ID = ("chunk_id", "id", "doc_id", "document_id", "source_id")
_SCORE = ("score", "similarity", "distance")
_TEXT = ("text", "content", "page_content", "chunk_text", "body")


def as_hits(hits: Iterable[Any]) -> list[dict[str, Any]]:
    """Hits by rank, counting from 1 where they carry no rank of their own.

    Raises:
        TypeError: an iterator: going through it would take the hits from the application.
    """
    _check(hits)
    items = hits.items() if isinstance(hits, Mapping) else hits
    return [_as_hit(hit, rank) for rank, hit in enumerate(items, 1)]


def as_ids(chunks: Iterable[Any]) -> list[str]:
    """Chunk ids; a single string is one id.

    Raises:
        TypeError: an iterator, as above.
    """
    _check(chunks)
    return [chunks] if isinstance(chunks, str) else [str(chunk) for chunk in chunks]


def as_chunks(chunks: Iterable[Any]) -> list[Chunk]:
    """Chunks with id and text, by rank. Here an iterator may be consumed: the application gets its chunks back.

    Raises:
        TypeError: one without an id or a text.
    """
    return [_as_chunk(chunk, rank) for rank, chunk in enumerate(chunks, 1)]


def _check(items: object) -> None:
    if isinstance(items, Iterator):
        raise TypeError("an iterator can't be recorded without consuming it: give a list")


def _as_hit(hit: Any, rank: int) -> dict[str, Any]:
    if isinstance(hit, str | int):
        return {"rank": rank, "chunk_id": str(hit), "score": None}
    if isinstance(hit, tuple | list) and len(hit) >= 2:
        inner, score = hit[0], hit[1]
        if isinstance(inner, str | int):
            return {"rank": rank, "chunk_id": str(inner), "score": _number(score)}
        return {**_as_hit(inner, rank), "score": _number(score)}
    own = _field(hit, ("rank",))
    chunk = _field(hit, _ID)
    if chunk is None:
        chunk = _field(_field(hit, ("chunk", "document", "metadata")), _ID)
    return {
        "rank": own if type(own) is int and own >= 0 else rank,
        "chunk_id": None if chunk is None else str(chunk),
        "score": _number(_field(hit, _SCORE)),
    }


def _as_chunk(chunk: Any, rank: int) -> Chunk:
    if isinstance(chunk, Chunk):
        return chunk
    identity, text, inner = None, None, chunk
    if isinstance(chunk, tuple | list) and len(chunk) >= 2:
        if isinstance(chunk[0], str | int) and isinstance(chunk[1], str):
            identity, text = chunk[0], chunk[1]
        else:
            inner = chunk[0]  # with its score
    if text is None:
        nested = _field(inner, ("chunk", "document", "node"))
        for holder in (inner, nested):
            identity = _field(holder, _ID) if identity is None else identity
            text = _field(holder, _TEXT) if text is None else text
        identity = _field(_field(inner, ("metadata",)), _ID) if identity is None else identity
    if identity is None or not isinstance(text, str):
        raise TypeError(f"a chunk is an (id, text) pair, or has an id and a text: not {type(chunk).__name__}")
    own = _field(inner, ("rank",))
    return Chunk(str(identity), text, own if type(own) is int and own >= 0 else rank, source=chunk)


def _field(hit: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        value = hit.get(name) if isinstance(hit, Mapping) else getattr(hit, name, None)
        if value is not None and not callable(value):
            return value
    return None


def _number(score: Any) -> float | None:
    try:
        return None if score is None else float(score)  # numpy's numbers among them
    except (TypeError, ValueError):
        return None
