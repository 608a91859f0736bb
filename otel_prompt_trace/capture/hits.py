"""What a retriever returns, in the many shapes it comes in, as ``{rank, chunk_id, score}``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_ID = ("chunk_id", "id", "doc_id", "document_id", "source_id")
_SCORE = ("score", "similarity", "distance")


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
