r"""The tables that a run writes, column by column.

Offsets and counts are code points of the original text, times are UTC. A text column takes any text: a lone
surrogate, which UTF-8 can't carry, stands as its escape (``\ud83d``), while columns that count characters count those
of the original.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_prompt_trace.core.text import encodable
from otel_prompt_trace.exceptions import MissingDependency

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Column:
    """A column: ``type`` is one of text, texts (a list), int, float, bool, time (nanoseconds, UTC)."""

    name: str
    type: str
    description: str


_CALL = (
    Column("qid", "text", "the query"),
    Column("call", "text", "the call's id, unique within its query"),
)

CALLS = (
    *_CALL,
    Column("number", "int", "the call's place within its query, from 1, in the order in which calls went out"),
    Column("ts", "time", "when the request was recorded"),
    Column("service", "text", "service.name of the process that recorded it"),
    Column("model", "text", "the model that was asked for"),
    Column("evidence", "text", "how the prompt was learned: wire, declared, hook or attributes"),
    Column("total", "int", "characters of the prompt; null where no prompt was recorded, as are the counts below"),
    Column("covered", "int", "characters that a declared piece owns"),
    Column("unaccounted", "int", "characters that no piece covers: total less covered"),
    Column("unlocatable", "int", "pieces that stand nowhere in the prompt"),
    Column("pieces", "int", "pieces that were declared for or offered to the call"),
    Column("gaps", "int", "runs of characters that no piece covers"),
    Column("verdict", "text", "exact, mismatch or unknown"),
    Column("reasons", "texts", "every reason for the verdict, in the order of the rules"),
    Column("failed_checks", "texts", "names of the call's checks that failed, span_joined apart"),
    Column("prompt_sha256", "text", "of a single segment, else over the segments' digests, a line each"),
    Column("prompt_hmac_sha256", "text", "the keyed digest in its place, where a policy withheld text"),
    Column("prompt_tokens", "int", "tokens of the prompt as counted here; null without a public encoding"),
    Column("chunk_tokens", "int", "tokens of the retrieved chunks in the prompt, each counted alone"),
    Column("template_tokens", "int", "the template residual: tokens of the prompt beyond its chunks"),
    Column("template_around", "int", "tokens of the text around the chunks, without what users and tools said"),
    Column("template_between", "int", "tokens of the text between two chunks; null for fewer than two"),
    Column("input_tokens", "int", "tokens as the provider reported them, cached ones included"),
    Column("output_tokens", "int", "tokens of the answer as the provider reported them"),
    Column("finish_reason", "text", "as the provider gave it"),
    Column("unfinished", "bool", "whether no response, or only part of one, was recorded"),
    Column("trace_id", "text", "the trace in which the call was recorded"),
    Column("span_id", "text", "the span in which the call was recorded"),
    Column("span_joined", "text", "pass, fail, or unknown where no spans were given"),
    Column("joined_by", "text", "by what the call's span was found: see joins"),
)

PIECES = (
    *_CALL,
    Column("ordinal", "int", "the piece's place among those of the call, from 1, in declared order"),
    Column("producer", "text", "who put it there"),
    Column("source_id", "text", "its source, such as a chunk's id"),
    Column("trust", "text", "owner, policy, tool, child, retrieved, user or unknown"),
    Column("state", "text", "located, duplicate, contested, unlocatable, not_placed, empty, whole_prompt or visible"),
    Column("segment", "int", "the segment that holds it, from 0; null where it is not located, as the next three"),
    Column("path", "text", "the segment's JSON path in the request"),
    Column("start", "int", "its first character within the segment"),
    Column("end", "int", "the first character after it"),
    Column("chars", "int", "characters of the piece, also where only its digest was kept"),
    Column("note", "text", "the likely reason where it is not located, in words"),
    Column("reason", "text", "the same by its name; null where none is likely, as the next four"),
    Column("reason_segment", "int", "the segment where the piece stands in another form, from 0"),
    Column("reason_path", "text", "that segment's JSON path"),
    Column("reason_start", "int", "where this form begins within it"),
    Column("reason_end", "int", "the first character after it"),
    Column("inferred", "bool", "whether the recorder offered it: an earlier output or a tool's result"),
    Column("offered", "bool", "whether it was offered to the query rather than declared for the call"),
)

GAPS = (
    *_CALL,
    Column("ordinal", "int", "the gap's place among those of the call, from 1"),
    Column("segment", "int", "the segment that holds it, from 0"),
    Column("path", "text", "the segment's JSON path in the request"),
    Column("start", "int", "its first character within the segment"),
    Column("end", "int", "the first character after it"),
    Column("chars", "int", "its characters"),
    Column("text", "text", "its text; null where a policy cut any of it"),
)

JOINS = (
    Column("qid", "text", "of the call; of a span without payload: its own, or that of a span around it"),
    Column("call", "text", "the call's id; null for a span without payload"),
    Column("trace_id", "text", "of the span; of a payload without span: as recorded with the call"),
    Column("span_id", "text", "likewise"),
    Column("joined_by", "text", "span (its id and qid), trace_span (its id, without qid), qid, or nesting"),
    Column("state", "text", "joined, span_without_payload or payload_without_span"),
    Column("detail", "text", "why, in words"),
    Column("span_name", "text", "the span's name"),
    Column("service", "text", "the span's service.name"),
)

STAGES = (
    Column("qid", "text", "the query"),
    Column("stage", "text", "the stage's name, which is that of its spans"),
    Column("ms_recorded", "int", "milliseconds as the query recorded them; of several stages of one name the sum"),
    Column("ms_span", "float", "milliseconds as the spans say; of several spans the sum"),
    Column("spans", "int", "how many spans of the query have this name"),
)

SHAPES = (
    Column("shape", "text", "constant, continuing, growing or one-off: how the gaps behave over the calls"),
    Column("cause", "text", "the likely one: history, cache path, new injector, template, fixed rider, varying source"),
    Column("place", "text", "whereabouts it stands: the nearest producers around it"),
    Column("paths", "texts", "JSON paths of the segments that hold it, the first 64"),
    Column("calls", "int", "calls with it"),
    Column("share", "float", "of all calls with a prompt"),
    Column("texts", "int", "different texts"),
    Column("chars", "int", "characters of one part, as most are long"),
    Column("chars_least", "int", "characters in the call that has fewest of it"),
    Column("chars_most", "int", "characters in the call that has most of it"),
    Column("chars_total", "int", "characters over all calls"),
    Column("cached_with", "int", "calls with it whose provider reports tokens from its cache"),
    Column("reported_with", "int", "calls with it whose provider says how many"),
    Column("cached_without", "int", "calls without it whose provider reports tokens from its cache"),
    Column("reported_without", "int", "calls without it whose provider says how many"),
    Column("first_qid", "text", "the query in which it first stood"),
    Column("example_qid", "text", "a query in which its text can be read"),
    Column("example_call", "int", "that call's place within its query, from 1"),
    Column("example_segment", "int", "the segment that holds it there, from 0"),
    Column("example_start", "int", "its first character within that segment"),
    Column("example_end", "int", "the first character after it"),
)

TABLES: Mapping[str, tuple[Column, ...]] = {
    "calls": CALLS,
    "pieces": PIECES,
    "gaps": GAPS,
    "joins": JOINS,
    "stages": STAGES,
    "shapes": SHAPES,
}


def require_batch() -> None:
    """Check that the extra is installed.

    Raises:
        MissingDependency: duckdb or pyarrow can't be imported.
    """
    try:
        import duckdb  # noqa: F401
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise MissingDependency("the census over archived spans", "batch") from error


def schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of some columns; each field carries its description as metadata."""
    import pyarrow as pa

    return pa.schema([pa.field(c.name, _arrow_type(c.type), metadata={"description": c.description}) for c in columns])


def record_batch(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows as an Arrow record batch; a key that a row lacks is null."""
    import pyarrow as pa

    arrays = [_array([row.get(column.name) for row in rows], column.type) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema(columns))


def _arrow_type(name: str) -> pa.DataType:
    import pyarrow as pa

    match name:
        case "text":
            return pa.string()
        case "texts":
            return pa.list_(pa.string())
        case "int":
            return pa.int64()
        case "float":
            return pa.float64()
        case "bool":
            return pa.bool_()
        case _:
            # Without a zone, so that readers need no zone database to hand it out; all times are UTC.
            return pa.timestamp("ns")


def _array(values: list[Any], name: str) -> pa.Array[Any]:
    import pyarrow as pa

    try:
        return pa.array(values, _arrow_type(name))
    except UnicodeEncodeError:
        return pa.array([encodable(value) for value in values], _arrow_type(name))
