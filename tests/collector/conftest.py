"""Collectors, Jaeger and buckets for the tests of this folder, each as a test needs it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.collector.bucket import Bucket
from tests.collector.running import Collector, Jaeger
from tests.seaweed import Seaweed

StartCollector = Callable[..., Collector]


@pytest.fixture
def start_collector(collector_binary: Path, tmp_path: Path) -> Iterator[StartCollector]:
    """Start a collector with a configuration; what still runs at the end of the test is ended."""
    started: list[Collector] = []

    def start(config: str, **variables: str) -> Collector:
        started.append(Collector(collector_binary, config, tmp_path, variables))
        return started[-1]

    yield start
    for each in started:
        each.program.stop()


@pytest.fixture(scope="session")
def jaeger(jaeger_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    """Jaeger with the project's configuration; all tests put their traces into it."""
    made = Jaeger(jaeger_binary, tmp_path_factory.mktemp("jaeger"))
    yield made
    made.program.stop()


@pytest.fixture
def spans_bucket(seaweed: Seaweed) -> Bucket:
    """An empty bucket of a real S3 server."""
    bucket = Bucket(seaweed, f"spans-{uuid.uuid4().hex[:12]}")
    bucket.make()
    return bucket
