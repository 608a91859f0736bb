"""What a test needs and this machine lacks: a reason to skip, and on a machine that must have it all, to fail."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

VARIABLE = "TESTS_MUST_ALL_RUN"  # set where a skipped test would go unnoticed
_MUST_RUN = os.environ.get(VARIABLE) == "1"


def absent(reason: str) -> NoReturn:
    """Skip the test, or, where all must run, fail it."""
    if _MUST_RUN:
        pytest.fail(f"{reason} ({VARIABLE}=1: nothing may be skipped)")
    pytest.skip(reason)
