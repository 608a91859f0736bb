"""From a store's URL to the store.

====================================================================  =============================================
``s3://bucket/prefix?endpoint_url=…&region=…&profile=…``              S3, or a server that speaks it; options as
                                                                      needed
``file:///absolute/path``, or a path (``~`` is expanded)              a folder
``memory:``                                                           this process's memory, for tests
====================================================================  =============================================

A URL never carries credentials: it ends up in logs and on screens. One that does is refused, and no message repeats
it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from otel_prompt_trace.core.keys import check_key
from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.store.folder import FolderStore
from otel_prompt_trace.store.memory import MEMORY, process_store
from otel_prompt_trace.store.objects import ObjectStore
from otel_prompt_trace.store.s3 import S3Store, check_endpoint

__all__ = ["check_url", "open_objects", "settled"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_OPTIONS = ("endpoint_url", "region", "profile")
_FORMS = "a store is s3://bucket/prefix (options: ?endpoint_url=, region=, profile=), file:///absolute/path, or a path"


def open_objects(url: str | os.PathLike[str], *, patient: bool = True) -> ObjectStore:
    """The object store that ``url`` names. Nothing is contacted or created yet.

    Args:
        url: in one of the forms above.
        patient: whether a server that does not answer is waited for as a shipper waits, or as a person does.

    Raises:
        ConfigurationError: the URL is none of the forms above, or carries credentials; or its folder or profile
            can't be used.
    """
    kind, location, options = _read(os.fspath(url))
    if kind == "memory":
        return process_store()
    return S3Store(*location, **options, patient=patient) if kind == "s3" else FolderStore(*location)


def check_url(url: str | os.PathLike[str]) -> None:
    """Whether :func:`open_objects` would take ``url``, found out without loading or opening anything.

    Raises:
        ConfigurationError: as there.
    """
    _read(os.fspath(url))


def settled(url: str) -> str:
    """The same place, whatever becomes of the working folder and of ``~``."""
    return url if _SCHEME.match(url) else str(Path(url).expanduser().absolute())


def _read(text: str) -> tuple[Literal["s3", "folder", "memory"], tuple[str, ...], dict[str, str]]:
    if not text or "\0" in text:
        raise ConfigurationError(f"an empty store, or one with a NUL in it: {_FORMS}")
    scheme = _SCHEME.match(text)
    if scheme is None:
        return "folder", (text,), {}
    if text == MEMORY:
        return "memory", (), {}
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ConfigurationError(f"the store's URL can't be read; {_FORMS}") from error
    if "@" in parts.netloc:
        raise ConfigurationError(
            "the store's URL carries credentials: take them out, replace them, and set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY or a profile"
        )
    match scheme[1].lower():
        case "s3":
            return "s3", *_read_s3(parts)
        case "file":
            return "folder", (_read_file(parts),), {}
        case "http" | "https":
            raise ConfigurationError(
                f"{scheme[1]}: names a server, not a store: write s3://bucket/prefix?endpoint_url=<that address>"
            )
        case _:
            raise ConfigurationError(f"{scheme[1]}: is no kind of store: {_FORMS}")


def _read_file(parts: SplitResult) -> str:
    if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/") or parts.query or parts.fragment:
        raise ConfigurationError("a folder's URL is file:///absolute/path, with ? and # written as %3F and %23")
    path = unquote(parts.path)
    if "\0" in path:
        raise ConfigurationError("a folder's path has no NUL in it")
    return path


def _read_s3(parts: SplitResult) -> tuple[tuple[str, str], dict[str, str]]:
    if not _BUCKET.fullmatch(parts.netloc) or parts.fragment:
        raise ConfigurationError(f"no bucket can be read from the store's URL: {_FORMS}")
    prefix = parts.path.strip("/")
    try:
        _ = prefix and check_key(prefix)
    except ValueError:
        raise ConfigurationError(
            "a store's prefix has segments of A-Z a-z 0-9 = . _ ~ -, not beginning with = . ~ -"
        ) from None
    options = _options(parts.query)
    if "endpoint_url" in options:
        check_endpoint(options["endpoint_url"])
    return (parts.netloc, prefix), options


def _options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS:
            raise ConfigurationError(
                f"{name[:40]!r} is no option of a store's URL; these are: {', '.join(_OPTIONS)}. "
                "Credentials go into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or a profile"
            )
        if not value or name in options:
            raise ConfigurationError(f"the option {name} of the store's URL has no value, or two")
        options[name] = value
    return options
