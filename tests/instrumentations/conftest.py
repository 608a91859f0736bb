"""Environments with real instrumentations, made once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from otel_prompt_trace.demo.model_server import ModelServer
from tests.absent import absent
from tests.instrumentations.environments import CanNotBeMade, environment

Environments = Callable[[str], Path]


@pytest.fixture(scope="session")
def environments() -> Environments:
    """The Python of an environment by its name; skips where it can't be made."""

    def python(name: str) -> Path:
        try:
            return environment(name)
        except (CanNotBeMade, OSError) as error:
            absent(f"the environment {name!r} can't be made here: {error}")

    return python


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A stand-in for a model host."""
    with ModelServer() as server:
        yield server
