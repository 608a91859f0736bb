"""The environment that the servers are installed in, made once and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.absent import absent
from tests.instrumentations.environments import CanNotBeMade, environment


@pytest.fixture(scope="session")
def python() -> Path:
    """Its Python; skips where it can't be made."""
    try:
        return environment("servers")
    except (CanNotBeMade, OSError) as error:
        absent(f"the environment of the servers can't be made here: {error}")
