"""Events written by hand, as one process would write them, and the record that they make."""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.core.events import VERSION, Event, decode, encode
from otel_prompt_trace.core.record import Record, project
from otel_prompt_trace.core.seal import keyed_digest, seal

QID = "01JDZQ4K8B0000000000000001"
WRITER = "01JDZQ4K8BWRWRWRWRWRWRWRWR"
KEY = b"a key of the tests"


class Script:
    """Collects events in the order in which they happen; each gets its time and its number."""

    def __init__(self, qid: str = QID, writer: str = WRITER) -> None:
        self.qid = qid
        self.writer = writer
        self.events: list[Event] = []

    def __call__(self, kind: str, **fields: Any) -> Event:
        """Write one event."""
        seq = len(self.events) + 1
        common = {"v": VERSION, "kind": kind, "qid": self.qid, "ts": f"2026-11-30T12:00:00.{seq:09d}Z"}
        event = {**common, "writer": self.writer, "seq": seq, **fields}
        self.events.append(event)
        return event

    def call(self, call: str, prompt: Any, *pieces: dict[str, Any], evidence: str = "declared", **fields: Any) -> None:
        """A request, after the pieces that belong to it alone."""
        for piece in pieces:
            self("piece", call=call, **piece)
        name = "prompt" if isinstance(prompt, str) else "messages"
        self("request", call=call, evidence=evidence, **{name: prompt}, **fields)

    def sealed(self, policy: str = "store") -> list[Event]:
        """The events as they are stored."""
        return seal(self.events, policy, keyed_digest(KEY))

    def record(self, policy: str = "store") -> Record:
        """The record as it is read back from its lines."""
        return read(self.sealed(policy), self.qid)


def read(events: list[Event], qid: str = QID) -> Record:
    """The record of events that went through their lines: what a reader of the store gets."""
    found = list(decode(b"".join(map(encode, events)), "by hand"))
    assert all(isinstance(item, dict) for item in found), found
    return project(qid, [item for item in found if isinstance(item, dict)])
