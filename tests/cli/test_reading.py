"""show, get and ls: what they print is what was recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

import otel_prompt_trace as pt
from otel_prompt_trace.current import current
from tests.cli.conftest import Run, record_rag
from tests.seaweed import Seaweed

PUBLISHED = [
    "qid", "ts", "question", "index_version", "embed_model", "gen_model", "temperature", "top_k", "retrieved", "prompt",
    "prompt_tokens", "chunks_in_prompt", "chunks_dropped", "output", "finish_reason", "usage", "ms",
]  # fmt: skip

NASTY = (
    "crlf\r\n nul\x00 family\U0001f468\u200d\U0001f469\u200d\U0001f467 sep\u2028 "
    "rtl\u202eabc\u202c half\ud83d é日本 \x1b[2J"
)


@pytest.mark.usefixtures("installed")
def test_get_prints_the_published_names(run: Run, places: list[str]) -> None:
    """The record of a query with one call has every published name, with the values that were recorded."""
    qid = record_rag("where is it?")
    assert pt.flush(10).ok
    record = run("get", qid, *places).json
    assert [name for name in record if name in PUBLISHED] == PUBLISHED
    assert record["retrieved"] == [
        {"rank": 1, "chunk_id": "a", "score": 2.0},
        {"rank": 2, "chunk_id": "b", "score": 1.0},
    ]
    assert record["prompt"] == "Be brief.\n\nchunk a\nwhere is it?"
    assert (record["chunks_in_prompt"], record["chunks_dropped"], record["top_k"]) == (1, ["b"], 2)
    assert (record["question"], record["output"], record["finish_reason"]) == ("where is it?", "because", "stop")
    assert record["usage"] == {"input_tokens": 20, "output_tokens": 3}
    assert (record["gen_model"], record["temperature"], record["index_version"]) == ("gpt-4o", 0.5, "v7")
    assert isinstance(record["ms"]["search"], int)
    assert isinstance(record["prompt_tokens"], int)
    assert record["verdict"] == "exact"


@pytest.mark.usefixtures("installed")
def test_every_command_gives_the_same_verdict(run: Run, places: list[str]) -> None:
    """Tokens count for it: the provider reports fewer than the prompt has."""
    with pt.query(question="q") as q, q.call(model="gpt-4o", prompt="Be brief. Why is it so?") as call:
        pt.declare("system", "Be brief.")
        pt.declare("user", " Why is it so?")
        call.respond("x", usage={"prompt_tokens": 2})
    assert pt.flush(10).ok
    (row,) = run("ls", "--json", *places).json
    (graded,) = run("grade", "--json", *places).json["grades"]
    assert row["verdict"] == graded["verdict"] == run("get", q.qid, *places).json["verdict"] == "mismatch"


@pytest.mark.usefixtures("installed")
def test_get_gives_several_calls_each_their_own(run: Run, places: list[str]) -> None:
    """With several calls the call's names stand in calls[], in the order in which they went out; --call picks one."""
    with pt.query(question="q") as q:
        for text in ("one", "two"):
            with q.call(model="m", prompt=text) as call:
                call.respond(text.upper(), finish_reason="stop")
    assert pt.flush(10).ok
    record = run("get", q.qid, *places).json
    assert [(c["prompt"], c["output"]) for c in record["calls"]] == [("one", "ONE"), ("two", "TWO")]
    assert "prompt" not in record
    assert run("get", q.qid, "--call", 2, *places).json["prompt"] == "two"
    assert run("get", q.qid, "--body", "--call", 2, *places).out == b"two"
    outcome = run("get", q.qid, "--body", *places)
    assert (outcome.code, outcome.out) == (1, b"")
    assert "--call 1 to 2" in outcome.err
    assert run("get", q.qid, "--call", 3, *places).code == 1


@pytest.fixture(params=["folder", "moto", pytest.param("seaweed", marks=pytest.mark.integration)])
def any_store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty store of each kind."""
    if request.param == "folder":
        yield str(tmp_path / "store")
        return
    if request.param == "seaweed":
        server: Seaweed = request.getfixturevalue("seaweed")
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server.url(prefix=f"cli-{tmp_path.name}")
        return
    import boto3
    from moto import mock_aws

    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="payloads")
        yield "s3://payloads/cli?region=us-east-1"


def test_the_exact_bytes_come_back_from_every_store(run: Run, tmp_path: Path, any_store: str) -> None:
    """CRLF, NUL, emoji sequences, U+2028, right-to-left marks, a lone surrogate: the same bytes, from every store."""
    places = ["--store", any_store, "--spool", str(tmp_path / "spool")]
    pt.install(store=any_store, spool=str(tmp_path / "spool"))
    try:
        with pt.query() as q, q.call(model="m", prompt=NASTY) as call:
            call.respond(NASTY)
        assert pt.flush(30).ok
    finally:
        pt.uninstall()
    assert run("get", q.qid, "--body", *places).out == NASTY.encode("utf-8", "surrogatepass")
    wrapped = run("get", q.qid, *places).json
    assert wrapped["prompt"]["encoding"] == "utf-8/surrogatepass"
    assert b"\\ud83d" not in run("show", q.qid, "--json", *places).out


@pytest.mark.usefixtures("installed")
def test_show_has_a_row_per_event_and_obeys_no_control_character(run: Run, places: list[str]) -> None:
    """One row per event and the call's verdict, and no escape sequence of a prompt is sent on to the terminal."""
    with pt.query(question=NASTY) as q, q.call(model="m", prompt=NASTY) as call:
        pt.declare("user", "crlf")
        call.respond(NASTY)
    assert pt.flush(10).ok
    outcome = run("show", q.qid, *places)
    kinds = [line.split()[1] for line in outcome.text.splitlines() if line[2:3] == ":" and line[5:6] == ":"]
    assert kinds == ["query", "request", "piece", "response", "end"]
    assert outcome.code == 1
    assert "mismatch (gap)" in outcome.text
    assert "\x1b" not in outcome.text
    assert "\u202e" not in outcome.text


def test_what_is_only_spooled_is_shown_as_such(
    run: Run, tmp_path: Path, places: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record whose store can't be reached is found in the spool by show, get and ls, and said to wait there."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    unreachable = "s3://payloads?endpoint_url=http://127.0.0.1:9&region=us-east-1"
    pt.install(store=unreachable, spool=str(tmp_path / "spool"))
    qid = record_rag()
    try:
        record = run("get", qid, *places).json
        assert record["prompt"].startswith("Be brief.")
        assert record["waiting"] == 11
        assert "stored 0, waiting in the spool here 11" in run("show", qid, *places).text
        (row,) = run("ls", "--json", *places).json
        assert (row["qid"], row["state"]) == (qid, "spooled")
        by_spool = run("get", qid, "--store", unreachable, "--spool", tmp_path / "spool")
        assert by_spool.json["waiting"] == 11
        assert "not reachable" in by_spool.json["problems"][0]
    finally:
        pt.uninstall()


@pytest.mark.usefixtures("installed")
def test_ls_shows_the_newest_first(run: Run, places: list[str]) -> None:
    """The command lists the newest queries first, as many as asked for, with their questions."""
    qids = [record_rag(f"question {number}") for number in range(3)]
    assert pt.flush(10).ok
    rows = run("ls", "--json", "--limit", 2, *places).json
    assert [row["qid"] for row in rows] == qids[:0:-1]
    assert rows[0]["question"] == "question 2"
    assert qids[2] in run("ls", *places).text


@pytest.mark.usefixtures("installed")
def test_a_query_is_found_by_its_beginning_a_traceparent_and_a_url(run: Run, places: list[str]) -> None:
    """QID may be a unique prefix or a viewer's URL; an ambiguous prefix is a clear error."""
    one, other = record_rag(), record_rag()
    assert pt.flush(10).ok
    shared = 0
    while one[shared] == other[shared]:
        shared += 1
    assert run("get", one[: shared + 1], *places).json["qid"] == one
    assert run("get", f"http://127.0.0.1:8765/q/{one}?trace=x", *places).json["qid"] == one
    outcome = run("get", one[:shared], *places)
    assert outcome.code == 2
    assert one in outcome.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["get", "../../etc/passwd"], 2, "is not a query id"),
        (["get", "nobody"], 1, "nobody"),
        (["show", "01M8P8TRZHPQNVTNWBV8Z5YW3Y"], 1, "01M8P8TRZHPQNVTNWBV8Z5YW3Y"),
        (["get"], 2, "Missing argument"),
        (["get", "x", "--call", "0"], 2, "--call"),
        (["ls", "--since", "yesterday"], 2, "2026-11-30"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_bad_input_is_a_clear_error(run: Run, places: list[str], arguments: list[str], code: int, said: str) -> None:
    """Every wrong word on the command line ends with the documented code and says what is wrong."""
    outcome = run(*arguments, *(places if arguments[0] != "nonsense" else []))
    assert outcome.code == code
    assert said in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("command", ["ls", "get", "grade", "census", "ship"])
def test_an_unreachable_store_is_said_with_its_address(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A store that can't be reached ends with code 2 and a message that names it, and no secret."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret-value")
    arguments: list[Any] = [command, "x"] if command == "get" else [command]
    url = "s3://payloads/p?endpoint_url=http://127.0.0.1:9&region=us-east-1"
    outcome = run(*arguments, "--store", url, "--spool", tmp_path / "spool")
    assert outcome.code == 2
    assert "payloads" in outcome.err
    assert "127.0.0.1:9" in outcome.err
    assert "very-secret-value" not in outcome.err


@pytest.mark.parametrize("url", ["s3://user:secret@bucket/x", "http://bucket", "s3://", "s3://bucket?acl=public"])
def test_a_bad_store_url_is_a_clear_error(run: Run, url: str) -> None:
    """A store that can't be meant ends with code 2; credentials in it are not repeated."""
    outcome = run("ls", "--store", url)
    assert outcome.code == 2
    assert "secret" not in outcome.err.replace("AWS_SECRET_ACCESS_KEY", "")
    assert outcome.err.startswith("prompt-trace: ")


@pytest.mark.usefixtures("installed")
def test_a_torn_object_is_named_and_makes_the_verdict_unknown(run: Run, tmp_path: Path, places: list[str]) -> None:
    """An object cut in its middle is a named problem in show and get, never a silent loss and never exact."""
    qid = record_rag()
    assert pt.flush(10).ok
    (payload,) = (tmp_path / "store").rglob("*.jsonl.zst")
    payload.write_bytes(payload.read_bytes()[:-40])
    outcome = run("get", qid, *places)
    assert outcome.json["problems"]
    assert payload.name in outcome.json["problems"][0]
    assert outcome.json["verdict"] == "unknown"
    assert payload.name in run("show", qid, *places).text.replace("\n", "")


def test_an_event_of_a_later_major_version_is_shown_raw(run: Run, tmp_path: Path, places: list[str]) -> None:
    """An event of an unknown major version is shown as it stands, and nothing about its query is called exact."""
    import zstandard

    line = {"v": "9.0", "kind": "from the future", "qid": "q1", "ts": "t", "writer": "w", "seq": 1, "new": [1]}
    folder = tmp_path / "store" / "payloads" / "dt=2026-11-30" / "q1"
    folder.mkdir(parents=True)
    data = zstandard.compress(json.dumps(line).encode() + b"\n")
    (folder / "01M8P8GV64W1RP1P0RDRQ7VYPX-000000000001.jsonl.zst").write_bytes(data)
    record = run("get", "q1", *places).json
    assert record["unreadable"] == [line]
    assert record["verdict"] == "unknown"


def test_show_breaks_a_prompt_of_spans_down(run: Run, tmp_path: Path, places: list[str]) -> None:
    """A prompt that only span attributes tell of is shown by segment, role, characters and tokens, verdict unknown."""
    provider = TracerProvider()
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), tracer_provider=provider)
    messages = [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Why is the sky blue?"}]},
    ]
    content = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
    with provider.get_tracer("an.instrumentation").start_as_current_span("chat gpt-4o", attributes=content) as span:
        span.set_attribute("gen_ai.input.messages", json.dumps(messages))
        trace_id = f"{span.get_span_context().trace_id:032x}"
    assert pt.flush(20).ok
    pt.uninstall()
    outcome = run("show", trace_id, *places)
    assert outcome.code == 3
    rows = [line.split() for line in outcome.text.splitlines()]
    assert any(row[1:4] == ["system", "9", "3"] for row in rows)
    assert any(row[1:4] == ["user", "20", "6"] for row in rows)
    assert "told by attributes of an.instrumentation" in outcome.text
    assert "weak_evidence" in outcome.text


@pytest.mark.parametrize("damaged", [False, True])
def test_a_body_as_it_was_sent_is_verified(run: Run, places: list[str], installed: None, damaged: bool) -> None:
    """The bytes are printed only where they have the digest that was taken of what left."""
    body = b'{"model":"m","messages":[{"role":"user","content":"Gr\xc3\xbc\xc3\x9fe"}]}'
    told = {"evidence": "wire", "api": "openai.chat", "host": "h", "path": "/v1/chat/completions", "attempt": 1}
    request: dict[str, Any] = {"kind": "request", "call": "c1", **told, "body": body}
    if damaged:
        request |= {"body": [body.decode()], "sha256": "0" * 64}
    runtime = current()
    assert runtime is not None
    qid = runtime.new_id()
    runtime.append(qid, [{"kind": "query", "origin": "minted"}, request, {"kind": "end"}])
    assert pt.flush(20)
    found = run("get", qid, "--body", *places)
    if damaged:
        assert found.code != 0
        assert found.out == b""
        assert "sha256" in found.err
    else:
        assert (found.code, found.out) == (0, body)
