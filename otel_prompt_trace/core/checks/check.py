"""A check's outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["pass", "fail", "unknown"]
Outcome = tuple[Status, str]  # with the detail


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a call (``call`` is its number) or of the whole query (``call`` is None)."""

    name: str
    status: Status
    detail: str
    call: int | None = None
