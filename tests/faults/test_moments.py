"""Single moments that chance meets too rarely: a kill between two notes, and the loss of power."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.pipeline.drain import drain
from otel_prompt_trace.pipeline.spool_file import SpoolFile
from otel_prompt_trace.runtime import Runtime
from otel_prompt_trace.settings import load
from tests.faults.running import stored_lines

pytestmark = pytest.mark.fault


def _runtime(folder: Path, open_payloads: Callable[[str], object], **options: object) -> Runtime:
    places = {"store": str(folder / "store"), "spool": str(folder / "spool")}
    return Runtime(load({}, **places, **options), open_payloads)  # type: ignore[arg-type]


@pytest.mark.parametrize("noted", range(4))
def test_a_kill_between_the_stores_answer_and_our_notes_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: int
) -> None:
    """A query of four appends is stored, and the process dies when so many are struck out: no line is stored twice."""
    left = [noted]
    strike = SpoolFile.strike

    def dying(self: SpoolFile, offset: int, length: int) -> None:
        if left[0]:
            left[0] -= 1
            strike(self, offset, length)

    monkeypatch.setattr(SpoolFile, "strike", dying)
    runtime = _runtime(tmp_path, pt.open_store)
    for number in range(4):
        runtime.append("q", [{"kind": "tool_call", "name": str(number)}])
    runtime.append("holds-the-file", [{"kind": "query"}])
    monkeypatch.setattr(SpoolFile, "remove", SpoolFile.close)  # it never comes to that
    assert runtime.flush(20).ok
    runtime.close()
    assert drain(tmp_path / "spool", pt.open_store(tmp_path / "store")).events > 0
    lines = [line["seq"] for line in stored_lines(pt.open_store(tmp_path / "store"))]
    assert sorted(lines) == [1, 2, 3, 4, 5]


def test_the_power_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``fsync`` an acknowledged append is among what the last finished sync of its file put on the disk.

    Power can't be taken here: what each file held when its sync returned is kept, and the rest is taken for lost, as is
    any file whose name was in no synced folder.
    """
    (tmp_path / "store").write_text("in the way")
    on_disk: dict[str, bytes] = {}
    named: set[str] = set()
    sync, sync_folder = os.fdatasync, os.fsync

    def kept(descriptor: int) -> None:
        sync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        on_disk[path.name] = os.pread(descriptor, os.fstat(descriptor).st_size, 0)

    def kept_names(descriptor: int) -> None:
        sync_folder(descriptor)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            named.update(path.name for path in Path(f"/proc/self/fd/{descriptor}").iterdir())

    monkeypatch.setattr(os, "fdatasync", kept)
    monkeypatch.setattr(os, "fsync", kept_names)
    runtime = _runtime(tmp_path, pt.open_store, durability="fsync", spool_file_bytes=1 << 16, fsync_ms=5_000)
    acknowledged: list[tuple[str, dict[str, bytes]]] = []

    def record(thread: int) -> None:
        for number in range(15):
            qid = f"q-{thread}-{number}"
            ticket = runtime.append(qid, [{"kind": "query", "question": "x" * 2_000}])
            assert ticket.state == "spooled"
            acknowledged.append((qid, {name: data for name, data in on_disk.items() if name in named}))

    threads = [threading.Thread(target=record, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = tmp_path / "after"
    for qid, disk in acknowledged[::7] + acknowledged[-1:]:
        folder = after / qid
        folder.mkdir(parents=True)
        for name, data in disk.items():
            (folder / name).write_bytes(data)
        drain(folder, pt.open_store(after / f"store-{qid}"))
        assert pt.open_store(after / f"store-{qid}").events(qid).events
    whole = {line["qid"] for line in stored_lines(pt.open_store(after / f"store-{acknowledged[-1][0]}"))}
    assert whole == {qid for qid, _ in acknowledged}
    runtime.close()
