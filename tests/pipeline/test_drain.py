"""Drain: what processes left behind is delivered once, and a living one's files are left alone."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.exceptions import StoreUnreachable
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.drain import DrainReport, drain
from otel_prompt_trace.pipeline.flags import END
from otel_prompt_trace.pipeline.reading import survey, waiting_events, waiting_qids
from otel_prompt_trace.runtime import Runtime
from otel_prompt_trace.store import PayloadStore
from otel_prompt_trace.store.frames import unpack
from tests.pipeline.fakes import QIDS, WRITER, FakePayloads, frame, spool_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def store(tmp_path: Path) -> PayloadStore:
    return pt.open_store(tmp_path / "store")


def _seqs(store: PayloadStore, qid: str = QIDS[0]) -> list[int]:
    found = store.events(qid)
    assert found.problems == []
    return sorted(event["seq"] for event in found.events)


def test_a_dead_process_s_file_is_delivered(folder: Path, store: PayloadStore) -> None:
    """Every event is in the store under its own identity, and the file is gone."""
    parts = [frame(1), frame(2, {"kind": "request"}, {"kind": "end"}), frame(4, qid="order-17")]
    spool_file(folder / "A.spool", *parts)
    report = drain(folder, store)
    assert report == DrainReport(files=1, queries=2, events=4)
    assert _seqs(store) == [1, 2, 3]
    assert _seqs(store, "order-17") == [4]
    assert {event["writer"] for event in store.events(QIDS[0]).events} == {WRITER}
    assert list(folder.iterdir()) == []


def test_draining_again_is_harmless(folder: Path, store: PayloadStore) -> None:
    """A drain that was killed after it stored and before it unlinked is repeated: nothing is there twice."""
    parts = [frame(1), frame(2)]
    for _ in range(3):
        spool_file(folder / "A.spool", *parts)
        assert drain(folder, store).events == 2
    assert _seqs(store) == [1, 2]
    assert len(list(store.objects.list("payloads/"))) == 1
    assert drain(folder, store) == DrainReport()


@pytest.mark.parametrize("order", [("A", "B"), ("B", "A")])
def test_a_query_in_two_files_that_was_stored_whole(folder: Path, store: PayloadStore, order: tuple[str, str]) -> None:
    """Its owner stored it and was killed before it could say so: neither file adds anything, whichever is first."""
    first, second = [frame(1), frame(2, {"kind": "request"})], [frame(3, {"kind": "response"}, {"kind": "end"})]
    spool_file(folder / "whole.spool", *first, *second)
    drain(folder, store)
    (whole,) = store.objects.list("payloads/")
    spool_file(folder / f"{order[0]}.spool", *first)
    spool_file(folder / f"{order[1]}.spool", *second)
    assert drain(folder, store).problems == []
    assert list(store.objects.list("payloads/")) == [whole]
    spool_file(folder / "C.spool", *second, frame(5, {"kind": "feedback"}))
    drain(folder, store)
    assert _seqs(store) == [1, 2, 3, 4, 5]
    later = [info.key for info in store.objects.list("payloads/") if info != whole]
    assert unpack(store.objects.get(later[0]))[0].count(b"\n") == 1


@pytest.mark.parametrize("qid", ["01GNAQ4Q00AAAAAAAAAAAAAAAA", "4bf92f3577b34da6-undated"])
def test_what_was_stored_whole_under_the_day_of_writing(folder: Path, store: PayloadStore, qid: str) -> None:
    """An id of long ago, or of no day at all, lies there: neither file adds anything, on that day or on the next."""
    day = datetime(2026, 11, 30, 23, 59, tzinfo=timezone.utc)
    first, second = [frame(1, qid=qid)], [frame(2, {"kind": "response"}, {"kind": "end"}, qid=qid)]
    spool_file(folder / "whole.spool", *first, *second)
    drain(folder, store, now=lambda: day)
    (whole,) = store.objects.list("payloads/")
    assert "dt=2026-11-30" in whole.key
    for now in (day, day + timedelta(minutes=2)):
        spool_file(folder / "A.spool", *second)
        spool_file(folder / "B.spool", *first)
        assert drain(folder, store, now=lambda now=now: now).problems == []  # type: ignore[misc]
        assert list(store.objects.list("payloads/")) == [whole]


def test_a_living_process_s_file_is_left_alone(folder: Path, store: PayloadStore) -> None:
    """The lock tells; once it is let go of the file is taken."""
    path = spool_file(folder / "A.spool", frame(1))
    before = path.read_bytes()
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert drain(folder, store) == DrainReport(alive=1)
    assert path.read_bytes() == before
    assert _seqs(store) == []
    os.close(descriptor)
    assert drain(folder, store).events == 1


def test_it_leaves_a_running_runtime_alone(
    run: Callable[..., Runtime], payloads: FakePayloads, store: PayloadStore
) -> None:
    """Beside a process that records, in the same folder: nothing is taken from it, nothing is doubled."""
    runtime = run()
    runtime.append("q", [{"kind": "query"}])
    assert drain(runtime.settings.spool, store) == DrainReport(alive=1)
    runtime.append("q", [{"kind": "end"}], flags=END)
    assert runtime.flush(20).ok
    assert payloads.kinds("q") == ["query", "end"]


def test_what_a_runtime_left_is_delivered(
    run: Callable[..., Runtime], payloads: FakePayloads, store: PayloadStore
) -> None:
    """Also while the process that left it still lives: it has let go of the file."""
    payloads.failures = 1_000_000
    runtime = run()
    runtime.append("q", [{"kind": "query"}, {"kind": "end"}], flags=END)
    runtime.close()
    assert drain(runtime.settings.spool, store).events == 2
    assert _seqs(store, "q") == [1, 2]


def test_damage_in_the_middle(folder: Path, store: PayloadStore) -> None:
    """The good neighbours are stored, the file is kept under ``poison/``, the place is named; once more is harmless."""
    first, middle, last = frame(1), bytearray(frame(2)), frame(3)
    middle[60] ^= 1
    path = spool_file(folder / "A.spool", first, bytes(middle), last)
    before = path.read_bytes()
    report = drain(folder, store)
    assert _seqs(store) == [1, 3]
    assert (report.files, report.events) == (1, 2)
    assert [(problem.source, problem.line) for problem in report.problems] == [("A.spool", 64 + len(first))]
    kept = folder / "poison" / "A.spool"
    assert report.set_aside == [str(kept)]
    assert kept.read_bytes() == before
    assert not path.exists()
    assert drain(folder, store) == DrainReport()
    assert kept.exists()


def test_damage_at_the_end_is_damage(folder: Path, store: PayloadStore) -> None:
    """A last frame that was whole once and is not now was acknowledged to somebody: its file is kept."""
    last = bytearray(frame(2))
    last[60] ^= 1
    spool_file(folder / "A.spool", frame(1), bytes(last))
    report = drain(folder, store)
    assert _seqs(store) == [1]
    assert len(report.set_aside) == 1


def test_a_torn_tail_is_no_damage(folder: Path, store: PayloadStore) -> None:
    """An append that was never finished was acknowledged to nobody: named, and the file goes."""
    torn = bytes(8) + frame(2)[8:50]
    spool_file(folder / "A.spool", frame(1), torn)
    report = drain(folder, store)
    assert _seqs(store) == [1]
    assert [problem.reason.split(":")[0] for problem in report.problems] == [frames.UNFINISHED]
    assert report.set_aside == []
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("data", [b"", bytes(4096), frames.header(WRITER, 7) + bytes(4096)])
def test_an_empty_file_goes(folder: Path, store: PayloadStore, data: bytes) -> None:
    """Made and never written to: there is nothing to deliver and nothing to keep."""
    folder.mkdir()
    (folder / "A.spool").write_bytes(data)
    report = drain(folder, store)
    assert report == DrainReport(files=1)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("data", [b"%PDF-1.7" + b"x" * 100, b"x", frames.header(WRITER, 7)[:63] + b"x" + frame(1)])
def test_what_is_no_spool_file_is_kept(folder: Path, store: PayloadStore, data: bytes) -> None:
    """Somebody's file, or one whose header is damaged: set aside, never deleted."""
    folder.mkdir()
    (folder / "A.spool").write_bytes(data[:42] + b"\1" + data[43:] if data.startswith(frames.MAGIC) else data)
    report = drain(folder, store)
    assert [problem.reason for problem in report.problems] == ["not a spool file"]
    assert len(list((folder / "poison").iterdir())) == 1


def test_an_event_that_can_t_be_stored_keeps_its_file(folder: Path, store: PayloadStore) -> None:
    """Its neighbours are stored; what no version of this knows is kept for a person."""
    spool_file(folder / "A.spool", frame(1), frame(2, {"kind": "nonsense"}, {"kind": "end"}), frame(4))
    report = drain(folder, store)
    assert _seqs(store) == [1, 3, 4]
    assert len(report.problems) == 1
    assert "nonsense" in report.problems[0].reason
    assert [Path(path).name for path in report.set_aside] == ["A.spool"]


def test_one_bad_file_holds_up_no_other(folder: Path, store: PayloadStore) -> None:
    """Files are taken oldest first, and each for itself."""
    spool_file(folder / "A.spool", frame(1))
    (folder / "B.spool").write_bytes(b"%PDF")
    spool_file(folder / "C.spool", frame(2))
    steps: list[tuple[int, int]] = []
    report = drain(folder, store, progress=lambda done, total: steps.append((done, total)))
    assert _seqs(store) == [1, 2]
    assert report.files == 3
    assert steps == [(1, 3), (2, 3), (3, 3)]


def test_a_store_that_fails_leaves_everything(folder: Path, store: PayloadStore) -> None:
    """The error arrives, every file is where it was, and the next drain delivers."""
    spool_file(folder / "A.spool", frame(1))
    spool_file(folder / "B.spool", frame(2))
    with pytest.raises(StoreUnreachable):
        drain(folder, FakePayloads(failures=1))
    assert len(list(folder.glob("*.spool"))) == 2
    assert drain(folder, store).events == 2


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path, store: PayloadStore) -> None:
    """Nothing was ever recorded on this machine."""
    assert drain(tmp_path / "nowhere", store) == DrainReport()


def test_an_id_without_a_date_goes_under_the_day_of_delivery(folder: Path, store: PayloadStore) -> None:
    """The clock is the caller's."""
    spool_file(folder / "A.spool", frame(1, qid="order-17"))
    drain(folder, store, now=lambda: datetime(2030, 1, 2, tzinfo=timezone.utc))
    assert [info.key.split("/")[1] for info in store.objects.list("payloads/")] == ["dt=2030-01-02"]


def test_what_waits_can_be_read_before_it_is_stored(folder: Path) -> None:
    """By qid, as the store would hold it, each event once, without taking anything away."""
    spool_file(folder / "A.spool", frame(1), frame(2, qid="order-17"), frame(3, {"kind": "request", "prompt": "p"}))
    spool_file(folder / "B.spool", frame(1), frame(4))  # a copy of the first
    events, problems = waiting_events(folder, QIDS[0])
    assert [event["seq"] for event in events] == [1, 3, 4]
    assert events[1]["chars"] == 1
    assert problems == []
    assert waiting_qids(folder) == {QIDS[0], "order-17"}
    assert len(list(folder.iterdir())) == 2


def test_the_survey_says_what_lies_there(folder: Path) -> None:
    """Who wrote each file, since when, how much is in it, whether its owner lives, and what is damaged."""
    damaged = bytearray(frame(3))
    damaged[60] ^= 1
    first = spool_file(folder / "A.spool", frame(1), frame(2, {"kind": "request"}, {"kind": "end"}, qid="order-17"))
    spool_file(folder / "B.spool", bytes(damaged))
    descriptor = os.open(first, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    living, dead = survey(folder)
    os.close(descriptor)
    assert (living.alive, living.writer, living.created_ns, living.events) == (True, WRITER, 7, 3)
    assert living.qids == (QIDS[0], "order-17")
    assert living.bytes == len(frame(1)) + len(frame(2, {"kind": "request"}, {"kind": "end"}, qid="order-17"))
    assert (dead.alive, dead.events, len(dead.problems)) == (False, 0, 1)


def test_a_file_that_changes_under_the_reader_is_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner strikes a frame out in the middle of our read: the next read shows the file as it is."""
    damaged = bytearray(frame(2))
    damaged[60] ^= 1
    path = spool_file(folder / "A.spool", frame(1), bytes(damaged), frame(3))
    torn, whole = path.read_bytes(), spool_file(folder / "A.spool", frame(1), frame(3)).read_bytes()
    reads = [torn, whole]
    monkeypatch.setattr(Path, "read_bytes", lambda _: reads.pop(0))
    events, problems = waiting_events(folder, QIDS[0])
    assert ([event["seq"] for event in events], problems) == ([1, 3], [])


def test_an_append_that_is_going_on_is_no_problem_of_a_record(folder: Path) -> None:
    """Somebody reads while the owner is in the middle of a copy: what is whole is read, nothing is called damaged."""
    spool_file(folder / "A.spool", frame(1), bytes(8) + frame(2)[8:50])
    events, problems = waiting_events(folder, QIDS[0])
    assert ([event["seq"] for event in events], problems) == ([1], [])
