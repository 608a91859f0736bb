"""One file of the spool: a shared mapping of a preallocated file, and its lock.

Making it takes the lock before anything is written; a file that somebody else has looked at in between is given up
for another. Removing it unlinks first and lets go of the lock after it.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from pathlib import Path

from otel_prompt_trace.pipeline import frames


class SpoolClosed(Exception):
    """Nothing can be appended, or read back, any more."""


class DamagedFrame(Exception):
    """What lies at an offset is not the frame that was appended there: somebody else wrote into the file."""


class Taken(Exception):
    """Somebody who looked through the folder had the file's lock before its owner could take it."""


class SpoolFile:
    """One file and its mapping. Not safe for several threads: :class:`Spool` holds the lock."""

    def __init__(self, path: Path, writer: str, created_ns: int, capacity: int) -> None:
        self.path = path
        self.writer = writer
        self.waiting = 0  # frames that the store has not acknowledged
        self.sealed = False
        self.closed = False
        self.end = frames.HEADER_SIZE
        self.capacity = capacity
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        try:
            self._lock()
            os.posix_fallocate(self._fd, 0, capacity)
            self._map = mmap.mmap(self._fd, capacity, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        except BaseException:
            path.unlink(missing_ok=True)
            os.close(self._fd)
            raise
        self._map[: frames.HEADER_SIZE] = frames.header(writer, created_ns)

    def room(self, size: int) -> bool:
        """Whether a frame of ``size`` bytes still fits."""
        return self.end + size <= self.capacity

    def append(self, head: bytes, body: bytes, size: int) -> int:
        """Copy a frame in, its marker last, and return its offset."""
        offset = self.end
        marker = len(frames.MARKER)
        start = offset + len(head)
        self._map[offset + marker : start] = head[marker:]
        self._map[start : start + len(body)] = body
        self._map[offset : offset + marker] = head[:marker]
        self.end = offset + size
        return offset

    def sync(self, offset: int, size: int) -> None:
        """Return when the frame is on the disk (durability ``fsync``)."""
        first = offset - offset % mmap.ALLOCATIONGRANULARITY
        self._map.flush(first, offset + size - first)

    def read(self, offset: int, length: int) -> frames.Frame:
        """The frame at an offset.

        Raises:
            DamagedFrame: it is not there.
            SpoolClosed: the file was let go of.
        """
        if self.closed:
            raise SpoolClosed
        data = bytes(frames.HEADER_SIZE) + self._map[offset : offset + length]
        found = next(frames.frames(data, self.path.name), None)
        if not isinstance(found, frames.Frame):
            raise DamagedFrame(f"{self.path.name}: damaged frame at {offset}")
        return found

    def strike(self, offset: int, length: int) -> None:
        """The store holds this frame: nobody is to read it here any more, or to deliver it again after a crash."""
        with contextlib.suppress(ValueError):  # the mapping is closed: another thread has let go of the file
            self._map[offset : offset + len(frames.DONE)] = frames.DONE
            self._map[offset + frames.FIXED : offset + length] = bytes(length - frames.FIXED)

    def remove(self) -> None:
        """Unlink the file, then let go of it: whoever waits for its lock finds it gone."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let go of mapping, descriptor and lock; the file stays. A second time does nothing."""
        if not self.closed:
            self.closed = True
            self._map.close()
            os.close(self._fd)

    def _lock(self) -> None:
        """Take the lock, unless somebody else had it since the file was made: a drain may have unlinked it."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(self._fd).st_nlink == 0:
                raise Taken
        except BlockingIOError as error:
            raise Taken from error
