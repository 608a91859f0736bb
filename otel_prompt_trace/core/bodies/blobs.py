"""Binary strings of a body that are stored beside it, and what stands in their place while the body is read.

A filler is as long as what it stands for, and is made of the digest: so a declared image is recognised in a body whose
own image is not at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_prompt_trace.core.text import sha256_text

SMALLEST = 4096  # characters; below it a line holds them more cheaply than an object


def head_of(value: str) -> int:
    """The length of a data URL's head, which says what it is and stays in the body; 0 for any other string."""
    return (value.find(",") + 1 or len("data:")) if value.startswith("data:") else 0


def filler(sha256: str, size: int) -> str:
    """What stands in the place of ``size`` bytes that are stored under their digest."""
    return (sha256 * (size // len(sha256) + 1))[:size] if sha256 else "A" * size


def same(declared: Any, read: Any) -> bool:
    """Whether a declared JSON value is the one of a body, in which fillers may stand."""
    if isinstance(read, str):
        return bool(declared == read) or (isinstance(declared, str) and _fills(declared, read))
    if isinstance(read, Mapping):
        return (
            isinstance(declared, Mapping)
            and declared.keys() == read.keys()
            and all(same(declared[name], item) for name, item in read.items())
        )
    if isinstance(read, list):
        return isinstance(declared, list | tuple) and len(declared) == len(read) and all(map(same, declared, read))
    return bool(declared == read)


def _fills(declared: str, read: str) -> bool:
    head = head_of(declared)
    if len(read) < SMALLEST or len(declared) != len(read) or declared[:head] != read[:head]:
        return False
    return read[head:] == filler(sha256_text(declared[head:]), len(read) - head)
