"""A service of two: the front one opens a query, the back one joins it and asks the model.

Arguments: ``front`` or ``back``, then store and spool; for the back one also the headers that it was called with, as
JSON. The front one prints the qid.
"""

from __future__ import annotations

import json
import subprocess
import sys

from opentelemetry import context
from opentelemetry.propagate import extract, inject
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

import otel_prompt_trace as pt
from tests.wire.asking import URL, client

SYSTEM, HISTORY, CHUNK, QUESTION = "Answer from the handbook.", "Earlier: café?", "Refunds take 14 days.", "Wann? 返"


def front(store: str, spool: str) -> None:
    """Knows the system prompt and the history, and hands them on as texts."""
    with pt.query(question=QUESTION) as q:
        headers: dict[str, str] = {}
        inject(headers)
        texts = [pt.declare("system", SYSTEM, trust="policy"), pt.declare("history", HISTORY, trust="owner")]
        called = [sys.executable, "-m", "tests.wire.joining_service", "back", store, f"{spool}-back"]
        subprocess.run([*called, json.dumps(headers), *texts], check=True)
    print(q.qid)


def back(headers: str, system: str, history: str) -> None:
    """Knows the chunk and the question, makes the prompt, and sends it."""
    token = context.attach(extract(json.loads(headers)))
    with pt.query(join=True), client() as model:
        chunk = pt.declare("rag", CHUNK, trust="retrieved", source_id="c1")
        question = pt.declare("user", QUESTION, trust="user")
        messages = [{"role": "system", "content": system}]
        messages += [{"role": "user", "content": history + chunk + question}]
        model.post(URL, json={"model": "m", "messages": messages})
    context.detach(token)


def main() -> None:
    """Be one of the two."""
    role, store, spool, *rest = sys.argv[1:]
    provider = TracerProvider(resource=Resource({"service.name": role}), shutdown_on_exit=False)
    pt.install(store=store, spool=spool, tracer_provider=provider)
    if role == "front":
        front(store, spool)
    else:
        back(*rest)
    assert pt.flush(20).ok
    pt.uninstall()


if __name__ == "__main__":
    main()
