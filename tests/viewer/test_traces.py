"""/t/<trace id>: by the ids of entry queries, by what Jaeger knows, and by a search; nothing of Jaeger is trusted."""

from __future__ import annotations

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import zstandard

from otel_prompt_trace.viewer.jaeger import Jaeger
from tests.cli.test_hostile import event
from tests.viewer.conftest import Page, Places, answering, body

_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
_ENTRY = f"{_TRACE}-00f067aa0ba902b7"
_OTHER = "01M8P8GV64W1RP1P0RDRQ7VYPX"


def _store(folder: Path, qid: str, question: str, trace: str = _TRACE) -> None:
    place = folder / "payloads" / "dt=2026-11-30" / qid
    place.mkdir(parents=True)
    line = {**event(1, "query", question=question, trace_id=trace), "qid": qid}
    (place / "01M8P8GV64W1RP1P0RDRQ7VYPX-000000000001.jsonl.zst").write_bytes(
        zstandard.compress(json.dumps(line).encode() + b"\n")
    )


def _trace(*values: object) -> bytes:
    tags = [{"key": "prompt_trace.qid", "type": "string", "value": value} for value in values]
    tags += [{"key": "other", "value": "01M8P8GV64W1RP1P0RDRQ7VYPZ"}]
    return json.dumps({"data": [{"traceID": _TRACE, "spans": [{"tags": tags}, {"tags": tags}]}]}).encode()


def test_an_entry_query_is_found_by_its_trace(places: Places) -> None:
    """The only query of a trace is shown at once; ids without their leading zeros and in capitals are read."""
    _store(places.store, _ENTRY, "who?")
    for path in (f"/t/{_TRACE}", f"/t/{_TRACE.upper()}"):
        answer = places.client().get(path)
        assert answer.status_code == 200
        assert {_ENTRY, "who?"} <= set(Page(answer.text).text.replace("\n", " ").split()) | {"who?"}
    (query,) = places.client().get(f"/t/{_TRACE}.json").json()["queries"]
    assert (query["qid"], query["found_by"], query["state"]) == (_ENTRY, "id", "stored")
    assert query["record"]["question"] == "who?"
    short = "abc".zfill(32)
    _store(places.store, f"{short}-00f067aa0ba902b7", "zeros?", short)
    assert "zeros?" in places.client().get("/t/abc").text


def test_several_queries_are_listed(places: Places) -> None:
    """A row each, with a link; one that was erased says so."""
    _store(places.store, _ENTRY, "who?")
    _store(places.store, f"{_TRACE}-00f067aa0ba902b8", "why?")
    _store(places.store, f"{_TRACE}-00f067aa0ba902b9", "when?")
    places.records.store.erase(f"{_TRACE}-00f067aa0ba902b9")
    page = Page(places.client().get(f"/t/{_TRACE}").text)
    assert {f"/q/{_TRACE}-00f067aa0ba902b{n}" for n in (7, 8, 9)} <= set(page.links)
    assert "was erased at" in page.text
    assert "when?" not in page.text
    queries = places.client().get(f"/t/{_TRACE}?format=json").json()["queries"]
    assert ["record" in query for query in queries] == [True, True, False]


def test_other_queries_are_found_through_jaeger(places: Places) -> None:
    """The qids on the trace's spans, beside those found by id; the page links back."""
    _store(places.store, _ENTRY, "who?")
    _store(places.store, _OTHER, "how?")
    asked: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        body(_trace(_OTHER, _OTHER))(handler)

    with answering(answer) as url:
        answered = places.client(url).get(f"/t/{_TRACE}")
        found = places.client(url).get(f"/t/{_TRACE}.json").json()
    assert asked == [f"/api/traces/{_TRACE}"] * 2
    assert {query["qid"]: query["found_by"] for query in found["queries"]} == {_OTHER: "jaeger", _ENTRY: "id"}
    page = Page(answered.text)
    assert f"{url}/trace/{_TRACE}" in page.links
    assert "how?" in page.text


def test_a_qid_that_only_jaeger_knows_is_named_as_missing(places: Places) -> None:
    """Its payload waits elsewhere or is lost: the row says that it is not here."""
    with answering(body(_trace(_OTHER))) as url:
        answer = places.client(url).get(f"/t/{_TRACE}")
    assert answer.status_code == 200
    page = Page(answer.text)
    assert f"/q/{_OTHER}" in page.links
    assert "nothing waits in" in page.text


def test_without_jaeger_the_newest_queries_are_searched(places: Places) -> None:
    """As ``prompt-trace show`` does, and with how far the search went."""
    _store(places.store, _OTHER, "how?")
    page = Page(places.client().get(f"/t/{_TRACE}").text)
    assert f"/q/{_OTHER}" in page.links
    assert "there may be more" in page.text
    missing = places.client().get(f"/t/{'b' * 32}")
    assert missing.status_code == 404
    assert "the newest 1 queries" in missing.text
    assert "--jaeger" in missing.text
    assert places.client().get(f"/t/{_TRACE}?date=2020-01-01").status_code == 404
    assert places.client().get(f"/t/{_TRACE}?date=2026-11-30").status_code == 200


@pytest.mark.parametrize(
    ("answer", "qids", "fault"),
    [
        (_trace(_OTHER, "../../etc/passwd", "<script>", 5, None, {"a": 1}, "x" * 129, _ENTRY), (_OTHER, _ENTRY), ""),
        (b"<html>no JSON", (), "is no JSON"),
        (b"", (), "is no JSON"),
        (b"[" * 100_000, (), "is no JSON"),
        (b"[]", (), ""),
        (b'{"data": null}', (), ""),
        (b'{"data": [null, 1, {"spans": {}}, {"spans": [null, {"tags": "x"}, {"tags": [null, 1]}]}]}', (), ""),
        (_trace(*(f"q{n}" for n in range(1500))), tuple(f"q{n}" for n in range(1000)), "1,500 queries"),
    ],
)
def test_nothing_that_jaeger_answers_is_trusted(answer: bytes, qids: tuple[str, ...], fault: str) -> None:
    """What is no qid is left out, whatever the shape; there is a bound to how many are taken."""
    with answering(body(answer)) as url:
        told = Jaeger(url).qids(_TRACE)
    assert told.qids == qids
    assert fault in told.fault
    assert bool(told.fault) is bool(fault)


def test_a_jaeger_that_fails_keeps_no_page_from_being_shown(places: Places) -> None:
    """Refused, a status of its own, a redirect to elsewhere, too large: the page is there, with a note."""
    _store(places.store, _ENTRY, "who?")
    with socket.create_server(("127.0.0.1", 0)) as held:
        refused = f"http://127.0.0.1:{held.getsockname()[1]}"
    assert "does not answer" in Page(places.client(refused).get(f"/t/{_TRACE}").text).text
    for answer, said in (
        (body(b"", 500), "status 500"),
        (body(b"", 302, location="http://127.0.0.1:9/"), "status 302"),
    ):
        with answering(answer) as url:
            page = Page(places.client(url).get(f"/t/{_TRACE}").text)
        assert said in page.text
        assert _ENTRY in page.text
    with answering(body(b"", 404)) as url:
        assert places.client(url).get(f"/t/{_TRACE}.json").json()["notes"] == []


def test_an_answer_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a byte beyond the bound is kept."""
    monkeypatch.setattr("otel_prompt_trace.viewer.jaeger._BYTES", 1000)
    with answering(body(_trace(*(f"q{n}" for n in range(100))))) as url:
        told = Jaeger(url).qids(_TRACE)
    assert told.qids == ()
    assert "more than 1,000 bytes" in told.fault


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n"], ids=["silent", "slow"])
def test_a_jaeger_that_hangs_is_given_up(first: bytes) -> None:
    """Whether it says nothing at all or a byte at a time: the whole answer has one time to come in."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(first)
                while not over.wait(0.02):
                    try:
                        connection.sendall(first and b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=hang, daemon=True)
        thread.start()
        began = time.monotonic()
        told = Jaeger(f"http://127.0.0.1:{listening.getsockname()[1]}", seconds=0.3).qids(_TRACE)
        took = time.monotonic() - began
        over.set()
        thread.join(10)
    assert told.qids == ()
    assert told.fault
    assert took < 20  # the answer would take half an hour
