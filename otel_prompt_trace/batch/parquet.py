"""Writing the tables as Parquet files, compressed with zstd.

Invariants:

- A file appears under its name whole or not at all: it is written under a hidden name beside it, then renamed. All
  files of a run are renamed at its end, or none is.
- Rows are written in batches; what is in memory is bounded by the batch, not by the table.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from otel_prompt_trace.batch.tables import TABLES, Column, record_batch, schema
from otel_prompt_trace.exceptions import ConfigurationError

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from typing_extensions import Self

_ROWS_PER_BATCH = 10_000
_CHARS_PER_BATCH = 8 * 1024 * 1024  # of text: a batch of gaps may be far larger than one of counts


class Tables:
    """The Parquet files of one run in the folder ``out`` (made if need be), or nowhere for None.

    Use it in a ``with`` statement: the files appear when the block ends without an error.

    Raises:
        ConfigurationError: the folder can't be made or written to.
    """

    def __init__(self, out: Path | None) -> None:
        self._writers: dict[str, _Writer] = {}
        self.written: tuple[Path, ...] = ()
        if out is None:
            return
        try:
            out.mkdir(parents=True, exist_ok=True)
            for name, columns in TABLES.items():
                self._writers[name] = _Writer(out / f"{name}.parquet", columns)
        except OSError as error:
            self._discard()
            raise ConfigurationError(
                f"{out}: {error.strerror or error}. Name a folder that can be written to for the tables"
            ) from error

    def add(self, table: str, row: Mapping[str, Any]) -> None:
        """Add a row; its keys are the names of the columns."""
        writer = self._writers.get(table)
        if writer is not None:
            writer.add(row)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self._discard()
            return
        try:
            for writer in self._writers.values():
                writer.close()
        except BaseException:
            self._discard()
            raise
        self.written = tuple(writer.publish() for writer in self._writers.values())

    def _discard(self) -> None:
        for writer in self._writers.values():
            writer.discard()


class _Writer:
    def __init__(self, path: Path, columns: tuple[Column, ...]) -> None:
        import pyarrow.parquet as pq

        self._path = path
        self._hidden = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        self._columns = columns
        self._rows: list[Mapping[str, Any]] = []
        self._chars = 0
        self._texts = [column.name for column in columns if column.type == "text"]
        self._parquet: pq.ParquetWriter | None = pq.ParquetWriter(self._hidden, schema(columns), compression="zstd")

    def add(self, row: Mapping[str, Any]) -> None:
        self._rows.append(row)
        self._chars += sum(len(row.get(name) or "") for name in self._texts)
        if len(self._rows) >= _ROWS_PER_BATCH or self._chars >= _CHARS_PER_BATCH:
            self._flush()

    def close(self) -> None:
        """Everything is on the disk, under the hidden name."""
        if self._parquet is not None:
            self._flush()
            self._parquet.close()
            self._parquet = None
            with self._hidden.open("rb") as file:
                os.fsync(file.fileno())

    def publish(self) -> Path:
        self._hidden.replace(self._path)
        return self._path

    def discard(self) -> None:
        if self._parquet is not None:
            self._parquet.close()
            self._parquet = None
        self._hidden.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._rows and self._parquet is not None:
            self._parquet.write_batch(record_batch(self._columns, self._rows))
            self._rows, self._chars = [], 0
