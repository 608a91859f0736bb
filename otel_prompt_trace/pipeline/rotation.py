"""Which file the spool appends to: one in use, the next one ready, and those of which something waits.

Invariants:

- What is slow is done ahead, by the shipper's thread in :meth:`Rotation.prepare`: pages are made present, the next
  file is made and locked, old ones are removed. A rotation is then a swap. Only the first file, a frame larger than a
  file, and a burst that outruns the shipper make one on the calling thread.
- Files that are only ready take no more than half of the folder's bound: the rest is for what waits, whoever's it is.
- What could not be made is not tried again by every append, but once a second.
- A file that somebody deletes, moves or cuts is left at the next look, or at the next append that would touch what
  is not there; what waits in a deleted one is written out again.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.spool_file import SpoolFile, Taken
from otel_prompt_trace.pipeline.spool_folder import SUFFIX, prepare_folder, usage

_TRIES = 10
_AHEAD = (256 * 1024, 4 * 1024 * 1024)  # bytes made present ahead of the end, at least and at most
_RETRY_SECONDS = 1.0
_LOOK_SECONDS = 1.0  # between two looks at the files that are sealed
_SAID = {
    "cut": "A spool file was cut by somebody else; another is used.",
    "gone": "A spool file was deleted by somebody else; what waited in it is written to another.",
    "moved": "A spool file or its folder was moved by somebody else; another file is used.",
    "late": "The disk is too slow for durability fsync: an append went on before its frame was on the disk"
    " (PROMPT_TRACE_FSYNC_MS is how long it waits).",
}


class SpoolFull(Exception):
    """The spool has reached its bound; the newest events are the ones that are lost."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one file: bytes, and the age at which it is left. Of the folder, whoever's the files are: bytes and files."""

    file_bytes: int
    max_bytes: int
    max_files: int
    max_age_ns: int


class Rotation:
    """The files of one process. Whoever calls holds ``lock``, but for :meth:`prepare`."""

    def __init__(
        self,
        folder: Path,
        lock: threading.Lock,
        bounds: Bounds,
        *,
        writer: str,
        new_id: Callable[[], str],
        now_ns: Callable[[], int],
        count: Callable[[str, str], None],
    ) -> None:
        self._folder = folder
        self._lock = lock
        self._bounds = bounds
        self._writer = writer
        self._new_id = new_id
        self._now_ns = now_ns
        self._count = count
        self.current: SpoolFile | None = None
        self.trouble: OSError | None = None  # why no file can be made just now
        self._live: set[SpoolFile] = set()  # the current one, and those of which something waits
        self._spare: SpoolFile | None = None
        self._done: list[SpoolFile] = []  # to be removed
        self._refused: tuple[int, float] | None = None  # no file of this size could be had, and till when that stands
        self._looked = self._spare_at = 0.0
        self._closed = False

    def place(self, size: int) -> SpoolFile:
        """The file for a frame of ``size`` bytes, now the current one.

        Raises:
            SpoolFull: a bound is reached.
            OSError: none can be made.
        """
        file, spare = self.current, self._spare
        if file is not None and file.room(size):
            return file
        if spare is not None and spare.room(size):
            self._spare = None
            return self._use(spare)
        capacity = max(self._bounds.file_bytes, frames.HEADER_SIZE + size)
        if self._refused is not None and capacity >= self._refused[0] and time.monotonic() < self._refused[1]:
            raise SpoolFull if self.trouble is None else OSError(self.trouble.errno, self.trouble.strerror)
        if file is not None and file.waiting == 0:
            self.leave()
        self._sweep()
        try:
            return self._use(self._make(capacity))
        except (SpoolFull, OSError) as error:
            self._refuse(capacity, error)
            raise

    def leave(self, why: str = "") -> None:
        """Append no more to the current file."""
        file, self.current = self.current, None
        if file is not None:
            file.sealed = True
            if file.waiting == 0:
                self._live.discard(file)
                self._done.append(file)
            if why:
                self.said(why)

    def distrust(self, file: SpoolFile) -> None:
        """The disk failed under a file: append no more to it."""
        if file is self.current:
            self.leave()
        else:
            self._done += self.finished({file})

    def finished(self, files: set[SpoolFile]) -> set[SpoolFile]:
        """Those of ``files`` of which nothing waits, and nothing ever will; they are no longer ours to keep."""
        done = {file for file in files if file.sealed and file.waiting == 0}
        self._live -= done
        return done

    def room_came(self) -> None:
        """Files were removed: whoever was refused for want of room may try again."""
        if self.trouble is None:
            self._refused = None

    def prepare(self, appended: int) -> bool:
        """Do ahead what an append should not have to; whether room came. ``appended`` bytes since the last time."""
        self._look_after()
        with self._lock:
            done, self._done = self._done, []
            file, sealed = self.current, [each for each in self._live if each.sealed]
        for each in done:
            each.remove()
        for each in sealed:
            each.trim()
        if file is not None:
            self._make_present(file, appended)
        return (self._wanted() and self._make_spare()) or bool(done)

    def close(self) -> None:
        """Let go of all files; those of which something waits stay where they are."""
        self._closed = True
        self.leave()
        if self._spare is not None:
            self._done.append(self._spare)
            self._spare = None
        self._sweep()
        for file in self._live:
            file.trim()
            file.close()
        self._live = set()

    def abandon(self) -> None:
        """In a forked child: let go of mappings, descriptors and locks, and touch nothing."""
        for file in (*self._live, *self._done, self._spare):
            if file is not None:
                file.close()

    def said(self, what: str) -> None:
        """Count what befell a file, and say it."""
        self._count(what, f"{_SAID[what]} Look at PROMPT_TRACE_SPOOL ({self._folder}).")

    def _use(self, file: SpoolFile) -> SpoolFile:
        self.leave()
        file.since_ns = self._now_ns()
        self._live.add(file)
        self.current = file
        return file

    def _sweep(self) -> None:
        while self._done:
            self._done.pop().remove()

    def _refuse(self, capacity: int, error: Exception) -> None:
        self._refused = capacity, time.monotonic() + _RETRY_SECONDS
        self.trouble = error if isinstance(error, OSError) else None

    def _wanted(self) -> bool:
        """Whether the next file is to be made now: the current one is half used, or one was asked for in vain."""
        if self._refused is not None and time.monotonic() < self._refused[1]:
            return False
        if self._spare is not None:  # so it was a frame larger than a file that there was no place for
            self.trouble = self._refused = None
            return False
        if self._closed or self._refused is not None:
            return not self._closed
        file = self.current
        if file is None or file.end * 2 <= file.capacity or time.monotonic() < self._spare_at:
            return False
        self._spare_at = time.monotonic() + _RETRY_SECONDS
        return usage(self._folder)[1] + self._bounds.file_bytes <= self._bounds.max_bytes // 2

    def _make_spare(self) -> bool:
        try:
            prepare_folder(self._folder)
            spare = self._make(self._bounds.file_bytes)
            spare.populate(_AHEAD[0])
        except (SpoolFull, OSError, ConfigurationError) as error:
            refused = OSError(errno.EACCES, str(error)) if isinstance(error, ConfigurationError) else error
            self._refuse(self._bounds.file_bytes, refused)
            return False
        with self._lock:
            self._spare_at = 0.0
            self.trouble = self._refused = None
            if self._closed:
                spare.remove()
            else:
                self._spare = spare
        return True

    def _make_present(self, file: SpoolFile, appended: int) -> None:
        try:
            if not file.populate(max(_AHEAD[0], min(2 * appended, _AHEAD[1]))):
                with self._lock:
                    if file is self.current:
                        file.touch(_AHEAD[0])
        except OSError:
            with self._lock:
                if file is self.current:
                    self.leave("cut")

    def _look_after(self) -> None:
        """Leave a file that is too old, or that somebody else has deleted, moved or cut."""
        now = time.monotonic()
        with self._lock:
            current, spare = self.current, self._spare
            if current is not None and self._now_ns() - current.since_ns > self._bounds.max_age_ns:
                self.leave()
            files = [] if self.current is None else [self.current]
            if now - self._looked >= _LOOK_SECONDS:
                self._looked, files = now, [*self._live]
        for file in files:
            why = None if file.closed else file.trouble()
            if why is None:
                continue
            with self._lock:
                if file is self.current:
                    self.leave(why)
                    self._refused = 0, now  # another is made at once, and its folder before it
            if why == "gone" and file.waiting:
                self._rescue(file)
        if spare is not None and spare.trouble() is not None:
            with self._lock:
                if self._spare is spare:
                    self._spare = None
                    self._done.append(spare)

    def _rescue(self, file: SpoolFile) -> None:
        """Somebody deleted a file of which something waits: write it out again, lest it go with the process."""
        with contextlib.suppress(OSError, Taken, ConfigurationError):
            prepare_folder(self._folder)
            file.rehouse(self._folder / f"{self._new_id()}{SUFFIX}")

    def _make(self, capacity: int) -> SpoolFile:
        count, total = usage(self._folder)
        if total + capacity > self._bounds.max_bytes or count >= self._bounds.max_files:
            raise SpoolFull
        for _ in range(_TRIES):
            path = self._folder / f"{self._new_id()}{SUFFIX}"
            try:
                return SpoolFile(path, self._writer, self._now_ns(), capacity)
            except Taken:
                continue
            except FileNotFoundError:  # somebody has removed the folder: one of ours again, at once
                try:
                    prepare_folder(self._folder)
                except ConfigurationError as error:
                    raise PermissionError(errno.EACCES, str(error)) from error
        raise BlockingIOError(errno.EWOULDBLOCK, "somebody locks every new file in the spool")
