"""What a suspected producer took in, and where it stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a producer took in: a gap, or what ``producer`` declared, as it last stood before.

    ``chars`` are those of the text that holds it now, at ``path``.
    """

    producer: str | None
    qid: str
    call: str
    path: str
    chars: int

    def __str__(self) -> str:
        what = "a gap" if self.producer is None else f"what {self.producer} declared"
        return f"{self.chars:,} characters at {self.path}: {what} before, in {self.qid}"


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One call in which a suspected producer stands, with what it took in over the calls."""

    qid: str
    call: str
    number: int
    producer: str
    evidence: tuple[Evidence, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON carries it."""
        return {
            "qid": self.qid,
            "call": self.call,
            "producer": self.producer,
            "evidence": [
                {"producer": e.producer, "qid": e.qid, "call": e.call, "path": e.path, "chars": e.chars}
                for e in self.evidence
            ],
        }


def by_producer(found: Iterable[Suspicion]) -> list[str]:
    """A line for each suspected producer: where it stands, and what it took in."""
    calls: dict[tuple[str, tuple[Evidence, ...]], list[Suspicion]] = {}
    for suspicion in found:
        calls.setdefault((suspicion.producer, suspicion.evidence), []).append(suspicion)
    return [
        f"{producer} in {len(of)} call(s), first in {of[0].qid}: {'; '.join(map(str, evidence))}"
        for (producer, evidence), of in calls.items()
    ]
