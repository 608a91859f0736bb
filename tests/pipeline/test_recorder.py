"""The recorder: numbers, forms, and what becomes of events that can't be kept."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from otel_prompt_trace.pipeline.accounting import Accounts, FlushResult, Receipt, Ticket, receipt
from otel_prompt_trace.pipeline.flags import END
from otel_prompt_trace.pipeline.memory import MemorySpool
from otel_prompt_trace.pipeline.reading import content
from otel_prompt_trace.pipeline.spool import SpoolFull
from otel_prompt_trace.pipeline.spool_file import SpoolClosed
from otel_prompt_trace.runtime import Runtime
from tests.pipeline.fakes import FakePayloads
from tests.waiting import remove_in_use, until

Run = Callable[..., Runtime]


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_numbers_follow_each_other_over_threads(run: Run, payloads: FakePayloads) -> None:
    """Eight threads, batches of several: each number once, none left out."""
    runtime = run()

    def work(number: int) -> None:
        for size in (1, 2, 3) * 20:
            runtime.append(f"q{number}", [{"kind": "query"}] * size)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runtime.flush(20).ok
    assert sorted(seq for _, seq in payloads.times_stored()) == list(range(1, 8 * 120 + 1))


def test_both_forms_say_the_same(run: Run, payloads: FakePayloads) -> None:
    """An event that has to be written as JSON at once has the same fields as one that is packed."""
    import orjson

    runtime = run()
    for text in ("plain", "half \ud83d"):
        runtime.append("q", [{"kind": "request", "call": "c", "prompt": text}], trace_id="t", flags=END)
    assert runtime.flush(20).ok
    packed, lines = (orjson.loads(line) for _, line in payloads.lines["q"])
    assert packed.keys() == lines.keys()
    same = {"v", "kind", "qid", "writer", "call", "trace_id", "chars"}
    assert {name: packed[name] for name in same - {"chars"}} == {name: lines[name] for name in same - {"chars"}}
    assert (packed["seq"], lines["seq"]) == (1, 2)
    assert (packed["chars"], lines["chars"]) == (5, 6)


def test_a_full_spool_is_counted_and_said_once(
    run: Run, payloads: FakePayloads, caplog: pytest.LogCaptureFixture
) -> None:
    """The newest events are the ones that are lost; one warning names the setting; the books add up."""
    payloads.failures = 1_000_000
    runtime = run(spool_file_bytes=65_536, spool_max_bytes=65_536)
    tickets = [runtime.append(f"q{n}", [{"kind": "response", "output": "x" * 10_000}], flags=END) for n in range(20)]
    states = [ticket.state for ticket in tickets]
    kept = states.count("spooled")
    assert states == ["spooled"] * kept + ["lost"] * (20 - kept)
    assert kept == 6
    result = runtime.accounts.result()
    assert (result.stored, result.spooled, result.reasons) == (0, 6, {"spool_full": 14})
    (warning,) = [text for text in _warnings(caplog) if "lost" in text]
    assert "PROMPT_TRACE_SPOOL_MAX_BYTES" in warning


def test_the_total_is_said_again_after_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At most one warning a minute for each reason, each with the count so far."""
    now = [0]
    monkeypatch.setattr("otel_prompt_trace.pipeline.accounting.time.monotonic_ns", lambda: now[0])
    accounts = Accounts()
    accounts.record(100)
    for second in range(0, 130, 10):
        now[0] = second * 10**9
        accounts.lose(1, "one")
        accounts.lose(2, "other")
    assert [text.split(":")[0] for text in _warnings(caplog)] == [
        "1 event(s) lost so far",
        "2 event(s) lost so far",
        "7 event(s) lost so far",
        "14 event(s) lost so far",
        "13 event(s) lost so far",
        "26 event(s) lost so far",
    ]
    assert accounts.result() == FlushResult(0, 61, 39, {"one": 13, "other": 26}, delivered=False)


def test_receipts_name_the_worst() -> None:
    """Lost before spooled before stored; nothing recorded is ``off``."""
    stored, spooled, lost = Ticket("stored", 3), Ticket("spooled", 2), Ticket("lost", 1)
    assert receipt("q", []) == Receipt("q", "off", 0, 0, 0)
    assert receipt("q", [stored]) == Receipt("q", "stored", 3, 0, 0)
    assert receipt("q", [stored, spooled]) == Receipt("q", "spooled", 3, 2, 0)
    assert receipt("q", [stored, lost, spooled]) == Receipt("q", "lost", 3, 2, 1)


def test_memory_is_bounded(run: Run, payloads: FakePayloads) -> None:
    """In memory too the newest are lost and counted, and what is delivered makes room."""
    payloads.failures = 1_000_000
    runtime = run(durability="memory", memory_max_bytes=65_536)
    for number in range(20):
        runtime.append(f"q{number}", [{"kind": "response", "output": "x" * 10_000}], flags=END)
    assert runtime.accounts.result().reasons == {"spool_full": 14}
    payloads.failures = 0
    assert runtime.flush(20).delivered
    runtime.append("more", [{"kind": "response", "output": "x" * 60_000}], flags=END)
    result = runtime.flush(20)
    assert (result.stored, result.spooled, result.lost) == (7, 0, 14)


def test_a_closed_memory_takes_nothing() -> None:
    """Nobody would ever deliver it."""
    spool = MemorySpool(1000)
    spool.close()
    with pytest.raises(SpoolClosed):
        spool.append(0, "q", b"head", b"body", 1, Ticket("spooled", 1))


def test_memory_counts_bytes_exactly() -> None:
    """A frame that fits to the byte is taken, one byte more is not."""
    spool = MemorySpool(100)
    spool.append(0, "q", b"x" * 40, b"y" * 60, 1, Ticket("spooled", 1))
    with pytest.raises(SpoolFull):
        spool.append(0, "q", b"", b"y", 1, Ticket("spooled", 1))
    spool.acknowledge(spool.take_fresh())
    spool.append(0, "q", b"", b"y" * 100, 1, Ticket("spooled", 1))


def _file_in_the_way(folder: Path, _: pytest.MonkeyPatch) -> None:
    folder.write_text("in the way")


def _others_write_there(folder: Path, _: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def _read_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)


def _cannot_be_made(folder: Path, _: pytest.MonkeyPatch) -> None:
    folder.parent.mkdir(exist_ok=True)
    folder.symlink_to("/proc/nothing/here")


@pytest.mark.parametrize("spoil", [_file_in_the_way, _others_write_there, _read_only, _cannot_be_made])
def test_without_a_folder_it_records_to_memory(
    run: Run,
    payloads: FakePayloads,
    tmp_path: Path,
    spoil: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One warning names the variable, everything is delivered, and nothing is written into the refused folder."""
    spoil(tmp_path / "spool", monkeypatch)
    runtime = run()
    assert runtime.durability == "memory"
    for number in range(3):
        runtime.append(f"q{number}", [{"kind": "end"}], flags=END)
    runtime.digest()("x")
    assert runtime.flush(20) == FlushResult(3, 0, 0)
    (warning,) = _warnings(caplog)
    assert "PROMPT_TRACE_SPOOL" in warning
    assert "memory" in warning
    assert not (tmp_path / "spool").is_dir() or list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize("durability", ["written", "fsync"])
def test_what_is_appended_is_in_the_file(run: Run, payloads: FakePayloads, durability: str) -> None:
    """When ``append`` returns, the events can be read from the file by anybody."""
    payloads.gate = threading.Event()
    runtime = run(durability=durability)
    runtime.append("q", [{"kind": "query", "question": "readable"}])
    (path,) = runtime.settings.spool.glob("*.spool")
    writer, _, found, problems = content(path)
    assert (writer, problems) == (runtime._recorder.writer, [])
    assert b"readable" in found[0].body


def test_a_spool_that_goes_away_is_made_again(run: Run, payloads: FakePayloads, tmp_path: Path) -> None:
    """The folder is removed while the process runs: noticed at the shipper's next turn, and nothing is lost."""
    runtime = run(spool_file_bytes=65_536)
    assert runtime.durability == "written"
    runtime.append("q0", [{"kind": "end"}], flags=END)
    assert runtime.flush(20).ok
    remove_in_use(tmp_path / "spool")
    until(lambda: list((tmp_path / "spool").glob("*.spool")))
    runtime.append("q1", [{"kind": "end"}], flags=END)
    runtime.append("q2", [{"kind": "response", "output": "x" * 100_000}], flags=END)
    assert runtime.flush(20) == FlushResult(3, 0, 0)
