"""Where payloads are kept: by qid (:class:`PayloadStore`), over a folder or S3 (:class:`ObjectStore`).

Importing this loads neither boto3 nor zstandard; opening a bucket loads the one, reading or writing the other.
"""

from __future__ import annotations

import os

from otel_prompt_trace.redirection import redirected_to
from otel_prompt_trace.store.erasure import ErasureReceipt, Remaining
from otel_prompt_trace.store.folder import FolderStore
from otel_prompt_trace.store.lookup import Found
from otel_prompt_trace.store.memory import MemoryStore
from otel_prompt_trace.store.objects import ObjectInfo, ObjectStore
from otel_prompt_trace.store.opening import open_objects
from otel_prompt_trace.store.payloads import PayloadStore
from otel_prompt_trace.store.probing import ProbeStep
from otel_prompt_trace.store.s3 import S3Store

__all__ = [
    "ErasureReceipt",
    "FolderStore",
    "Found",
    "MemoryStore",
    "ObjectInfo",
    "ObjectStore",
    "PayloadStore",
    "ProbeStep",
    "Remaining",
    "S3Store",
    "open_objects",
    "open_store",
]


def open_store(url: str | os.PathLike[str], *, patient: bool = True) -> PayloadStore:
    """The payload store at ``s3://bucket/prefix?endpoint_url=…&region=…&profile=…``, or in a folder.

    Under tests that keep off real stores it is theirs, whatever ``url`` says: see :mod:`otel_prompt_trace.redirection`.

    Args:
        url: in one of these forms.
        patient: whether a server that is silent is waited for as long as a shipper can (a minute and a half for each
            request), or as a person does (ten seconds).

    Raises:
        ConfigurationError: the URL is no store's, carries credentials, or its folder or profile can't be used.
    """
    return PayloadStore(open_objects(redirected_to() or url, patient=patient))
