"""Texts that must not be kept: no occurrence in any string of any event, while places and structure stay."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_prompt_trace.core.derive import derive
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.redaction import redactor
from otel_prompt_trace.core.seal import keyed_digest, needs_policy, seal
from otel_prompt_trace.core.text import Cut, CutText, utf8
from tests.core.by_hand import KEY, Script, read
from tests.core.test_seal import everything, lines, only, texts_in

SECRET = 'Ann Lee, "room 7"\nnext to Bob'
digest = keyed_digest(KEY)
FORMS = (SECRET, json.dumps(SECRET)[1:-1])


def left_in(events: list[Event]) -> list[str]:
    """Strings that still tell, as the events are held and as they are read back from their lines."""
    read_back = list(read(events).events)
    return [text for text in texts_in([events, read_back]) if any(form in text for form in FORMS)]


def with_secret() -> Script:
    """A query in which every field that may hold text holds the secret, and the names of fields as well."""
    script = everything(SECRET)
    del script.events[0]["policy"]
    script.call(
        "c4",
        [{"role": "assistant", "tool_calls": [{"function": {"arguments": json.dumps({"q": SECRET})}}], SECRET: "x"}],
        parameters={"system": [{"type": "text", "text": f"for {SECRET}"}], "stop": [SECRET], SECRET: 1},
    )
    script("piece", call="c4", producer="rag", source_id=f"c of {SECRET}", text="x")
    script("feedback", score=SECRET, fields={f"about {SECRET}": [f"{SECRET}!"]})
    return script


def test_no_string_of_any_event_keeps_it() -> None:
    """The prompt, messages, tools, parameters, other pieces, output, results, hits, feedback, content: none."""
    script = with_secret()
    assert len(left_in(script.events)) > 40, "the test must be able to fail"
    sealed = seal(script.events, "store", digest, [SECRET])
    assert left_in(sealed) == []
    assert utf8(SECRET) not in lines(sealed)
    assert [e["kind"] for e in sealed] == [e["kind"] for e in script.events]


def test_a_piece_with_a_policy_withholds_its_text_everywhere() -> None:
    """As if the caller had named it: in the output and in another call's prompt as well."""
    script = with_secret()
    script("piece", producer="user", text=SECRET, policy="hash")
    assert left_in(script.sealed()) == []


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("depth", range(5))
def test_json_in_json_keeps_none_of_it(depth: int, ascii_only: bool) -> None:
    """A tool's result that one agent hands on to another, as its arguments: escaped once more at each step."""
    secret = 'Zoë, "room 7"\nnext \\ to 請求'
    text = secret
    for _ in range(depth):
        text = json.dumps({"r": text}, ensure_ascii=ascii_only)
    script = Script()
    script.call("c1", [{"role": "user", "content": text}])
    script("response", call="c1", output=text)
    sealed = seal(script.events, "store", digest, [secret])
    told = [text for text in texts_in(sealed) if "room 7" in text or "next" in text]
    assert told == []
    assert any("room 7" in text for text in texts_in(script.events)), "the test must be able to fail"
    body = only(sealed, "request")["messages"][0]["content"]
    assert len(body) == len(text)


def test_the_path_of_a_request_is_a_name() -> None:
    """A URL may name a user: the path stays a string, with a digest in the place of what is withheld."""
    script = Script()
    script.call("c1", "a prompt", host="model.example", path="/u/ann@b.example/v1/chat/completions")
    sealed = only(seal(script.events, "store", digest, ["ann@b.example"]), "request")
    assert sealed["path"] == f"/u/[hash {digest('ann@b.example')[:16]}]/v1/chat/completions"
    sealed = only(seal(script.events, "store", digest, redact=redactor("email")), "request")
    assert sealed["path"].startswith("/u/[redact:email ")
    assert only(seal(script.events, "store", digest, ["elsewhere"]), "request")["path"] == script.events[-1]["path"]


def test_every_occurrence_in_a_prompt_is_cut_and_the_rest_stays() -> None:
    """Not only the one that the piece was located at; overlapping ones as well; the pieces keep their places."""
    script = Script()
    script.call("c1", "Q: aba, ababa.", {"producer": "t", "text": "Q: "}, {"producer": "u", "text": "aba"})
    sealed = seal(script.events, "store", digest, ["aba"])
    runs = only(sealed, "request")["prompt"].runs
    assert [run if isinstance(run, str) else run.chars for run in runs] == ["Q: ", 3, ", ", 3, 2, "."]
    user = next(e for e in sealed if e.get("producer") == "u")
    assert (user["start"], user["end"], user["hmac_sha256"]) == (3, 6, digest("aba"))
    assert "text" not in user


def test_the_piece_around_it_is_kept_by_its_offsets() -> None:
    """An honest prompt stays exact although one of its pieces holds the text."""
    script = Script()
    script.call(
        "c1", "Be brief. Ask Ann.", {"producer": "s", "text": "Be brief."}, {"producer": "t", "text": " Ask Ann."}
    )
    sealed = seal(script.events, "store", digest, ["Ann"])
    census = derive(read(sealed))[0].census
    assert census is not None
    assert (census.verdict, census.by_producer()) == ("exact", {"s": 9, "t": 9})
    assert utf8("Ann") not in lines(sealed)


@pytest.mark.parametrize("prompt", [{"odd": "for Ann"}, b"for Ann", {"n": [{"Ann": 1}]}])
def test_a_prompt_of_an_unknown_shape_is_cut_whole(prompt: Any) -> None:
    """Nobody can say where in it the text stands, nor in which form."""
    script = Script()
    script("request", call="c1", evidence="declared", prompt=prompt)
    sealed = seal(script.events, "store", digest, ["Ann"])
    assert not [text for text in texts_in(sealed) if "Ann" in text or "for" in text]


def test_words_of_the_protocol_stay() -> None:
    """A user who writes "user" or "text" does not turn the messages into something that can't be read."""
    script = Script()
    script.call("c1", [{"role": "user", "content": [{"type": "text", "text": "the user"}]}])
    request = only(seal(script.events, "store", digest, ["user", "text", "content"]), "request")
    assert request["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": CutText(("the ", Cut(4, "hash", digest("user"))))}]}
    ]
    assert request["segments"][0]["hmac_sha256"] == digest("the user")


def test_an_image_or_a_link_that_holds_it_is_not_described() -> None:
    """The description is a part of the text, and may end within it."""
    script = Script()
    link = {"type": "image_url", "image_url": {"url": f"https://b.example/{'x' * 176}Annabel"}}
    script.call("c1", [{"role": "user", "content": [{"type": "text", "text": "What?"}, link]}])
    sealed = seal(script.events, "store", digest, ["Annabel"])
    assert only(sealed, "request")["outside"][0]["detail"] == "withheld"


def test_it_needs_a_key_and_the_slow_form() -> None:
    """Without a digest nothing is sealed; and whoever records knows that something must be cut."""
    with pytest.raises(ValueError, match="needs a keyed digest"):
        seal([{"kind": "end"}], "store", None, ["x"])
    assert needs_policy([{"kind": "end"}], "store", ["x"])
    assert not needs_policy([{"kind": "end"}], "store", [""])


def test_feedback_under_hash_keeps_no_string() -> None:
    """A score in words and the names of the fields are the words of whoever gave it."""
    script = Script()
    script("feedback", score="terrible", fields={"told Ann": {"what Ann said": "no"}, "stars": 2})
    sealed = script.sealed("hash")
    assert not [text for text in texts_in(sealed) if "terrible" in text or "Ann" in text]
    assert 2 in only(sealed, "feedback")["fields"].values()


def test_glue_that_was_withheld_does_not_make_a_sole_producer_honest() -> None:
    """One producer and a line break were unknown before they were cut, and are so after."""
    script = Script()
    script.call("c1", "Why?\n", {"producer": "u", "text": "Why?"}, {"producer": "literal", "text": "\n"})
    for number, event in enumerate(script.events[:2]):
        event.update(segment=0, start=4 * number, end=4 + number)
    for policy in ("store", "hash"):
        census = derive(script.record(policy))[0].census
        assert census is not None
        assert "whole_prompt_piece" in census.reasons
    assert Piece("x", None, blank=True).blank


def test_the_recorder_cuts_before_it_writes() -> None:
    """What is appended to the spool holds no occurrence; events with nothing to withhold take the fast form."""
    from otel_prompt_trace.pipeline.accounting import Accounts
    from otel_prompt_trace.pipeline.flags import LINES
    from otel_prompt_trace.pipeline.recorder import Recorder

    kept: list[tuple[int, bytes]] = []

    class KeepingSpool:
        """Remembers what was appended."""

        def append(self, flags: int, _qid: str, head: bytes, body: bytes, _events: int, _ticket: object) -> None:
            """Keep it."""
            kept.append((flags, head + body))

    recorder = Recorder(
        KeepingSpool(),  # type: ignore[arg-type]
        Accounts(),
        writer="01JDZQ4K8BWRWRWRWRWRWRWRWR",
        now_ns=lambda: 1,
        resource={},
        digest=lambda: digest,
        on_append=lambda: None,
    )
    event = {"kind": "response", "call": "c", "output": "You are Ann Lee."}
    assert recorder.append("q", [event], withheld=["Ann Lee"]).state == "spooled"
    assert recorder.append("q", [event]).state == "spooled"
    (flags, cut), (plain_flags, whole) = kept
    assert (bool(flags & LINES), bool(plain_flags & LINES)) == (True, False)
    assert b"Ann Lee" not in cut
    assert b"You are " in cut
    assert b"Ann Lee" in whole
