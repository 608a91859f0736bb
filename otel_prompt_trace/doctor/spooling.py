"""The spool: what waits in it and since when, the file system that it lies on, and the room that is left."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from otel_prompt_trace.doctor.finding import Finding
from otel_prompt_trace.exceptions import PromptTraceError
from otel_prompt_trace.pipeline.reading import POISON, WaitingFile, survey
from otel_prompt_trace.pipeline.spool import SUFFIX, prepare_folder
from otel_prompt_trace.pipeline.spool_folder import usage
from otel_prompt_trace.settings import Settings
from otel_prompt_trace.sources import Sources

_MOUNTS = Path("/proc/self/mountinfo")
_MEMORY = frozenset({"tmpfs", "ramfs"})
_LAYERS = frozenset({"overlay", "overlayfs", "aufs", "fuse.fuse-overlayfs"})
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "glusterfs", "beegfs"})
_ESCAPED = re.compile(r"\\([0-7]{3})")
_MIB = 1024 * 1024


def look_at_spool(settings: Settings, sources: Sources) -> Iterator[Finding]:
    """The folder, its file system, its bounds, and every file in it."""
    try:
        prepare_folder(settings.spool)
    except (OSError, PromptTraceError) as error:
        yield Finding("spool", "fail", str(error), "set PROMPT_TRACE_SPOOL to a folder of your own")
        return
    yield Finding("spool", "ok", str(settings.spool))
    yield _file_system(settings.spool)
    yield from _room(settings)
    yield from _files(settings.spool, sources)


def file_system(path: Path, mounts: str) -> tuple[str, str] | None:
    """Type and mount point of the file system that ``path`` (resolved) lies on; None where no line tells.

    Args:
        path: absolute, without symbolic links.
        mounts: in the form of ``/proc/self/mountinfo``, see proc_pid_mountinfo(5). Of two mounts at one point the
            later one lies on top.
    """
    found: tuple[str, str] | None = None
    for line in mounts.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 8)), fields[4])
        if path.is_relative_to(point) and (found is None or len(point) >= len(found[1])):
            found = kinds[0], point
    return found


def judged(kind: str, point: str) -> Finding:
    """What a file system's type means for what waits on it."""
    where = f"{kind}, mounted at {point}"
    volume = "name a folder on a local disk or a volume in PROMPT_TRACE_SPOOL"
    if kind in _MEMORY:
        return Finding("spool file system", "warn", f"{where}: memory: what waits is gone with the machine", volume)
    if kind in _LAYERS:
        return Finding("spool file system", "warn", f"{where}: what waits is gone with the container", volume)
    if kind in _NETWORK or kind.startswith("fuse"):
        return Finding(
            "spool file system",
            "warn",
            f"{where}: over a network or in user space: a mapping of it may lose what a killed process wrote",
            volume,
        )
    return Finding("spool file system", "ok", where)


def _file_system(folder: Path) -> Finding:
    try:
        found = file_system(folder.resolve(), _MOUNTS.read_text(errors="surrogateescape"))
    except OSError:
        found = None
    if found is None:
        return Finding(
            "spool file system",
            "unknown",
            "its type can't be read on this system",
            "see with 'df' that it is a local disk",
        )
    return judged(*found)


def _room(settings: Settings) -> Iterator[Finding]:
    status = os.statvfs(settings.spool)
    free = status.f_bavail * status.f_frsize
    said = f"{free // _MIB:,} MiB free"
    if free < settings.spool_file_bytes:
        yield Finding(
            "spool space", "fail", f"{said}, less than one spool file", "free some, or set PROMPT_TRACE_SPOOL"
        )
    elif free < settings.spool_max_bytes:
        advice = "free some, or set PROMPT_TRACE_SPOOL_MAX_BYTES to what there is"
        yield Finding("spool space", "warn", f"{said}, less than the whole spool may take", advice)
    else:
        yield Finding("spool space", "ok", said)
    count, taken = usage(settings.spool)
    bounds = (
        f"files of {settings.spool_file_bytes / _MIB:.1f} MiB, closed after {settings.spool_max_age} s; "
        f"{count} file(s) take {taken // _MIB:,} of {settings.spool_max_bytes // _MIB:,} MiB, "
        f"then {settings.spool_full}"
    )
    if taken > 0.8 * settings.spool_max_bytes:
        advice = (
            "prompt-trace ship delivers what dead processes left; beyond the bound new events are lost, and counted"
        )
        yield Finding("spool rotation", "warn", bounds, advice)
    else:
        yield Finding("spool rotation", "ok", bounds)


def _files(spool: Path, sources: Sources) -> Iterator[Finding]:
    waiting = list(survey(spool))
    for file in waiting:
        yield _waiting(file, sources)
    for problem in (problem for file in waiting for problem in file.problems):
        yield Finding(
            "spool damage", "warn", str(problem), "prompt-trace ship delivers what is whole and keeps the rest"
        )
    poison = list((spool / POISON).glob(f"*{SUFFIX}"))
    if poison:
        yield Finding("spool poison", "warn", f"{len(poison)} file(s) set aside in {spool / POISON}")


def _waiting(file: WaitingFile, sources: Sources) -> Finding:
    since = datetime.fromtimestamp(file.created_ns / 1e9, timezone.utc)
    minutes = max(0, (sources.now() - since).total_seconds() / 60)
    what = f"{file.path.name}: {file.events} event(s) of {len(file.qids)} query(ies), {minutes:.0f} min old"
    if file.alive:
        return Finding("spool file", "ok", f"{what}; its process is running and delivers it")
    if not file.events:
        return Finding("spool file", "ok", f"{what}; empty, its process is gone", "prompt-trace ship removes it")
    return Finding("spool file", "warn", f"{what}; its process is gone", "prompt-trace ship delivers it")
