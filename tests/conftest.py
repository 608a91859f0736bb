"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import gc
import os

import pytest

from tests.absent import VARIABLE

pytest_plugins = ["tests.seaweed", "tests.binaries.building", "pytester"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow, unless it is named: ``-m slow``."""
    if "slow" not in config.option.markexpr and os.environ.get(VARIABLE) != "1":
        for item in items:
            if item.get_closest_marker("slow") is not None:
                item.add_marker(pytest.mark.skip(reason="takes minutes: run it with -m slow"))


def pytest_collection_finish() -> None:
    """Thousands of tests stay as long as they run: no collection of garbage looks at them again."""
    gc.collect()
    gc.freeze()
