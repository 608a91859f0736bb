"""The byte format of a spool file: what is written is read, and damage hides nothing but itself."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import xxhash
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.events import Problem
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.flags import END, LINES, REQUEST
from otel_prompt_trace.pipeline.frames import Frame
from tests.pipeline.fakes import QIDS, WRITER, frame

_HEADER = frames.header(WRITER, 7)

_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
_events = st.lists(
    st.fixed_dictionaries({"kind": st.sampled_from(["query", "request", "end"]), "x": _json}), min_size=1, max_size=4
)
_frames = st.lists(
    st.tuples(st.sampled_from([0, END, REQUEST]), st.sampled_from(QIDS), st.integers(1, 2**63), _events), max_size=5
)


def _read(data: bytes) -> tuple[list[Frame], list[Problem]]:
    found = list(frames.frames(data, "f"))
    return (
        [item for item in found if isinstance(item, Frame)],
        [item for item in found if isinstance(item, Problem)],
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_frames, st.integers(0, 100))
def test_round_trip(written: list[tuple[int, str, int, list[dict[str, Any]]]], zeros: int) -> None:
    """Any events come back equal, in order, with number, time, qid and flags, whatever zeros follow."""
    data = _HEADER
    for flags, qid, seq, events in written:
        data += frame(seq, *events, qid=qid, flags=flags, common={"service": "s"})
    found, problems = _read(data + bytes(zeros))
    assert problems == []
    assert [(f.flags, f.qid, f.seq, f.events) for f in found] == [(a, b, c, len(d)) for a, b, c, d in written]
    for item, (_, qid, seq, events) in zip(found, written, strict=True):
        for number, event in enumerate(frames.expand(item, WRITER, "f")):
            assert isinstance(event, dict)
            assert event["x"] == events[number]["x"]
            assert event["kind"] == events[number]["kind"]
            stamp = {"v": "1.0", "qid": qid, "writer": WRITER, "seq": seq + number, "service": "s"}
            assert event == event | stamp
            assert event["ts"] == "2026-11-30T12:00:00.000000000Z"


def test_the_format_is_as_documented() -> None:
    """Offsets, markers and checksums of the module's docstring, read by hand."""
    name = QIDS[0].encode()
    data = frame(5, {"kind": "query"}, {"kind": "end"}, flags=END)
    marker, length, flags, checksum, seq, ts, events, name_length = struct.unpack_from("<8sIIQQQHH", data)
    body = data[44 + len(name) : 44 + len(name) + length]
    assert marker == b"\xf5PTFRM1\xf5"
    assert (flags, seq, ts, events, name_length) == (1, 5, 1_796_040_000_000_000_000, 2, len(name))
    assert data[44 : 44 + len(name)] == name
    assert checksum == xxhash.xxh3_64_intdigest(data[8:16] + data[24 : 44 + len(name)] + body)
    assert len(data) % 8 == 0
    magic, created, writer = struct.unpack_from("<8sQ26s", _HEADER)
    assert (len(_HEADER), magic, created, writer.decode()) == (64, b"PTSPOOL1", 7, WRITER)
    assert struct.unpack_from("<Q", _HEADER, 42)[0] == xxhash.xxh3_64_intdigest(_HEADER[:42])
    assert frames.read_header(_HEADER) == (WRITER, 7)


def test_a_file_without_frames() -> None:
    """A header alone, with zeros or without, holds nothing and is not damaged."""
    for data in (_HEADER, _HEADER + bytes(8), _HEADER + bytes(100_000)):
        assert _read(data) == ([], [])


@pytest.mark.parametrize("data", [b"", b"PTSPOOL1", bytes(4096), b"%PDF-1.7" + bytes(100), b"\xff" * 64])
def test_what_is_no_spool_file(data: bytes) -> None:
    """Nothing, zeros or another format have no header."""
    assert frames.read_header(data) is None


def test_any_flipped_byte_of_a_header_is_noticed() -> None:
    """A wrong writer would give events another identity."""
    for position in range(50):
        data = bytearray(_HEADER)
        data[position] ^= 1
        assert frames.read_header(bytes(data)) is None


def test_any_flipped_byte_is_reported_and_hides_only_its_frame() -> None:
    """Each byte of the middle frame but its padding: its neighbours are read, and a problem names the place."""
    first, middle, last = frame(1), frame(2), frame(3)
    used = len(middle.rstrip(b"\0"))
    assert used > 60
    for position in range(used):
        damaged = bytearray(middle)
        damaged[position] ^= 0x10
        found, problems = _read(_HEADER + first + bytes(damaged) + last + bytes(64))
        assert [item.seq for item in found] == [1, 3], position
        assert [(problem.line, problem.source) for problem in problems] == [(64 + len(first), "f")]
        assert problems[0].reason.startswith("damaged frame")


def test_a_zeroed_page_is_reported() -> None:
    """A frame whose beginning never reached the disk, with its body there: reported, not taken for the end."""
    first, middle, last = frame(1), frame(2, {"kind": "query", "question": "x" * 500}), frame(3)
    damaged = bytes(200) + middle[200:]
    for tail in (last, b""):
        found, problems = _read(_HEADER + first + damaged + tail + bytes(64))
        assert [item.seq for item in found] == [1, 3][: 1 + bool(tail)]
        assert len(problems) == 1


def test_a_file_cut_anywhere() -> None:
    """Whole frames before the cut are read; what is left of the one that was cut is reported."""
    parts = [frame(number) for number in (1, 2, 3)]
    data = _HEADER + b"".join(parts)
    ends = [64, 64 + len(parts[0]), 64 + len(parts[0]) + len(parts[1]), len(data)]
    for cut in range(64, len(data)):
        found, problems = _read(data[:cut])
        whole = [item.seq for item in found]
        reached = max(end for end in ends if end <= cut)
        padding_only = not data[cut:].strip(b"\0") or any(cut < end and not data[cut:end].strip(b"\0") for end in ends)
        if padding_only:
            continue  # a frame is whole without its padding
        assert whole == list(range(1, ends.index(reached) + 1)), cut
        assert len(problems) == (1 if cut > reached else 0), cut


def test_an_append_that_was_never_finished_is_told_apart() -> None:
    """The marker comes last: bytes behind zeros in its place are an append that nobody was told had succeeded."""
    torn = bytes(8) + frame(2)[8:40]
    found, problems = _read(_HEADER + frame(1) + torn + bytes(500))
    assert [item.seq for item in found] == [1]
    assert [problem.reason for problem in problems] == [f"{frames.UNFINISHED}: 40 bytes skipped"]


def test_a_marker_inside_a_text_is_no_frame() -> None:
    """Bytes in an argument may hold anything, also a marker, at any alignment."""
    for shift in range(8):
        trap = b"." * shift + frames.MARKER + bytes(40)
        data = _HEADER + frame(1, {"kind": "tool_call", "arguments": trap}) + frame(2)
        found, problems = _read(data)
        assert ([item.seq for item in found], problems) == ([1, 2], [])


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 20))
def test_any_rubbish_between_frames(rubbish: bytes, pad: int) -> None:
    """Whatever lies between two good frames, both are read, and rubbish that is not all zeros is reported."""
    assume(not rubbish.startswith(frames.DONE))  # else it is what it says, a frame that is stored
    middle = (rubbish + bytes(pad)).ljust((len(rubbish) + pad + 7) & ~7, b"\0")
    found, problems = _read(_HEADER + frame(1) + middle + frame(2))
    assert [item.seq for item in found if item.seq in (1, 2)] == [1, 2]
    assert len(problems) >= bool(middle.strip(b"\0"))


def _struck(data: bytes, reached: int | None = None) -> bytes:
    """A frame that the store has acknowledged, its zeros written as far as ``reached``."""
    stop = len(data) if reached is None else reached
    return frames.DONE + data[8 : frames.FIXED] + bytes(stop - frames.FIXED) + data[stop:]


def test_what_is_stored_is_passed_over() -> None:
    """Frames that were struck out are neither read nor called damaged, wherever they stand."""
    one, two, three = frame(1), frame(2), frame(3)
    for order in ([_struck(one), two, three], [one, _struck(two), three], [one, two, _struck(three)]):
        found, problems = _read(_HEADER + b"".join(order) + bytes(100))
        assert problems == []
        assert [item.seq for item in found] == [n for n, part in enumerate(order, 1) if part in (one, two, three)]
    assert _read(_HEADER + _struck(one) + _struck(two) + _struck(three)) == ([], [])


def test_a_strike_that_was_interrupted_anywhere_is_one() -> None:
    """Killed in the middle of writing the zeros: what is left of the frame is not damage, and hides nothing."""
    middle = frame(2)
    for reached in range(frames.FIXED, len(middle) + 1):
        found, problems = _read(_HEADER + frame(1) + _struck(middle, reached) + frame(3) + bytes(64))
        assert ([item.seq for item in found], problems) == ([1, 3], [])


def test_a_flipped_byte_of_a_struck_frame_hides_nothing() -> None:
    """Its length is checked by nothing, so it is trusted no further than the next marker."""
    middle = _struck(frame(2))
    for position in range(frames.FIXED):
        for bit in (1, 0x80):
            damaged = bytearray(middle)
            damaged[position] ^= bit
            found, _ = _read(_HEADER + frame(1) + bytes(damaged) + frame(3) + bytes(64))
            assert [item.seq for item in found] == [1, 3], position


def test_an_event_that_can_t_be_read_hides_no_other() -> None:
    """One without a kind, one that is no object: named, with their neighbours kept under their own numbers."""
    events: list[Any] = [{"kind": "query"}, {"no": "kind"}, 7, {"kind": "end"}]
    (item,), _ = _read(_HEADER + frame(10, *events))
    expanded = list(frames.expand(item, WRITER, "f"))
    assert [e["seq"] for e in expanded if isinstance(e, dict)] == [10, 13]
    assert [p.reason.partition(" that")[0] for p in expanded if isinstance(p, Problem)] == ["event 11", "event 12"]


def test_a_body_that_is_none() -> None:
    """A whole frame around a body that is no MessagePack of ours is one problem."""
    for body in (b"", b"\xc1", b"\x93\x01\x02\x03", b'{"json": 1}'):
        (item,), _ = _read(_HEADER + b"".join(frames.build(0, QIDS[0], 1, 7, 1, body)))
        (problem,) = frames.expand(item, WRITER, "f")
        assert isinstance(problem, Problem)


def test_lines_are_taken_as_they_are() -> None:
    """A body of JSON lines keeps its own stamps, whoever wrote the file."""
    line = b'{"v":"1.0","kind":"end","qid":"a","ts":"2026-11-30T12:00:00.000000000Z","writer":"w","seq":3}\n'
    head, body = frames.build(LINES, "a", 3, 7, 1, line)
    (item,), _ = _read(_HEADER + head + body)
    (event,) = frames.expand(item, WRITER, "f")
    assert isinstance(event, dict)
    assert (event["writer"], event["seq"]) == ("w", 3)
