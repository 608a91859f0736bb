"""Span archives in a bucket: the same spans as from files, and clear words where there are none."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from otel_prompt_trace.batch.archive import SpanArchive
from otel_prompt_trace.batch.spans import Span
from otel_prompt_trace.core.events import Problem
from otel_prompt_trace.exceptions import ArchiveError

FOLDER = "v1/spans/dt=2026-11-30/hour=12"


def traces(*span_ids: int) -> bytes:
    """One ``TracesData``, as the awss3 exporter writes it: without a line's end."""
    spans = [
        {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": f"{each:016x}", "name": "s"} for each in span_ids
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An S3 in this process with the bucket ``spans``."""
    import boto3

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-of-the-tests")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        made = boto3.client("s3")
        made.create_bucket(Bucket="spans")
        yield made


def read(*locations: str) -> tuple[list[str], list[Problem]]:
    items = list(SpanArchive(locations))
    spans = [item.span_id.lstrip("0") for item in items if isinstance(item, Span)]
    return spans, [item for item in items if isinstance(item, Problem)]


def test_objects_are_read_as_files_are(client: Any) -> None:
    """Compressed and plain, in the order of their keys, each once; what is no archive by its name is left out."""
    client.put_object(Bucket="spans", Key=f"{FOLDER}/traces_b.json.gz", Body=gzip.compress(traces(3)))
    client.put_object(Bucket="spans", Key=f"{FOLDER}/traces_a.json", Body=traces(1, 2))
    client.put_object(Bucket="spans", Key=f"{FOLDER}/notes.txt", Body=b"no spans")
    client.put_object(Bucket="spans", Key="elsewhere/traces_c.json", Body=traces(4))
    assert read("s3://spans/v1/spans", f"s3://spans/{FOLDER}/") == (["1", "2", "3"], [])
    archive = SpanArchive(["s3://spans/v1?region=us-east-1"])
    assert archive.left_out == (f"s3://spans/v1/{FOLDER.removeprefix('v1/')}/notes.txt",)
    assert {item.source for item in archive if isinstance(item, Span)} == {
        f"s3://spans/{FOLDER}/traces_a.json",
        f"s3://spans/{FOLDER}/traces_b.json.gz",
    }


def test_a_damaged_object_and_one_that_is_gone_are_problems(client: Any) -> None:
    """The others are read all the same."""
    client.put_object(Bucket="spans", Key="v1/1.json.gz", Body=gzip.compress(traces(1) * 9)[:-9])
    client.put_object(Bucket="spans", Key="v1/2.json", Body=b"{]")
    client.put_object(Bucket="spans", Key="v1/3.json", Body=traces(3))
    client.put_object(Bucket="spans", Key="v1/4.json", Body=traces(4))
    archive = SpanArchive(["s3://spans/v1"])
    client.delete_object(Bucket="spans", Key="v1/3.json")
    items = list(archive)
    assert [item.span_id.lstrip("0") for item in items if isinstance(item, Span)] == ["4"]
    reasons = {item.source: item.reason for item in items if isinstance(item, Problem)}
    assert set(reasons) == {f"s3://spans/v1/{name}" for name in ("1.json.gz", "2.json", "3.json")}
    assert "gone" in reasons["s3://spans/v1/3.json"]


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("s3://spans/nothing", "no object lies below it"),
        ("s3://absent/v1", "Create the bucket"),
        ("s3://u:p@spans/v1", "carries credentials"),
        ("s3://spans/v1?secret=x", "is no option"),
    ],
)
def test_a_location_without_an_archive_is_refused_at_once(client: Any, location: str, said: str) -> None:
    """With what to do next, and without a secret."""
    with pytest.raises(ArchiveError, match=said) as refused:
        SpanArchive([location])
    assert "u:p" not in str(refused.value)
