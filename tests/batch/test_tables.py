"""The tables: their columns are described, any text fits, and a file is there whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from otel_prompt_trace.batch import run_census
from otel_prompt_trace.batch.parquet import Tables
from otel_prompt_trace.batch.tables import TABLES, record_batch, schema
from tests.batch.worlds import Reader, qid_of, sealed

HARD = "a\x00b\r\n\u2028\u202e\U0001f468\u200d\U0001f469 lone \ud83d half"


def test_columns_are_described_and_written(tmp_path: Path) -> None:
    """Every column has a description, and it stands in the file that is written, also in an empty one."""
    with Tables(tmp_path):
        pass
    for name, columns in TABLES.items():
        written = pq.read_schema(tmp_path / f"{name}.parquet")
        assert [field.name for field in written] == [column.name for column in columns]
        for field, column in zip(written, columns, strict=True):
            assert len(column.description) > 5
            assert field.metadata[b"description"].decode() == column.description


def test_any_text_fits(tmp_path: Path) -> None:
    """A lone surrogate becomes its escape, all else stays as it is, and the counts are those of the original."""
    reader = Reader()
    reader.put(sealed(qid_of(1), {"prompt": HARD, "call": "call-\udc00"}))
    report = run_census(reader, [], tmp_path)
    assert report.rows[0].total == len(HARD)
    ((text, chars, call),) = duckdb.sql(f"SELECT text, chars, call FROM '{tmp_path}/gaps.parquet'").fetchall()
    assert text == HARD.replace("\ud83d", "\\ud83d")
    assert (chars, call) == (len(HARD), "call-\\udc00")
    assert duckdb.sql(f"SELECT call, span_joined FROM '{tmp_path}/calls.parquet'").fetchall() == [
        ("call-\\udc00", "unknown")
    ]


def test_surrogates_in_lists_fit() -> None:
    """A list of texts is cleaned item by item; nulls stay nulls."""
    columns = [column for column in TABLES["calls"] if column.name in ("call", "reasons")]
    batch = record_batch(columns, [{"reasons": ["gap", "\udfff"]}, {"call": "x", "reasons": None}, {}])
    assert batch.to_pydict() == {"call": [None, "x", None], "reasons": [["gap", "\\udfff"], None, None]}
    assert batch.schema.equals(schema(columns))


def test_batches_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are written in batches, by number and by size of their texts; all of them arrive, in order."""
    monkeypatch.setattr("otel_prompt_trace.batch.parquet._ROWS_PER_BATCH", 7)
    monkeypatch.setattr("otel_prompt_trace.batch.parquet._CHARS_PER_BATCH", 50)
    with Tables(tmp_path) as tables:
        for number in range(100):
            tables.add("gaps", {"qid": "q", "ordinal": number, "text": "x" * (number % 30)})
    assert pq.ParquetFile(tmp_path / "gaps.parquet").metadata.num_row_groups > 15
    written = pq.read_table(tmp_path / "gaps.parquet", columns=["ordinal", "text"]).to_pylist()
    assert written == [{"ordinal": number, "text": "x" * (number % 30)} for number in range(100)]


def test_error_leaves_no_file(tmp_path: Path) -> None:
    """A run that fails publishes nothing and leaves nothing hidden behind."""

    def fail() -> None:
        with Tables(tmp_path / "new") as tables:
            tables.add("gaps", {"qid": "q"})
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        fail()
    assert list((tmp_path / "new").iterdir()) == []


def test_failing_disk_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the files can't be brought to the disk, none of them is published."""
    with Tables(tmp_path):
        pass
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    def run() -> None:
        with Tables(tmp_path) as tables:
            tables.add("gaps", {"qid": "q"})
            monkeypatch.setattr("os.fsync", full)

    with pytest.raises(OSError, match="No space left"):
        run()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
