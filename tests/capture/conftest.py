"""An installation of its own for each test, undone after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_prompt_trace as pt
from tests.capture.recording import Recording, fixed_sources
from tests.surroundings import forget_settings


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the machine reaches a test, and no test writes outside its folder."""
    forget_settings(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Callable[..., Recording]]:
    """Install with a store, a spool, spans and sources of the test's own; arguments as of ``install()``."""
    providers: list[TracerProvider] = []

    def begin(**settings: Any) -> Recording:
        exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        providers.append(provider)
        given: dict[str, Any] = {"store": str(tmp_path / "store"), "spool": str(tmp_path / "spool")}
        given |= {"sources": fixed_sources(), **settings}
        assert pt.install(tracer_provider=provider, **given)
        return Recording(Path(given["store"]), Path(given["spool"]), provider, exporter)

    yield begin
    pt.uninstall()
    for provider in providers:
        provider.shutdown()


@pytest.fixture
def recording(install: Callable[..., Recording]) -> Recording:
    """An installation with the defaults."""
    return install()
