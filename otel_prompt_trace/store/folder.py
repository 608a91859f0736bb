"""A folder as object store: the same keys as files, which DuckDB or ``zstdcat | jq`` read in place.

Invariants:

- A file appears under its name whole or not at all: it is written and synced under a hidden name in the same folder,
  then hard-linked to its final name, which fails if that name is taken. Then the folders above are synced: its own
  and the one around that each time, those further up once for as long as they stand.
- No listing shows a hidden name. A write that was killed halfway leaves one; :meth:`FolderStore.versions` counts it
  as a rest of its key and :meth:`FolderStore.delete` removes it, so that an erasure leaves no content behind.
- Folders are 0700, files 0600, and the root belongs to the user that runs. Listings do not follow symbolic links.
- Reading never creates anything: a missing root is an empty store until the first put.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from otel_prompt_trace.core.keys import check_key, check_prefix
from otel_prompt_trace.exceptions import (
    ConfigurationError,
    NotFound,
    StoreDenied,
    StoreError,
    StoreUnreachable,
)
from otel_prompt_trace.store.objects import ObjectInfo

__all__ = ["FolderStore"]

_HIDDEN = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.tmp")
_MEND = (
    StoreDenied,
    "Check the owner and mode of the folder, and whether its file system is writable and has hard links",
)
_FULL = (StoreUnreachable, "Free some space, or name another place in PROMPT_TRACE_STORE")
_PASSING = (StoreUnreachable, "Check the file system and this process's limits, then try again")
_NEXT: dict[int, tuple[type[StoreError], str]] = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, errno.EOPNOTSUPP, errno.EMLINK), _MEND),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _FULL),
    **dict.fromkeys((errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EMFILE, errno.ENFILE, errno.ENOMEM), _PASSING),
}
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_ATTEMPTS = 16


class FolderStore:
    """An object store in the folder ``path`` (``~`` is expanded), created at the first put.

    Raises:
        ConfigurationError: ``path`` is no folder, or belongs to another user.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self._root = Path(path).expanduser().absolute()
        except RuntimeError as error:  # ~ of a user that does not exist
            raise ConfigurationError(f"{os.fspath(path)!r} can't be a store's folder: {error}") from error
        self._settled: tuple[Path, int, int] | None = None  # a folder that is on disk up to the root: path and inode
        with self._explained("open it"):
            self._check_root()

    @property
    def url(self) -> str:
        """``file://`` and the absolute path."""
        return self._root.as_uri()

    def __repr__(self) -> str:
        return f"FolderStore({os.fspath(self._root)!r})"

    def put(self, key: str, data: bytes) -> bool:
        """See :meth:`ObjectStore.put <otel_prompt_trace.store.objects.ObjectStore.put>`."""
        target = self._root / check_key(key)
        with self._explained(f"store {key}"):
            for _ in range(_ATTEMPTS):
                # The folder, or the hidden file in it, vanishes under a delete at the same time: once more, then.
                with contextlib.suppress(FileNotFoundError):
                    made = self._make(target.parent)
                    self._check_root()
                    return self._put(target, data, new=made)
        raise StoreUnreachable(f"{self.url}: can't store {key}: its folder can't be made, or keeps being deleted")

    def get(self, key: str) -> bytes:
        """See :meth:`ObjectStore.get <otel_prompt_trace.store.objects.ObjectStore.get>`."""
        return self._read(key, 0, -1)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See :meth:`ObjectStore.get_range <otel_prompt_trace.store.objects.ObjectStore.get_range>`."""
        if start < 0 or length < 1:
            raise ValueError("a range starts at 0 or later and has at least 1 byte")
        return self._read(key, start, length)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See :meth:`ObjectStore.list <otel_prompt_trace.store.objects.ObjectStore.list>`."""
        for key in self._walk(prefix):
            with self._explained(f"list {prefix}"):
                try:
                    status = (self._root / key).lstat()
                except FileNotFoundError:  # deleted meanwhile
                    continue
            yield ObjectInfo(key, status.st_size, datetime.fromtimestamp(status.st_mtime, timezone.utc))

    def folders(self, prefix: str, *, deleted: bool = False) -> Iterator[str]:
        """See :meth:`ObjectStore.folders <otel_prompt_trace.store.objects.ObjectStore.folders>`."""
        del deleted  # a folder has no versions: what is gone is gone
        folder, partial = self._split(prefix)
        for name in self._entries(folder, hidden=False):
            if name.endswith("/") and name.startswith(partial):
                yield name[:-1]

    def delete(self, key: str) -> None:
        """See :meth:`ObjectStore.delete <otel_prompt_trace.store.objects.ObjectStore.delete>`."""
        target = self._root / check_key(key)
        with self._explained(f"delete {key}"):
            try:
                files = tuple(target.parent.iterdir())
            except (FileNotFoundError, NotADirectoryError):
                return
            for file in files:
                if target.name in {file.name, _visible(file.name)} and not file.is_dir():
                    file.unlink(missing_ok=True)
            self._tidy(target.parent)

    def versions(self, prefix: str) -> Iterator[str]:
        """See :meth:`ObjectStore.versions <otel_prompt_trace.store.objects.ObjectStore.versions>`."""
        return self._walk(prefix, hidden=True)

    def _put(self, target: Path, data: bytes, *, new: bool) -> bool:
        if not new and os.path.lexists(target):
            if target.is_dir():  # never so among our keys; it must not pass for an object that is stored
                raise IsADirectoryError(errno.EISDIR, "is a folder")
            self._settle(target.parent)  # whoever stored it may not have come to this yet
            return False
        hidden = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
        try:
            _write(hidden, data)
            os.link(hidden, target)
            stored = True
        except FileExistsError:
            stored = False
        finally:
            hidden.unlink(missing_ok=True)
        self._settle(target.parent)
        return stored

    def _read(self, key: str, start: int, length: int) -> bytes:
        with self._explained(f"read {key}"):
            try:
                with os.fdopen(os.open(self._root / check_key(key), _READ), "rb") as file:
                    file.seek(start)
                    return file.read(length)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise NotFound(f"{self.url} holds no object {key}") from None

    def _walk(self, prefix: str, *, hidden: bool = False) -> Iterator[str]:
        folder, partial = self._split(prefix)
        for name in self._entries(folder, hidden=hidden):
            if not name.startswith(partial):
                continue
            if name.endswith("/"):
                yield from self._walk(folder + name, hidden=hidden)
            else:
                yield folder + name

    def _entries(self, folder: str, *, hidden: bool) -> Sequence[str]:
        """Names below ``folder`` in the order of keys, folders with their ``/``, each once."""
        with self._explained(f"list {folder}"):
            try:
                with os.scandir(self._root / folder) as entries:
                    names = [_name(entry, hidden=hidden) for entry in entries]
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted({name for name in names if name})

    def _make(self, folder: Path) -> bool:
        """Whether the folder was made now, and so is empty."""
        try:
            folder.mkdir(0o700)
        except FileExistsError:
            return False
        except FileNotFoundError:
            self._make(folder.parent)
            try:
                folder.mkdir(0o700)
            except FileExistsError:
                return False
        if len(folder.parts) <= len(self._root.parts):  # one below the root is synced with what is put into it
            _sync(folder.parent)
        return True

    def _settle(self, folder: Path) -> None:
        # Also the folders above: another process may have made them and not have synced them yet.
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile, and so is the object
            _sync(folder)
            if folder == self._root:
                return
            folder = folder.parent
            _sync(folder)
            status = folder.stat()
            settled = (folder, status.st_dev, status.st_ino)
            if settled == self._settled:
                return
            while folder != self._root:
                folder = folder.parent
                _sync(folder)
            self._settled = settled

    def _tidy(self, folder: Path) -> None:
        self._settled = None
        with contextlib.suppress(FileNotFoundError):  # another delete was faster
            while folder != self._root:
                _sync(folder)
                try:
                    folder.rmdir()
                except OSError:  # not empty, or already gone
                    return
                folder = folder.parent
            _sync(folder)

    def _check_root(self) -> None:
        try:
            status = self._root.stat()
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(status.st_mode):
            raise ConfigurationError(f"{self._root} is not a folder; name another in PROMPT_TRACE_STORE")
        if status.st_uid != os.geteuid():
            raise ConfigurationError(
                f"{self._root} belongs to user id {status.st_uid}, not to the one that runs this ({os.geteuid()}): "
                "prompts are not written where another user can read or replace them; "
                "name a folder of your own in PROMPT_TRACE_STORE"
            )

    @staticmethod
    def _split(prefix: str) -> tuple[str, str]:
        folder, slash, partial = check_prefix(prefix).rpartition("/")
        return folder + slash, partial

    @contextlib.contextmanager
    def _explained(self, action: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = f"{self._root}: can't {action}: {os.strerror(error.errno or 0)}"
            kind, following = _NEXT.get(error.errno or 0, (StoreDenied, "Name another place in PROMPT_TRACE_STORE"))
            raise kind(f"{where}. {following}") from error


def _visible(hidden: str) -> str | None:
    """The final name of a hidden file, None for any other name."""
    match = _HIDDEN.fullmatch(hidden)
    return match["name"] if match else None


def _name(entry: os.DirEntry[str], *, hidden: bool) -> str | None:
    name = (_visible(entry.name) if hidden else None) or entry.name
    try:
        check_key(name)
    except ValueError:  # nothing of ours
        return None
    if entry.is_dir(follow_symlinks=False):
        return name + "/"
    return name if entry.is_file(follow_symlinks=False) else None


def _write(path: Path, data: bytes) -> None:
    """A file that is on disk. Few calls of the system: beside a busy thread each of them waits for the interpreter."""
    descriptor = os.open(path, _CREATE, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
