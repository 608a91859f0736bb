"""Reading a spool folder: what waits there, whoever wrote it, without disturbing who is still writing."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from otel_prompt_trace.core.events import Event, Problem, distinct
from otel_prompt_trace.core.seal import seal
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.flags import LINES
from otel_prompt_trace.pipeline.spool import SUFFIX

POISON = "poison"
_ULID = 26


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """One spool file: who wrote it, since when, what is in it, and whether its owner still lives."""

    path: Path
    writer: str
    created_ns: int
    alive: bool
    events: int
    bytes: int
    qids: tuple[str, ...]
    problems: tuple[Problem, ...]


def files(folder: Path) -> list[Path]:
    """The spool files of a folder, oldest first; none where the folder does not exist."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def content(path: Path) -> tuple[str, int, list[frames.Frame], list[Problem]]:
    """Writer, time of creation, frames and problems of one file; of frames that are stored already, nothing.

    Where the header is damaged and whole frames are there, the file's own id stands for the writer, and a problem says
    so; a file without either is none of ours. A frame that stands there twice, as a file that
    was repaired or put together by hand may have it, is read once.

    Raises:
        FileNotFoundError: it was delivered meanwhile.
    """
    writer, created, found, problems = _content(path)
    if problems:  # its owner may have been changing just that while we read: what is damaged is so the next time too
        writer, created, found, problems = _content(path)
    return writer, created, found, problems


def _content(path: Path) -> tuple[str, int, list[frames.Frame], list[Problem]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:  # a folder of that name, a disk that fails: one file must not hide the others
        return "", 0, [], [Problem(path.name, 0, f"it can't be read: {error.strerror}")]
    header = frames.read_header(data)
    if header is None and not any(data):  # made, and its header not yet written
        return "", 0, [], []
    found: dict[tuple[str, int, bytes], frames.Frame] = {}
    problems = []
    for item in frames.frames(data, path.name):
        if isinstance(item, Problem):
            problems.append(item)
        else:
            found.setdefault((item.qid, item.seq, item.body), item)
    if header is not None:
        return header[0], header[1], list(found.values()), problems
    # A header that is damaged must not take the frames with it. The file's own id is nobody else's, as a writer's is.
    writer = path.name[:_ULID] if found and len(path.stem) >= _ULID else ""
    if not writer:
        return "", 0, [], [Problem(path.name, 0, "not a spool file")]
    said = f"damaged header: who wrote it is not known, its events go by the file's id {writer}"
    return writer, 0, list(found.values()), [Problem(path.name, 0, said), *problems]


def survey(folder: Path) -> Iterator[WaitingFile]:
    """What lies in a spool folder, for ``doctor``."""
    for path in files(folder):
        try:
            writer, created, found, problems = content(path)
            alive = _alive(path)
        except FileNotFoundError:  # delivered since we looked
            continue
        yield WaitingFile(
            path=path,
            writer=writer,
            created_ns=created,
            alive=alive,
            events=sum(frame.events for frame in found),
            bytes=sum(frames.size(len(frame.qid), len(frame.body)) for frame in found),
            qids=tuple(dict.fromkeys(frame.qid for frame in found)),
            problems=tuple(problems),
        )


def waiting_events(folder: Path, qid: str) -> tuple[list[Event], list[Problem]]:
    """The events of one query that lie in the spool, as the store would hold them."""
    events: list[Event] = []
    problems: list[Problem] = []
    for path in files(folder):
        try:
            writer, _, found, damaged = content(path)
        except FileNotFoundError:
            continue
        # An append that is not finished may be going on right now, and nobody was told that it is kept.
        problems += [problem for problem in damaged if not problem.reason.startswith(frames.UNFINISHED)]
        for frame in found:
            if frame.qid == qid:
                expanded = list(frames.expand(frame, writer, path.name))
                problems += [item for item in expanded if isinstance(item, Problem)]
                raw = [item for item in expanded if not isinstance(item, Problem)]
                events += raw if frame.flags & LINES else seal(raw)
    return list(distinct(events)), problems


def waiting_qids(folder: Path) -> set[str]:
    """Every qid of which something lies in the spool."""
    return {qid for file in survey(folder) for qid in file.qids}


def _alive(path: Path) -> bool:
    """Whether a process holds the file's lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
