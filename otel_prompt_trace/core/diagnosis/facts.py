"""What is known of an expectation: which chunk it is, or which chunks hold it, and where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from otel_prompt_trace.core.census import Census
from otel_prompt_trace.core.chunks import rules_of_dropped
from otel_prompt_trace.core.diagnosis.manifest import Manifest
from otel_prompt_trace.core.grade import CallGrade
from otel_prompt_trace.core.missing.explain import why
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.text import as_text

TakenAs = Literal["chunk", "text"]

_TEXT_FIELDS = ("text", "content", "page_content", "document")  # of a hit, where its retriever told them


def known_ids(record: Record) -> set[str]:
    """Every chunk id that the record names: retrieved, dropped, or a piece's source."""
    sources = (piece.source_id for piece in _pieces(record))
    return {*record.chunk_ids, *record.dropped, *(source for source in sources if source is not None)}


class Facts:
    """One expectation against one call of one record."""

    def __init__(
        self,
        record: Record,
        expected: str,
        call: CallGrade | None,
        manifest: Manifest | None,
        taken_as: TakenAs | None,
    ) -> None:
        self.record, self.expected, self.call, self.manifest = record, expected, call, manifest
        self.census: Census | None = None if call is None else call.census
        hits = [hit for hit in record.retrieved if hit.get("chunk_id") is not None]
        self.hits = {as_text(hit["chunk_id"]): hit for hit in reversed(hits)}  # of one that was found twice the best
        self.nameless = len(record.retrieved) - len(hits)
        self.rules = rules_of_dropped(record)
        self.texts = self._texts()
        holding = list(dict.fromkeys(self._holding()))
        one_word = bool(expected) and not any(map(str.isspace, expected))
        told = expected in known_ids(record) or (manifest is not None and manifest.has_id)
        nowhere = one_word and not holding and next(self.standing(expected), None) is None
        self.is_chunk = taken_as == "chunk" if taken_as else told or nowhere
        self.chunks = [expected] if self.is_chunk else holding

    @property
    def retrieved(self) -> str | None:
        """The first of the chunks that was retrieved."""
        return next((chunk for chunk in self.chunks if chunk in self.hits), None)

    @property
    def searchable(self) -> bool:
        """Whether all that the model was given is here to be searched."""
        census = self.census
        if census is None or any(part.kind == "reference" for part in census.outside):
            return False
        return not any(segment.cuts for segment in census.segments)

    @property
    def all_others(self) -> bool:
        """Whether every character of the prompt belongs to a piece."""
        census = self.census
        return census is not None and self.searchable and census.total > 0 and not census.unaccounted

    def standing(self, text: str) -> Iterator[tuple[str, int]]:
        """The first place of a text in each segment of the prompt: path and offset."""
        for segment in self.census.segments if self.census is not None and text else ():
            at = segment.text.find(text)
            if at >= 0:
                yield segment.path, at

    def changed(self, text: str) -> str:
        """How and where the text stands in another form; empty where it most likely stands in none. No proof."""
        segments = self.census.segments if self.census is not None else ()
        (hint,) = why(segments, [text])
        return "" if hint is None else hint.words(segments[hint.segment].path)

    def _texts(self) -> dict[str, str]:
        """The texts of chunks, as far as anybody told them: the manifest, hits, pieces, the last for sure."""
        texts = dict(self.manifest.texts) if self.manifest is not None else {}
        for chunk, hit in self.hits.items():
            text = next((hit[name] for name in _TEXT_FIELDS if isinstance(hit.get(name), str)), None)
            if text is not None:
                texts[chunk] = text
        for piece in _pieces(self.record):
            if piece.source_id is not None and piece.text is not None:
                texts[piece.source_id] = piece.text
        return texts

    def _holding(self) -> Iterator[str]:
        """The ids of chunks that hold the expected text."""
        if self.expected:
            yield from (chunk for chunk, text in self.texts.items() if self.expected in text)
            yield from self.manifest.holding if self.manifest is not None else ()


def _pieces(record: Record) -> Iterator[Piece]:
    return (piece for call in record.calls for piece in call.declared if not piece.inferred)
