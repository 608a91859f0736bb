"""URLs: what opens, what is refused, and that no refusal repeats a secret."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.store import FolderStore, PayloadStore, S3Store, open_objects, open_store
from otel_prompt_trace.store.opening import check_url


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket",
        "s3://bucket/a/b",
        "s3://bucket/_private/b",
        "s3://bucket/a?region=eu-central-1",
        "s3://my.bucket-1/a?endpoint_url=http://127.0.0.1:8333&region=us-east-1",
        "s3://bucket?endpoint_url=https://s3.example.org",
    ],
)
def test_s3(url: str) -> None:
    """A bucket with or without prefix and options opens, and its URL is the one given."""
    store = open_objects(url)
    assert isinstance(store, S3Store)
    assert store.url == url
    check_url(url)


def test_s3_details() -> None:
    """Slashes at the ends do not matter, an encoded endpoint is the same, and the scheme's case is free."""
    assert open_objects("S3://bucket/a/b/").url == "s3://bucket/a/b"
    encoded = open_objects("s3://bucket/?endpoint_url=http%3A%2F%2F127.0.0.1%3A8333")
    assert encoded.url == "s3://bucket?endpoint_url=http://127.0.0.1:8333"


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path, a path object, a path from home and a file URL open the same kind of store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    place = tmp_path / "a b%20c"
    for url in (str(place), place, "a b%20c", "./a b%20c", "~/a b%20c", place.as_uri()):
        store = open_objects(url)
        assert isinstance(store, FolderStore)
        assert store.url == place.as_uri()
    assert open_objects(f"file://localhost{tmp_path}").url == tmp_path.as_uri()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a\0b",
        "http://127.0.0.1:9000/bucket",
        "https://bucket.s3.amazonaws.com/",
        "gs://bucket/p",
        "s3:bucket/p",
        "s3:/bucket/p",
        "s3://",
        "s3:///p",
        "s3://b",
        "s3://bucket:9000/p",
        "s3://bucket/a//b",
        "s3://bucket/../b",
        "s3://bucket/a b",
        "s3://bucket/a#b",
        "s3://bucket?endpoint=http://127.0.0.1:1",
        "s3://bucket?region=",
        "s3://bucket?region=a&region=b",
        "s3://bucket?endpoint_url=127.0.0.1:9000",
        "s3://bucket?endpoint_url=ftp://127.0.0.1",
        "s3://bucket?endpoint_url=http://127.0.0.1:port",
        "s3://bucket?endpoint_url=http://",
        "s3://[bucket",
        "file://other-host/a",
        "file:relative",
        "file:///a?b=c",
        "file:///a%00b",
    ],
)
def test_refused(url: str) -> None:
    """What is no store's URL is a configuration error that says what one looks like."""
    for use in (open_objects, check_url):
        with pytest.raises(ConfigurationError):
            use(url)


@pytest.mark.parametrize(
    "url",
    [
        "s3://KEYID:hunter2hunter2@bucket/p",
        "s3://bucket/p?secret_access_key=hunter2hunter2",
        "s3://bucket/p?aws_secret_access_key=hunter2hunter2&region=us-east-1",
        "s3://bucket/p?endpoint_url=http://KEYID:hunter2hunter2@127.0.0.1:9000",
        "http://KEYID:hunter2hunter2@127.0.0.1:9000/bucket",
        "s3://bucket/p?endpoint_url=http://127.0.0.1:9000/?X-Amz-Signature=hunter2hunter2",
    ],
)
def test_credentials_are_refused_and_not_repeated(url: str) -> None:
    """A URL with credentials does not open, and the refusal does not print them."""
    with pytest.raises(ConfigurationError, match=r"credentials|Credentials") as caught:
        open_objects(url)
    assert "hunter2" not in str(caught.value)


def test_open_store(tmp_path: Path) -> None:
    """The payload store's URL is that of its objects."""
    store = open_store(tmp_path / "s")
    assert isinstance(store, PayloadStore)
    assert store.url == (tmp_path / "s").as_uri()
    assert store.objects.url == store.url


def test_importing_loads_nothing_heavy() -> None:
    """Neither boto3 nor zstandard is loaded by import, nor by opening a folder."""
    code = (
        "import sys, otel_prompt_trace.store as s; s.open_store('/nonexistent/x')\n"
        "print([m for m in ('boto3', 'botocore', 'zstandard', 'concurrent.futures.thread') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_exports() -> None:
    """The public names of the package are there, and no others are promised."""
    from otel_prompt_trace import store

    module: Any = store
    assert all(hasattr(module, name) for name in module.__all__)
    wanted = {"ObjectStore", "ObjectInfo", "FolderStore", "S3Store", "PayloadStore", "open_store", "open_objects"}
    assert {*wanted, "ErasureReceipt"} <= set(module.__all__)
