"""Attempts and calls: which request on the wire is a further try, and which is another call."""

from __future__ import annotations

import itertools
import threading

from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.wire.sent import SentCall, SentCalls, Target, target_of

BODY = b'{"messages": []}'


def target(body: bytes = BODY, host: str = "h", path: str = "/p") -> Target:
    return target_of(body, host, path)


class Sender:
    """Sends from one place, each with an id of its own."""

    def __init__(self, base: str | None = "call") -> None:
        self.calls = SentCalls(base)
        self._ids = map("new-{}".format, itertools.count(1))

    def send(self, to: Target | None = None) -> SentCall:
        """Send once; a call is known again where it is tried again, and nowhere else."""
        call, again = self.calls.next(to or target(), next(self._ids))
        assert again == (call.attempts > 1)
        return call

    def ends(self, call: SentCall, *, complete: bool) -> None:
        """As :class:`Exchange <otel_prompt_trace.wire.exchange.Exchange>` does when a response is over."""
        call.open, call.complete = False, complete


def test_a_retry_after_a_failure_is_a_further_attempt() -> None:
    """429, 429, 200: one call, three attempts."""
    sender = Sender()
    first = sender.send()
    sender.ends(first, complete=False)
    again = sender.send()
    sender.ends(again, complete=False)
    third = sender.send()
    sender.ends(third, complete=True)
    assert first is again is third
    assert (third.id, third.attempts, len(sender.calls)) == ("call", 3, 1)


def test_two_that_both_succeeded_are_two_calls() -> None:
    """Somebody asked the same thing twice, and was answered twice."""
    sender = Sender()
    first = sender.send()
    sender.ends(first, complete=True)
    second = sender.send()
    assert (first.id, second.id) == ("call", "call-2")
    assert (first.attempts, second.attempts) == (1, 1)


def test_two_under_way_at_once_are_two_calls() -> None:
    """No client tries again before the first try is over."""
    sender = Sender()
    first, second = sender.send(), sender.send()
    assert first is not second
    sender.ends(first, complete=False)
    assert sender.send() is first
    sender.ends(second, complete=False)
    assert sender.send() is second


def test_another_body_host_or_path_is_another_call() -> None:
    """Even after a failure: a fallback to another model or provider is not the same try."""
    sender = Sender()
    first = sender.send()
    sender.ends(first, complete=False)
    others = [target(BODY + b" "), target(host="g"), target(path="/q"), target(b"")]
    found = [sender.send(other) for other in others]
    assert [call.id for call in found] == ["call-2", "call-3", "call-4", "call-5"]
    assert sender.send() is first


def test_after_a_success_a_failure_before_it_is_still_tried_again() -> None:
    """Two calls of the same body: one succeeded, the other's retry is its own."""
    sender = Sender()
    first, second = sender.send(), sender.send()
    sender.ends(second, complete=True)
    sender.ends(first, complete=False)
    assert sender.send() is first


def test_a_place_without_an_id_gives_each_call_one_of_its_own() -> None:
    """A query may send many calls that nobody opened."""
    sender = Sender(None)
    assert [sender.send().id, sender.send().id] == ["new-1", "new-2"]


def test_memory_is_bounded() -> None:
    """A place that sends all day remembers the newest calls only; ids go on."""
    sender = Sender()
    first = sender.send(target(b"0"))
    sender.ends(first, complete=False)
    for number in range(1, 1000):
        sender.ends(sender.send(target(str(number).encode())), complete=False)
    assert len(sender.calls._calls) <= 16
    assert sender.send(target(b"0")).id == "call-1001"


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["send", "fail", "succeed"])), max_size=30))
def test_what_always_holds(steps: list[tuple[str, str]]) -> None:
    """A call is tried again only if it was over and had failed; ids are distinct; every send belongs to one call."""
    sender = Sender()
    state: dict[str, str] = {}
    under_way: dict[str, list[SentCall]] = {"a": [], "b": []}
    sent: list[SentCall] = []
    for body, step in steps:
        if step == "send":
            call = sender.send(target(body.encode()))
            assert state.get(call.id, "failed") == "failed"
            assert call.target == target(body.encode())
            state[call.id] = "open"
            under_way[body].append(call)
            sent.append(call)
        elif under_way[body]:
            call = under_way[body].pop(0)
            sender.ends(call, complete=step == "succeed")
            state[call.id] = "succeeded" if step == "succeed" else "failed"
    distinct = {id(call): call for call in sent}
    assert sum(call.attempts for call in distinct.values()) == len(sent)
    assert len({call.id for call in distinct.values()}) == len(distinct) == len(sender.calls)


def test_many_threads_at_once() -> None:
    """Each request is counted once, and no two calls share an id."""
    sender, barrier = Sender(), threading.Barrier(8)
    found: list[SentCall] = []

    def run() -> None:
        barrier.wait()
        for _ in range(100):
            call, _ = sender.calls.next(target(), "unused")
            found.append(call)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len({call.id for call in found}) == len(sender.calls) == 800
