"""Runs of pytest within a test, each in a process and a folder of its own, with the plugin loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import otel_prompt_trace
from otel_prompt_trace.redirection import VARIABLE

PACKAGE = Path(otel_prompt_trace.__file__).parents[1]
PLUGIN = "otel_prompt_trace.pytest_plugin"

RunPytest = Callable[..., pytest.RunResult]


@pytest.fixture
def run_pytest(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RunPytest:
    """Run pytest over files given by name (``test_it="…"``) with options; warnings are errors there as well."""
    for name in list(os.environ):
        if name.startswith(("PROMPT_TRACE_", "OTEL_", "PYTEST_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    pytester.makeini("[pytest]\naddopts = --strict-markers --strict-config -W error")

    def run(*options: str, ini: str = "", **files: str) -> pytest.RunResult:
        if ini:
            pytester.makeini(f"[pytest]\naddopts = --strict-markers --strict-config -W error\n{ini}")
        pytester.makepyfile(**files)
        return pytester.runpytest_subprocess("-p", PLUGIN, "-p", "no:cacheprovider", *options, timeout=120)

    assert VARIABLE not in os.environ
    return run
