"""Any damage to a spool file costs the frames that it touches, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.events import Problem
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.frames import Frame
from otel_prompt_trace.pipeline.reading import content, survey, waiting_events
from tests.pipeline.fakes import QIDS, WRITER, frame

_HEADER = frames.header(WRITER, 7)
_NAME = "01M8P570G2BBBBBBBBBBBBBBBB.spool"
_TRAPS = (b"", frames.MARKER, frames.DONE, frames.MARKER * 9, frames.DONE + bytes(40), b"\xf5PT" * 11)


@dataclass(frozen=True)
class _Written:
    """A file as its owner left it: its bytes, and the bytes of each frame that waits, by its place."""

    data: bytes
    waiting: dict[int, bytes]


def _written(parts: list[tuple[int, int, bool]], zeros: int) -> _Written:
    """Frames of (characters of text, trap in an argument, whether it is stored already), then zeros."""
    data, waiting = _HEADER, {}
    for seq, (characters, trap, stored) in enumerate(parts, 1):
        event = {"kind": "tool_call", "text": "x" * characters, "arguments": _TRAPS[trap]}
        made = frame(seq, event, qid=QIDS[seq % len(QIDS)])
        if stored:
            made = frames.DONE + made[8 : frames.FIXED] + bytes(len(made) - frames.FIXED)
        else:
            waiting[len(data)] = made
        data += made
    return _Written(data + bytes(zeros), waiting)


_parts = st.tuples(st.integers(0, 3000), st.integers(0, len(_TRAPS) - 1), st.booleans())
_files = st.builds(_written, st.lists(_parts, min_size=1, max_size=8), st.sampled_from([0, 8, 512, 5000]))
_place = st.floats(0, 1, exclude_max=True)  # a share of the file's length
_damage = st.lists(
    st.one_of(
        st.tuples(st.just("flip"), _place, st.integers(0, 7)),
        st.tuples(st.just("zero"), _place, st.sampled_from([8, 64, 512, 4096])),
        st.tuples(st.just("garbage"), _place, st.binary(min_size=1, max_size=64)),
        st.tuples(st.just("swap"), _place, _place),
        st.tuples(st.just("copy"), st.integers(0, 7), _place),
        st.tuples(st.just("cut"), _place, st.none()),
    ),
    min_size=1,
    max_size=6,
)


def _damaged(written: _Written, steps: list[tuple[str, Any, Any]], first: int) -> bytes:
    """The file after all that; nothing before ``first`` is touched."""
    data = bytearray(written.data)
    for what, one, other in steps:
        room = len(data) - first
        if room < 1:
            break
        if what == "copy":  # a frame once more, at a place where one could begin
            places = list(written.waiting)
            if places:
                made = written.waiting[places[one % len(places)]]
                place = (first + int(other * room) + 7) & ~7
                data[place : place + len(made)] = made[: max(0, len(data) - place)]
            continue
        place = first + int(one * room)
        if what == "flip":
            data[place] ^= 1 << other
        elif what == "zero":
            start = max(first, place - place % other)
            stop = min(place - place % other + other, len(data))
            data[start:stop] = bytes(stop - start)
        elif what == "garbage":
            data[place : place + len(other)] = other[: len(data) - place]
        elif what == "swap":  # two sectors
            a, b = place & ~511, (first + int(other * room)) & ~511
            if min(a, b) >= first and max(a, b) + 512 <= len(data):
                data[a : a + 512], data[b : b + 512] = data[b : b + 512], data[a : a + 512]
        else:
            del data[place:]
    return bytes(data)


def _untouched(written: _Written, data: bytes) -> set[tuple[str, int, bytes]]:
    found = set()
    for place, made in written.waiting.items():
        (item,) = frames.frames(_HEADER + made, "f")
        assert isinstance(item, Frame)
        used = len(made.rstrip(b"\0")) if not item.body.endswith(b"\0") else len(made)
        if data[place : place + used] == made[:used]:
            found.add((item.qid, item.seq, item.body))
    return found


def _all(written: _Written) -> set[tuple[str, int, bytes]]:
    return _untouched(written, written.data)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_files, _damage)
def test_damage_costs_what_it_touches(written: _Written, steps: list[tuple[str, Any, Any]]) -> None:
    """Flips, zeroed pages, garbage, swapped sectors, frames copied over others, cuts, in any mixture.

    Every frame whose bytes are as they were is read; nothing is read that was never written, or was stored already.
    """
    data = _damaged(written, steps, frames.HEADER_SIZE)
    items = list(frames.frames(data, "f"))
    read = {(item.qid, item.seq, item.body) for item in items if isinstance(item, Frame)}
    assert read >= _untouched(written, data)
    assert read <= _all(written)
    for item in items:
        if isinstance(item, Frame):
            assert [event["seq"] for event in frames.expand(item, WRITER, "f") if isinstance(event, dict)] == [item.seq]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_files, _damage)
def test_a_frame_that_is_missing_is_told_of(written: _Written, steps: list[tuple[str, Any, Any]]) -> None:
    """Where a frame is not read any more and others stand behind it, there is a problem at or before its last byte.

    But where another whole frame was copied over it: of that no reader can tell.
    """
    data = _damaged(written, [step for step in steps if step[0] not in ("copy", "swap")], frames.HEADER_SIZE)
    items = list(frames.frames(data, "f"))
    read = {item.offset for item in items if isinstance(item, Frame)}
    told = [item.line for item in items if isinstance(item, Problem)]
    for place, made in written.waiting.items():
        if place not in read and place < max(read, default=0):
            assert any(line < place + len(made) for line in told)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(_files, _damage)
def test_a_damaged_file_in_a_folder(tmp_path: Path, written: _Written, steps: list[tuple[str, Any, Any]]) -> None:
    """Also its header may be hit: what reads the folder raises nothing, and the frames are there, each once."""
    path = tmp_path / _NAME
    data = _damaged(written, steps, 0)
    path.write_bytes(data)
    writer, _, found, problems = content(path)
    identities = [(item.qid, item.seq, item.body) for item in found]
    assert len(identities) == len(set(identities))
    assert set(identities) <= _all(written)
    assert set(identities) >= _untouched(written, data)
    if found:
        assert writer in (WRITER, path.stem)
        assert writer == WRITER or problems
    assert [file.path for file in survey(tmp_path)] == [path]
    for qid in QIDS:
        events, _ = waiting_events(tmp_path, qid)
        assert {event["seq"] for event in events} == {seq for name, seq, _ in identities if name == qid}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_at_all(data: bytes) -> None:
    """What is no spool file raises nothing, behind a header or without one."""
    for whole in (data, _HEADER + data, _HEADER + frames.MARKER + data, _HEADER + frames.DONE + data):
        assert all(isinstance(item, Problem) for item in frames.frames(whole, "f"))
        frames.read_header(whole)


def test_a_frame_that_was_zeroed_whole_is_told_of() -> None:
    """A page that never reached the disk, with later ones there: zeros between frames are no end of the file."""
    one, two, three = frame(1), frame(2), frame(3)
    first, problem, last = frames.frames(_HEADER + one + bytes(len(two)) + three, "f")
    assert isinstance(first, Frame)
    assert isinstance(last, Frame)
    assert (first.seq, last.seq) == (1, 3)
    assert isinstance(problem, Problem)
    assert problem.line == len(_HEADER + one)


def test_a_last_frame_without_its_first_page_is_damage() -> None:
    """Only the marker is missing from an append that was not finished; more than that was kept, and is lost."""
    made = frame(2, {"kind": "query", "question": "x" * 9000})
    (unfinished,) = frames.frames(_HEADER + bytes(8) + made[8:5000] + bytes(100), "f")
    (damaged,) = frames.frames(_HEADER + bytes(4096) + made[4096:] + bytes(100), "f")
    assert isinstance(unfinished, Problem)
    assert unfinished.reason.startswith(frames.UNFINISHED)
    assert isinstance(damaged, Problem)
    assert damaged.reason.startswith("damaged frame")


def test_a_header_that_is_damaged_takes_no_frame_along(tmp_path: Path) -> None:
    """The events go by the file's id, which is nobody else's, and it is said that their writer is not known."""
    path = tmp_path / _NAME
    path.write_bytes(b"?" + _HEADER[1:] + frame(1) + frame(2) + bytes(100))
    writer, _, found, (problem,) = content(path)
    assert (writer, [item.seq for item in found]) == (path.stem, [1, 2])
    assert "damaged header" in problem.reason


@pytest.mark.parametrize("name", ["short.spool", _NAME])
def test_a_file_that_is_none_of_ours(tmp_path: Path, name: str) -> None:
    """No header and no frame: said, whatever its name."""
    path = tmp_path / name
    path.write_bytes(b"%PDF-1.7" + bytes(500))
    assert content(path) == ("", 0, [], [Problem(name, 0, "not a spool file")])


def test_a_folder_named_like_a_spool_file(tmp_path: Path) -> None:
    """It can't be read, and hides no file beside it."""
    (tmp_path / "01M8P570G0.spool").mkdir()
    good = tmp_path / _NAME
    good.write_bytes(_HEADER + frame(1, qid="a"))
    events, problems = waiting_events(tmp_path, "a")
    assert [event["seq"] for event in events] == [1]
    assert len(problems) == 1
    assert [len(file.problems) for file in survey(tmp_path)] == [1, 0]
