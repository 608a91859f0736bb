"""Span archives: files, folders, globs and buckets of OTLP/JSON, read a line at a time.

Read are the files of the Python OTLP JSON file exporter, those of the collector's file exporter with ``format: json``
(both hold one ``TracesData`` a line), the objects of its awss3 exporter with ``marshaler: otlp_json``, any of them
compressed with gzip, and a single JSON document that is spread over lines. Compression is told by content, not by name.

Invariants:

- Every line that is not blank gives its spans or a problem with file and line; the lines after it are still read.
- Never more than one line of a file is in memory, save for a document that is spread over lines, and for an object of a
  bucket, which is in memory as it is stored.
- A file that can't be read at all raises :class:`ArchiveError` and says what to do next.
"""

from __future__ import annotations

import contextlib
import glob
import gzip
import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

import orjson

from otel_prompt_trace.batch.bucket import BucketFile, files_in_bucket, in_bucket
from otel_prompt_trace.batch.otlp import spans_of
from otel_prompt_trace.batch.spans import Span
from otel_prompt_trace.core.events import Problem
from otel_prompt_trace.exceptions import ArchiveError, NotFound

Location = str | os.PathLike[str]
Member = Path | BucketFile

_NAMES = re.compile(r".+\.(json|jsonl|ndjson)(\.\d+)?(\.gz)?", re.IGNORECASE)  # .1: a file that was rotated away
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_BOM = b"\xef\xbb\xbf"


class SpanArchive:
    """The spans of all files that ``locations`` name, each file once, in the order of their names.

    Args:
        locations: files, folders (read with all below them), glob patterns, and ``s3://`` URLs (read likewise).

    Attributes:
        files: what is read.
        left_out: files of the given folders and buckets whose names are not those of a span archive (hidden ones
            apart).
        lines: lines read so far that were not blank.

    Raises:
        ArchiveError: a location that names nothing, or a folder without a span archive.
    """

    def __init__(self, locations: Sequence[Location]) -> None:
        files: dict[str, Member] = {}
        left_out: set[str] = set()
        for location in locations:
            for file, named in _expand(location):
                if named:
                    files.setdefault(str(file.resolve()) if isinstance(file, Path) else file.name, file)
                else:
                    left_out.add(_name(file))
        self.files = tuple(sorted(files.values(), key=_order))
        self.left_out = tuple(sorted(left_out))
        self.lines = 0

    def __iter__(self) -> Iterator[Span | Problem]:
        """Every span, and a problem for all that is none.

        Raises:
            ArchiveError: a file that can't be opened or read, or that is no JSON at all.
        """
        for file in self.files:
            yield from self._read(file)

    def _read(self, file: Member) -> Iterator[Span | Problem]:
        name = _name(file)
        number = 0
        first = True
        try:
            with _open(file) as stream:
                for line in stream:
                    number += 1
                    content = (line.removeprefix(_BOM) if number == 1 else line).strip()
                    if not content:
                        continue
                    self.lines += 1
                    if first and content in (b"{", b"["):  # so begins a document that is spread over lines
                        yield from _document(content + b"\n" + stream.read(), name, number)
                        return
                    first = False
                    yield from _line(content, name, number, torn=not line.endswith(b"\n"))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            yield Problem(name, number + 1, f"the gzip stream is torn or damaged here: {error}")
        except NotFound:
            yield Problem(name, 0, "was listed, and gone when it was to be read")
        except OSError as error:
            raise ArchiveError(
                f"{name}: {error.strerror or error}. Check the path and who may read it, or leave it out of --spans"
            ) from error


def _name(file: Member) -> str:
    return str(file) if isinstance(file, Path) else file.name


def _order(file: Member) -> tuple[bool, tuple[str, ...]]:
    """By name, a folder's files beside each other; buckets come last."""
    return (False, file.parts) if isinstance(file, Path) else (True, (file.name,))


def _expand(location: Location) -> Iterator[tuple[Member, bool]]:
    """Each file that a location names, and whether it is read (a file that is named itself always is)."""
    if in_bucket(location):
        for file in files_in_bucket(os.fspath(location)):
            yield file, _NAMES.fullmatch(file.path.name) is not None
        return
    path = Path(location).expanduser()
    if path.is_dir():
        yield from _below(path)
    elif path.exists():
        yield path, True
    else:
        matches = [Path(match) for match in glob.glob(str(path), recursive=True)]  # noqa: PTH207 - may be absolute
        if not matches:
            raise ArchiveError(f"{location}: no such file or folder, and no file fits it as a pattern. Check the path")
        files = [match for match in matches if match.is_file()]
        yield from ((match, True) for match in files)
        for folder in [] if files else matches:
            yield from _below(folder)


def _below(folder: Path) -> Iterator[tuple[Path, bool]]:
    files = [path for path in folder.rglob("*") if path.is_file() and not _hidden(path.relative_to(folder))]
    if not any(_NAMES.fullmatch(path.name) for path in files):
        raise ArchiveError(
            f"{folder}: none of its {len(files)} files is named .json, .jsonl or .ndjson (or one of these with .gz). "
            "If the spans are in files of other names, name the files themselves"
        )
    for path in files:
        yield path, _NAMES.fullmatch(path.name) is not None


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


@contextlib.contextmanager
def _open(file: Member) -> Iterator[IO[bytes]]:
    with file.open("rb") if isinstance(file, Path) else file.open() as stream:
        head = stream.peek(5)[:8]
        if head.startswith(_GZIP):
            with gzip.GzipFile(fileobj=stream, mode="rb") as unpacked:
                yield cast("IO[bytes]", unpacked)
            return
        if head.startswith(_ZSTD) or head[4:8] == _ZSTD or (head[:1] == b"\0" and head[4:5] == b"\n"):
            raise ArchiveError(
                f"{_name(file)}: compressed or protobuf, not JSON lines. Have the collector's file exporter write "
                "'format: json' without 'compression', and compress with gzip afterwards if you wish; its awss3 "
                "exporter 'marshaler: otlp_json', with 'compression: gzip' or none"
            )
        yield stream


def _line(content: bytes, name: str, number: int, *, torn: bool) -> Iterator[Span | Problem]:
    try:
        value = _loads(content)
    except ValueError as error:
        yield Problem(name, number, "torn line at the end" if torn else f"not JSON: {_reason(error)}")
    else:
        yield from spans_of(value, name, number)


def _document(content: bytes, name: str, number: int) -> Iterator[Span | Problem]:
    try:
        value = _loads(content)
    except ValueError as error:
        at = number + getattr(error, "lineno", 1) - 1
        yield Problem(name, at, f"the document that begins in line {number} is not JSON: {_reason(error)}")
    else:
        yield from spans_of(value, name, number)


def _loads(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        # The Python exporter writes a lone surrogate as an escape, which strict JSON refuses and the standard
        # library reads. What neither reads is malformed, and orjson says better why.
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise error from None


def _reason(error: ValueError) -> str:
    """The parser's words without its place in the line: they name no text of the payload."""
    return getattr(error, "msg", None) or str(error)
