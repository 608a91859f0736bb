"""/q/<qid>: the record as a page and as JSON, and every way in which there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider

import otel_prompt_trace as pt
from otel_prompt_trace.records import Records
from otel_prompt_trace.store import open_store
from tests.cli.conftest import Run, record_rag, run
from tests.cli.test_hostile import event, stored
from tests.viewer.conftest import Page, Places

__all__ = ["run"]


@pytest.mark.usefixtures("installed")
def test_a_record_is_a_page_and_the_json_that_get_prints(places: Places, run: Run) -> None:
    """One record in four ways of asking: the JSON is that of the command, the page has prompt, pieces and checks."""
    qid = record_rag("why <b>so</b>?")
    assert pt.flush(10).ok
    client = places.client()
    printed = run("get", qid, "--store", places.store, "--spool", places.spool).json
    for answer in (
        client.get(f"/q/{qid}.json"),
        client.get(f"/q/{qid}?format=json"),
        client.get(f"/q/{qid}", headers={"accept": "application/json"}),
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == printed
    answer = client.get(f"/q/{qid}", headers={"accept": "text/html,application/json;q=0.9,*/*"})
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = Page(answer.text)
    shown = ["Be brief.\n\nchunk a\nwhy <b>so</b>?", "because", "payload_integrity", "gpt-4o", "index_version", "v7"]
    for text in (qid, *shown, f"stored: {len(places.records.get(qid).events)} events"):
        assert text in page.text
    assert f"/q/{qid}?format=json" in page.links


@pytest.mark.usefixtures("installed")
def test_a_unique_beginning_finds_it_and_several_are_listed(places: Places) -> None:
    """As on the command line: a beginning that is unique names its query; one that is not lists them, with 300."""
    for qid in ("mine.1", "mine.2"):
        record_rag(qid=qid)
    assert pt.flush(10).ok
    client = places.client()
    assert client.get("/q/mine.1.json").json()["qid"] == "mine.1"
    answer = client.get("/q/mine")
    assert answer.status_code == 300
    assert {"/q/mine.1", "/q/mine.2"} <= set(Page(answer.text).links)
    assert client.get("/q/mine?format=json").json()["candidates"] == ["mine.1", "mine.2"]


@pytest.mark.usefixtures("installed")
def test_a_qid_that_ends_like_a_file_is_one(places: Places) -> None:
    """``x.json`` is a legal qid: it is found where no ``x`` is, and as a page by ``format=html``."""
    record_rag(qid="x.json")
    assert pt.flush(10).ok
    client = places.client()
    assert client.get("/q/x.json").json()["qid"] == "x.json"
    assert "x.json" in Page(client.get("/q/x.json?format=html").text).text


@pytest.mark.usefixtures("installed")
def test_a_link_of_jaegers_says_which_trace_it_came_from(places: Places) -> None:
    """``?trace=`` leads back to the trace; where no event is of it, the page says so; a strange one is left out."""
    qid = record_rag()
    assert pt.flush(10).ok
    trace = next(e["trace_id"] for e in places.records.get(qid).events if e.get("trace_id"))
    client = places.client()
    own = Page(client.get(f"/q/{qid}?trace={trace}").text)
    assert f"/t/{trace}" in own.links
    assert "no event of this record" not in own.text
    other = Page(client.get(f"/q/{qid}?trace={'a' * 32}").text)
    assert f"no event of this record is of trace {'a' * 32}" in other.text
    odd = client.get(f"/q/{qid}", params={"trace": "<script>alert(1)</script>"})
    assert "alert" not in odd.text


@pytest.mark.usefixtures("installed")
def test_what_is_spooled_and_not_stored_is_shown_as_such(places: Places) -> None:
    """Before anything is delivered the record is there, and says where it is."""
    places.store.parent.mkdir(exist_ok=True)
    with pt.query(question="?") as q, q.call(model="m", prompt="p") as call:
        call.respond("r")
        answer = places.client().get(f"/q/{q.qid}")
        waiting = places.client().get(f"/q/{q.qid}.json").json()["waiting"]
    assert answer.status_code == 200
    assert waiting >= 2
    assert f"spooled: {waiting} of {waiting} events wait in the spool of this machine" in Page(answer.text).text


def test_an_erased_record_is_said_to_be_erased(places: Places) -> None:
    """410, in both forms: not the 404 of an id that nobody knows."""
    stored(places.store, [event(1, "query", question="secret words")])
    open_store(str(places.store)).erase("q1")
    answer = places.client().get("/q/q1")
    assert answer.status_code == 410
    assert "q1 was erased at" in Page(answer.text).text
    as_json = places.client().get("/q/q1.json")
    assert (as_json.status_code, as_json.json()["error"]) == (410, "erased")


def test_an_unknown_id_says_what_to_do_next(places: Places) -> None:
    """404 names the store, the commands that help, and the trace that the link came from."""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    answer = places.client().get(f"/q/01M8P8GV64W1RP1P0RDRQ7VYPX?trace={trace}")
    page = Page(answer.text)
    assert answer.status_code == 404
    for said in (str(places.store), "prompt-trace ship", "prompt-trace serve --store"):
        assert said in page.text
    assert f"/t/{trace}" in page.links
    said = places.client().get(f"/q/nope.json?trace={trace}").json()
    assert said["error"] == "not found"
    assert f"Look for other queries of its trace {trace}." in said["next"]


@pytest.mark.parametrize(
    ("path", "status"),
    [("/q/..%2f..%2fetc", 404), ("/q/%00", 400), ("/q/-x", 400), ("/q/" + "a" * 129, 400), ("/q/%ED%A0%80", 400),
     ("/t/xyz", 400), ("/t/" + "0" * 32, 400), ("/t/" + "a" * 33, 400), ("/q/a?date=tomorrow", 400),
     ("/elsewhere", 404), ("/q/", 404)],
)  # fmt: skip
def test_what_is_no_address_is_refused(places: Places, path: str, status: int) -> None:
    """Ids are checked before anything is looked up; the answer quotes no more than their beginning."""
    for form in ({}, {"accept": "application/json"}):
        answer = places.client().get(path, headers=form)
        assert answer.status_code == status
        assert len(answer.content) < 4000


def test_a_store_that_does_not_answer_is_503(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the store and what to do, in both forms; nothing is called not found."""
    for name, value in {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "very-secret"}.items():
        monkeypatch.setenv(name, value)
    gone = Records(open_store("s3://bucket?endpoint_url=http://127.0.0.1:9&region=us-east-1"), places.spool)
    monkeypatch.setattr(Places, "records", gone)
    for path in ("/q/q1", "/t/4bf92f3577b34da6a3ce929d0e0e4736"):
        answer = places.client().get(path, headers={"accept": "application/json"})
        assert answer.status_code == 503
        said = answer.json()
        assert "127.0.0.1:9" in said["message"]
        assert "prompt-trace doctor" in said["next"][0]
        assert "very-secret" not in answer.text


def test_what_is_spooled_is_shown_while_the_store_is_down(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its page is there, says that it is not stored, and names the store that does not answer."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "k")
    gone = Records(open_store("s3://bucket?endpoint_url=http://127.0.0.1:9&region=us-east-1"), places.spool)
    pt.install(store=gone.store.url, spool=str(places.spool), tracer_provider=TracerProvider())
    try:
        with pt.query(question="who?") as q, q.call(model="m", prompt="p") as call:
            call.respond("r")
            monkeypatch.setattr(Places, "records", gone)
            answer = places.client().get(f"/q/{q.qid}")
    finally:
        pt.uninstall()
    page = Page(answer.text)
    assert answer.status_code == 200
    assert "who?" in page.text
    assert "events wait in the spool of this machine" in page.text
    assert "store not reachable" in page.text


@pytest.mark.parametrize("letters", ["The quick brown fox. ", "a"], ids=["words", "one letter"])
@pytest.mark.usefixtures("installed")
def test_a_huge_prompt_is_shown_in_part_and_is_whole_in_the_json(places: Places, letters: str) -> None:
    """20 MB: the page has the beginning, says so and stays small; the JSON has every character."""
    text = letters * (20_000_000 // len(letters))
    with pt.query(question="?") as q:
        pt.declare("part", text[:1_000_000])
        with q.call(model="gpt-4o", prompt=text) as call:
            call.respond("r")
    assert pt.flush(60).ok
    answer = places.client().get(f"/q/{q.qid}")
    page = Page(answer.text)
    assert len(answer.content) < 100_000
    assert f"the first 20,000 of {len(text):,} characters" in page.text
    assert json.loads(places.client().get(f"/q/{q.qid}.json").content)["prompt"] == text


def test_a_page_is_bounded_whatever_a_record_holds(places: Places) -> None:
    """Ten thousand events, calls, hits and long texts: the page names how many are left out, and has its end."""
    lines = [event(1, "query", question="?" * 100_000)]
    lines += [event(n, "request", call=f"c{n}", prompt="p" * 30_000) for n in range(2, 300)]
    lines += [event(n, "retrieval", hits=[{"rank": 1, "chunk_id": "x" * 400}]) for n in range(300, 3000)]
    stored(places.store, lines)
    answer = places.client().get("/q/q1")
    page = Page(answer.text)
    assert len(answer.content) < 1_500_000
    for said in ("and 248 more calls, in the JSON", "more, in the JSON"):
        assert said in page.text
    assert answer.text.rstrip().endswith("</html>")


def test_the_front_page_names_the_newest(places: Places, tmp_path: Path) -> None:
    """It links to what was recorded last, and says where it reads."""
    assert "none so far" in Page(places.client().get("/").text).text
    stored(places.store, [event(1, "query")])
    page = Page(places.client().get("/").text)
    assert "/q/q1" in page.links
    assert str(tmp_path) in page.text
