"""A program that records as it is told to on standard input, and says on standard output what it has done.

Its argument is a JSON object: ``install`` (arguments of ``pt.install``), ``host`` (the port of a model host on
loopback), ``adopt_seconds`` (between two looks at what others have left) and ``most_bytes`` (no file of it may grow
beyond). Each line of input is a command, each line of output one of:

- ``{"qid", "via", "sha256", "marker", "receipt"}``: a query is over. Written in one piece right after its
  ``with`` block ended, or its span: the acknowledgement.
- ``{"books": …}``: the counts, when asked for, after a flush, and as the last thing that the process says.
- ``{"done": …}``: a command is carried out.
"""

from __future__ import annotations

import atexit
import hashlib
import itertools
import json
import os
import random
import resource
import signal
import ssl
import sys
import threading
import time
from typing import Any

import httpx2
import orjson
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import otel_prompt_trace as pt
from otel_prompt_trace.current import current
from otel_prompt_trace.pipeline import shipper
from otel_prompt_trace.sources import Sources

# One for all: a child that is forked while another thread makes one finds locks of OpenSSL taken for ever.
_TLS = ssl.create_default_context()
VIAS = ("declare", "wire", "span")
_ALPHABET = "abc defg. éß÷\u2028\u200f日本語🏳️‍🌈\r\n\0"


def say(**what: object) -> None:
    """Write one line, in one piece: others of this process and its children write there too."""
    os.write(1, orjson.dumps(what) + b"\n")


def books() -> dict[str, Any]:
    """The counts of this process as they stand."""
    runtime = current()
    assert runtime is not None
    result = runtime.accounts.result()
    return {
        "writer": runtime._recorder.writer,
        "recorded": runtime.accounts.recorded,
        "stored": result.stored,
        "spooled": result.spooled,
        "lost": result.lost,
        "reasons": result.reasons,
        "ok": result.ok,
    }


def _receipt(q: pt.Query) -> dict[str, Any]:
    receipt = q.receipt
    return {"qid": q.qid, "receipt": [receipt.stored + receipt.spooled, receipt.lost]}


class Recording:
    """Records queries by every route, from one thread."""

    def __init__(self, seed: str, host: int | None) -> None:
        self._rng = random.Random(seed)
        self._host = host
        self._client = httpx2.Client(timeout=20, trust_env=False, verify=_TLS)
        self._turn = itertools.count()
        self._tracer = trace.get_tracer("application")

    def record(self, via: str = "all", size: int = 30_000) -> None:
        """Record one query and acknowledge it."""
        if via == "all":
            via = VIAS[next(self._turn) % (3 if self._host else 1)]
        marker = f"{self._rng.getrandbits(64):016x}"
        text = self._text(self._rng.randrange(200, max(size, 400))) + marker
        say(marker=marker, via=via, **getattr(self, f"_by_{via}")(text, marker))

    def _text(self, characters: int) -> str:
        block = "".join(self._rng.choices(_ALPHABET, k=200))
        return (block * (characters // 200 + 1))[:characters]

    def _by_declare(self, text: str, marker: str) -> dict[str, Any]:
        prompt = pt.Prompt().add("system", self._text(300), trust="policy").literal("\n\n")
        prompt.add("user", text, trust="user")
        if self._rng.random() < 0.1:
            prompt.add("tail", "half \ud83d")
        with pt.query(question=f"what of {marker}?") as q:
            q.retrieved([(f"c{n}", self._rng.random()) for n in range(3)], top_k=3)
            with q.call(model="m", prompt=prompt) as call:
                call.respond(f"answer to {marker}", finish_reason="stop")
        return {**_receipt(q), "sha256": hashlib.sha256(prompt.text.encode("utf-8", "surrogatepass")).hexdigest()}

    def _by_wire(self, text: str, marker: str) -> dict[str, Any]:
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
        with pt.query(question=f"what of {marker}?") as q:
            answer = self._client.post(
                f"http://127.0.0.1:{self._host}/v1/chat/completions",
                content=body,
                headers={"content-type": "application/json"},
            )
            assert answer.status_code == 200
        return {**_receipt(q), "sha256": hashlib.sha256(body).hexdigest()}

    def _by_span(self, text: str, marker: str) -> dict[str, Any]:
        messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": messages}
        with self._tracer.start_as_current_span("chat m", attributes=attributes) as span:
            span.set_attribute("gen_ai.output.messages", json.dumps([{"role": "assistant", "parts": []}]))
        context = span.get_span_context()
        return {"qid": f"{context.trace_id:032x}-{context.span_id:016x}", "sha256": "", "receipt": None}


class Program:
    """Carries out commands, one after the other."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._ahead = 0  # nanoseconds
        self._halt = threading.Event()
        self._threads: list[threading.Thread] = []
        self._mine: Recording | None = None

    def install(self) -> None:
        """Begin to record. What is said last is said after everything else that is done at exit."""
        config = self._config
        seconds = config.get("adopt_seconds")
        if seconds is not None:
            shipper._FIRST_ADOPT_SECONDS = shipper.ADOPT_SECONDS = seconds
        if config.get("most_bytes"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (config["most_bytes"], resource.RLIM_INFINITY))
        trace.set_tracer_provider(TracerProvider())
        atexit.register(self._last_words)
        pt.install(**config["install"], sources=Sources(now_ns=lambda: time.time_ns() + self._ahead))

    def run(self) -> None:
        """Until the input ends."""
        for line in sys.stdin:
            command = json.loads(line)
            name = command.pop("do")
            say(done=name, told=getattr(self, name)(**command))

    def record(self, count: int, via: str = "all", size: int = 30_000) -> None:
        """Record on this thread."""
        if self._mine is None:
            self._mine = Recording(f"{os.getpid()}", self._config.get("host"))
        for _ in range(count):
            self._mine.record(via, size)

    def begin(self, threads: int, pause: float = 0.0, via: str = "all") -> None:
        """Record on threads until told to halt, or gone."""

        def go(number: int) -> None:
            mine = Recording(f"{os.getpid()}-{number}", self._config.get("host"))
            while not self._halt.is_set():
                mine.record(via)
                time.sleep(pause)

        self._halt.clear()
        self._threads = [threading.Thread(target=go, args=(number,), daemon=True) for number in range(threads)]
        for thread in self._threads:
            thread.start()

    def halt(self) -> None:
        """End those threads."""
        self._halt.set()
        for thread in self._threads:
            thread.join()

    def flush(self, timeout: float) -> dict[str, Any]:
        """Flush, and say what came of it."""
        began = time.monotonic()
        ok = pt.flush(timeout).ok
        say(books=books())
        return {"ok": ok, "seconds": time.monotonic() - began}

    def fork(self, count: int, how: str) -> int:
        """A child that records and ends in some way; the number of its process, which is over."""
        child = os.fork()
        if not child:
            self._mine = None  # connections and chance of its own
            self.record(count)
            if how == "exit":
                sys.exit(0)
            say(books=books())
            os.kill(os.getpid(), signal.SIGKILL) if how == "kill" else os._exit(0)
        os.waitpid(child, 0)
        return child

    def state(self) -> str:
        """Say the counts as they stand; the durability in force."""
        runtime = current()
        assert runtime is not None
        say(books=books())
        return runtime.durability

    def clock(self, ahead_seconds: float) -> None:
        """Set the clock that records go by."""
        self._ahead = int(ahead_seconds * 1e9)

    def end(self, how: str) -> None:
        """End in order, or past every handler."""
        if how == "_exit":
            say(books=books())
            os._exit(0)
        if how == "raise":
            raise LookupError("the application's own")
        sys.exit(0)

    def _last_words(self) -> None:
        say(books=books())


def main() -> None:
    """Install, say so, and do what is asked."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored under nohup, and inherited by all that is started there
    program = Program(json.loads(sys.argv[1]))
    program.install()
    say(done="install")
    program.run()


if __name__ == "__main__":
    main()
