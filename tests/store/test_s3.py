"""What only S3 has: versions, locks, credentials, endpoints that do not answer or answer something else."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from otel_prompt_trace.exceptions import ConfigurationError, NotFound, StoreDenied, StoreError, StoreUnreachable
from otel_prompt_trace.store import ObjectStore, S3Store, open_objects
from tests.seaweed import Seaweed
from tests.store.conftest import ScriptedServer, s3_error

OPERATIONS: list[Callable[[ObjectStore], object]] = [
    lambda store: store.put("k", b"x"),
    lambda store: store.get("k"),
    lambda store: store.get_range("k", 0, 1),
    lambda store: list(store.list("")),
    lambda store: list(store.folders("")),
    lambda store: store.delete("k"),
    lambda store: list(store.versions("")),
]


def _prefix(store: ObjectStore) -> str:
    return store.url.split("?")[0].removeprefix("s3://").partition("/")[2] + "/"


def test_delete_removes_all_versions(versioned: tuple[ObjectStore, Any]) -> None:
    """On a versioned bucket nothing of a key is left, neither old versions nor delete markers; neighbours stay."""
    store, client = versioned
    name = _prefix(store) + "q/k"
    for turn in range(3):  # overwritten and deleted by somebody else's means
        client.put_object(Bucket="versioned", Key=name, Body=b"%d" % turn)
        client.delete_object(Bucket="versioned", Key=name)
    store.put("q/kk", b"stays")
    store.put("q/k", b"x")
    assert isinstance(store, S3Store)
    assert len(store._versions_of("q/k")) == 7
    store.delete("q/k")
    left = client.list_object_versions(Bucket="versioned", Prefix=_prefix(store))
    assert [item["Key"] for item in left.get("Versions", [])] == [_prefix(store) + "q/kk"]
    assert left.get("DeleteMarkers", []) == []
    assert list(store.versions("")) == ["q/kk"]


def test_what_is_only_marked_as_deleted_is_still_there(versioned: tuple[ObjectStore, Any]) -> None:
    """A plain S3 delete hides an object from listings; versions and deleted folders still show it."""
    store, client = versioned
    store.put("p/dt=1/q/k", b"x")
    client.delete_object(Bucket="versioned", Key=_prefix(store) + "p/dt=1/q/k")
    with pytest.raises(NotFound):
        store.get("p/dt=1/q/k")
    assert list(store.list("p/")) == []
    assert list(store.versions("p/")) == ["p/dt=1/q/k"]
    assert list(store.folders("p/", deleted=True)) == ["dt=1"]
    store.delete("p/dt=1/q/k")
    assert list(store.versions("p/")) == []


def test_many_versions_of_one_key(versioned: tuple[ObjectStore, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A key with more versions than a page holds is listed once and deleted whole."""
    store, client = versioned
    for turn in range(15):
        client.put_object(Bucket="versioned", Key=_prefix(store) + "k", Body=b"%d" % turn)
    assert isinstance(store, S3Store)
    get_paginator = store._client.get_paginator

    def small(operation: Any) -> Any:
        paginator: Any = get_paginator(operation)
        paginate = paginator.paginate
        paginator.paginate = lambda **options: paginate(**options, PaginationConfig={"PageSize": 4})
        return paginator

    monkeypatch.setattr(store._client, "get_paginator", small)
    store.put("other", b"x")
    assert list(store.versions("")) == ["k", "other"]
    store.delete("k")
    assert list(store.versions("")) == ["other"]


def test_an_object_lock_refuses_deletion(locked: ObjectStore) -> None:
    """What a lock keeps is denied, names the key and the lock, and stays readable."""
    locked.put("q/k", b"kept")
    with pytest.raises(StoreDenied, match=r"q/k: 403 AccessDenied.*object lock"):
        locked.delete("q/k")
    assert locked.get("q/k") == b"kept"
    assert list(locked.versions("q/")) == ["q/k"]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.integration
def test_missing_bucket(seaweed: Seaweed, seaweed_client: Any, operation: Callable[[ObjectStore], object]) -> None:
    """A bucket that does not exist is denied, by name and endpoint, with what to do; it is not an empty store."""
    store = open_objects(seaweed.url("no-such-bucket"))
    with pytest.raises(StoreDenied, match="Create the bucket") as caught:
        operation(store)
    assert "'no-such-bucket'" in str(caught.value)
    assert seaweed.endpoint in str(caught.value)


def test_missing_bucket_in_process(moto: Any) -> None:
    """The same without a real server: reading from a missing bucket is not NotFound."""
    with pytest.raises(StoreDenied, match="NoSuchBucket"):
        open_objects("s3://no-such-bucket/p?region=us-east-1").get("a")


@pytest.mark.parametrize(
    ("key", "secret", "code"),
    [
        ("tester", "not-the-secret-9d1f", "SignatureDoesNotMatch"),
        ("nobody", "not-the-secret-9d1f", "InvalidAccessKeyId"),
    ],
)
@pytest.mark.integration
def test_wrong_credentials(seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch, key: str, secret: str, code: str) -> None:
    """A wrong secret or key is denied at every operation, and no message holds the secret."""
    for name, value in {**seaweed.environment, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}.items():
        monkeypatch.setenv(name, value)
    store = open_objects(seaweed.url())
    for operation in OPERATIONS:
        with pytest.raises(StoreDenied, match=f"403 {code}.*Check the access key") as caught:
            operation(store)
        assert secret not in repr(caught.value) + repr(caught.value.__cause__)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_listens(operation: Callable[[ObjectStore], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed port is unreachable, within seconds, for every operation."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-of-the-tests")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    store = open_objects(f"s3://payloads/p?endpoint_url=http://127.0.0.1:{port}&region=us-east-1")
    started = time.monotonic()
    with pytest.raises(StoreUnreachable, match="Check network and endpoint") as caught:
        operation(store)
    assert time.monotonic() - started < 10
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert "a-secret-of-the-tests" not in repr(caught.value)


def test_no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Without credentials an operation is denied and says which variables to set."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = open_objects("s3://payloads/p?endpoint_url=http://127.0.0.1:9&region=us-east-1")
    with pytest.raises(StoreDenied, match="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        store.put("a", b"x")


def test_unknown_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile that no file has is a configuration error when the store is opened."""
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    with pytest.raises(ConfigurationError, match="no-such-profile"):
        open_objects("s3://payloads/p?profile=no-such-profile")


@pytest.mark.parametrize(
    ("status", "body", "kind", "advice"),
    [
        (503, s3_error("SlowDown"), StoreUnreachable, "try again later"),
        (500, s3_error("InternalError"), StoreUnreachable, "try again later"),
        (507, s3_error("XMinioStorageFull", "no space left"), StoreUnreachable, "no space left"),
        (429, s3_error("TooManyRequests"), StoreUnreachable, "try again later"),
        (400, s3_error("RequestTimeout"), StoreUnreachable, "try again later"),
        (403, s3_error("AccessDenied"), StoreDenied, "Allow these credentials s3:GetObject"),
        (403, s3_error("RequestTimeTooSkewed"), StoreDenied, "clock"),
        (400, s3_error("ExpiredToken"), StoreDenied, "Renew"),
        (400, s3_error("AuthorizationHeaderMalformed"), StoreDenied, "region"),
        (400, s3_error("WhoKnows"), StoreDenied, "Check the store's URL"),
        (501, s3_error("NotImplemented"), StoreDenied, "lacks this operation"),
        (403, b"", StoreDenied, "403"),
        (200, b"<html><body>a web server</body></html>", StoreDenied, "the answer is not S3's"),
    ],
)
def test_answers_that_say_no(
    scripted: tuple[ScriptedServer, ObjectStore], status: int, body: bytes, kind: type[StoreError], advice: str
) -> None:
    """Each way of saying no is unreachable or denied, quotes code and sentence, and says what to do."""
    server, store = scripted
    server.answers = [(status, body)]
    with pytest.raises(StoreError, match=advice) as caught:
        list(store.list("payloads/"))
    assert isinstance(caught.value, kind)
    assert f"bucket 'payloads' at {server.endpoint}: can't list p/payloads/" in str(caught.value)
    assert "a-secret-of-the-tests" not in str(caught.value)


def test_a_conflict_is_tried_again(scripted: tuple[ScriptedServer, ObjectStore]) -> None:
    """409 means that another conditional put is under way: asked again, its outcome decides."""
    server, store = scripted
    conflict = (409, s3_error("ConditionalRequestConflict"))
    server.answers = [conflict, conflict, (200, b"")]
    server.extra = {"ETag": '"e"'}
    assert store.put("k", b"x") is True
    server.answers = [conflict, (412, s3_error("PreconditionFailed"))]
    server._counter = iter((0, 1))  # type: ignore[assignment]
    assert store.put("k", b"x") is False
    assert all(headers["If-None-Match"] == "*" for headers in server.headers)


def test_a_conflict_that_does_not_end(
    scripted: tuple[ScriptedServer, ObjectStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conflict for ever is unreachable, never taken for stored."""
    server, store = scripted
    server.answers = [(409, s3_error("ConditionalRequestConflict"))]
    monkeypatch.setattr("otel_prompt_trace.store.s3.time.sleep", lambda _: None)
    with pytest.raises(StoreUnreachable, match="keep conflicting"):
        store.put("k", b"x")


def test_a_put_whose_answer_was_lost(scripted: tuple[ScriptedServer, ObjectStore]) -> None:
    """A put that was stored, but answered 500, is tried again by the client and then finds its key taken."""
    server, store = scripted
    server.answers = [(500, s3_error("InternalError")), (412, s3_error("PreconditionFailed"))]
    assert store.put("k", b"x") is False


def test_a_server_without_versions(scripted: tuple[ScriptedServer, ObjectStore]) -> None:
    """Where listing versions is not implemented there are none: a plain listing and a plain delete do."""
    server, store = scripted
    listing = (
        b'<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>p/k</Key><Size>1</Size>'
        b"<LastModified>2026-11-30T00:00:00Z</LastModified></Contents></ListBucketResult>"
    )
    server.answers = [(501, s3_error("NotImplemented")), (200, listing), (204, b"")]
    store.delete("k")
    assert server.requests[-1] == "DELETE /payloads/p/k"


def test_a_torn_answer(scripted: tuple[ScriptedServer, ObjectStore]) -> None:
    """An answer whose body has other bytes than its checksum says is unreachable, not handed on."""
    server, store = scripted
    server.answers = [(200, b"twelve bytes")]
    server.extra = {"ETag": '"e"', "x-amz-checksum-crc32": "AAAAAA=="}
    with pytest.raises(StoreUnreachable, match="Checksum"):
        store.get("k")


@pytest.mark.parametrize("operation", [*OPERATIONS[:5], OPERATIONS[6]])
@pytest.mark.parametrize("body", [b"", b"<html><body>a web server that likes everything</body></html>"])
def test_a_server_of_another_kind(
    scripted: tuple[ScriptedServer, ObjectStore], operation: Callable[[ObjectStore], object], body: bytes
) -> None:
    """A server that answers 200 to anything is no store: nothing counts as stored, and nothing as empty."""
    server, store = scripted
    server.answers = [(200, body)]
    with pytest.raises(StoreDenied, match="the answer is not S3's"):
        operation(store)


def test_a_forked_process_gets_its_own_client(moto: Any) -> None:
    """Connections are not shared with a child process."""
    store = open_objects("s3://payloads/p?region=us-east-1")
    assert isinstance(store, S3Store)
    first = store._client
    assert store._client is first
    store._pid = -1  # what a child sees: a pid that is not its own
    assert store._client is not first
    assert store._client is store._client


def test_no_spans_of_our_own_requests(moto: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instrumentations are told to keep quiet during every request, and only then."""
    from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, get_value

    store = open_objects("s3://payloads/p?region=us-east-1")
    assert isinstance(store, S3Store)
    seen: list[object] = []
    client: Any = store._client
    call: Any = client._make_api_call

    def watched(name: str, options: Any) -> Any:
        seen.append(get_value(_SUPPRESS_INSTRUMENTATION_KEY))
        return call(name, options)

    monkeypatch.setattr(client, "_make_api_call", watched)
    store.put("k", b"x")
    for _ in store.list(""):
        assert get_value(_SUPPRESS_INSTRUMENTATION_KEY) is None
    for operation in OPERATIONS[1:]:
        operation(store)
    assert len(seen) >= 8
    assert set(seen) == {True}
    assert get_value(_SUPPRESS_INSTRUMENTATION_KEY) is None


def test_endpoint_with_credentials_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that carries credentials would stand in every message: refused wherever it comes from."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://KEYID:hunter2hunter2@127.0.0.1:1")
    for endpoint in (None, "http://a:hunter2@b"):
        with pytest.raises(ConfigurationError, match="without credentials") as caught:
            S3Store("payloads", endpoint_url=endpoint)
        assert "hunter2" not in str(caught.value)


def test_endpoint_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint in boto3's own variable is used, addressed with the bucket in the path, and named in messages."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://localhost:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-of-the-tests")
    store = open_objects("s3://payloads?region=us-east-1")
    assert isinstance(store, S3Store)
    url = store._client.generate_presigned_url("get_object", Params={"Bucket": "payloads", "Key": "k"})
    assert url.startswith("http://localhost:1/payloads/k?")
    with pytest.raises(StoreUnreachable, match="at http://localhost:1"):
        store.get("k")
