"""Work on many threads: who starts them, and what happens where none can be started any more."""

from __future__ import annotations

import threading

import pytest

from otel_prompt_trace.pipeline.delivery.side_by_side import side_by_side


def test_none_starts_more_than_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """All run at one time; beside a busy thread each start takes twice a switch interval, so they share in it."""
    starters: list[str] = []
    start, barrier = threading.Thread.start, threading.Barrier(16)

    def seen(thread: threading.Thread) -> None:
        starters.append(threading.current_thread().name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", seen)
    done: list[int] = []

    def work(item: int) -> bool:
        if item < 16:
            barrier.wait(20)
        done.append(item)
        return True

    side_by_side(work, range(40), 16, lambda: None, 0.01)
    assert sorted(done) == list(range(40))
    assert len(starters) == 16
    assert max(map(starters.count, starters)) == 2


@pytest.mark.parametrize("after", [0, 1, 2, 5])
def test_where_none_can_be_started_those_that_run_do_it_all(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """The interpreter is exiting: every item is done once, by those there are, else by whoever asked."""
    start, left = threading.Thread.start, [after]

    def limited(thread: threading.Thread) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("can't create new thread at interpreter shutdown")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    done: list[tuple[int, str]] = []

    def work(item: int) -> bool:
        done.append((item, threading.current_thread().name))
        return True

    side_by_side(work, range(30), 16, lambda: None, 0.01)
    assert sorted(item for item, _ in done) == list(range(30))
    if not after:
        assert {name for _, name in done} == {threading.current_thread().name}


def test_after_a_no_nothing_is_begun() -> None:
    """What is under way is waited for; of what is left nothing is taken up."""
    begun: list[int] = []

    def work(item: int) -> bool:
        begun.append(item)
        return item != 3

    side_by_side(work, range(1000), 1, lambda: None, 0.01)
    assert begun == [0, 1, 2, 3]
    side_by_side(work, [], 4, lambda: pytest.fail("there is nothing to wait for"), 0.01)
