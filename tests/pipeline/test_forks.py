"""Moments in which nobody forks, and what becomes of them where somebody does not wait that long."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from otel_prompt_trace.pipeline.forks import NoFork
from tests.waiting import until

_held_up: list[Callable[[], None]] = []  # done by each fork once it has waited for the moments
os.register_at_fork(before=lambda: [wait() for wait in _held_up])
_moments = NoFork(0.1)  # registered later, and so the first to be asked


@pytest.fixture(autouse=True)
def no_hook_stays() -> Iterator[None]:
    """Forks of other tests wait for nothing."""
    yield
    _held_up.clear()


def _fork() -> None:
    child = os.fork()
    if not child:
        os._exit(0 if _is_free() else 1)
    assert os.waitpid(child, 0)[1] == 0


def _is_free() -> bool:
    done = threading.Event()

    def enter() -> None:
        with _moments.moment():
            done.set()

    threading.Thread(target=enter, daemon=True).start()
    return done.wait(5)


def test_a_fork_waits_until_a_moment_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another thread: the child is made afterwards, and both may have moments then."""
    monkeypatch.setattr(_moments, "_seconds", 20.0)
    order: list[str] = []
    _held_up.append(lambda: order.append("fork"))
    began = threading.Event()

    def at_it() -> None:
        with _moments.moment():
            began.set()
            until(thread.is_alive)
            order.append("over")

    thread = threading.Thread(target=_fork)
    other = threading.Thread(target=at_it)
    other.start()
    assert began.wait(5)
    thread.start()
    thread.join(20)
    other.join(20)
    assert order == ["over", "fork"]
    assert _is_free()


def test_a_fork_waits_no_longer_than_its_budget() -> None:
    """A moment that hangs: parent and child go on, and the parent's moment is its own as before."""
    with _moments.moment():
        thread = threading.Thread(target=_fork)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()
        assert not _free_at_once()
    assert _is_free()


def _free_at_once() -> bool:
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(_moments._lock.acquire(blocking=False)))
    thread.start()
    thread.join()
    return found[0]


def test_a_fork_within_a_moment() -> None:
    """Whoever is at it may fork: it waits for nothing, and the moment goes on."""
    with _moments.moment():
        _fork()
        assert not _free_at_once()
    assert _is_free()


def test_two_threads_that_fork() -> None:
    """The second gives up waiting while the first is held up: the first still gives back what it took."""
    first, second = threading.Event(), threading.Event()

    def wait() -> None:
        if first.is_set():
            second.set()  # it has waited for the moment, in vain
        else:
            first.set()
            second.wait(20)

    _held_up.append(wait)
    with ThreadPoolExecutor(2) as pool:
        forks = [pool.submit(_fork)]
        assert first.wait(20)
        forks.append(pool.submit(_fork))
        for fork in forks:
            fork.result(20)
        assert _is_free()  # while the threads live: a lock that is left to one belongs to the next of its number
