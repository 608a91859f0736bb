"""What is imported after ``install`` is imported while nobody forks: a child would wait for the module's lock for ever.

What the application and its libraries import by themselves on its threads is theirs.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import otel_prompt_trace as pt
from tests.faults.stub_s3 import StubS3
from tests.lifecycle.serving import environ
from tests.wire.model_host import Answer, ModelHost

pytestmark = pytest.mark.fault

_ROOT = Path(__file__).parents[2]
_SCRIPT = """
import json, os, signal, sys, threading, time

from otel_prompt_trace import parts

outside = []

class Watching:
    def find_spec(self, name, path=None, target=None):
        frame = sys._getframe(1)
        while "importlib" in frame.f_code.co_filename or "/encodings/" in frame.f_code.co_filename:
            frame = frame.f_back
        thread = threading.current_thread().name
        ours = thread.startswith("prompt-trace") or "/otel_prompt_trace/" in frame.f_code.co_filename
        if ours and not parts._importing._lock._is_owned():
            outside.append([name, thread, frame.f_code.co_filename])

store, spool, delivery, *host = sys.argv[1:]

import otel_prompt_trace as pt
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from otel_prompt_trace.current import current

trace.set_tracer_provider(TracerProvider())

def ask():
    with pt.query(question="what?") as q:
        pt.declare("rag", "Fish & chips, <b>daily</b>.")
        pt.pack([{"id": "a", "text": "Fish"}], budget=9, count=len)
        pt.place(lambda text: f"Menu: {text}", [("rag", "Fish")])
        pt.carry(lambda: pt.feedback(q.qid, score=1))()
        with q.call(prompt="The menu: Fish &amp; chips, &lt;b&gt;daily&lt;/b&gt;. And &hellip; so on.") as call:
            until(lambda: call._provisional is not None)
            call.respond(output="yes")

def until(done, seconds=30):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)

gone = os.fork()
if not gone:
    pt.install(store=store, spool=spool, delivery="thread", adopt=False, wire="off")
    with pt.query(qid="left"):
        pass
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(gone, 0)

if host:
    import httpx2

    model, address = httpx2.Client(), f"http://127.0.0.1:{host[0]}/v1/chat/completions"
    body = {"model": "m", "messages": [{"role": "user", "content": "Fish &amp; chips?"}]}
pt.install(store=store, spool=spool, delivery=delivery, wire="on" if host else "off")
sys.meta_path.insert(0, Watching())
for line in iter(sys.stdin.readline, ""):
    if host:
        with pt.query(question="what?"):
            model.post(address, json=body)
    else:
        ask()
    print(json.dumps(pt.flush(float(line)).ok), flush=True)
current()._parts.shipper._adopt_at = 0
until(lambda: len(os.listdir(spool)) == 1)
pt.uninstall()
print(json.dumps(outside))
"""
_REPLY = {
    "id": "r", "object": "chat.completion", "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "so &hellip;"}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
}  # fmt: skip
_JSON = json.dumps(_REPLY).encode()
_EVENTS = b"data: " + _JSON + b"\n\ndata: [DONE]\n\n"
_ANSWERS = {
    "json": Answer((_JSON,)),
    "a byte order mark": Answer((b"\xef\xbb\xbf" + _JSON,)),
    "a stream": Answer((_EVENTS,), content_type="text/event-stream"),
    "a long stream": Answer((b": " + b"." * (9 << 20) + b"\n\n", _EVENTS), content_type="text/event-stream"),
    "gzip": Answer((gzip.compress(_JSON),), headers=(("content-encoding", "gzip"),)),
    "deflate": Answer((zlib.compress(_JSON),), headers=(("content-encoding", "deflate"),)),
    "another charset": Answer(('{"error": "誤"}'.encode("shift_jis"),), 500, "application/json; charset=shift_jis"),
    "no json": Answer((b"Oh no &nbsp; \xff",), 500, "text/plain; charset=utf-16"),
    "a lone surrogate": Answer((_JSON.replace(b"so", b"\\ud83d"),)),
    "nothing": Answer((), 500),
}
_SHORT = """
import sys
import otel_prompt_trace as pt

store, spool, delivery = sys.argv[1:]
pt.install(store=store, spool=spool, delivery=delivery, wire="off")
with pt.query(qid="short"):
    pass
"""


@pytest.mark.parametrize("delivery", ["thread", "process"])
def test_a_process_that_ends_before_anything_was_imported(tmp_path: Path, delivery: str) -> None:
    """All of it is imported while the interpreter exits: its one query is stored, and nothing is said."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", _SHORT, str(tmp_path / "store"), str(tmp_path / "spool"), delivery],
        cwd=tmp_path, env=environ(tmp_path, {"PYTHONPATH": str(_ROOT)}), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert pt.open_store(tmp_path / "store").get("short").ends


@pytest.mark.parametrize("delivery", ["thread", "process"])
@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_no_module_is_imported_while_somebody_may_fork(tmp_path: Path, kind: str, delivery: str) -> None:
    """A provisional verdict over escapes, each way of an S3 store to fail, what another process left: none."""
    errors = tmp_path / "errors"
    with StubS3() as s3, errors.open("wb") as file:
        store = s3.url.replace("127.0.0.1", "localhost") if kind == "s3" else str(tmp_path / "store")
        with subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, store, str(tmp_path / "spool"), delivery],
            cwd=tmp_path, env=environ(tmp_path, {"PYTHONPATH": str(_ROOT), **s3.environment}), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            for how in ("ok", "refuse", "fail", "busy", "cut", "hang", "ok"):
                s3.how, well = how, how == "ok" or kind == "folder"
                print(20 if well else 2, file=process.stdin, flush=True)
                told = process.stdout.readline()
                assert told == f"{json.dumps(well)}\n", errors.read_text()
            out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, errors.read_text()
    assert json.loads(out) == []


def test_none_is_imported_for_what_a_host_answers(tmp_path: Path) -> None:
    """Each first of its kind: encodings of the text and of the body, streams, errors, and what is no answer at all."""
    for name, answer in _ANSWERS.items():
        folder = tmp_path / name
        folder.mkdir()
        with ModelHost([answer]) as host:
            done = subprocess.run(
                [sys.executable, "-c", _SCRIPT, folder / "store", folder / "spool", "thread", str(host.port)],
                cwd=folder, env=environ(folder, {"PYTHONPATH": str(_ROOT)}),
                input="20\n", capture_output=True, text=True, timeout=60,
            )  # fmt: skip
        assert done.returncode == 0, (name, done.stderr)
        flushed, outside = map(json.loads, done.stdout.splitlines())
        assert flushed is True, name
        assert outside == [], name
        store = pt.open_store(folder / "store")
        (call,) = next(record for _, qid in store.qids() if (record := store.get(qid)).calls).calls
        assert call.request is not None, name
