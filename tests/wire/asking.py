"""Applications that ask a model in memory, and who is told to have asked it.

The transport answers from within the process: what is sent passes through the same client, and no test waits for a
socket. Each request says in its last message who it is of, so that a record can be asked whether it is theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import otel_prompt_trace as pt
from otel_prompt_trace import installation
from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.record import Record
from tests.store.memory import MemoryStore

URL = "http://model.test/v1/chat/completions"


def body(text: str, **more: Any) -> dict[str, Any]:
    """A request of one message."""
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


def message(content: Any, **more: Any) -> httpx2.Response:
    """An answer."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **more}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return httpx2.Response(200, json={**head, "choices": [choice], "usage": usage})


def asked(request: httpx2.Request) -> str:
    """The text of a request's last message."""
    return str(json.loads(request.content)["messages"][-1]["content"])


def echo(request: httpx2.Request) -> httpx2.Response:
    """Answers with what it was asked."""
    return message(f"answer to {asked(request)}")


async def echo_async(request: httpx2.Request) -> httpx2.Response:
    """The same, after it has let others go first."""
    import asyncio

    await asyncio.sleep(0)
    return echo(request)


def client(answer: Callable[[httpx2.Request], httpx2.Response] = echo) -> httpx2.Client:
    """A client that reaches ``answer`` and nobody else."""
    return httpx2.Client(transport=httpx2.MockTransport(answer))


def async_client(answer: Any = echo_async) -> httpx2.AsyncClient:
    """The same for an event loop."""
    return httpx2.AsyncClient(transport=httpx2.MockTransport(answer))


def text_of(call: Call) -> str:
    """What a recorded call says in its last message."""
    assert call.prompt is not None
    return call.prompt.segments[-1].text


class Recorded:
    """What an installation has stored, and whose it is."""

    def __init__(self, folder: Path, store: pt.PayloadStore | None = None) -> None:
        self.folder = folder / "store"
        self._store = store

    @property
    def store(self) -> pt.PayloadStore:
        """The store, after a flush that lost nothing."""
        result = pt.flush(60)
        assert (result.lost, result.spooled) == (0, 0)
        return pt.open_store(self.folder) if self._store is None else self._store

    def records(self) -> Iterator[Record]:
        """Every record."""
        store = self.store
        for qid in sorted({qid for _, qid in store.qids()}):
            record = store.get(qid)
            assert record.problems == ()
            yield record

    def record(self, qid: str) -> Record:
        """One record."""
        return self.store.get(qid)

    def owners(self) -> dict[str, tuple[str, str]]:
        """For each text that was asked, the qid that it is recorded under and how that came to be."""
        found: dict[str, tuple[str, str]] = {}
        for record in self.records():
            for call in record.calls:
                assert text_of(call) not in found, "one request in two records, or twice in one"
                assert record.query is not None
                found[text_of(call)] = record.qid, record.query["origin"]
        return found


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    """An installation of its own, without a tracer provider."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"))
    yield Recorded(tmp_path)
    pt.uninstall()


@pytest.fixture
def recorded_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    """The same with a store in memory, for thousands of queries: a folder makes each object durable by itself."""
    store = pt.PayloadStore(MemoryStore())
    monkeypatch.setattr(installation, "_open_payloads", lambda _: store)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"))
    yield Recorded(tmp_path, store)
    pt.uninstall()
