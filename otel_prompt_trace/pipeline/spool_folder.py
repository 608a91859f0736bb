"""The folder that spool files lie in: whose it is, and how much lies there."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from otel_prompt_trace.exceptions import ConfigurationError

SUFFIX = ".spool"


def prepare_folder(folder: Path) -> None:
    """Make the spool folder, 0700.

    Raises:
        ConfigurationError: it belongs to somebody else, or others may write to it: they could plant events.
        OSError: it can't be made, or not be written to.
    """
    for parent in reversed([folder, *folder.parents]):  # also those above: the state folder is nobody else's either
        if not parent.exists():
            parent.mkdir(mode=0o700, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "it can't be written to")
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise ConfigurationError(f"{folder} belongs to another user: set PROMPT_TRACE_SPOOL to a folder of your own")
    if stat.S_IMODE(status.st_mode) & 0o022:
        raise ConfigurationError(f"{folder} can be written to by others: chmod go-w, or set PROMPT_TRACE_SPOOL")


def usage(folder: Path) -> tuple[int, int]:
    """How many files a spool folder holds and the bytes that they take, whoever owns them."""
    count = total = 0
    for path in folder.glob(f"*{SUFFIX}"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # another process has just delivered it
            continue
        count += 1
    return count, total


def spooled_bytes(folder: Path) -> int:
    """Bytes that the files of a spool folder take, whoever owns them."""
    return usage(folder)[1]
