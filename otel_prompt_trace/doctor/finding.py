"""What one look found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what was seen, and what to do where it is not ok.

    ``unknown`` means that it could not be found out: never that it is well.
    """

    name: str
    status: Status
    detail: str
    advice: str = ""
