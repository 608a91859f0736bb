"""Binary runs of a body on their way to the store: named by digest, stored once a query, put back byte for byte."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timezone
from typing import Any

import pytest

from otel_prompt_trace.core.bodies.runs import parts_of, rebuild
from otel_prompt_trace.core.events import Event, Identity, decode
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.record import Record, project
from otel_prompt_trace.exceptions import StoreUnreachable
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.shipping import Delivery, deliverable
from otel_prompt_trace.store.payloads import PayloadStore
from tests.pipeline.fakes import WRITER
from tests.store.memory import MemoryStore

QID = "01M8P570G1AAAAAAAAAAAAAAAA"
NOW = datetime(2026, 11, 30, 12, tzinfo=timezone.utc)
LARGE = base64.b64encode(random.Random(7).randbytes(60_000)).decode()
OTHER = base64.b64encode(random.Random(8).randbytes(5_000)).decode()
SMALL = base64.b64encode(b"small").decode()


def frame(seq: int, *events: dict[str, Any]) -> frames.Frame:
    """A frame as the recorder writes it and the shipper reads it back."""
    body = frames.pack_events({"call": "c1"}, list(events))
    head, body = frames.build(0, QID, seq, 1_796_040_000_000_000_000, len(events), body)
    size = frames.size(len(QID), len(body))
    (read,) = frames.frames(frames.header(WRITER, 7) + (head + body).ljust(size, b"\0"), "here")
    assert isinstance(read, frames.Frame)
    return read


def request(body: bytes, **fields: Any) -> dict[str, Any]:
    common = {"kind": "request", "call": "c1", "evidence": "wire", "api": "openai.chat", "host": "h", "path": "/p"}
    return {**common, "body": body, **fields}


def delivered(*bodies: bytes) -> Delivery:
    return deliverable([(WRITER, frame(n, request(body, call=f"c{n}"))) for n, body in enumerate(bodies, 1)], "here")


def events_of(delivery: Delivery) -> list[Event]:
    read = list(decode(b"".join(line for _, line in delivery.lines), "here"))
    return [event for event in read if isinstance(event, dict)]


def with_images(*images: str) -> dict[str, Any]:
    """A chat request with texts around images."""
    parts: list[Any] = [{"type": "text", "text": "what is this?"}]
    parts += [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}} for data in images]
    return {"model": "m", "messages": [{"role": "user", "content": [*parts, {"type": "text", "text": "and that?"}]}]}


BODIES: dict[str, tuple[Any, list[str]]] = {
    "data url": (with_images(LARGE), [LARGE]),
    "several": (with_images(LARGE, OTHER), [LARGE, OTHER]),
    "the same twice": (with_images(LARGE, LARGE), [LARGE]),
    "a small one stays": (with_images(SMALL, LARGE), [LARGE]),
    "none": (with_images(SMALL), []),
    "anthropic": (
        {"messages": [{"content": [{"source": {"type": "base64", "media_type": "image/png", "data": LARGE}}]}]},
        [LARGE],
    ),
    "google": ({"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": LARGE}}]}]}, [LARGE]),
    "ollama": ({"model": "m", "prompt": "x", "images": [LARGE, OTHER]}, [LARGE, OTHER]),
    "a file": ({"input": [{"content": [{"type": "input_file", "file_data": f"data:a/pdf;base64,{LARGE}"}]}]}, [LARGE]),
    "audio": ({"messages": [{"content": [{"input_audio": {"format": "wav", "data": LARGE}}]}]}, [LARGE]),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("indent", [None, 2])
def test_the_body_is_rebuilt(name: str, indent: int | None) -> None:
    """Byte for byte from runs and blobs; its parts and its digest are the same as before."""
    value, expected = BODIES[name]
    body = json.dumps(value, indent=indent).encode()
    delivery = delivered(body)
    assert delivery.problems == []
    (event,) = events_of(delivery)
    assert set(delivery.blobs.values()) == {data.encode() for data in expected}
    assert all(hashlib.sha256(data).hexdigest() == sha256 for sha256, data in delivery.blobs.items())
    assert rebuild(event["body"], delivery.blobs.__getitem__) == (body, 0)
    assert event["sha256"] == hashlib.sha256(body).hexdigest()
    if expected:
        assert len(delivery.lines[0][1]) < 4000
    before, after = parts_of([body.decode()]), parts_of(event["body"])
    assert before is not None
    assert after is not None
    assert [(s.path, s.text) for s in before.prompt.segments] == [(s.path, s.text) for s in after.prompt.segments]
    assert before.prompt.outside == after.prompt.outside
    assert [part["path"] for part in event.get("outside", [])] == [part.path for part in after.prompt.outside]


@pytest.mark.parametrize("escaped", [LARGE.replace("/", "\\/"), LARGE.replace("A", "\\u0041")])
def test_a_client_that_escapes(escaped: str) -> None:
    """PHP escapes slashes: the bytes are kept as they were sent, and the image is still seen to be one."""
    body = json.dumps(with_images("X")).replace("base64,X", f"base64,{escaped}").encode()
    delivery = delivered(body)
    (event,) = events_of(delivery)
    assert rebuild(event["body"], delivery.blobs.__getitem__) == (body, 0)
    assert list(delivery.blobs.values()) == [escaped.encode()]
    parts = parts_of(event["body"])
    assert parts is not None
    assert [(part.kind, part.path) for part in parts.prompt.outside] == [
        ("binary", "messages[0].content[1].image_url.url")
    ]
    sent_slash = json.dumps(with_images("X")).replace("image/png;base64,X", f"image\\/png;base64,{escaped}").encode()
    (event,) = events_of(delivered(sent_slash))
    parts = parts_of(event["body"])
    assert parts is not None
    assert [part.kind for part in parts.prompt.outside] == ["binary"]


def test_the_same_image_in_many_calls_is_stored_once() -> None:
    """A conversation sends it again with every turn."""
    store = PayloadStore(MemoryStore())
    objects = store.objects
    for seq in range(1, 4):
        sent = json.dumps(with_images(LARGE) | {"n": seq}).encode()
        delivery = deliverable([(WRITER, frame(seq, request(sent, call=f"c{seq}")))], "here")
        store.write(delivery.lines, QID, NOW, delivery.blobs)
    keys = [info.key for info in objects.list("")]
    assert len([key for key in keys if "/blobs/" in key]) == 1
    record = store.get(QID)
    assert len(record.calls) == 3
    for seq, call in enumerate(record.calls, 1):
        assert call.request is not None
        body, missing = rebuild(call.request["body"], lambda sha256: store.blob(QID, sha256))
        assert (json.loads(body), missing) == (with_images(LARGE) | {"n": seq}, 0)


def graded(delivery: Delivery, *pieces: dict[str, Any]) -> Record:
    events = events_of(delivery)
    common = {"v": "1.0", "kind": "piece", "qid": QID, "ts": "2026-11-30T11:00:00Z", "writer": "w2", "call": "c1"}
    return project(QID, [*({**common, "seq": n, **piece} for n, piece in enumerate(pieces, 1)), *events])


def test_an_image_decides_the_verdict_as_it_did_before() -> None:
    """Whether its bytes lie in the line or beside it: one that was declared is recognised, any other is not."""
    texts = [{"producer": "app", "text": "what is this?"}, {"producer": "user", "text": "and that?"}]
    for declared, verdict in ((None, "unknown"), ("part", "exact"), ("string", "exact"), ("another", "unknown")):
        for image in (SMALL, LARGE):
            url = f"data:image/png;base64,{image if declared != 'another' else image[::-1]}"
            part: Any = {"type": "image_url", "image_url": {"url": url}}
            piece = {"text": url} if declared == "string" else {"value": part}
            pieces = [*texts, {"producer": "image", **piece}] if declared else texts
            graded_call = grade(graded(delivered(json.dumps(with_images(image)).encode()), *pieces)).calls[0]
            assert (graded_call.verdict, declared) == (verdict, declared), graded_call.reasons


class Failing:
    """A store that keeps binary runs and then fails, the first time."""

    def __init__(self, store: PayloadStore) -> None:
        self.store, self.failed = store, False

    def write(
        self,
        events: Sequence[tuple[Identity, bytes]],
        qid: str,
        now: datetime,
        blobs: Mapping[str, bytes] | None = None,
        *,
        elsewhere: date | None = None,
    ) -> list[str]:
        """See :meth:`PayloadStore.write <otel_prompt_trace.store.PayloadStore.write>`."""
        if not self.failed:
            self.failed = True
            self.store.write([], qid, now, blobs)
            raise StoreUnreachable("later")
        return self.store.write(events, qid, now, blobs)


def test_doing_it_again_is_harmless() -> None:
    """Blobs go first: no line names one that is not there, and one that is there already is left as it is."""
    objects = MemoryStore()
    store = PayloadStore(objects)
    failing = Failing(store)
    delivery = delivered(json.dumps(with_images(LARGE)).encode())
    with pytest.raises(StoreUnreachable):
        failing.write(delivery.lines, QID, NOW, delivery.blobs)
    failing.write(delivery.lines, QID, NOW, delivery.blobs)
    assert len(objects.objects) == 2
    order = [key for kind, key in objects.requests if kind == "put"]
    assert "/blobs/" in order[0]
    assert order[-1].endswith(".jsonl.zst")


def test_what_is_no_json_or_no_utf8_goes_as_it_is() -> None:
    """There is nothing to name in it, and nothing is lost."""
    for body in (b"\xff\xfe" + LARGE.encode(), b"no JSON " + LARGE.encode()):
        delivery = delivered(body)
        (event,) = events_of(delivery)
        assert (delivery.blobs, rebuild(event["body"], {}.__getitem__)) == ({}, (body, 0))


def test_a_body_nested_without_end_is_delivered() -> None:
    """It must not cost its neighbours in the frame, nor itself."""
    for name in ("metadata", "messages", "prompt", "tools"):
        body = f'{{"{name}": {"[" * 50_000}{"]" * 50_000}, "model": "m"}}'.encode()
        delivery = delivered(body)
        assert (delivery.problems, delivery.poison) == ([], [])
        (event,) = events_of(delivery)
        assert rebuild(event["body"], {}.__getitem__) == (body, 0)
