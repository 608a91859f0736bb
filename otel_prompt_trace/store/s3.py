"""An S3 bucket, or a part of one, as object store.

Invariants:

- Every put is conditional (``If-None-Match: *``): the server decides races, no object is ever overwritten.
- Nothing connects before the first operation, and boto3 is imported by the constructor alone.
- Credentials come from where boto3 looks for them (environment, profile, instance role), never from the URL.
- A process that was forked gets connections of its own.
- :meth:`S3Store.delete` removes versions, not merely the newest; it leaves no delete marker.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timezone
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from otel_prompt_trace.core.keys import check_key, check_prefix
from otel_prompt_trace.exceptions import ConfigurationError, NotFound, StoreDenied, StoreUnreachable
from otel_prompt_trace.store.objects import ObjectInfo
from otel_prompt_trace.store.s3_errors import check_answer, code_of, explained, is_unsupported

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

__all__ = ["S3Store", "check_endpoint"]

# Seconds to connect, seconds of silence, attempts
_PATIENT = (5, 30, 3)
_IMPATIENT = (3, 5, 2)
_CONNECTIONS = 32  # sixteen threads of one lookup, and some that write
_RACES = 6  # a conflict means that another conditional put of the key is under way; it ends soon
_LATER = ("encodings.idna", "_strptime")  # which Python would import in the middle of the first requests
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


class S3Store:
    """An object store in ``bucket``, all keys below ``prefix``.

    Args:
        bucket: the bucket's name; it must exist.
        prefix: key segments before ours, without slashes at the ends; empty for the whole bucket.
        endpoint_url: a server other than AWS; it is addressed with the bucket in the path.
        region: the bucket's region; else what boto3 finds.
        profile: a profile of the AWS configuration files; else what boto3 finds.
        patient: a server that is silent is given up after 30 s, three times over; else after 5 s, twice.

    Raises:
        ConfigurationError: no such profile, an endpoint that is none or carries credentials, or a name that boto3
            refuses.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        profile: str | None = None,
        patient: bool = True,
    ) -> None:
        self._bucket = bucket
        self._prefix = f"{check_key(prefix)}/" if prefix else ""
        self._options = {"endpoint_url": endpoint_url, "region": region, "profile": profile}
        endpoint = endpoint_url or next(filter(None, map(os.environ.get, _ENDPOINTS)), None)
        if endpoint is not None:
            check_endpoint(endpoint)
        self._path_style = endpoint is not None
        self._patient = patient
        self._where = f"bucket {bucket!r} at {endpoint or 'AWS'}"
        self._made, self._pid = self._make(), os.getpid()

    @property
    def url(self) -> str:
        """``s3://bucket/prefix`` with the options that were given."""
        options = urlencode({name: value for name, value in self._options.items() if value}, safe="/:")
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/") + (f"?{options}" if options else "")

    def __repr__(self) -> str:
        return f"S3Store({self.url!r})"

    def put(self, key: str, data: bytes) -> bool:
        """See :meth:`ObjectStore.put <otel_prompt_trace.store.objects.ObjectStore.put>`."""
        name = self._name(key)
        for race in range(_RACES):
            time.sleep(0.05 * race)
            outcome = self._try(name, data)
            if outcome is not None:
                return outcome
        raise StoreUnreachable(
            f"{self._where}: can't store {name}: other writes of this key keep conflicting with it. Try again later"
        )

    def get(self, key: str) -> bytes:
        """See :meth:`ObjectStore.get <otel_prompt_trace.store.objects.ObjectStore.get>`."""
        name = self._name(key)
        return self._read(name, lambda: self._client.get_object(Bucket=self._bucket, Key=name))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See :meth:`ObjectStore.get_range <otel_prompt_trace.store.objects.ObjectStore.get_range>`."""
        if start < 0 or length < 1:
            raise ValueError("a range starts at 0 or later and has at least 1 byte")
        name, wanted = self._name(key), f"bytes={start}-{start + length - 1}"
        return self._read(name, lambda: self._client.get_object(Bucket=self._bucket, Key=name, Range=wanted))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See :meth:`ObjectStore.list <otel_prompt_trace.store.objects.ObjectStore.list>`."""
        for page in self._pages("list_objects_v2", prefix):
            for item in page.get("Contents", ()):
                modified = item["LastModified"].astimezone(timezone.utc)
                yield ObjectInfo(item["Key"].removeprefix(self._prefix), item["Size"], modified)

    def folders(self, prefix: str, *, deleted: bool = False) -> Iterator[str]:
        """See :meth:`ObjectStore.folders <otel_prompt_trace.store.objects.ObjectStore.folders>`."""
        pages = self._version_pages(prefix, "/") if deleted else self._pages("list_objects_v2", prefix, "/")
        for page in pages:
            for item in page.get("CommonPrefixes", ()):
                yield item["Prefix"].rstrip("/").rpartition("/")[2]

    def delete(self, key: str) -> None:
        """See :meth:`ObjectStore.delete <otel_prompt_trace.store.objects.ObjectStore.delete>`."""
        name = self._name(key)
        # One that is kept by a lock does not keep the others.
        denied = [self._delete_version(name, version) for version in self._versions_of(key)]
        for error in filter(None, denied):
            raise error

    def versions(self, prefix: str) -> Iterator[str]:
        """See :meth:`ObjectStore.versions <otel_prompt_trace.store.objects.ObjectStore.versions>`."""
        before: set[str] = set()
        for page in self._version_pages(prefix):
            names = {item["Key"] for item in _items(page)}
            for name in sorted(names - before):  # the versions of a key can be spread over two pages
                yield name.removeprefix(self._prefix)
            before = names

    @property
    def _client(self) -> S3Client:
        if self._pid != os.getpid():  # connections that two processes share would mix up their answers
            self._made, self._pid = self._make(), os.getpid()
        return self._made

    def _make(self) -> S3Client:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError

        for module in _LATER:
            import_module(module)
        connect, read, attempts = _PATIENT if self._patient else _IMPATIENT
        config = Config(
            signature_version="s3v4",
            connect_timeout=connect,
            read_timeout=read,
            retries={"mode": "standard", "total_max_attempts": attempts},
            max_pool_connections=_CONNECTIONS,
            s3={"addressing_style": "path"} if self._path_style else None,
        )
        options = self._options
        try:
            session = boto3.Session(profile_name=options["profile"], region_name=options["region"])
            return session.client("s3", endpoint_url=options["endpoint_url"], config=config)
        except (BotoCoreError, ValueError) as error:
            raise ConfigurationError(f"{self._where}: {error}. Check PROMPT_TRACE_STORE") from error

    @contextlib.contextmanager
    def _request(self, action: str) -> Iterator[None]:
        from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, detach, set_value

        # Our own requests are no part of what an application does: no instrumentation makes spans of them.
        token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        try:
            with explained(self._where, action):
                yield
        finally:
            detach(token)

    def _name(self, key: str) -> str:
        return self._prefix + check_key(key)

    def _try(self, name: str, data: bytes) -> bool | None:
        """Whether the object was stored; None if another put of it is under way."""
        from botocore.exceptions import ClientError

        with self._request(f"store {name}"):
            try:
                answer = self._client.put_object(Bucket=self._bucket, Key=name, Body=data, IfNoneMatch="*")
            except ClientError as error:
                match code_of(error):
                    case (412, _):
                        return False
                    case (409, _):
                        return None
                    case _:
                        raise
            check_answer(answer, "ETag")
        return True

    def _read(self, name: str, request: Callable[[], Any]) -> bytes:
        from botocore.exceptions import ClientError

        with self._request(f"read {name}"):
            try:
                answer = check_answer(request(), "ETag")
                with contextlib.closing(answer["Body"]) as body:  # its own context would skip its checksum
                    data: bytes = body.read()
            except ClientError as error:
                match code_of(error):
                    case (404, code) if code != "NoSuchBucket":
                        raise NotFound(f"{self._where} holds no object {name}") from None
                    case (416, _):  # the range begins at the end or after it
                        return b""
                    case _:
                        raise
        return data

    def _pages(self, operation: Any, prefix: str, delimiter: str = "") -> Iterator[Any]:
        name = self._prefix + check_prefix(prefix)
        paginator: Any = self._client.get_paginator(operation)
        pages = iter(paginator.paginate(Bucket=self._bucket, Prefix=name, Delimiter=delimiter))
        while True:
            with self._request(f"list {name or 'it'}"):
                page = next(pages, None)
                if page is None:
                    return
                check_answer(page, "IsTruncated")
            yield page

    def _version_pages(self, prefix: str, delimiter: str = "") -> Iterator[Any]:
        try:
            yield from self._pages("list_object_versions", prefix, delimiter)
        except StoreDenied as error:
            if not is_unsupported(error):
                raise
            for page in self._pages("list_objects_v2", prefix, delimiter):  # a server without versions at all
                yield {**page, "Versions": [{"Key": item["Key"]} for item in page.get("Contents", ())]}

    def _delete_version(self, name: str, version: str | None) -> StoreDenied | None:
        options: Any = {"VersionId": version} if version else {}
        try:
            with self._request(f"delete {name}"):
                self._client.delete_object(Bucket=self._bucket, Key=name, **options)
        except StoreDenied as error:
            return error
        return None

    def _versions_of(self, key: str) -> Sequence[str | None]:
        name = self._name(key)
        found = []
        for page in self._version_pages(key):
            items = [item for item in _items(page) if item["Key"] == name]
            found += [item.get("VersionId") for item in items]
            if not items:  # the key itself comes first: what follows are others that begin alike
                break
        return found


def check_endpoint(endpoint: str) -> None:
    """Refuse an endpoint that is no server's address, or that carries credentials: it stands in every message.

    Raises:
        ConfigurationError: without repeating the endpoint.
    """
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is no number
        usable = False
    if not usable or any(mark in endpoint for mark in "@?#"):
        raise ConfigurationError("endpoint_url is http://host:port or https://host:port, without credentials or query")


def _items(page: Any) -> Sequence[Any]:
    return [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
