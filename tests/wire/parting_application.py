"""An application that parts with its processes: it forks while threads ask, or is frozen right after a flush.

Arguments: what it does, store, spool. Its answer is one line of JSON on standard output.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import otel_prompt_trace as pt
from tests.wire.asking import URL, body, client


def ask(count: int, name: str) -> list[str]:
    """So many queries, in turns with a request on the wire and with a prompt that is declared; their qids."""
    qids = []
    with client() as model:
        for number in range(count):
            text = f"{name} {number}"
            with pt.query(question=text) as q:
                if number % 2:
                    model.post(URL, json=body(text))
                else:
                    with q.call(prompt=text) as call:
                        call.respond(f"answer to {text}")
            qids.append(q.qid)
    return qids


def fork(_provider: Any, folder: Path, *, flush: bool) -> Any:
    """Two children, fifty queries in each process, while two threads ask on; the children end with or without a flush.

    Returns:
        The qids of all of them, and of the threads'.
    """
    enough, asked = threading.Event(), list[str]()

    def go_on(name: str) -> None:
        while not enough.is_set():
            asked.extend(ask(2, name))

    threads = [threading.Thread(target=go_on, args=(f"thread {number}",)) for number in range(2)]
    qids = ask(1, "before")
    for thread in threads:
        thread.start()
    children = []
    for number in range(2):
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # a child that waits for a lock for ever ends by it
            status = 1
            try:
                (folder / f"child{number}").write_text(json.dumps(ask(50, f"child {number}")))
                status = 0 if not flush or pt.flush(20).ok else 2
            finally:
                os._exit(status)
        children.append(child)
    enough.set()
    qids += ask(49, "parent")
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    for thread in threads:
        thread.join()
    assert statuses == [0, 0], statuses
    for number in range(2):
        qids += json.loads((folder / f"child{number}").read_text())
    return {"qids": qids, "threads": asked}


def fork_under_lock(provider: TracerProvider, folder: Path) -> Any:
    """A child that asks while every lock of ours that was there before is held by a thread that it does not have."""
    qids = ask(1, "before")
    tracer = provider.get_tracer("app")
    far = trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=True))  # of a trace that was not sampled
    dropped = trace.set_span_in_context(far)
    held, forked, locks = threading.Event(), threading.Event(), _locks()

    def hold() -> None:
        for lock in locks:
            lock.acquire(timeout=1)
        held.set()
        forked.wait()

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    assert held.wait(20)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        with tracer.start_as_current_span("GET /", dropped), client() as model:
            content = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": "[]"}
            with tracer.start_as_current_span("chat m", attributes=content):
                model.post(URL, json=body("dropped"))
        (folder / "child").write_text(json.dumps(ask(2, "child")))
        os._exit(0 if pt.flush(15).ok else 2)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"status": status, "qids": qids + json.loads((folder / "child").read_text())}


def _locks() -> list[Any]:
    """The locks that modules and objects of ours hold, less those of the demo."""
    kind, found = type(threading.Lock()), []
    ours = [module for name, module in sys.modules.items() if name.startswith("otel_prompt_trace")]
    objects = [each for each in gc.get_objects() if str(type(each).__module__).startswith("otel_prompt_trace")]
    for each in [*ours, *objects]:
        found += (
            [value for value in vars(each).values() if isinstance(value, kind)] if hasattr(each, "__dict__") else []
        )
    assert len(found) >= 4
    return found


def freeze(provider: Any, _folder: Path) -> Any:
    """Three queries, one flush by way of the provider, as a platform's extension asks for it, and no moment more."""
    qids = ask(3, "function")
    print(json.dumps({"qids": qids, "flushed": provider.force_flush(20_000)}), flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)


def main() -> None:
    """Do what is asked for."""
    what, store, spool = sys.argv[1:]
    provider = TracerProvider(shutdown_on_exit=False)
    pt.install(store=store, spool=spool, tracer_provider=provider)
    if what == "fork under lock":
        print(json.dumps(fork_under_lock(provider, Path(spool).parent)), flush=True)
        os._exit(0)  # the locks are held still
    if what == "freeze":
        freeze(provider, Path(spool).parent)
    else:
        print(json.dumps(fork(provider, Path(spool).parent, flush=what == "fork and flush")))


if __name__ == "__main__":
    main()
