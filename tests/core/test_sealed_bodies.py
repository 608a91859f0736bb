"""A request as it was sent, sealed: nothing of what must not be kept is in its line, and everything else still is."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.bodies.apis import api_of
from otel_prompt_trace.core.bodies.runs import rebuild
from otel_prompt_trace.core.checks import integrity
from otel_prompt_trace.core.events import Event, encode
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.redaction import PATTERNS, redactor
from otel_prompt_trace.core.request_parts import split_request
from otel_prompt_trace.core.seal import keyed_digest, seal
from otel_prompt_trace.core.text import FILLER, sha256_text, utf8
from otel_prompt_trace.wire.rules import body_of
from tests.core.by_hand import KEY, Script, read

CORPUS = Path(os.environ.get("PROMPT_TRACE_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")
REQUESTS = CORPUS / "cassettes" / "requests.jsonl"
DIGEST = keyed_digest(KEY)
SECRET = 'Grüße "4711"\nZarathustra'
IMAGE = base64.b64encode(bytes(range(200))).decode()
MESSAGES = [
    {"role": "system", "content": "You answer."},
    {"role": "user", "content": f"Before {SECRET} after 4711, and again {SECRET}."},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": json.dumps([SECRET])}}],
    },
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}]},
]
BODY: dict[str, Any] = {"model": "gpt-4o", "messages": MESSAGES, "temperature": 0.5, "stop": ["END"]}


def wire(body: Any, script: Script | None = None, **fields: Any) -> Script:
    """A script with a request as the wire gives it."""
    script = Script() if script is None else script
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    script("request", call="c1", evidence="wire", api="openai.chat", host="h", path="/v1/chat/completions", body=sent,
           **fields)  # fmt: skip
    return script


def sealed(script: Script, policy: str = "store", withheld: Sequence[str] = (), redact: Any = None) -> Event:
    """The one request of the script as it is stored."""
    events = seal(script.events, policy, DIGEST, withheld, None if redact is None else redactor(redact))
    (event,) = [event for event in events if event["kind"] == "request"]
    return event


def forms(secret: str) -> list[bytes]:
    """The bytes by which a text could stand in a line: as it is, and escaped once or twice."""
    once = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    texts = once | {json.dumps(text, ensure_ascii=flag)[1:-1] for text in once for flag in (True, False)}
    return [utf8(text) for text in texts]


def assert_gone(event: Event, *secrets: str) -> None:
    """Nothing of the secrets is in the line, and no bare digest of one."""
    line = encode(event)
    for secret in secrets:
        assert not any(form in line for form in forms(secret)), secret
        assert sha256_text(secret).encode() not in line


def shape(event: Event) -> list[tuple[str, int]]:
    """Path and length of each segment, as a reader splits the stored request."""
    taken = split_request(event)
    assert taken is not None
    return [(segment.path, len(segment.text)) for segment in taken[0].segments]


def check_described(event: Event, original: Event) -> None:
    """The segments that the event describes are those that a reader finds, and their digests are of the originals."""
    before, after = split_request(original), split_request(event)
    assert before is not None
    assert after is not None
    assert [entry["path"] for entry in event["segments"]] == [segment.path for segment in after[0].segments]
    for entry, segment, kept in zip(event["segments"], before[0].segments, after[0].segments, strict=True):
        assert entry["chars"] == len(segment.text) == len(kept.text)
        if kept.cuts:
            assert entry["hmac_sha256"] == DIGEST(segment.text)
            assert "sha256" not in entry
        elif "sha256" in entry:
            assert entry["sha256"] == sha256_text(segment.text)
        for n, character in enumerate(kept.text):
            cut = any(start <= n < end for start, end in kept.cuts)
            assert character == (FILLER if cut else segment.text[n])


def test_a_body_that_is_kept_whole() -> None:
    """The bytes, their digest, their length, the parts, the model, and a digest of each segment."""
    script = wire(BODY)
    event, sent = sealed(script), script.events[0]["body"]
    assert rebuild(event["body"], {}.__getitem__) == (sent, 0)
    assert (event["sha256"], event["bytes"]) == (hashlib.sha256(sent).hexdigest(), len(sent))
    assert (event["model"], event["temperature"]) == ("gpt-4o", 0.5)
    assert sum(event["parts"].values()) == len(sent)
    check_described(event, event)
    assert integrity(read([event]).calls[0])[0] == "pass"


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_policy_hash_keeps_no_text(indent: int | None, ascii_only: bool) -> None:
    """Every text, tool and image is cut in its place; readers find the same segments with the same lengths."""
    tools = [{"type": "function", "function": {"name": "look_up", "description": "Looks it up", "parameters": {}}}]
    sent = json.dumps({**BODY, "tools": tools, "unheard-of": "hidden"}, indent=indent, ensure_ascii=ascii_only).encode()
    event, whole = sealed(wire(sent), "hash"), sealed(wire(sent))
    assert_gone(event, SECRET, "You answer.", "look_up", "Looks it up", "hidden", IMAGE, "END")
    assert shape(event) == shape(whole)
    check_described(event, whole)
    assert "sha256" not in event
    assert event["hmac_sha256"] == DIGEST(sent.decode())
    assert event["model_visible_withheld"] is True
    rebuilt, missing = rebuild(event["body"], {}.__getitem__)
    assert len(rebuilt) == len(sent)
    assert missing > len(IMAGE)
    assert b'"role"' in rebuilt
    assert b"gpt-4o" in rebuilt
    assert b"data:image/png;base64," in rebuilt
    graded = grade(read([event])).calls[0]
    assert (graded.verdict, "undeclared_model_visible_part" in graded.reasons) == ("unknown", True)


def test_withheld_texts_are_cut_wherever_they_stand() -> None:
    """As they are, as JSON escapes them inside a tool's arguments, and as the body itself is escaped."""
    for ascii_only in (True, False):
        sent = json.dumps(BODY, ensure_ascii=ascii_only).encode()
        event, whole = sealed(wire(sent), withheld=[SECRET]), sealed(wire(sent))
        assert_gone(event, SECRET)
        assert shape(event) == shape(whole)
        check_described(event, whole)
        assert ("sha256" in event, event["hmac_sha256"]) == (False, DIGEST(sent.decode()))
        texts = [segment.text for segment in split_request(event)[0].segments]  # type: ignore[index]
        assert texts[1] == f"Before {FILLER * len(SECRET)} after 4711, and again {FILLER * len(SECRET)}."
        assert next(e["path"] for e in event["segments"] if "sha256" in e) == "messages[0].content"


def test_a_piece_that_is_withheld_is_cut_and_still_located() -> None:
    """Its characters stand at their offsets, of which the census says that they are covered."""
    script = Script()
    script("piece", producer="user", text=SECRET, policy="hash", call="c1")
    script("piece", producer="rest", text="Before ", call="c1")
    wire({"model": "m", "messages": [{"role": "user", "content": f"Before {SECRET}"}]}, script)
    events = seal(script.events, "store", DIGEST)
    assert_gone({**events[-1], "x": list(events)}, SECRET)
    graded = grade(read(events)).calls[0]
    assert graded.census is not None
    assert [(p.state, p.start, p.end) for p in graded.census.pieces] == [
        ("located", 7, 7 + len(SECRET)), ("located", 0, 7),
    ]  # fmt: skip
    assert graded.census.unaccounted == 0


@pytest.mark.parametrize(
    ("fields", "secrets"),
    [
        ({"tools": [{"type": "mcp", "server_label": "s", "authorization": "one-secret"}]}, ["one-secret"]),
        ({"tools": [{"type": "mcp", "headers": {"X": "a-secret", "Y": ["b-secret"]}}]}, ["a-secret", "b-secret"]),
        ({"mcp_servers": [{"url": "u", "authorization_token": 'tok"en-ü'}]}, ['tok"en-ü']),
        ({"extra_query": {"key": 471147114711}}, ["471147114711"]),
        ({"data_sources": [{"parameters": {"authentication": {"type": "api_key", "key": "azure-key"}}}]},
         ["azure-key"]),
        ({"tools": [{"retrieval": {"externalApi": {"apiAuth": {"apiKeyConfig": {"apiKeyString": "vertex-key"}}}}}]},
         ["vertex-key"]),
        ({"unheard-of": {"headers": {"a": "short"}}}, ["short"]),
        ({"metadata": json.loads("[" * 200 + "1" + "]" * 200), "tools": [{"authorization": "after-depth"}]},
         ["after-depth"]),
    ],
)  # fmt: skip
def test_credentials_are_cut_and_the_digest_of_the_bytes_stays(fields: dict[str, Any], secrets: list[str]) -> None:
    """The sha256 is that of the bytes as sent; place, length and keyed digest of each secret stay."""
    sent = json.dumps({**BODY, **fields}).encode()
    event, whole = sealed(wire(sent, secrets=True)), sealed(wire(sent))
    assert_gone(event, *secrets)
    assert event["sha256"] == hashlib.sha256(sent).hexdigest()
    assert "hmac_sha256" not in event
    rebuilt, missing = rebuild(event["body"], {}.__getitem__)
    assert len(rebuilt) == len(sent)
    assert missing >= sum(len(json.dumps(secret)) - 2 for secret in secrets)
    labels = [run for run in event["body"] if isinstance(run, dict)]
    assert {label["policy"] for label in labels} == {"credential"}
    assert {DIGEST(secret) for secret in secrets} <= {label["hmac_sha256"] for label in labels}
    assert shape(event) == shape(whole)
    check_described(event, whole)


def test_a_credential_among_content_has_no_bare_digest() -> None:
    """An unknown field is content, and what is called a header in it a secret: its digest is keyed, too."""
    event = sealed(wire({**BODY, "unheard-of": {"headers": {"a": "1234"}}}, secrets=True))
    (entry,) = [entry for entry in event["segments"] if "unheard-of" in entry["path"]]
    assert entry["hmac_sha256"] == DIGEST("1234")
    assert "sha256" not in entry


def test_what_is_redacted_is_labelled_where_it_stood() -> None:
    """In texts, in JSON within texts, in names of fields, in links; also as escapes."""
    mail = "max@example.com"
    body = {
        **BODY,
        "messages": [
            {"role": "user", "content": f"I am {mail}. Call +49 171 1234567!"},
            {"role": "tool", "content": json.dumps({"mail": mail, mail: 1})},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"https://h/{mail}.png"}}]},
            {"role": "user", "content": {mail: "in a name"}},
        ],
        "user": mail,
    }
    sent = json.dumps(body).replace("@", "\\u0040").encode()
    event, whole = sealed(wire(sent), redact=["email", "phone"]), sealed(wire(sent))
    assert_gone(event, mail, "max", "+49 171 1234567", "1234567")
    assert [length for _, length in shape(event)] == [length for _, length in shape(whole)]
    check_described(event, whole)
    labels = [run["policy"] for run in event["body"] if isinstance(run, dict)]
    assert labels == ["redact:email", "redact:phone", *["redact:email"] * 5]
    assert sum(len(run) if isinstance(run, str) else run["cut"] for run in event["body"]) == len(sent)
    assert split_request(event)[0].segments[0].text == f"I am {FILLER * 15}. Call {FILLER * 15}!"  # type: ignore[index]
    assert "sha256" not in event


def test_a_body_that_nobody_can_read_is_cut_whole() -> None:
    """It can't be searched: in doubt nothing is kept, and no bare digest either."""
    for sent in (b"\xff\xfe" + SECRET.encode(), b"no JSON: " + SECRET.encode()):
        for options in ({"policy": "hash"}, {"withheld": ["Zarathustra"]}, {"redact": "email"}):
            event = sealed(wire(sent), **options)  # type: ignore[arg-type]
            line = encode(event)
            assert b"Zarathustra" not in line
            assert base64.b64encode(sent)[:12] not in line
            assert hashlib.sha256(sent).hexdigest().encode() not in line


@settings(max_examples=60)
@given(
    st.text(st.characters() | st.sampled_from('"\\/\n\ud83d\ude00é'), min_size=3, max_size=8),
    st.lists(st.text(max_size=6), min_size=1, max_size=3),
    st.booleans(),
    st.data(),
)
def test_any_withheld_text(secret: str, around: list[str], ascii_only: bool, data: st.DataObject) -> None:
    """Put anywhere into the conversation: no line holds it, lengths and all other characters stay."""
    texts = [secret.join([text] * data.draw(st.integers(1, 3))) for text in around]
    messages = [{"role": "user", "content": text} for text in texts]
    text = json.dumps({"model": "m", "messages": messages}, ensure_ascii=ascii_only)
    sent = text.encode("utf-8", "backslashreplace")
    event, whole = sealed(wire(sent), withheld=[secret]), sealed(wire(sent))
    check_described(event, whole)
    kept = split_request(event)
    assert kept is not None
    assert all(secret not in segment.text for segment in kept[0].segments)


@pytest.mark.corpus
@pytest.mark.skipif(not REQUESTS.is_file(), reason="the corpus is not here")
def test_real_bodies_are_sealed() -> None:
    """Every request of the corpus under each policy: the same segments, right digests, and none of the texts."""
    count = 0
    for line in REQUESTS.read_text(encoding="utf-8").splitlines():
        request = json.loads(line)
        api, body = api_of(request["path"].partition("?")[0]), (request["request_body"] or "").encode()
        if api is None or request["method"] != "POST" or body_of(api, body) is None:
            continue
        count += 1
        whole = sealed(wire(body))
        check_described(whole, whole)
        split = split_request(whole)
        assert split is not None
        texts = [segment.text for segment in split[0].segments if len(segment.text) > 20]
        hashed = sealed(wire(body), "hash")
        check_described(hashed, whole)
        assert_gone(hashed, *texts)
        redacted = sealed(wire(body), redact=list(PATTERNS))
        check_described(redacted, whole)
        assert redacted["body"] == whole["body"], "nothing in the corpus is secret"
        if texts:
            part = texts[-1][5:17]
            withheld = sealed(wire(body), withheld=[part])
            check_described(withheld, whole)
            assert_gone(withheld, part)
    assert count > 150
