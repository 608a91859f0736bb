"""Span archives in a bucket, as the collector's awss3 exporter writes them: one ``TracesData`` an object.

``s3://bucket/prefix?endpoint_url=…&region=…&profile=…``, the form and the options of a payload store; credentials come
from where boto3 looks for them. A longer prefix reads less: ``s3://spans/v1/spans/dt=2026-11-30``.

One object at a time is in memory, compressed as it is stored. Objects are only read.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import PurePosixPath

from otel_prompt_trace.exceptions import ArchiveError, ConfigurationError, StoreDenied, StoreError
from otel_prompt_trace.store.objects import ObjectStore

__all__ = ["BucketFile", "files_in_bucket", "in_bucket"]

_SCHEME = "s3://"


class BucketFile:
    """One object of an archive.

    Attributes:
        name: ``s3://bucket/key``.
        path: the same as a path, whose last part says whether it is a span archive.
    """

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store, self._key = store, key
        self.name = f"{store.url.partition('?')[0]}/{key}"
        self.path = PurePosixPath(key)

    def open(self) -> io.BufferedReader:
        """Its bytes as they are stored.

        Raises:
            NotFound: it was listed, and is gone.
            ArchiveError: it can't be read.
        """
        try:
            return io.BufferedReader(io.BytesIO(self._store.get(self._key)))
        except StoreError as error:
            raise _explained(self.name, error) from error


def in_bucket(location: object) -> bool:
    """Whether an archive's location is a bucket's."""
    return isinstance(location, str) and location.lower().startswith(_SCHEME)


def files_in_bucket(location: str) -> Iterator[BucketFile]:
    """Every object below a location, in the order of their keys.

    Raises:
        ArchiveError: the location is none, the bucket can't be listed, or it holds nothing there.
    """
    from otel_prompt_trace.store.opening import open_objects

    try:
        store = open_objects(location)
    except ConfigurationError as error:  # it may carry credentials: it is not repeated
        raise ArchiveError(f"--spans s3://…: {error}") from error
    try:
        files = [BucketFile(store, key) for key in sorted(info.key for info in store.list(""))]
    except StoreError as error:
        raise _explained(location.partition("?")[0], error) from error
    if not files:
        raise ArchiveError(
            f"{location.partition('?')[0]}: no object lies below it. Check bucket and prefix, or wait: the collector "
            "writes an object when it is full or old enough"
        )
    yield from files


def _explained(where: str, error: StoreError) -> ArchiveError:
    may = " (reading an archive takes s3:ListBucket and s3:GetObject)" if isinstance(error, StoreDenied) else ""
    return ArchiveError(f"--spans {where}: {error}{may}")
