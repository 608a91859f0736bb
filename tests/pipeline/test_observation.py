"""What the pipeline says of itself: metrics through OpenTelemetry's API, and what is made of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from otel_prompt_trace import observation
from otel_prompt_trace.current import set_current
from otel_prompt_trace.pipeline.accounting import REASONS
from otel_prompt_trace.pipeline.flags import END
from otel_prompt_trace.runtime import Runtime
from tests.pipeline.fakes import FakePayloads
from tests.waiting import until

Run = Callable[..., Runtime]
Points = dict[str, dict[str, Any]]

_CONFIG = Path(__file__).parents[2] / "collector-config" / "observability"
_NAMES = {
    "prompt_trace.event.recorded", "prompt_trace.event.processed", "prompt_trace.event.adopted",
    "prompt_trace.queue.size", "prompt_trace.queue.age", "prompt_trace.spool.usage", "prompt_trace.spool.limit",
    "prompt_trace.ship.duration",
}  # fmt: skip


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """A reader whose provider is the one that runtimes of the test find."""
    found = InMemoryMetricReader()
    provider = MeterProvider([found], shutdown_on_exit=False)
    monkeypatch.setattr("otel_prompt_trace.observation.metrics.get_meter_provider", lambda: provider)
    monkeypatch.setattr("opentelemetry.metrics._internal.get_meter_provider", lambda: provider)
    yield found
    set_current(None)
    provider.shutdown()


def _points(reader: InMemoryMetricReader) -> Points:
    """Each metric's points: by the value of ``error.type``, empty for none."""
    data = reader.get_metrics_data()
    return {
        metric.name: {str((point.attributes or {}).get("error.type", "")): point for point in metric.data.data_points}
        for resource in (data.resource_metrics if data is not None else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if scope.scope.name == observation.METER
    }


def _values(points: Points, name: str) -> dict[str, Any]:
    return {error: point.value for error, point in points.get(name, {}).items()}


def test_the_books_as_metrics(run: Run, payloads: FakePayloads, reader: InMemoryMetricReader) -> None:
    """Recorded is stored, lost by reason, and waiting, at each moment; the histogram counts each write."""
    runtime = run()
    set_current(runtime)
    payloads.failures = 1
    runtime.append("q", [{"kind": "query"}, {"kind": "end"}], flags=END)
    runtime.append("bad", [{"kind": "nonsense"}, {"kind": "query"}], flags=END)
    assert runtime.flush(20).delivered
    payloads.failures = 1_000_000
    runtime.append("waits", [{"kind": "query"}])
    points = _points(reader)
    assert set(points) == _NAMES
    assert _values(points, "prompt_trace.event.recorded") == {"": 5}
    none_lost = dict.fromkeys(REASONS, 0)
    assert _values(points, "prompt_trace.event.processed") == {**none_lost, "": 3, "set_aside": 1}
    assert _values(points, "prompt_trace.event.adopted") == {"": 0}
    assert _values(points, "prompt_trace.queue.size") == {"": 1}
    assert _values(points, "prompt_trace.spool.limit") == {"": runtime.settings.spool_max_bytes}
    on_disk = sum(path.stat().st_size for path in runtime.settings.spool.glob("*.spool"))
    assert _values(points, "prompt_trace.spool.usage") == {"": on_disk}
    duration = points["prompt_trace.ship.duration"]
    assert {error: point.count for error, point in duration.items()} == {"": 2, "StoreUnreachable": 1}


def test_the_oldest_event_that_waits(
    run: Run, payloads: FakePayloads, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its age grows while the store is down, is not that of what came later, and is nothing once all is stored."""
    runtime = run()
    set_current(runtime)
    payloads.failures = 1_000_000
    runtime.append("first", [{"kind": "query"}])
    until(lambda: runtime._shipper._index.queries)
    ahead = [0.0]
    real = time.monotonic
    monkeypatch.setattr("otel_prompt_trace.pipeline.shipper.time.monotonic", lambda: real() + ahead[0])
    ahead[0] = 1000.0
    runtime.append("second", [{"kind": "query"}])
    until(lambda: len(runtime._shipper._index.queries) == 2)
    (age,) = _values(_points(reader), "prompt_trace.queue.age").values()
    assert 1000 <= age < 1100
    payloads.failures = 0
    assert runtime.flush(20).ok
    assert _values(_points(reader), "prompt_trace.queue.age") == {"": 0.0}


def test_an_event_that_no_thread_has_looked_at_has_an_age(
    run: Run, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shipper that hangs, or is dead, is where it matters most."""
    runtime = run()
    set_current(runtime)
    runtime._recorder._on_append = lambda: None
    runtime.append("q", [{"kind": "query"}])
    runtime._shipper._looked -= 500
    (age,) = _values(_points(reader), "prompt_trace.queue.age").values()
    assert 500 <= age < 600


def test_in_memory_the_bytes_are_those_that_wait(
    run: Run, payloads: FakePayloads, reader: InMemoryMetricReader
) -> None:
    """There is no folder; the bound is the one of that mode."""
    payloads.failures = 1_000_000
    runtime = run(durability="memory")
    set_current(runtime)
    runtime.append("q", [{"kind": "query", "question": "x" * 1000}])
    points = _points(reader)
    assert 1000 < _values(points, "prompt_trace.spool.usage")[""] < 1300
    assert _values(points, "prompt_trace.spool.limit") == {"": runtime.settings.memory_max_bytes}


def test_nothing_is_observed_while_nothing_is_installed(run: Run, reader: InMemoryMetricReader) -> None:
    """Instruments can't be taken back; after ``uninstall`` they say nothing, and a second runtime makes no others."""
    set_current(run())
    assert set(_points(reader)) >= _NAMES - {"prompt_trace.ship.duration"}
    set_current(None)
    assert _points(reader) == {}
    set_current(run())
    assert set(_points(reader)) >= _NAMES - {"prompt_trace.ship.duration"}


def test_a_meter_provider_that_is_set_later_is_used(tmp_path: Path) -> None:
    """Under zero-code instrumentation nobody says in which order things are set up; no instrument is made twice."""
    script = """
        import logging
        import otel_prompt_trace as pt
        from opentelemetry import metrics
        logging.basicConfig()
        pt.install(store="store", spool="spool", wire="off")
        pt.install(store="store", spool="spool", wire="off", policy="hash")
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        reader = InMemoryMetricReader()
        metrics.set_meter_provider(MeterProvider([reader]))
        pt.install(store="store", spool="spool", wire="off")
        with pt.query():
            pass
        assert pt.flush(20).ok
        (resource,) = reader.get_metrics_data().resource_metrics
        print(*sorted(metric.name for scope in resource.scope_metrics for metric in scope.metrics))
    """
    lines = "\n".join(line[8:] for line in script.splitlines())
    done = subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) >= _NAMES
    assert "already" not in done.stderr


def test_a_reader_costs_recording_nothing(run: Run, reader: InMemoryMetricReader) -> None:
    """No instrument is touched by an append: it is the reader that looks."""
    runtime = run()
    set_current(runtime)
    runtime._recorder._on_append = lambda: None
    called: list[object] = []
    sys.setprofile(lambda _frame, event, what: called.append(what) if event == "c_call" else called.append(_frame))
    try:
        runtime.append("q", [{"kind": "query"}])
    finally:
        sys.setprofile(None)
    files = {frame.f_code.co_filename for frame in called if hasattr(frame, "f_code")}
    assert files
    assert not {name for name in files if "metrics" in name or name.endswith("otel_prompt_trace/observation.py")}


def _exposed(name: str, unit: str, kind: str) -> set[str]:
    """The names that Prometheus knows a metric by."""
    base = name.replace(".", "_") + {"s": "_seconds", "By": "_bytes"}.get(unit, "")
    if kind == "Histogram":
        return {f"{base}_bucket", f"{base}_count", f"{base}_sum"}
    return {f"{base}_total" if kind == "Counter" else base}


@pytest.mark.parametrize("name", ["alerts.yaml", "dashboard.json"])
def test_each_metric_that_is_charted_or_alerted_on_exists(
    name: str, run: Run, payloads: FakePayloads, reader: InMemoryMetricReader
) -> None:
    """By the name that Prometheus gives it; and every metric is made use of in one or the other."""
    runtime = run()
    set_current(runtime)
    runtime.append("q", [{"kind": "end"}], flags=END)
    assert runtime.flush(20).ok
    data = reader.get_metrics_data()
    assert data is not None
    there: set[str] = set()
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        kind = type(metric.data).__name__
        if kind == "Sum":
            kind = "Counter" if metric.data.is_monotonic else "UpDownCounter"
        there |= _exposed(metric.name, metric.unit or "", kind)
    used = set(re.findall(r"prompt_trace_\w+", (_CONFIG / name).read_text()))
    assert used
    assert used <= there
    if name == "dashboard.json":
        assert {re.sub(r"_(bucket|count|sum)$", "", each) for each in there} == {
            re.sub(r"_(bucket|count|sum)$", "", each) for each in used
        }


def test_the_alerts_are_rules_and_the_dashboard_is_one() -> None:
    """They parse: each rule has an expression, a severity and a summary, each panel a query."""
    yaml = pytest.importorskip("yaml")
    rules = yaml.safe_load((_CONFIG / "alerts.yaml").read_text())["groups"][0]["rules"]
    assert {"PromptTraceEventsLost", "PromptTraceEventsWait"} <= {rule["alert"] for rule in rules}
    assert all(rule["expr"] and rule["labels"]["severity"] and rule["annotations"]["summary"] for rule in rules)
    dashboard = json.loads((_CONFIG / "dashboard.json").read_text())
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"]) >= 8
    assert all(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
