"""Sealing: what is added to captured events, and what a policy takes out of them before anything is written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.census import Census, census
from otel_prompt_trace.core.derive import derive
from otel_prompt_trace.core.events import Event, encode
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.pieces import Piece, piece_of
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.core.published import published
from otel_prompt_trace.core.seal import keyed_digest, needs_policy, prompt_digest, seal
from otel_prompt_trace.core.segments import split
from otel_prompt_trace.core.text import Cut, CutText, Foreign, sha256_text, utf8
from tests.core.by_hand import KEY, Script, read

SECRET = "Ten years, says Zarathustra."
digest = keyed_digest(KEY)


def placed(prompt: Prompt, call: str = "c1", **fields: Any) -> list[dict[str, Any]]:
    """The piece events of a prompt, as they are captured: offsets without texts."""
    return [
        {
            "producer": piece.producer,
            "segment": piece.segment,
            "start": piece.start,
            "end": piece.end,
            **({"policy": piece.policy} if piece.policy != "store" else {}),
            **fields,
        }
        for piece in prompt.pieces
    ]


def lines(events: list[Event]) -> bytes:
    """The events as they are written."""
    return b"".join(map(encode, events))


def only(events: list[Event], kind: str) -> Event:
    """The one event of a kind."""
    (event,) = [event for event in events if event["kind"] == kind]
    return event


def first_census(script: Script, policy: str) -> Census:
    """The census of the first call of the record as it is read back."""
    found = derive(script.record(policy))[0].census
    assert found is not None
    return found


class TestStore:
    """Policy ``store``: everything is kept, and measured."""

    def test_a_string(self) -> None:
        """One segment: its digest and length stand on the event as well."""
        script = Script()
        script.call("c1", "Why?\ud83d")
        request = only(script.sealed(), "request")
        segment = {"path": "prompt", "chars": 5, "sha256": sha256_text("Why?\ud83d")}
        assert request["prompt"] == "Why?\ud83d"
        assert (request["chars"], request["sha256"], request["segments"]) == (5, segment["sha256"], [segment])
        assert prompt_digest(request) == segment["sha256"]

    def test_messages(self) -> None:
        """One digest a segment, with its role; what is no text is listed; the total is that of the text."""
        image = {"type": "image_url", "image_url": {"url": "https://b.example/i.png?secret"}}
        script = Script()
        content = [{"type": "text", "text": "Why?"}, image]
        script.call("c1", [{"role": "system", "content": "Be brief."}, {"role": "user", "content": content}])
        request = only(script.sealed(), "request")
        assert request["chars"] == 13
        assert "sha256" not in request
        assert [(s["path"], s["role"], s["chars"]) for s in request["segments"]] == [
            ("messages[0].content", "system", 9),
            ("messages[1].content[0].text", "user", 4),
        ]
        assert request["outside"] == [
            {"path": "messages[1].content[1].image_url.url", "kind": "reference", "detail": "https://b.example/i.png"}
        ]
        assert prompt_digest(request) not in (None, request["segments"][0]["sha256"])

    def test_a_placed_piece_gets_its_text_back(self) -> None:
        """It was captured by its offsets alone, since the prompt holds its text."""
        prompt = Prompt().message("system").add("system", "Be brief.").message("user").add("user", "Why?").literal("!")
        script = Script()
        script.call("c1", prompt.messages(), *placed(prompt))
        assert [e["text"] for e in script.sealed() if e["kind"] == "piece"] == ["Be brief.", "Why?", "!"]
        assert first_census(script, "store").verdict == "exact"

    def test_a_placed_piece_without_its_prompt_stays_as_it_is(self) -> None:
        """Nothing is invented for a call whose request is elsewhere, or for offsets that lead nowhere."""
        script = Script()
        script("piece", call="c2", producer="a", segment=0, start=0, end=1)
        script("piece", call="c1", producer="a", segment=5, start=0, end=1)
        script("piece", call="c1", producer="a", segment=0, start="x", end=1)
        script.call("c1", "text")
        assert not any("text" in e for e in script.sealed() if e["kind"] == "piece")

    def test_a_piece_whose_text_was_withheld_does_not_get_it_back(self) -> None:
        """Its digest stands in place of the text, and the prompt beside it is no reason to tell."""
        script = Script()
        script.call(
            "c1", "text", {"producer": "a", "hmac_sha256": "ff", "chars": 4, "segment": 0, "start": 0, "end": 4}
        )
        assert "text" not in only(script.sealed(), "piece")

    def test_each_request_is_measured_by_its_own_prompt(self) -> None:
        """Two attempts of one call, or two kinds of evidence for it, need not be alike."""
        script = Script()
        script.call("c1", "as declared")
        script.call("c1", "as sent, longer", evidence="wire")
        assert [e["chars"] for e in script.sealed()] == [11, 15]
        assert grade(script.record()).calls[0].checks[0].status == "pass"

    def test_a_prompt_of_a_shape_that_we_do_not_know_is_kept(self) -> None:
        """It is not interpreted, and it costs the other events nothing."""
        script = Script()
        script("request", call="c1", prompt={"template": "x"})
        script("end")
        assert script.sealed() == script.events

    def test_the_arguments_stay_as_they_are(self) -> None:
        """The events belong to whoever captured them."""
        script = Script()
        script.call("c1", [{"role": "user", "content": SECRET}], {"producer": "u", "text": SECRET, "policy": "hash"})
        before = repr(script.events)
        script.sealed("hash")
        assert repr(script.events) == before


def everything(secret: str) -> Script:
    """A query in which every field that may hold text holds the secret."""
    script = Script()
    script("query", question=secret, user="u-1", policy="hash")
    script("retrieval", hits=[{"rank": 1, "chunk_id": "c#1", "score": 0.5, "text": secret}], question=secret)
    script("piece", producer="offer", text=f"All of it: {secret}")
    script("piece", producer="tools", value=[{"description": secret}])
    image = {"type": "image_url", "image_url": {"url": f"data:{secret}"}}
    link = {"type": "image_url", "image_url": {"url": f"https://b.example/{secret}"}}
    file = {"type": "file", "file": {"file_id": secret}}
    parts = [{"type": "text", "text": f"- {secret}"}, image, link, file, {"x": Foreign("a.B", secret)}]
    messages = [{"role": "system", "content": secret}, {"role": "user", "content": parts}]
    script.call(
        "c1",
        messages,
        {"producer": "system", "text": secret},
        {"producer": "twice", "text": secret},
        {"producer": "gone", "text": f"{secret} gone"},
        {"producer": "offer", "text": f"All of it: {secret}", "offered": True},
        tools=[{"description": secret}],
        response_format={"schema": secret},
        parameters={"stop": [secret], "seed": 7},
        model="gpt-4o",
    )
    script("request", call="c2", evidence="wire", prompt={"odd": secret}, messages=None)
    script("request", call="c3", evidence="wire", prompt=secret, messages=[{"content": secret}])
    script("response", call="c1", output=secret, finish_reason="stop", usage={"prompt_tokens": 3})
    script("response", call="c3", output=[{"name": "f", "arguments": {"q": secret, "raw": utf8(secret)}}])
    script("tool_call", name="look_up", arguments={"q": [secret]}, result=secret)
    script(
        "content",
        route="attributes",
        value={"a": [secret, 5]},
        values={"gen_ai.input.messages": secret, "input.value": secret},
        events=[{"gen_ai.user.message": {"attributes": {"content": secret}, "body": {"content": [secret]}}}],
    )
    script("feedback", score=1, comment=secret, fields={"why": secret})
    script("end", ms={"answer": 5})
    return script


class TestHash:
    """Policy ``hash`` of the query: no text is kept, places and lengths are."""

    @pytest.mark.parametrize("secret", [SECRET, "請求書は十年間", 'quo"ted \\ \n\x00', "half \ud83d"])
    def test_no_text_is_in_any_line(self, secret: str) -> None:
        """Not of the prompt, a piece, the question, the output, a tool, a link: nowhere, in no encoding of JSON."""
        script = everything(secret)
        assert sum(secret in text for text in texts_in(script.events)) > 25, "the test must be able to fail"
        sealed = script.sealed("hash")
        left = [text for text in texts_in(sealed) if secret in text or secret[:12] in text]
        assert left == []
        record = read(sealed)
        assert [text for text in texts_in(list(record.events)) if secret[:12] in text] == []
        assert [text for text in texts_in(published(record, grade(record))) if secret[:12] in text] == []
        assert utf8(secret) not in lines(sealed)

    def test_structure_numbers_and_names_stay(self) -> None:
        """What is left can still be counted, joined and compared."""
        sealed = everything(SECRET).sealed("hash")
        assert only(sealed, "retrieval")["hits"][0]["chunk_id"] == "c#1"
        assert only(sealed, "content")["value"]["a"][1] == 5
        assert only(sealed, "feedback")["score"] == 1
        assert only(sealed, "end")["ms"] == {"answer": 5}
        request = next(e for e in sealed if e["kind"] == "request" and e["call"] == "c1")
        assert (request["model"], request["parameters"]["seed"]) == ("gpt-4o", 7)
        assert request["model_visible_withheld"] is True
        assert [s["chars"] for s in request["segments"]] == [len(SECRET), len(SECRET) + 2]
        assert [part["kind"] for part in request["outside"]] == ["binary", "reference", "reference", "reference"]

    def test_of_a_response_only_words_and_counts_stay(self) -> None:
        """A provider may quote the prompt in anything that it says: in its error, a reason, a name, its counts."""
        script = Script()
        script("query", policy="hash")
        said = dict.fromkeys(("error", "finish_reason", "model", "response_id", "content_type"), f"no: '{SECRET}'")
        usage = {"prompt_tokens": 3, "note": SECRET, SECRET: 1, "details": {"cached": 2.5, "of": [SECRET]}, "n": None}
        script("response", call="c1", error_message=f"in messages[0]: {SECRET}", usage=usage, **said)
        script("response", call="c2", error_message=None, finish_reason=["stop", SECRET], usage=SECRET, model=7)
        words = {
            "error": "invalid_request_error",
            "finish_reason": "stop",
            "model": "org/a-model:1.5@x",
            "response_id": "chatcmpl-AbC_1=",
            "content_type": "text/event-stream; charset=utf-8",
        }
        script("response", call="c3", **words)
        first, second, third = [event for event in script.sealed("hash") if event["kind"] == "response"]
        assert utf8(SECRET) not in lines([first, second])
        assert [text for text in texts_in([first, second]) if SECRET[:12] in text] == []
        assert first["usage"] == {"prompt_tokens": 3, "details": {"cached": 2.5}}
        assert all(isinstance(first[name], str) and first[name].startswith("[hash ") for name in said)
        assert isinstance(first["error_message"], CutText)
        assert second["finish_reason"][0] == "stop"
        assert second["model"] == 7
        assert {name: third[name] for name in words} == words

    def test_a_failed_call_of_the_application_s_own_keeps_its_class(self) -> None:
        """What the recorder itself says of an error is a word, and stays."""
        script = Script()
        script("query", policy="hash")
        script("response", call="c1", error="ConnectError", status=503, usage={"total": True})
        assert only(script.sealed("hash"), "response")["error"] == "ConnectError"

    def test_an_image_is_still_an_image(self) -> None:
        """Its bytes are cut; what shows it to be one stays, so that it does not turn into a link held elsewhere."""
        script = Script()
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
        script.call("c1", [{"content": [{"type": "text", "text": "What is this?"}, image]}])
        request = only(script.sealed("hash"), "request")
        url = request["messages"][0]["content"][1]["image_url"]["url"]
        assert url.runs == ("data:image/png;base64,", Cut(12, "hash", digest("iVBORw0KGgo=")))
        assert [part.kind for part in split(request["messages"]).outside] == ["binary"]

    def test_digests_are_keyed_and_comparable(self) -> None:
        """The same text has the same digest, under one key only; a bare sha256 of it is nowhere."""
        script = everything(SECRET)
        sealed = script.sealed("hash")
        hashed = digest(SECRET)
        assert only(sealed, "query")["question"] == CutText((Cut(len(SECRET), "hash", hashed),))
        piece = next(e for e in sealed if e.get("producer") == "system")
        assert (piece["hmac_sha256"], piece["chars"], piece["policy"]) == (hashed, len(SECRET), "hash")
        assert hashed != keyed_digest(b"another key")(SECRET)
        assert sha256_text(SECRET).encode() not in lines(sealed)

    def test_offsets_are_kept(self) -> None:
        """Each piece was located while its text was there."""
        script = Script()
        script.call("c1", "Be brief. Why?", {"producer": "s", "text": "Be brief."}, {"producer": "u", "text": " Why?"})
        pieces = [e for e in script.sealed("hash") if e["kind"] == "piece"]
        assert [(e["segment"], e["start"], e["end"], e["chars"]) for e in pieces] == [(0, 0, 9, 9), (0, 9, 14, 5)]
        assert not any("text" in e for e in pieces)
        request = only(script.sealed("hash"), "request")
        assert len(request["prompt"]) == 14
        assert prompt_digest(request) == digest("Be brief. Why?")

    def test_without_a_key_nothing_is_sealed(self) -> None:
        """In doubt nothing is written: an error, not the text in the clear."""
        script = Script()
        script.call("c1", SECRET)
        with pytest.raises(ValueError, match="needs a keyed digest"):
            seal(script.events, "hash")
        script.events[0]["policy"] = "hash"
        with pytest.raises(ValueError, match="needs a keyed digest"):
            seal(script.events, "store")

    def test_offers_that_were_copied_into_the_call_are_located_there(self) -> None:
        """An offer stands for the whole query; its copy in the call carries the offsets of that call."""
        script = Script()
        script("piece", producer="s", text="Be brief. ")
        script("piece", producer="u", text="Why?")
        copies = [{"producer": "s", "text": "Be brief. "}, {"producer": "u", "text": "Why?"}]
        script.call("c1", "Be brief. Why?", *[{**copy, "offered": True} for copy in copies])
        assert first_census(script, "hash").verdict == "exact"

    @pytest.mark.parametrize("policy", ["store", "hash"])
    def test_a_request_of_weaker_evidence_does_not_give_the_offsets(self, policy: str) -> None:
        """The places are those in the request that counts."""
        script = Script()
        piece = {"producer": "u", "text": "Why?"}
        script.call("c1", "Why? Be brief.", piece, {"producer": "s", "text": "Be brief."}, evidence="attributes")
        script.call("c1", "Be brief.\nWhy?", evidence="wire")
        found = first_census(script, policy)
        assert [(p.start, p.end) for p in found.pieces] == [(10, 14), (0, 9)]

    def test_places_in_a_weaker_request_are_not_taken_over(self) -> None:
        """A piece that does not stand in the request that counts has no offsets there."""
        script = Script()
        script.call("c1", "Why? Be brief.", {"producer": "u", "text": "Why?"}, evidence="attributes")
        script.call("c1", "Be brief. How?", evidence="wire")
        piece = only(script.sealed("hash"), "piece")
        assert not {"segment", "start", "end"} & set(piece)


def texts_in(value: Any) -> list[str]:
    """Every string within a value, whatever it is wrapped in; names of fields as well."""
    match value:
        case str():
            return [value]
        case bytes():
            return [value.decode("utf-8", "surrogatepass")]
        case dict():
            return [text for pair in value.items() for item in pair for text in texts_in(item)]
        case list() | tuple():
            return [text for item in value for text in texts_in(item)]
        case CutText():
            return texts_in(value.runs)
        case Cut():
            return [value.policy, value.hmac_sha256 or ""]
        case Foreign():
            return [value.kind, value.repr]
        case _:
            assert value is None or isinstance(value, int | float)
            return []


words = st.sampled_from(["Be brief.", "Why?", "ok", " ", "\n\n", "Ann", "日本", "an", "a"])


@given(
    st.lists(words, min_size=1, max_size=8),
    st.lists(st.tuples(words, st.booleans()), max_size=6),
    st.sampled_from(["hash", "store"]),
    st.sets(st.integers(0, 5)),
)
@settings(deadline=None, max_examples=300)
def test_the_census_after_sealing_is_the_census_before(
    parts: list[str], declared: list[tuple[str, bool]], policy: str, withheld: set[int]
) -> None:
    """Total, covered, unaccounted, owners and places are the same; and what is lost never makes a mismatch."""
    prompt = "".join(parts)
    script = Script()
    pieces: list[dict[str, Any]] = []
    for number, (text, inline) in enumerate(declared):
        own = {"policy": "hash"} if number in withheld else {}
        pieces.append({"producer": f"p{number}", "text": text, "inline": inline, **own})
    script.call("c1", prompt, *pieces)
    before = census(prompt, [Piece(p["producer"], p["text"], inline=p["inline"]) for p in pieces])
    after = first_census(script, policy)
    assert (after.total, after.covered, after.unaccounted) == (before.total, before.covered, before.unaccounted)
    assert after.by_producer() == before.by_producer()
    assert [(p.start, p.end) for p in after.pieces] == [(p.start, p.end) for p in before.pieces]
    assert [(g.start, g.end) for g in after.gaps] == [(g.start, g.end) for g in before.gaps]
    if before.verdict == "exact":
        assert after.verdict == "exact"
    if after.verdict == "mismatch":
        assert before.verdict == "mismatch"
    if after.verdict == "exact":
        assert before.verdict == "exact"


def test_a_word_beside_a_cut_part_may_be_part_of_a_longer_word() -> None:
    """The letters that made it one are gone; that must not make it a word of its own."""
    script = Script()
    script.call("c1", "book, okay", {"producer": "w", "text": "ok", "inline": True}, {"producer": "s", "text": "ay"})
    script.call("c2", "an ok.", {"producer": "w", "text": "ok", "inline": True})
    script.events[1]["policy"] = "hash"
    first, second = derive(script.record())
    assert first.census is not None
    assert second.census is not None
    assert [p.state for p in first.census.pieces] == ["unlocatable", "unlocatable"]
    assert [p.state for p in second.census.pieces] == ["located"]
    script.call(
        "c3",
        "okBe brief.",
        {"producer": "s", "text": "Be brief.", "policy": "hash"},
        {"producer": "w", "text": "ok", "inline": True},
    )
    third = derive(script.record())[2].census
    assert third is not None
    assert [p.state for p in third.pieces] == ["located", "unlocatable"]


class TestPieceLevelPolicy:
    """Policy ``hash`` of one piece within a query that is stored."""

    def script(self, *pieces: dict[str, Any], prompt: str = f"Q: {SECRET} Why?") -> Script:
        """A call with these pieces."""
        script = Script()
        script.call("c1", prompt, *pieces)
        return script

    def test_just_that_range_is_cut(self) -> None:
        """The rest of the prompt and the other pieces are kept as they are."""
        script = self.script(
            {"producer": "t", "text": "Q: "},
            {"producer": "user", "text": SECRET, "policy": "hash"},
            {"producer": "r", "text": " Why?"},
        )
        sealed = script.sealed()
        assert SECRET.encode() not in lines(sealed)
        request = only(sealed, "request")
        assert request["prompt"] == CutText(("Q: ", Cut(len(SECRET), "hash", digest(SECRET)), " Why?"))
        assert request["segments"] == [{"path": "prompt", "chars": 36, "hmac_sha256": digest(f"Q: {SECRET} Why?")}]
        assert [e.get("text") for e in sealed if e["kind"] == "piece"] == ["Q: ", None, " Why?"]
        assert first_census(script, "store").verdict == "exact"

    def test_in_messages_the_other_messages_keep_their_digest(self) -> None:
        """Only the segment that was cut has a keyed one."""
        script = Script()
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": SECRET}]
        script.call("c1", messages, {"producer": "user", "text": SECRET, "policy": "hash"})
        request = only(script.sealed(), "request")
        assert [sorted(s) for s in request["segments"]] == [
            ["chars", "path", "role", "sha256"],
            ["chars", "hmac_sha256", "path", "role"],
        ]
        assert request["messages"][0] == messages[0]

    def test_the_piece_around_it_does_not_tell(self) -> None:
        """A template that was rendered with the secret in it is kept by its place, since its text would tell."""
        whole = f"Q: {SECRET}"
        script = self.script(
            {"producer": "t", "text": whole}, {"producer": "user", "text": SECRET, "policy": "hash", "inline": True}
        )
        assert SECRET.encode() not in lines(script.sealed())
        found = first_census(script, "store")
        assert found.by_producer() == {"t": 3, "user": len(SECRET)}
        assert [g.text for g in found.gaps] == [" Why?"]

    def test_an_unlocated_piece_that_contains_it_does_not_tell(self) -> None:
        """It stands in no prompt, and its event would hold the secret all the same."""
        script = self.script(
            {"producer": "lost", "text": f"<b>{SECRET}</b>"}, {"producer": "user", "text": SECRET, "policy": "hash"}
        )
        assert SECRET.encode() not in lines(script.sealed())

    def test_what_can_t_be_located_is_cut_wherever_it_stands(self) -> None:
        """Contested, or offered and standing where another piece has it: in doubt nothing is kept."""
        script = self.script(
            {"producer": "t", "text": f"Q: {SECRET} Why"}, {"producer": "user", "text": SECRET, "policy": "hash"}
        )
        assert SECRET.encode() not in lines(script.sealed())

    def test_an_offer_is_cut_from_the_prompts_that_it_stands_in(self) -> None:
        """A piece of the whole query, declared before the call."""
        script = Script()
        script("piece", producer="user", text=SECRET, policy="hash")
        script.call("c1", f"Q: {SECRET}")
        script.call("c2", [{"role": "user", "content": f"{SECRET}!"}])
        script.call("c3", "something else")
        sealed = script.sealed()
        assert SECRET.encode() not in lines(sealed)
        assert [len(e["prompt"]) for e in sealed if e.get("call") in ("c1", "c3")] == [31, 14]

    def test_an_offer_and_its_copy_in_the_call_are_one(self) -> None:
        """The copy is located, and the offer is not taken for a second declaration that stands nowhere."""
        script = Script()
        script("piece", producer="user", text="red", policy="hash")
        script.call("c1", "red, not redder.", {"producer": "user", "text": "red", "policy": "hash", "offered": True})
        cut = Cut(3, "hash", digest("red"))
        assert only(script.sealed(), "request")["prompt"].runs == (cut, ", not ", cut, "der.")
        assert first_census(script, "store").reasons == ("cut_without_offsets", "gap")

    def test_a_second_declaration_is_cut_wherever_it_stands(self) -> None:
        """Declared twice, standing once by itself and once inside another piece: neither is kept."""
        twice = [{"producer": "user", "text": SECRET, "policy": "hash"}] * 2
        script = self.script(*twice, {"producer": "t", "text": f"t {SECRET} u"}, prompt=f"{SECRET}; t {SECRET} u")
        assert SECRET.encode() not in lines(script.sealed())

    def test_every_request_of_the_call_is_cut(self) -> None:
        """The attempt before, and the weaker evidence beside: the secret stands in each of them."""
        script = self.script({"producer": "user", "text": SECRET, "policy": "hash"})
        script.call("c1", f"{SECRET} sent otherwise", evidence="wire")
        script.call("c1", [{"content": "a"}, {"content": SECRET}], evidence="hook")
        assert SECRET.encode() not in lines(script.sealed())

    def test_a_value_is_withheld_too(self) -> None:
        """A JSON value has a digest in place of itself."""
        script = self.script({"producer": "tools", "value": {"d": SECRET}, "policy": "hash"})
        piece = only(script.sealed(), "piece")
        assert "value" not in piece
        assert piece["hmac_sha256"] == digest(f'{{"d":"{SECRET}"}}')

    def test_the_label_is_the_piece_s_policy(self) -> None:
        """What was taken says by which rule."""
        script = self.script({"producer": "user", "text": SECRET, "policy": "redact"})
        assert only(script.sealed(), "request")["prompt"].runs[1].policy == "redact"


@pytest.mark.parametrize(
    ("policy", "own", "expected"),
    [
        ("store", {}, False),
        ("store", {"policy": "hash"}, True),
        ("hash", {}, True),
        ("hash", {"policy": "store"}, True),
    ],
)
def test_whether_a_policy_must_be_applied_before_writing(policy: str, own: dict[str, str], expected: bool) -> None:
    """Only then is anything searched or hashed on the calling thread."""
    assert needs_policy([{"kind": "piece", "text": "x", **own}, {"kind": "end"}], policy) is expected


def test_a_piece_without_a_call_is_offered() -> None:
    """It was declared in the query, to all its calls."""
    assert piece_of({"kind": "piece", "producer": "a", "text": "x"}).offered
    assert piece_of({"kind": "piece", "producer": "a", "text": "x", "call": "c", "offered": True}).offered
    assert not piece_of({"kind": "piece", "producer": "a", "text": "x", "call": "c"}).offered


def test_a_piece_event_with_odd_fields_is_read_as_far_as_it_goes() -> None:
    """A text that is no string is no text; an offset that is no number is none; a number is a good source id."""
    odd = piece_of({"producer": 5, "text": b"x", "source_id": 7, "segment": "0", "start": True, "end": -1, "call": "c"})
    assert odd == Piece("5", None, source_id="7")


def test_a_request_without_a_prompt_has_no_digest() -> None:
    """There is nothing that it could be of."""
    assert prompt_digest({"kind": "request"}) is None
