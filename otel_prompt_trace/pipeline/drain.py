"""Drain: deliver what processes that are gone have left in a spool folder.

A file is taken only if its lock is free, so that nothing of a living process is touched. It is unlinked only when
the store holds every event of it; a file with a damaged stretch is moved to ``poison/`` instead, once the good
neighbours are stored. An append at its end that was never finished is no damage: nobody was told that it was kept.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from otel_prompt_trace.core.events import Problem
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.reading import POISON, content, files
from otel_prompt_trace.pipeline.shipping import Payloads, deliverable


@dataclass(slots=True)
class DrainReport:
    """What one drain did. ``alive`` counts files that belong to running processes and were left alone."""

    files: int = 0
    alive: int = 0
    queries: int = 0
    events: int = 0
    set_aside: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def drain(
    folder: Path,
    payloads: Payloads,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> DrainReport:
    """Deliver every waiting file of ``folder``.

    Args:
        folder: the spool folder; one that does not exist holds nothing.
        payloads: where to.
        now: the clock, for the partition of ids that carry no date.
        progress: called with the number of files done and their total.

    Raises:
        StoreError: the store failed; what is not acknowledged stays where it is.
    """
    report = DrainReport()
    waiting = files(folder)
    for number, path in enumerate(waiting, 1):
        _drain_file(path, payloads, now, report)
        progress(number, len(waiting))
    return report


def _drain_file(path: Path, payloads: Payloads, now: Callable[[], datetime], report: DrainReport) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            report.alive += 1
            return
        try:
            writer, _, found, damaged = content(path)
        except FileNotFoundError:
            return  # delivered by another, between our look and our lock
        report.files += 1
        unstorable = _deliver(writer, found, payloads, path.name, now(), report)
        report.problems += damaged
        if unstorable or any(not problem.reason.startswith(frames.UNFINISHED) for problem in damaged):
            _move_aside(path, report)
        else:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _deliver(
    writer: str, found: list[frames.Frame], payloads: Payloads, source: str, now: datetime, report: DrainReport
) -> list[Problem]:
    by_qid: dict[str, list[tuple[str, frames.Frame]]] = {}
    for frame in found:
        by_qid.setdefault(frame.qid, []).append((writer, frame))
    unstorable: list[Problem] = []
    for qid, parts in by_qid.items():
        delivery = deliverable(parts, source)
        unstorable += delivery.problems
        delivery.write(payloads, qid, now)
        report.queries += 1
        report.events += len(delivery.lines)
    report.problems += unstorable
    return unstorable


def _move_aside(path: Path, report: DrainReport) -> None:
    folder = path.parent / POISON
    folder.mkdir(mode=0o700, exist_ok=True)
    path.rename(folder / path.name)
    report.set_aside.append(str(folder / path.name))
