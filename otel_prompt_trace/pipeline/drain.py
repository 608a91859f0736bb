"""Drain: deliver what processes that are gone have left in a spool folder.

A file is taken only if its lock is free, so that nothing of a living process is touched. It is unlinked only when
the store holds every event of it; a file with a damaged stretch is moved to ``poison/`` instead, once the good
neighbours are stored. An append at its end that was never finished is no damage: nobody was told that it was kept.

Two that drain one folder share its files: whoever has a file's lock delivers it, and whoever gets it later finds it
gone. One that is killed meanwhile leaves the file; delivering it again stores nothing twice.

It goes in steps of one query, so that whoever drains can stop, or do something else, between two of them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

from otel_prompt_trace.core.events import Problem
from otel_prompt_trace.core.qid import partition_date
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.reading import POISON, content, files
from otel_prompt_trace.pipeline.shipping import Payloads, deliverable

_OVER = object()
_held: set[int] = set()  # descriptors, and locks with them, that a forked child would keep from everybody


@dataclass(slots=True)
class DrainReport:
    """What one drain did. ``alive`` counts files that belong to running processes and were left alone.

    ``swept`` are erased ids under which something had arrived that was deleted, or could not be.
    """

    files: int = 0
    alive: int = 0
    queries: int = 0
    events: int = 0
    set_aside: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    swept: list[str] = field(default_factory=list)


def drain(
    folder: Path,
    payloads: Payloads,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    stop: Callable[[], bool] = lambda: False,
    report: DrainReport | None = None,
) -> DrainReport:
    """Deliver every waiting file of ``folder``.

    Args:
        folder: the spool folder; one that does not exist holds nothing.
        payloads: where to.
        now: the clock, for the partition of ids that carry no date.
        progress: called with the number of files done and their total.
        stop: asked between two queries; what is not delivered then stays where it is.
        report: what is done is added to it, for whoever wants to know it also when the store fails.

    Raises:
        StoreError: the store failed; what is not acknowledged stays where it is.
    """
    report = DrainReport() if report is None else report
    waiting = files(folder)
    for number, path in enumerate(waiting, 1):
        if stop():
            break
        with contextlib.closing(steps(path, payloads, now, report)) as delivering:
            while not stop() and next(delivering, _OVER) is not _OVER:
                pass
        progress(number, len(waiting))
    return report


def steps(
    path: Path, payloads: Payloads, now: Callable[[], datetime], report: DrainReport
) -> Generator[None, None, None]:
    """Deliver one file, a query a step; nothing if its owner lives or somebody else is at it.

    Raises:
        StoreError: the store failed; the file stays.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    _held.add(descriptor)
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
        by_qid: dict[str, list[tuple[str, frames.Frame]]] = {}
        for frame in found:
            by_qid.setdefault(frame.qid, []).append((writer, frame))
        unstorable: list[Problem] = []
        for number, (qid, parts) in enumerate(by_qid.items()):
            if number:
                yield
            delivery = deliverable(parts, path.name)
            if delivery.lines:
                at = now()
                elsewhere = _stored_since(qid, parts, at, begins=delivery.begins)
                payloads.write(delivery.lines, qid, at, delivery.blobs, elsewhere=elsewhere)
            unstorable += delivery.problems
            report.queries += 1
            report.events += len(delivery.lines)
        report.problems += unstorable + damaged
        if unstorable or any(not problem.reason.startswith(frames.UNFINISHED) for problem in damaged):
            _move_aside(path, report)
        else:
            path.unlink(missing_ok=True)
    finally:
        _let_go(descriptor)


def _stored_since(qid: str, parts: list[tuple[str, frames.Frame]], now: datetime, *, begins: bool) -> date | None:
    """The day since when these may be stored under another name, by an owner that was killed right after it.

    Where the query does not begin with them, what precedes them was in another file, and names the object. And an id
    without a date, or with one of long ago, is stored under the day of writing, which may have been another than now.
    """
    recorded = min(datetime.fromtimestamp(min(frame.ts for _, frame in parts) / 1e9, timezone.utc), now)
    if begins and partition_date(qid, recorded) == partition_date(qid, now):
        return None
    return recorded.date() - timedelta(days=1)  # before any day on which they can have been stored


def _move_aside(path: Path, report: DrainReport) -> None:
    folder = path.parent / POISON
    folder.mkdir(mode=0o700, exist_ok=True)
    path.rename(folder / path.name)
    report.set_aside.append(str(folder / path.name))


def _let_go(descriptor: int) -> None:
    if descriptor in _held:  # else this is a forked child, which has let go of it already
        _held.discard(descriptor)
        os.close(descriptor)


def _let_go_in_child() -> None:
    for descriptor in list(_held):
        _let_go(descriptor)


os.register_at_fork(after_in_child=_let_go_in_child)
