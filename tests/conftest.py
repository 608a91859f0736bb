"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import pytest

pytest_plugins = ["tests.seaweed"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow, unless it is named: ``-m slow``."""
    if "slow" not in config.option.markexpr:
        for item in items:
            if item.get_closest_marker("slow") is not None:
                item.add_marker(pytest.mark.skip(reason="takes minutes: run it with -m slow"))
