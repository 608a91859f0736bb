"""Recording programs, and the host that they ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.running import Program, model_host

Start = Callable[..., Program]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Begin a program that records into the folder of the test, or where it is told to."""
    with ExitStack() as stack:
        host = stack.enter_context(model_host())

        def begin(store: str | None = None, spool: Path | None = None, **config: Any) -> Program:
            return stack.enter_context(
                Program(
                    tmp_path, store or str(tmp_path / "store"), spool or tmp_path / "spool", host=host.port, **config
                )
            )

        yield begin
