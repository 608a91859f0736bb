"""The span archive in a bucket, as the collector writes it and as a person would look into it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.seaweed import Seaweed


@dataclass
class Bucket:
    """A bucket of the S3 server."""

    server: Seaweed
    name: str

    @property
    def variables(self) -> dict[str, str]:
        """What a collector needs to write into it, and to do so soon."""
        return {
            **self.server.environment,
            "S3_ENDPOINT": self.server.endpoint,
            "S3_BUCKET_SPANS": self.name,
            "ARCHIVE_FLUSH": "200ms",
            "ARCHIVE_RETRY_INTERVAL": "1s",
            "TAIL_DECISION_WAIT": "1s",
        }

    @property
    def url(self) -> str:
        """The archive as ``prompt-trace census --spans`` takes it."""
        return self.server.url(self.name, "v1/spans")

    def make(self, **options: Any) -> None:
        """Create it."""
        self.server.client().create_bucket(Bucket=self.name, **options)

    def objects(self) -> list[str]:
        """The keys of all objects; none where the bucket is not there."""
        client = self.server.client()
        if self.name not in {each["Name"] for each in client.list_buckets()["Buckets"]}:
            return []
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]

    def archived(self) -> list[Archived]:
        """Every span of the archive."""
        client = self.server.client()
        found: list[Archived] = []
        for key in self.objects():
            body = client.get_object(Bucket=self.name, Key=key)["Body"].read()
            found += spans_in(json.loads(gzip.decompress(body)))
        return found

    def span_ids(self) -> list[str]:
        """Of every span of the archive, with repetitions."""
        return [span.span_id for span in self.archived()]


@dataclass(frozen=True)
class Archived:
    """A span with everything around it that has attributes."""

    raw: Mapping[str, Any]
    scope: Mapping[str, Any]
    resource: Mapping[str, Any]

    @property
    def span_id(self) -> str:
        """As hex."""
        return str(self.raw["spanId"])

    @property
    def attributes(self) -> dict[str, Any]:
        """Values as they would be in Python."""
        return pairs(self.raw)

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """Name and attributes of each."""
        return [(each["name"], pairs(each)) for each in self.raw.get("events", ())]


def spans_in(traces: Mapping[str, Any]) -> Iterator[Archived]:
    """The spans of one ``TracesData``."""
    for resource in traces["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                yield Archived(span, pairs(scope.get("scope", {})), pairs(resource.get("resource", {})))


def pairs(owner: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a span, an event, a scope or a resource; no key may stand there twice."""
    listed: Sequence[Any] = owner.get("attributes", ())
    found = {pair["key"]: _value(pair["value"]) for pair in listed}
    assert len(found) == len(listed)
    return found


def _value(value: Mapping[str, Any]) -> Any:
    ((kind, inner),) = value.items() or (("stringValue", ""),)
    if kind == "arrayValue":
        return [_value(each) for each in inner.get("values", ())]
    if kind == "kvlistValue":
        return {pair["key"]: _value(pair["value"]) for pair in inner.get("values", ())}
    return int(inner) if kind == "intValue" else inner
