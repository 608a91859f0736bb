"""Redaction: what the ready patterns find and leave, and a function of the user's that fails costs the text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider

import otel_prompt_trace as pt
from otel_prompt_trace.core.events import Event, encode
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.redaction import PATTERNS, places, redactor
from otel_prompt_trace.core.seal import keyed_digest, seal
from otel_prompt_trace.core.text import FILLER, Cut, CutText, sha256_text
from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.settings import load
from tests.core.by_hand import KEY, Script, read

DIGEST = keyed_digest(KEY)
MAIL = "max.mustermann@example.com"

FOUND = [
    ("email", "write to max@example.com.", ["max@example.com"]),
    ("email", "a.b+c%d_e-f@sub.domain-x.co.uk, x@y.de", ["a.b+c%d_e-f@sub.domain-x.co.uk", "x@y.de"]),
    ("email", "mailto:müller@bücher.example;", ["müller@bücher.example"]),
    ("email", '{"mail": "max@example.com"}', ["max@example.com"]),
    ("phone", "+49 171 1234567 or 0049-30-123456", ["+49 171 1234567", "0049-30-123456"]),
    ("phone", "tel:+1 (555) 010-9999.", ["+1 (555) 010-9999"]),
    ("iban", "to DE89 3704 0044 0532 0130 00, please", ["DE89 3704 0044 0532 0130 00"]),
    ("iban", "GB82WEST12345698765432", ["GB82WEST12345698765432"]),
    ("iban", "NO9386011117947", ["NO9386011117947"]),
    ("iban", "DE89370400440532013000 FROM NOW ON", ["DE89370400440532013000"]),
    ("credit_card", "4111 1111 1111 1111", ["4111 1111 1111 1111"]),
    ("credit_card", "room 12 4111-1111-1111-1111, 3782 822463 10005", ["4111-1111-1111-1111", "3782 822463 10005"]),
    ("credit_card", "card=5555555555554444;", ["5555555555554444"]),
    ("ipv4", "from 192.168.0.1 to 10.0.0.255.", ["192.168.0.1", "10.0.0.255"]),
    ("ipv4", "http://127.0.0.1:8080/", ["127.0.0.1"]),
    ("secret", "key sk-proj-abcDEF123456abcDEF123456-xy_z and more", ["sk-proj-abcDEF123456abcDEF123456-xy_z"]),
    ("secret", "sk_live_4eC39HqLyjWDarjtT1zdp7dc!", ["sk_live_4eC39HqLyjWDarjtT1zdp7dc"]),
    ("secret", "ghp_0123456789abcdefghijABCDEFGHIJ012345", ["ghp_0123456789abcdefghijABCDEFGHIJ012345"]),
    ("secret", "AKIAIOSFODNN7EXAMPLE", ["AKIAIOSFODNN7EXAMPLE"]),
    ("secret", "Authorization: Bearer abcdefghijklmnop.qrst==", ["Bearer abcdefghijklmnop.qrst=="]),
    ("secret", "jwt=eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK", ["eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK"]),
    ("secret", "xoxb-12345678901-abcdef", ["xoxb-12345678901-abcdef"]),
]
LEFT = [
    ("email", "@channel, a@b, user@host, search@5.20.0, 3 @ 4.50, @pytest.mark, me@"),
    ("phone", "2026-11-30, 0171, 1+1234567, 00, a 007 of +12"),
    ("iban", "AB12, DE89 x, 01JDZQ4K8B0000000000000001, version V123 4567, VW21RQ56K67T, DE88 3704 0044 0532 0130 00"),
    ("credit_card", "4111 1111 1111 1112, 1796040000000, 0000000000000000, 10 20 30 40 50 60 70 80, 411111111111"),
    ("ipv4", "1.2.3, 1.2.3.4.5, 256.1.1.1, v1.22.333.4444"),
    (
        "secret",
        "sk-learn, a task-force-of-twenty-people, risk-averse, sk-a-b-c-d-e-f-g-h-i-j, bearer of bad news, eyJ.a.b",
    ),
]


@pytest.mark.parametrize(("name", "text", "expected"), FOUND)
def test_a_ready_pattern_finds(name: str, text: str, expected: list[str]) -> None:
    """All of it and nothing around it, with the pattern's name as label."""
    found = places(redactor(name), text)
    assert [text[start:end] for start, end, _ in found] == expected
    assert {label for _, _, label in found} == {f"redact:{name}"}


@pytest.mark.parametrize(("name", "text"), LEFT)
def test_a_ready_pattern_leaves(name: str, text: str) -> None:
    """What only looks like it stays: a record without its numbers proves nothing."""
    assert places(redactor(name), text) == []


def test_every_ready_pattern_is_tried() -> None:
    """Both ways."""
    assert set(PATTERNS) == {name for name, *_ in FOUND} == {name for name, _ in LEFT}


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize(
    "unit",
    ["sk-", "eyJ-", "a@", "a.", "+1 ", "1.", "1 ", "4111 ", "AB12 ", "bearer ", "x", "9", "@", "eyJaaaaaaaaaaa."],
)
def test_no_text_takes_a_pattern_long(name: str, unit: str) -> None:
    """Whoever writes the text is not trusted: three hundred thousand characters of it cost no more than a second."""
    text = unit * (300_000 // len(unit))
    started = perf_counter()
    places(redactor(name), text)
    assert perf_counter() - started < 2


def test_the_same_patterns_are_the_same_redactor() -> None:
    """So that installing with the same settings again changes nothing; with others it does."""
    assert load(redact=["email", "phone"]) == load(redact=["email", "phone"])
    assert load(redact=["email", "phone"]) != load(redact=["email", "iban"])
    assert hash(redactor(["email", "phone"])) == hash(redactor(["email", "phone"]))


class TimedOut(BaseException):
    """As some libraries end what takes too long: no Exception."""


def _times_out(_: str) -> list[Any]:
    raise TimedOut


@pytest.mark.parametrize(
    "function",
    [
        lambda _: 1 / 0,
        lambda _: None,
        lambda _: 7,
        lambda text: text,
        lambda _: ["17"],
        lambda _: [(1,)],
        lambda _: [(1, 2, "a", "b")],
        lambda _: [(0.5, 3.5)],
        lambda _: [("1", "2")],
        lambda _: [(False, True)],
        lambda _: [(3, 2)],
        lambda _: [(-1, 2)],
        lambda _: [(0, 10_000)],
        lambda _: [(0, 1), None],
        lambda _: (_ for _ in [(0, 1), 1 / 0]),
        lambda _: sys.exit(3),
        lambda _: (sys.exit(3) for _ in range(1)),
        _times_out,
        list,
    ],
)
def test_what_can_not_be_understood_costs_the_text(function: Any) -> None:
    """A function that raises or answers nonsense, in part or as a whole: the text is cut whole."""
    text = "hello, world, how are you"
    assert places(redactor(function), text) == [(0, len(text), "redact:failed")]
    assert places(redactor(["email", function]), text) == [(0, len(text), "redact:failed")]


def test_an_interrupt_is_nobody_s_failure() -> None:
    """Whoever presses Ctrl-C while a function looks at a text ends the program, as without us."""

    def interrupted(_: str) -> list[Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        places(redactor(interrupted), "hello")


def test_a_function_of_ones_own() -> None:
    """Places with or without a label; an odd label is left out, an empty place cuts nothing."""
    text = "hello, world"
    for given_back, expected in [
        ([(0, 5)], [(0, 5, "redact")]),
        ([[0, 5, "name"]], [(0, 5, "redact:name")]),
        ([(0, 5, "a name with spaces"), (7, 12, None)], [(0, 5, "redact"), (7, 12, "redact")]),
        ([(3, 3)], []),
        ([], []),
    ]:
        assert places(redactor(lambda _, found=given_back: found), text) == expected
    assert places(redactor(lambda _: None), "") == []


def test_several_together() -> None:
    """Names and functions, in any nesting; a name that there is not is an error at once."""
    both = redactor(["email", ("ipv4", lambda text: [(0, 1)])])
    assert places(both, "x a@b.de 1.2.3.4") == [(2, 8, "redact:email"), (9, 16, "redact:ipv4"), (0, 1, "redact")]
    with pytest.raises(ValueError, match="email, phone"):
        redactor(["email", "e-mail"])


def test_the_environment_names_patterns_or_a_function(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``email,iban``, or ``module:function``; what there is not, is an error that names the variable."""
    (tmp_path / "house_rules.py").write_text("def find(text):\n    yield 0, 1, 'mine'\nvalue = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    home = {"XDG_STATE_HOME": "/state"}
    given_redactor = load({**home, "PROMPT_TRACE_REDACT": "email, iban"}).redact
    assert given_redactor is not None
    assert [p[2] for p in places(given_redactor, "a@b.de DE89370400440532013000")] == ["redact:email", "redact:iban"]
    own = load({**home, "PROMPT_TRACE_REDACT": "house_rules:find"}).redact
    assert own is not None
    assert places(own, "abc") == [(0, 1, "redact:mine")]
    assert load(home).redact is None
    for wrong in ("e-mail", "house_rules:none", "house_rules:value", "no_such_module:f", ":", "email,"[:-1] + ",x"):
        with pytest.raises(ConfigurationError, match="PROMPT_TRACE_REDACT"):
            load({**home, "PROMPT_TRACE_REDACT": wrong})


def every_kind() -> Script:
    """Every kind of event that holds text, each text with an address in it."""
    script = Script()
    text = f"I am {MAIL}!"
    script("query", question=text, user=MAIL, session="s")
    script("retrieval", question=text, hits=[{"chunk_id": "c", "rank": 1, "text": text}])
    script("piece", producer="user", text=text, call="c1")
    script("piece", producer="other", text=" Yes.", call="c1")
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text + " Yes."}], "x": {MAIL: text}})
    script("request", call="c1", evidence="wire", api="openai.chat", host="h", path="/p", body=body.encode())
    script("request", call="c1", evidence="declared", prompt=text + " Yes.", parameters={"system": text, "n": [text]})
    raw = json.dumps({"choices": [{"message": {"content": text, "role": "assistant"}, "finish_reason": "stop"}]})
    common = {"api": "openai.chat", "status": 200, "content_type": "application/json", "complete": True}
    script("response", call="c1", evidence="wire", raw=raw.encode(), **common)
    script("response", call="c1", output=text, tool_calls=[{"arguments": json.dumps({"to": MAIL})}])
    script("tool_call", name="mail", arguments={"to": MAIL, MAIL: 1}, result=text)
    script("content", call="c1", values={"input.value": text, "llm.x": [{"a": text}]}, events=[{"e": {"body": text}}])
    script("feedback", score=text, comment=text, fields={MAIL: text})
    script("end", ms={"search": 1})
    return script


@pytest.mark.parametrize("policy", ["store", "hash"])
def test_every_text_of_every_event_goes_through_it(policy: str) -> None:
    """None of them keeps the address, and no bare digest of a text that holds it."""
    script = every_kind()
    events = seal(script.events, policy, DIGEST, (), redactor("email"))
    for event in events:
        line = encode(event)
        assert b"example.com" not in line, event["kind"]
        assert b"mustermann" not in line, event["kind"]
        assert sha256_text(f"I am {MAIL}!").encode() not in line
        assert sha256_text(f"I am {MAIL}! Yes.").encode() not in line
        assert sha256_text(MAIL).encode() not in line
    if policy == "store":
        for name, kind in (
            ("question", "query"),
            ("output", "response"),
            ("comment", "feedback"),
            ("result", "tool_call"),
        ):
            (cut, *_) = [event[name] for event in events if event["kind"] == kind and name in event]
            assert cut == CutText(("I am ", Cut(len(MAIL), "redact:email", DIGEST(MAIL)), "!"))


def test_places_hold_around_what_was_cut() -> None:
    """A piece without the address is located after it, one with it by its offsets; nothing is unaccounted."""
    record = read(seal(every_kind().events, "store", DIGEST, (), redactor("email")))
    call = record.calls[0]
    assert call.evidence == "wire"
    census = grade(record).calls[0].census
    assert census is not None
    states = {p.producer: (p.state, p.start, p.end) for p in census.pieces if not p.piece.inferred}
    size = len(f"I am {MAIL}!")
    assert states == {"user": ("located", 0, size), "other": ("located", size, size + 5)}
    assert call.prompt is not None
    assert call.prompt.segments[0].text == f"I am {FILLER * len(MAIL)}! Yes."
    assert call.prompt.segments[0].cuts == ((5, 5 + len(MAIL)),)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=5), st.text(max_size=40))
def test_any_answer_of_a_function_is_cut_or_costs_the_text(found: list[tuple[int, int]], text: str) -> None:
    """Whatever it says: the length stays, and no character that it named."""
    script = Script()
    script("query", question=text)
    (event,) = seal(script.events, "store", DIGEST, (), lambda _: found)
    kept = event["question"]
    filled = kept.filled if isinstance(kept, CutText) else kept
    assert len(filled) == len(text)
    for start, end in found:
        assert set(filled[start:end]) <= {FILLER}


@pytest.fixture
def bytes_of(tmp_path: Path) -> Iterator[Callable[[Any], tuple[bytes, Event]]]:
    """Records a query with a redactor given to ``install``; everything on disk, and the query event as it is read."""

    def record(redact: Any) -> tuple[bytes, Event]:
        provider = TracerProvider(shutdown_on_exit=False)
        store, spool = tmp_path / "store", tmp_path / "spool"
        pt.install(store=str(store), spool=str(spool), redact=redact, tracer_provider=provider)
        prompt = pt.Prompt()
        prompt.add("system", "Be kind.", trust="policy")
        prompt.add("user", f"I am {MAIL}")
        with pt.query(question=f"Who is {MAIL}?", user=MAIL) as q:
            q.retrieved([{"chunk_id": "c", "score": 1.0, "text": MAIL}])
            with q.call(model="m", prompt=prompt) as call:
                call.respond(output=f"You are {MAIL}.", finish_reason="stop")
        pt.feedback(q.qid, score=1, comment=f"thanks, {MAIL}")
        spooled = b"".join(path.read_bytes() for path in sorted(spool.rglob("*")) if path.is_file())
        assert pt.flush(10).ok
        read_back = pt.open_store(str(store)).get(q.qid).query
        assert read_back is not None
        files = [path.read_bytes() for path in sorted(store.rglob("*.zst"))]
        provider.shutdown()
        assert files
        unpacked = b"".join(zstandard.ZstdDecompressor().decompressobj().decompress(data) for data in files)
        return spooled + unpacked, read_back

    yield record
    pt.uninstall()


@pytest.mark.parametrize("redact", [["email"], lambda text: [(n, n + len(MAIL)) for n in [text.find(MAIL)] if n >= 0]])
def test_nothing_of_it_reaches_spool_or_store(redact: Any, bytes_of: Callable[[Any], tuple[bytes, Event]]) -> None:
    """From ``install(redact=…)`` on: neither on this machine's disk nor in the store."""
    written, query = bytes_of(redact)
    assert b"Be kind." in written
    assert b"example.com" not in written
    assert b"mustermann" not in written
    assert isinstance(query["question"], CutText)
    ((start, end, cut),) = query["question"].cuts()
    assert (start, end, cut.policy.partition(":")[0]) == (7, 7 + len(MAIL), "redact")


@pytest.mark.parametrize("named", ["email,iban", "house_rules_at_work:find"])
def test_named_in_the_environment(
    named: str, bytes_of: Callable[[Any], tuple[bytes, Event]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As an application that is changed by its environment alone says it."""
    source = f"MAIL = {MAIL!r}\ndef find(text):\n    at = text.find(MAIL)\n"
    source += "    return [(at, at + len(MAIL))] if at >= 0 else []\n"
    (tmp_path / "house_rules_at_work.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PROMPT_TRACE_REDACT", named)
    written, query = bytes_of(None)
    assert b"Be kind." in written
    assert b"mustermann" not in written
    assert len(query["question"]) == len(f"Who is {MAIL}?")


def labelled(value: Any) -> Iterator[tuple[str, int]]:
    """Policy and length of everything that was cut below a value."""
    if isinstance(value, CutText):
        yield from ((cut.policy, cut.chars) for _, _, cut in value.cuts())
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from labelled(item)


@pytest.mark.parametrize("given_settings", [{"redact": ["email"]}, {"policy": "hash"}])
def test_nothing_of_it_reaches_spool_or_store_by_the_wire(given_settings: dict[str, Any], tmp_path: Path) -> None:
    """Question and answer as a client sends and receives them, escaped and in tool calls; the credential as well."""
    store, spool = tmp_path / "store", tmp_path / "spool"
    answer = {
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": f"You are {MAIL}.",
                    "tool_calls": [
                        {
                            "id": "1",
                            "type": "function",
                            "function": {"name": "f", "arguments": json.dumps({"to": MAIL})},
                        }
                    ],
                },
            }
        ]
    }
    sent = json.dumps(
        {
            "model": "m",
            "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": f"I am {MAIL}, é"}],
            "tools": [{"type": "mcp", "server_label": "s", "authorization": "a-token-of-the-server"}],
        }
    ).replace("@", "\\u0040")
    provider = TracerProvider(shutdown_on_exit=False)
    pt.install(store=str(store), spool=str(spool), tracer_provider=provider, **given_settings)
    try:
        transport = httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
        with pt.query(question="Who?") as q, httpx.Client(transport=transport) as client:
            url = "http://model.test/v1/chat/completions"
            assert client.post(url, content=sent, headers={"content-type": "application/json"}).json() == answer
        spooled = b"".join(path.read_bytes() for path in sorted(spool.rglob("*")) if path.is_file())
        assert pt.flush(10).ok
        record = pt.open_store(str(store)).get(q.qid)
    finally:
        pt.uninstall()
        provider.shutdown()
    files = [path.read_bytes() for path in sorted(store.rglob("*.zst"))]
    unpacked = b"".join(zstandard.ZstdDecompressor().decompressobj().decompress(data) for data in files)
    written = spooled + unpacked
    for secret in (b"mustermann", b"example.com", b"a-token-of-the-server"):
        assert secret not in written
    assert (b"Be kind." in written) == ("redact" in given_settings)
    (call,) = record.calls
    assert (call.evidence, call.attempts[0].status, call.unfinished) == ("wire", 200, False)
    assert call.prompt is not None
    assert [len(segment.text) for segment in call.prompt.segments] == [8, len(f"I am {MAIL}, é")]
    assert call.response is not None
    labels = [label for label, _ in labelled(call.response["output"])]
    assert set(labels) == ({"redact:email"} if "redact" in given_settings else {"hash"})
    assert sum(len(run) if isinstance(run, str) else run["cut"] for run in record.of("request")[0]["body"]) == len(sent)


def test_a_function_that_fails_keeps_no_text_at_all(bytes_of: Callable[[Any], tuple[bytes, Event]]) -> None:
    """And never raises into the application."""
    written, query = bytes_of(lambda _: 1 / 0)
    assert b"Be kind." not in written
    assert b"example.com" not in written
    assert query["question"].filled == FILLER * len(f"Who is {MAIL}?")
