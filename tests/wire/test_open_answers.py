"""Answers that are still open: bounded together, so that what is long pays, and what is ordinary never does."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator

import httpx2
import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.wire.open_answers import OPEN_ANSWERS, OpenAnswers
from tests.wire.asking import URL, Recorded, asked, body, client, recorded, text_of

__all__ = ["recorded"]

_MIB = 1 << 20


class Answer:
    """Something that holds bytes."""

    def __init__(self) -> None:
        self.held = 0

    def read(self, answers: OpenAnswers, size: int, most: int, chunk: int = 64 * 1024) -> int:
        """Take chunks until it has ``size`` bytes, or may keep no more; what it holds then."""
        while self.held < size and answers.may_keep(self, chunk, most):
            self.held += chunk
        return self.held


def test_one_alone_may_hold_the_bound() -> None:
    """And no more than a step beyond it."""
    answers = OpenAnswers()
    assert 7 * _MIB <= Answer().read(answers, 100 * _MIB, 8 * _MIB) <= 9 * _MIB


@pytest.mark.parametrize("count", [2, 40, 400])
def test_many_share_it(count: int) -> None:
    """However many, all together hold at most twice the bound and a step."""
    answers = OpenAnswers()
    held = [Answer() for _ in range(count)]
    for each in held:
        each.read(answers, 100 * _MIB, 8 * _MIB)
    assert 8 * _MIB <= sum(each.held for each in held) <= 17.2 * _MIB


def test_ordinary_answers_are_whole_beside_a_long_one() -> None:
    """A long one that fills the bound takes nothing from those within their share."""
    answers = OpenAnswers()
    Answer().read(answers, 100 * _MIB, 8 * _MIB)
    for _ in range(50):
        small = Answer()
        assert small.read(answers, 64 * 1024, 8 * _MIB, chunk=4096) == 64 * 1024
        answers.ended(small)


@pytest.mark.parametrize("how", ["ended", "gone"])
def test_room_that_is_given_back_is_there_again(how: str) -> None:
    """By an answer that has ended, and by one whose object is gone without that."""
    answers = OpenAnswers()
    first, second = Answer(), Answer()
    first.read(answers, 100 * _MIB, 8 * _MIB)
    assert second.read(answers, 8 * _MIB, 8 * _MIB) < 8 * _MIB
    if how == "ended":
        first.held = 0
        answers.ended(first)
    else:
        del first
        gc.collect()
    assert len(answers) == 1
    assert second.read(answers, 6 * _MIB, 8 * _MIB) == 6 * _MIB


class _Words(httpx2.SyncByteStream):
    def __init__(self, count: int) -> None:
        self._count = count

    def __iter__(self) -> Iterator[bytes]:
        word = "x" * 32_000
        choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
        line = b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode() + b"\n\n"
        for _ in range(self._count):
            yield line
        yield b"data: [DONE]\n\n"


def _long(request: httpx2.Request) -> httpx2.Response:
    count = int(asked(request))
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=_Words(count))


def test_streams_that_are_left_open(recorded: Recorded) -> None:
    """Thirty of three MiB where four may be held: one that ends meanwhile is whole, the others say what they lack."""
    pt.uninstall()
    pt.install(store=str(recorded.folder), spool=str(recorded.folder.with_name("spool2")), memory_max_bytes=4 * _MIB)
    with client(_long) as model, pt.query() as q:
        opened = []
        for number in range(30):
            request = model.build_request("POST", URL, json=body("100", stream=True, user=str(number)))
            response = model.send(request, stream=True)
            chunks = response.iter_bytes()
            for _ in range(99):
                next(chunks)
            opened.append((response, chunks))
        assert model.post(URL, json=body("2", stream=True)).status_code == 200
        for response, _ in opened:
            response.close()
    assert not len(OPEN_ANSWERS)
    assert pt.flush(60).ok
    calls = recorded.record(q.qid).calls
    assert len(calls) == 31
    kept = 0
    for call in calls:
        assert call.response is not None
        if text_of(call) == "2":
            assert len(call.response["output"]) == 64_000
            assert not call.unfinished
        else:
            assert call.unfinished
            kept += len(call.response.get("output") or "")
    assert 4 * _MIB <= kept <= 9 * _MIB
    assert sum(call.response.get("unkept", 0) for call in calls if call.response) >= 75 * _MIB
