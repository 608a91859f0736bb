"""The spool's file system and room, and the clock of the store."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from otel_prompt_trace.doctor.spooling import file_system, judged, look_at_spool
from otel_prompt_trace.doctor.storing import clock, look_at_store
from otel_prompt_trace.settings import load
from otel_prompt_trace.sources import Sources
from otel_prompt_trace.store import FolderStore
from otel_prompt_trace.store.payloads import PayloadStore
from tests.seaweed import Seaweed

_MOUNTS = r"""22 27 0:21 / /proc rw - proc proc rw
27 1 254:0 / / rw,relatime - overlay overlay rw
30 27 0:30 / /var/lib rw,relatime shared:5 master:1 - ext4 /dev/vda1 rw
31 30 0:31 / /var/lib/my\040spool rw - nfs4 server:/x rw
32 27 0:32 / /run rw - ext4 /dev/vda1 rw
33 27 0:33 / /run rw - tmpfs tmpfs rw
34 27 0:34 / /mnt/b rw - fuse.s3fs s3fs rw
a line that is none
"""
_NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("path", "kind", "point", "status"),
    [("/home/me", "overlay", "/", "warn"), ("/var/lib/x", "ext4", "/var/lib", "ok"),
     ("/var/library", "overlay", "/", "warn"),
     ("/var/lib/my spool/a", "nfs4", "/var/lib/my spool", "warn"), ("/run/x", "tmpfs", "/run", "warn"),
     ("/mnt/b/c", "fuse.s3fs", "/mnt/b", "warn")],
)  # fmt: skip
def test_the_file_system_of_a_path(path: str, kind: str, point: str, status: str) -> None:
    """The nearest mount point above it counts, and of two at one point the upper; its kind is judged."""
    assert file_system(Path(path), _MOUNTS) == (kind, point)
    finding = judged(kind, point)
    assert finding.status == status
    assert bool(finding.advice) is (status == "warn")


def test_without_a_line_for_it_nothing_is_known() -> None:
    """Not taken for a local disk."""
    assert file_system(Path("/x"), "") is None
    assert file_system(Path("/x"), "garbage\n - \n1 2 3 4\n") is None


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="no mountinfo on this system")
def test_a_spool_in_memory_is_warned_of(tmp_path: Path) -> None:
    """A real tmpfs, where there is one; and the folder of this test is found on the file system that it lies on."""
    shared = Path("/dev/shm")
    known = file_system(shared.resolve(), Path("/proc/self/mountinfo").read_text())
    if known is None or known[0] != "tmpfs" or not os.access(shared, os.W_OK):
        pytest.skip("/dev/shm is no tmpfs here")
    spool = shared / f"prompt-trace-test-{os.getpid()}"
    try:
        found = {f.name: f for f in look_at_spool(load({}, spool=str(spool), store=str(tmp_path)), Sources())}
    finally:
        spool.rmdir()
    assert found["spool file system"].status == "warn"
    assert "tmpfs" in found["spool file system"].detail


def test_the_room_of_the_spool(tmp_path: Path) -> None:
    """Less than the spool may take is a warning, less than one file a failure; the bounds are named."""
    status = os.statvfs(tmp_path)
    free = status.f_bavail * status.f_frsize

    def seen(**sizes: int) -> dict[str, str]:
        settings = load({}, store=str(tmp_path), spool=str(tmp_path / "spool"), **sizes)
        return {f.name: f.status for f in look_at_spool(settings, Sources())}

    assert seen(spool_max_bytes=2**20)["spool space"] == "ok"
    assert seen(spool_max_bytes=free * 2)["spool space"] == "warn"
    assert seen(spool_max_bytes=free * 2, spool_file_bytes=free * 2)["spool space"] == "fail"
    assert seen()["spool rotation"] == "ok"
    (tmp_path / "spool" / "x.spool").write_bytes(b"\0" * 60_000)
    assert seen(spool_max_bytes=2**16)["spool rotation"] == "warn"


@pytest.mark.parametrize(
    ("stored", "status", "said"),
    [(0.0, "ok", ""), (-1.0, "ok", ""), (2.5, "ok", ""), (-3.5, "warn", "2.5 s ahead of the store's"),
     (10.0, "warn", "9.0 s behind the store's"), (-3600.0, "warn", "3599.0 s ahead of")],
)  # fmt: skip
def test_clocks_that_differ_are_told(stored: float, status: str, said: str) -> None:
    """Over two seconds, in both directions, beyond what the store's resolution of a second can explain."""
    finding = clock(_NOW + timedelta(seconds=stored), _NOW, _NOW + timedelta(seconds=1))
    assert finding.status == status
    assert said in finding.detail


def test_the_clock_of_a_folder_and_of_one_that_can_not_be_read(tmp_path: Path) -> None:
    """A folder's is its file system's; where ours is an hour off, that is seen; without one it is unknown."""
    settings = load({}, store=str(tmp_path / "store"), spool=str(tmp_path / "spool"))

    def seen(sources: Sources) -> str:
        return {f.name: f.status for f in look_at_store(settings, sources)}["clock"]

    assert seen(Sources()) == "ok"
    wrong = Sources(now_ns=lambda: Sources().now_ns() - 3_600_000_000_000)
    assert seen(wrong) == "warn"
    assert clock(None, _NOW, _NOW).status == "unknown"
    steps = {step.name: step for step in PayloadStore(FolderStore(tmp_path / "other")).probe()}
    assert steps["list"].stored_at is not None
    assert steps["put"].stored_at is None


@pytest.mark.integration
def test_the_clock_of_a_real_server(seaweed: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An S3 server tells its time to the second, by what it says of the object that was tried."""
    for name, value in seaweed.environment.items():
        monkeypatch.setenv(name, value)
    settings = load({}, store=seaweed.url(prefix="doctor"), spool=str(tmp_path))
    found = {f.name: f.status for f in look_at_store(settings, Sources())}
    assert (found["store"], found["clock"]) == ("ok", "ok")
    ahead = Sources(now_ns=lambda: Sources().now_ns() + 60_000_000_000)
    assert {f.name: f.status for f in look_at_store(settings, ahead)}["clock"] == "warn"
