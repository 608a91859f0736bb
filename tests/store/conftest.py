"""The stores that the contract is tried on, each empty."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from otel_prompt_trace.store import FolderStore, ObjectStore, open_objects
from otel_prompt_trace.store.memory import process_store
from tests.seaweed import Seaweed
from tests.store.memory import MemoryStore

_SEAWEED = pytest.param("seaweed", marks=pytest.mark.integration)


@pytest.fixture
def folder(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def moto() -> Iterator[Any]:
    """A client of an S3 in this process, with the buckets ``payloads``, ``versioned`` and ``locked``."""
    import boto3

    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        _make_buckets(client)
        yield client


@pytest.fixture
def seaweed_client(seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of the real server, with the same buckets, and its credentials in the environment."""
    for name, value in seaweed.environment.items():
        monkeypatch.setenv(name, value)
    client = seaweed.client()
    _make_buckets(client)
    return client


@pytest.fixture(params=["folder", "memory", "moto", _SEAWEED])
def objects(request: pytest.FixtureRequest) -> ObjectStore:
    """Each kind of store."""
    if request.param == "folder":
        store: ObjectStore = request.getfixturevalue("folder")
        return store
    if request.param == "memory":
        process_store().clear()
        return process_store()
    return _bucket(request, "payloads")


@pytest.fixture(params=["moto", _SEAWEED])
def versioned(request: pytest.FixtureRequest) -> tuple[ObjectStore, Any]:
    """A store in a bucket that keeps versions, and a client of the same server."""
    return _bucket(request, "versioned"), _client(request)


@pytest.fixture(params=["moto", _SEAWEED])
def locked(request: pytest.FixtureRequest) -> ObjectStore:
    """A store in a bucket whose objects nobody can delete for a day."""
    return _bucket(request, "locked")


def _client(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("moto" if request.param == "moto" else "seaweed_client")


def _bucket(request: pytest.FixtureRequest, bucket: str) -> ObjectStore:
    _client(request)
    prefix = f"test/{uuid.uuid4().hex}"
    if request.param == "moto":
        return open_objects(f"s3://{bucket}/{prefix}?region=us-east-1")
    return open_objects(request.getfixturevalue("seaweed").url(bucket, prefix))


def _make_buckets(client: Any) -> None:
    present = {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}
    if "payloads" not in present:
        client.create_bucket(Bucket="payloads")
    if "versioned" not in present:
        client.create_bucket(Bucket="versioned")
        client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    if "locked" not in present:
        client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
        rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}
        client.put_object_lock_configuration(
            Bucket="locked", ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
        )


class ScriptedServer:
    """A server on loopback that answers every request with the next of its answers, the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.requests: list[str] = []
        self.extra: dict[str, str] = {}
        self.headers: list[dict[str, str]] = []
        self._counter = itertools.count()
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                script.requests.append(f"{self.command} {self.path}")
                script.headers.append(dict(self.headers.items()))
                status, body = script.answers[min(next(script._counter), len(script.answers) - 1)]
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **script.extra}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_DELETE = _answer  # noqa: N815 - named by the base class

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop the server and wait for its thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def s3_error(code: str, message: str = "so it is") -> bytes:
    """The body of an S3 error."""
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'.encode()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ScriptedServer, ObjectStore]]:
    """A scripted server and a store that takes it for S3."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-of-the-tests")
    server = ScriptedServer()
    try:
        yield server, open_objects(f"s3://payloads/p?endpoint_url={server.endpoint}&region=us-east-1")
    finally:
        server.close()
