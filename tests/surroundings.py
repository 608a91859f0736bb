"""What of the machine reaches a test: nothing that is set for this project, or for OpenTelemetry."""

from __future__ import annotations

import os

import pytest

_SETTINGS = ("PROMPT_TRACE_", "OTEL_")


def without_settings() -> dict[str, str]:
    """The environment for another process."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}


def forget_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for this one, until the end of the test."""
    for name in os.environ.keys() - without_settings().keys():
        monkeypatch.delenv(name)
