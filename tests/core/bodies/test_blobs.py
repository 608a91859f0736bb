"""A declared value against one of a body in which fillers stand for what is stored beside it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from otel_prompt_trace.core.bodies.blobs import SMALLEST, filler, head_of, same

DATA = "QUJD" * 2000
HEAD = "data:image/png;base64,"


def stored(data: str) -> str:
    return filler(hashlib.sha256(data.encode()).hexdigest(), len(data))


@pytest.mark.parametrize(
    ("declared", "read", "expected"),
    [
        (DATA, DATA, True),
        (DATA, stored(DATA), True),
        (HEAD + DATA, HEAD + stored(DATA), True),
        ({"url": HEAD + DATA, "n": 1}, {"url": HEAD + stored(DATA), "n": 1}, True),
        ([{"data": DATA}, "x"], [{"data": stored(DATA)}, "x"], True),
        (({"data": DATA},), [{"data": stored(DATA)}], True),
        (DATA[:-1] + "x", stored(DATA), False),
        (HEAD + DATA, "data:image/gif;base64," + stored(DATA), False),
        (DATA, stored(DATA)[:-1], False),
        ({"data": DATA}, {"data": stored(DATA), "more": 1}, False),
        ({"data": DATA}, [stored(DATA)], False),
        ([DATA, DATA], [stored(DATA)], False),
        ("x", stored("x"), False),
        (None, stored(DATA), False),
        (DATA, None, False),
        (1, 1, True),
        (None, None, True),
    ],
)
def test_the_same(declared: Any, read: Any, expected: bool) -> None:
    """Only what has the digest, the length and the head of what was sent."""
    assert same(declared, read) is expected


def test_fillers() -> None:
    """As long as what they stand for, different for different bytes; a short one is compared as it is."""
    assert len(DATA) > SMALLEST
    assert [len(filler("ab", size)) for size in (0, 1, 5)] == [0, 1, 5]
    assert len(filler("", 7)) == 7
    assert stored(DATA) != stored(DATA[::-1])


@pytest.mark.parametrize(("value", "head"), [(HEAD + "x", 22), ("data:x", 5), ("x,y", 0), ("", 0), ("data:,x", 6)])
def test_heads(value: str, head: int) -> None:
    """What says what a data URL holds."""
    assert head_of(value) == head
