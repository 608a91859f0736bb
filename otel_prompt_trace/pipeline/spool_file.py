"""One file of the spool: a shared mapping of a preallocated file, and its lock.

Making it takes the lock before anything is written; a file that somebody else has looked at in between is given up
for another. Removing it unlinks first and lets go of the lock after it.

Touching a mapping beyond the end of its file kills the process. Nobody but us should cut a spool file, and yet it
happens, so before a copy the kernel is asked for the last page of it: an error says that the page is gone, where a
copy would have been a signal. That call keeps the GIL, as the copy does, and costs less than a microsecond.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
from pathlib import Path

from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.forks import NoFork

_POPULATE_READ, _POPULATE_WRITE = 22, 23  # Linux 5.14; EINVAL where the kernel does not know them
_PAGE = mmap.PAGESIZE
_CHUNK = 128 * 1024  # made present in one step, some 60 µs in which no other thread runs

# A file that is just being made is known to nobody, and a child forked at that moment would hold its lock for ever.
_making = NoFork(0.2)  # a disk that hangs must not hold up a fork


class SpoolClosed(Exception):
    """Nothing can be appended, or read back, any more."""


class DamagedFrame(Exception):
    """What lies at an offset is not the frame that was appended there: somebody else wrote into the file."""


class Taken(Exception):
    """Somebody who looked through the folder had the file's lock before its owner could take it."""


class FileCut(OSError):
    """Somebody has made the file shorter while we have it."""


class SpoolFile:
    """One file and its mapping. Not safe for several threads: :class:`Spool` holds the lock."""

    def __init__(self, path: Path, writer: str, created_ns: int, capacity: int) -> None:
        self.path = path
        self.writer = writer
        self.since_ns = created_ns  # when it was taken into use
        self.waiting = 0  # frames that the store has not acknowledged
        self.sealed = False
        self.closed = False
        self.end = frames.HEADER_SIZE
        self.capacity = capacity
        self._seen_end = 0
        self._named = False  # on the disk
        with _making.moment():
            self._fd, self._map = _make(path, capacity)
        self._map[: frames.HEADER_SIZE] = frames.header(writer, created_ns)

    def room(self, size: int) -> bool:
        """Whether a frame of ``size`` bytes still fits."""
        return self.end + size <= self.capacity

    def append(self, head: bytes, body: bytes, size: int) -> int:
        """Copy a frame in, its marker last, and return its offset.

        Raises:
            FileCut: the place is not there any more; nothing was written.
        """
        offset = self.end
        _ask(self._map, _POPULATE_WRITE, offset + size)
        marker = len(frames.MARKER)
        start = offset + len(head)
        self._map[offset + marker : start] = head[marker:]
        self._map[start : start + len(body)] = body
        self._map[offset : offset + marker] = head[:marker]
        self.end = offset + size
        return offset

    def sync(self) -> None:
        """Return when everything in the file is on the disk. Lets go of the GIL, unlike the mapping's own flush.

        Raises:
            OSError: the disk failed.
        """
        descriptor = self._fd
        try:
            os.fdatasync(descriptor)
        except OSError:
            if not self.closed and descriptor == self._fd:  # else the file was let go of, or synced in another place
                raise
        if not self._named:  # a new file's name is its folder's content
            self._named = True
            with contextlib.suppress(OSError):  # some file systems sync no folder, and then need not
                _sync_folder(self.path.parent)

    def populate(self, length: int) -> bool:
        """Make the next ``length`` bytes present, so that an append meets no page fault. Changes no byte of them.

        False where the kernel does not know how; then :meth:`touch` them.

        Raises:
            OSError: the pages can't be had: the file was cut, or the disk has no room after all.
        """
        if self._seen_end == self.end:
            return True  # nobody appends: pages that are kept dirty would be written to the disk for nothing
        self._seen_end = self.end
        with contextlib.suppress(ValueError):  # another thread has let go of the file
            start = self.end - self.end % _PAGE
            stop = min(self.end + length, self.capacity)
            for place in range(start, stop, _CHUNK):
                if not _advise(self._map, _POPULATE_WRITE, place, min(_CHUNK, stop - place)):
                    return False
        return True

    def touch(self, length: int) -> None:
        """The same on an older kernel, for whoever holds the lock: nobody else writes zeros over what is zero."""
        with contextlib.suppress(ValueError):
            for place in range(self.end + -self.end % _PAGE, min(self.end + length, self.capacity), _PAGE):
                self._map[place] = 0

    def trim(self) -> None:
        """Give back what a sealed file does not use."""
        if self.end < self.capacity and not self.closed:
            self.capacity = self.end
            with contextlib.suppress(OSError):
                if os.fstat(self._fd).st_size > self.end:
                    os.ftruncate(self._fd, self.end)

    def trouble(self) -> str | None:
        """What somebody else has done to the file: ``gone`` (deleted), ``moved``, ``cut``; None for nothing."""
        try:
            mine = os.fstat(self._fd)
        except OSError:  # another thread has let go of it
            return None
        if mine.st_nlink == 0:
            return "gone"
        if mine.st_size < min(self.capacity, self.end if self.sealed else self.capacity):
            return "cut"
        try:
            there = self.path.stat()
        except OSError:
            return "moved"
        return None if (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino) else "moved"

    def rehouse(self, path: Path) -> None:
        """Put what a deleted file holds under a new name; entries keep their offsets. Only for a sealed file.

        Raises:
            OSError, Taken: it can't be made; the file stays as it was.
        """
        with _making.moment():
            descriptor, copy = _make(path, max(self.end, _PAGE))
        try:
            _ask(self._map, _POPULATE_READ, self.end)
            copy[: self.end] = self._map[: self.end]
            os.fdatasync(descriptor)
        except (OSError, ValueError) as error:
            copy.close()
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise OSError(errno.EIO, "what waits in a deleted file can't be written out again") from error
        old_map, old_descriptor = self._map, self._fd
        self.path, self._fd, self._map, self.capacity = path, descriptor, copy, max(self.end, _PAGE)
        old_map.close()
        os.close(old_descriptor)

    def read(self, offset: int, length: int) -> frames.Frame:
        """The frame at an offset.

        Raises:
            DamagedFrame: it is not there.
            SpoolClosed: the file was let go of.
        """
        if self.closed:
            raise SpoolClosed
        mapping = self._map
        try:
            _ask(mapping, _POPULATE_READ, offset + length)
            data = bytes(frames.HEADER_SIZE) + mapping[offset : offset + length]
        except FileCut as error:
            raise DamagedFrame(f"{self.path.name}: cut off before {offset + length}") from error
        except ValueError as error:  # another thread has let go of the file just now
            raise SpoolClosed from error
        found = next(frames.frames(data, self.path.name), None)
        if not isinstance(found, frames.Frame):
            raise DamagedFrame(f"{self.path.name}: damaged frame at {offset}")
        return found

    def strike(self, offset: int, length: int) -> None:
        """The store holds this frame: nobody is to read it here any more, or to deliver it again after a crash."""
        with contextlib.suppress(ValueError, FileCut):  # the mapping is closed by another thread; or the frame is gone
            _ask(self._map, _POPULATE_WRITE, offset + length)
            self._map[offset : offset + len(frames.DONE)] = frames.DONE
            self._map[offset + frames.FIXED : offset + length] = bytes(length - frames.FIXED)

    def remove(self) -> None:
        """Unlink the file, then let go of it: whoever waits for its lock finds it gone.

        Everything in it is stored. Where it is still there (a folder that is read-only by now, or that somebody has
        moved) it is emptied.
        """
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError, ValueError):
            if not self.closed and os.fstat(self._fd).st_nlink:
                _ask(self._map, _POPULATE_WRITE, self.end)
                self._map[frames.HEADER_SIZE : self.end] = bytes(self.end - frames.HEADER_SIZE)
        self.close()

    def close(self) -> None:
        """Let go of mapping, descriptor and lock; the file stays. A second time does nothing."""
        if not self.closed:
            self.closed = True
            self._map.close()
            os.close(self._fd)


def _make(path: Path, capacity: int) -> tuple[int, mmap.mmap]:
    """A new, locked, allocated and mapped file."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor)
        os.posix_fallocate(descriptor, 0, capacity)
        return descriptor, mmap.mmap(descriptor, capacity, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        os.close(descriptor)
        raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Take the lock, unless somebody else had it since the file was made: a drain may have unlinked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink == 0:
            raise Taken
    except BlockingIOError as error:
        raise Taken from error


def _ask(mapping: mmap.mmap, advice: int, end: int) -> None:
    """Ask for the page that holds the last byte before ``end``.

    Raises:
        FileCut: it is not there.
        ValueError: the mapping is closed.
    """
    last = (end - 1) - (end - 1) % _PAGE
    try:
        _advise(mapping, advice, last, end - last)
    except OSError as error:
        raise FileCut(errno.EIO, "the spool file was cut") from error


def _advise(mapping: mmap.mmap, advice: int, start: int, length: int) -> bool:
    """Whether the kernel knows this advice."""
    try:
        mapping.madvise(advice, start, length)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    return True
