"""Many requests at once, also while the interpreter exits."""

from __future__ import annotations

import subprocess
import sys

import pytest

from otel_prompt_trace.store.fanout import each

_AT_EXIT = """
import atexit
from otel_prompt_trace.store.fanout import each

atexit.register(lambda: print(each(str, [1, 2, 3])))
"""


def test_answers_come_in_the_order_of_the_items() -> None:
    """Of none, of one, and of more than there are threads."""
    for count in (0, 1, 40):
        assert each(lambda number: number * 2, range(count)) == [number * 2 for number in range(count)]


@pytest.mark.parametrize("before", ["", "each(str, [1, 2])"])
def test_no_pool_is_made_while_the_interpreter_exits(before: str) -> None:
    """Neither the first one nor a further one: they are asked one after the other."""
    done = subprocess.run(
        [sys.executable, "-c", _AT_EXIT + before], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("['1', '2', '3']\n", "")
