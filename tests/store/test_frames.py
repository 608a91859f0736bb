"""Frames: many in a row are read whole, and damage is named beside what survives."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.store import frames
from otel_prompt_trace.store.frames import pack, pack_all, unpack

LINES = [b'{"n":%d,"x":"%s"}\n' % (number, os.urandom(40).hex().encode()) for number in range(20_000)]
WHOLE = b"".join(LINES)


@given(st.lists(st.lists(st.binary(max_size=200), min_size=1), min_size=1, max_size=5))
def test_frames_in_a_row(groups: list[list[bytes]]) -> None:
    """Concatenated frames give all their bytes, the later ones too."""
    held = b"".join(line for group in groups for line in group)
    assert unpack(b"".join(map(pack, groups))) == (held, "" if held else "the object is empty")


class _Counting:
    """A compressor that counts the calls by which the interpreter's lock is let go of."""

    def __init__(self, *, together: bool) -> None:
        self._real = zstandard.ZstdCompressor(level=1, write_checksum=True, write_content_size=True)
        self.calls: list[str] = []
        if together:
            self.multi_compress_to_buffer = self._together

    def compress(self, data: bytes) -> bytes:
        self.calls.append("one")
        return self._real.compress(data)

    def _together(self, data: list[bytes]) -> object:
        self.calls.append("all")
        return self._real.multi_compress_to_buffer(data)


@pytest.mark.parametrize(
    ("count", "together", "calls"), [(256, True, 1), (256, False, 256), (1, True, 1), (0, True, 0)]
)
def test_all_are_compressed_in_one_call(
    monkeypatch: pytest.MonkeyPatch, count: int, together: bool, calls: int
) -> None:
    """The frames of 256 queries for one release of the lock, where the library can; each the frame of it alone."""
    counting = _Counting(together=together)
    monkeypatch.setattr(frames, "_idle", [counting])
    groups = [LINES[number : number + 9] for number in range(count)]
    packed = pack_all(groups)
    assert len(counting.calls) == calls
    assert packed == [pack(group) for group in groups]


def test_an_empty_group_is_a_frame_as_well() -> None:
    """Whatever the others are."""
    assert pack_all([LINES[:2], [], LINES[:1]]) == [pack(LINES[:2]), pack([]), pack(LINES[:1])]


def test_a_frame_states_its_size_and_checksum() -> None:
    """Other readers can allocate once and check what they read."""
    parameters = zstandard.get_frame_parameters(pack(LINES))
    assert (parameters.content_size, parameters.has_checksum) == (len(WHOLE), True)


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
def test_torn(kept: float) -> None:
    """An object that ends early is said to be torn, and its whole blocks are there."""
    packed = pack(LINES)
    held, fault = unpack(packed[: int(len(packed) * kept)])
    assert "torn" in fault
    assert WHOLE.startswith(held)
    assert len(held) > len(WHOLE) * kept - 2 * 131_072


def test_second_frame_torn() -> None:
    """A torn second frame does not take the first with it."""
    held, fault = unpack(pack(LINES[:10]) + pack(LINES)[:-5])
    assert held.startswith(b"".join(LINES[:10]))
    assert "torn" in fault


def test_a_flipped_bit_is_noticed() -> None:
    """Any single damaged byte of a small object gives a fault or, in a header's spare bits, the same bytes."""
    packed = pack(LINES[:20])
    for position in range(len(packed)):
        damaged = bytearray(packed)
        damaged[position] ^= 0x10
        held, fault = unpack(bytes(damaged))
        assert fault or held == b"".join(LINES[:20]), position


def test_damage_in_the_middle_keeps_what_comes_before() -> None:
    """What was decompressed before the damaged place is kept."""
    packed = bytearray(pack(LINES))
    middle = len(packed) * 3 // 4
    packed[middle : middle + 64] = bytes(64)
    held, fault = unpack(bytes(packed))
    assert "damaged" in fault
    assert len(held) > len(WHOLE) // 2
    assert held[: len(WHOLE) // 2] == WHOLE[: len(WHOLE) // 2]


@pytest.mark.parametrize("data", [b"not zstd at all", pack(LINES[:3]) + b"trailing"])
def test_foreign_bytes(data: bytes) -> None:
    """Bytes that are no frame are damage, alone or behind one."""
    held, fault = unpack(data)
    assert "damaged" in fault
    assert held in {b"", b"".join(LINES[:3])}


def test_empty() -> None:
    """An object of no bytes is a fault, not an empty record."""
    assert unpack(b"") == (b"", "the object is empty")


def test_many_threads_pack_at_once() -> None:
    """A compressor is at work for one of them at a time, so that each frame holds its own lines."""
    groups = [LINES[number : number + 500] for number in range(0, 16_000, 500)]
    with ThreadPoolExecutor(8) as pool:
        packed = list(pool.map(pack, groups))
    assert [unpack(data)[0] for data in packed] == [b"".join(group) for group in groups]
