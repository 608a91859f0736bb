"""Waiting for a condition instead of sleeping for a time."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Return as soon as ``condition`` holds; fail if it does not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {condition}")
        time.sleep(0.005)


def remove_in_use(folder: Path, seconds: float = 5.0) -> None:
    """Remove a folder in which somebody still makes files: what is made in the middle of it is removed too."""

    def is_gone() -> bool:
        with contextlib.suppress(OSError):  # a new file: ENOTEMPTY
            shutil.rmtree(folder)
            return True
        return False

    until(is_gone, seconds)
