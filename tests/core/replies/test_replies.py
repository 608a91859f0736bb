"""Replies of every API are read, and are read the same however their bytes arrive and wherever they stop."""

from __future__ import annotations

import itertools
import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.replies import APIS, ReplyReader, read_reply
from tests.core.replies.by_hand import CASES, begins
from tests.core.replies.wire_forms import JSON, SSE, Case, data_lines, native

by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
_PLAIN = [case for case in CASES if case.plain is not None]
_BODIES = [(case.api, case.content_type, case.raw) for case in CASES] + [
    (case.api, JSON, json.dumps(case.plain, ensure_ascii=False, indent=1).encode()) for case in _PLAIN
]


def in_chunks(api: str, content_type: str, chunks: list[bytes]) -> dict[str, Any]:
    """The fields of a reply that arrived in these chunks."""
    reader = ReplyReader(api, 200, content_type)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.fields(complete=True)


@by_name
def test_a_stream_is_read(case: Case) -> None:
    """Output, finish reason, usage, model and id are exactly what the host said, and nothing is said to be missing."""
    assert read_reply(case.api, 200, case.content_type, case.raw) == case.expected


@by_name
def test_the_content_type_is_not_needed(case: Case) -> None:
    """Proxies drop or change it: the bytes tell what they are."""
    assert read_reply(case.api, 200, "", case.raw) == case.expected
    assert read_reply(case.api, 200, "application/octet-stream", case.raw) == case.expected


@pytest.mark.parametrize("case", _PLAIN, ids=lambda case: case.name)
def test_a_plain_answer_gives_the_same_as_the_stream_of_it(case: Case) -> None:
    """One reader for both: the output has the shape of an answer that is not streamed."""
    found = read_reply(case.api, 200, JSON, json.dumps(case.plain, ensure_ascii=False).encode())
    usage = found.pop("usage", None), case.expected.get("usage")
    assert found == {name: value for name, value in case.expected.items() if name != "usage"}
    assert usage[0] == usage[1] or usage[0].items() >= usage[1].items()  # Bedrock counts in some forms only


def test_every_api_has_an_example() -> None:
    """What the package names is what the tests of chunks and cuts go through."""
    assert {case.api for case in CASES} == set(APIS)


@given(st.sampled_from(_BODIES), st.data())
@settings(max_examples=200, deadline=None)
def test_how_the_bytes_are_chunked_changes_nothing(body: tuple[str, str, bytes], data: st.DataObject) -> None:
    """Cuts fall anywhere: in characters, line ends, lengths and checksums."""
    api, content_type, raw = body
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    stop = data.draw(st.one_of(st.just(len(raw)), st.integers(0, len(raw))))
    bounds = [0, *(cut for cut in cuts if cut < stop), stop]
    chunks = [raw[start:end] for start, end in itertools.pairwise(bounds)]
    assert in_chunks(api, content_type, chunks) == in_chunks(api, content_type, [raw[:stop]])


@pytest.mark.parametrize("marked", [False, True])
@by_name
def test_byte_by_byte_it_stops_anywhere(case: Case, marked: bool) -> None:
    """Wherever a stream stops, what was read is how the answer began, and it is unfinished until its end was seen.

    Asking on the way changes nothing of what is read at the end.
    """
    reader = ReplyReader(case.api, 200, case.content_type)
    raw = b"\xef\xbb\xbf" + case.raw if marked and "eventstream" not in case.content_type else case.raw
    for at in range(len(raw)):
        reader.feed(raw[at : at + 1])
        cut = reader.fields(complete=False)
        assert cut["unfinished"] is True
        assert "output" not in cut or begins(cut["output"], case.expected["output"]), (at, cut)
        stopped = reader.fields(complete=True)
        if not stopped.get("unfinished"):
            assert "unread" in stopped or stopped["output"] == case.expected["output"], (at, stopped)
    assert reader.ended or case.api == "bedrock.converse"  # which tells its usage after its end
    assert reader.fields(complete=True) == case.expected


@pytest.mark.parametrize("case", _PLAIN, ids=lambda case: case.name)
def test_a_plain_answer_that_was_cut_is_unfinished(case: Case) -> None:
    """JSON that stops anywhere before its last brace is no answer, and no reason to call it unreadable."""
    raw = json.dumps(case.plain).encode()
    for at in range(1, len(raw)):
        assert read_reply(case.api, 200, JSON, raw[:at]) == {"unfinished": True}
        assert read_reply(case.api, 200, JSON, raw[:at], complete=False)["unfinished"] is True


@by_name
def test_bytes_that_were_read_are_not_kept(case: Case) -> None:
    """A reader that has seen a thousand messages that say nothing is no larger than one that has seen ten."""
    empty = {"event-stream": b": waiting\n\n", "json": b"{}\n"}
    silence = next((raw for kind, raw in empty.items() if kind in case.content_type), native({"nothing": True}))
    sizes = []
    for times in (10, 1000):
        reader = ReplyReader(case.api, 200, case.content_type)
        reader.feed(case.raw[:1] if case.raw[:1] == b"[" else b"")
        for _ in range(times):
            reader.feed(silence)
        sizes.append(len(pickle.dumps(reader)))
    assert sizes[1] - sizes[0] < 8


@given(st.sampled_from(APIS), st.integers(100, 599), st.sampled_from([SSE, JSON, "", "x/eventstream"]), st.binary())
@settings(max_examples=200, deadline=None)
def test_no_bytes_raise(api: str, status: int, content_type: str, raw: bytes) -> None:
    """Noise is said to be unread or unfinished, never taken for an answer."""
    found = read_reply(api, status, content_type, raw)
    assert "output" not in found
    assert found.keys() & {"unread", "unfinished", "error"}
    assert ("error" in found) == (not 200 <= status < 300)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 300) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def _changed(value: Any, draw: Any) -> Any:
    """The value with something else in one of its places."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: _changed(value[name], draw)}
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], _changed(value[place], draw), *value[place + 1 :]]
    return draw(_JSON)


@given(st.sampled_from(_PLAIN), st.data())
@settings(max_examples=200, deadline=None)
def test_a_body_of_an_odd_form_is_read_as_far_as_it_goes(case: Case, data: st.DataObject) -> None:
    """Whatever stands where a host never put it: no field of a body is taken to be of its usual type."""
    raw = json.dumps(_changed(_changed(case.plain, data.draw), data.draw)).encode()
    for content_type in (JSON, "application/x-ndjson"):
        assert "cannot be read" not in read_reply(case.api, 200, content_type, raw).get("unread", "")


@given(st.sampled_from([case for case in CASES if case.content_type == SSE]), st.data())
@settings(max_examples=200, deadline=None)
def test_events_of_an_odd_form_cost_nothing_else(case: Case, data: st.DataObject) -> None:
    """One event of a stream is changed anywhere: the reader goes on, and its last event still ends it."""
    texts = [line[6:] for line in case.raw.decode().splitlines() if line.startswith("data: ")]
    events = [json.loads(text) for text in texts if text != "[DONE]"]
    place = data.draw(st.integers(0, len(events) - 1))
    events[place] = _changed(events[place], data.draw)
    found = read_reply(case.api, 200, SSE, data_lines(*events, done="[DONE]" in texts))
    assert "cannot be read (" not in found.get("unread", "")
    assert found.keys() & {"output", "unread", "unfinished", "error", "finish_reason"}


@pytest.mark.parametrize("odd", [None, 3, True, "x", {"text": 1}, [], [None], [[]]])
def test_content_of_an_odd_type_is_no_text(odd: Any) -> None:
    """Where a list of parts is the rule, anything else stays what it is."""
    item = {"type": "message", "content": odd}
    bodies = {
        "openai.responses": {"output": [item], "status": "completed"},
        "anthropic.messages": {**item, "stop_reason": "end_turn"},
        "bedrock.converse": {"output": {"message": item}, "stopReason": "end_turn"},
        "cohere.chat": {"message": item, "finish_reason": "COMPLETE"},
        "google.generate": {"candidates": [{"content": {"parts": odd}, "finishReason": "STOP"}]},
    }
    for api, body in bodies.items():
        found = read_reply(api, 200, JSON, json.dumps(body).encode())
        assert not isinstance(found.get("output"), str), (api, found)
        assert "cannot be read" not in found.get("unread", ""), (api, found)
