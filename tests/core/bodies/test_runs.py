"""A body as runs: rebuilt byte for byte, and read again with every length and offset where something was cut."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.core.bodies.runs import RawPlace, as_runs, cut_runs, parts_of, read_body, rebuild
from otel_prompt_trace.core.bodies.scan import raw_place, scan
from otel_prompt_trace.core.events import decode, encode
from otel_prompt_trace.core.seal import keyed_digest
from otel_prompt_trace.core.secret_places import POLICY as SECRET
from otel_prompt_trace.core.text import FILLER, Cut, CutText, utf8

DIGEST = keyed_digest(b"key")
_TEXTS = st.text(st.characters() | st.sampled_from('"\\\n\ud83d\ude00\U0001f600é'), max_size=12)


def no_blob(_: str) -> bytes:
    raise AssertionError("no blob was named")


def stored(runs: list[Any]) -> Any:
    """The runs as they come back from a line of JSON."""
    event = {"v": "1.0", "kind": "request", "qid": "q", "ts": "", "writer": "w", "seq": 1, "body": runs}
    (read,) = decode(encode(event), "here")
    assert isinstance(read, dict)
    return read["body"]


@given(st.binary(max_size=60) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_rebuilt(body: bytes) -> None:
    """Also those that are no UTF-8, and none at all."""
    assert rebuild(as_runs(body), no_blob) == (body, 0)
    assert rebuild(stored(as_runs(body)), no_blob) == (body, 0)


@pytest.mark.parametrize("body", [b"\xff\xfe{}", b'{"messages": "\xe9"}', b"no JSON", b"", b"NaN", b"[1", b'"text"'])
def test_what_is_no_json_has_no_parts_that_anybody_could_name(body: bytes) -> None:
    """It is kept, and not read."""
    found = parts_of(stored(as_runs(body)))
    assert found is None or (found.prompt.segments, found.visible) == ((), {})


@given(st.lists(_TEXTS, min_size=1, max_size=4), st.booleans(), st.data())
def test_any_cuts(texts: list[str], ascii_only: bool, data: st.DataObject) -> None:
    """Bytes, code points and offsets stay; each cut stands where it was cut; the rest is as it was sent."""
    body = {"model": "m", "messages": [{"role": "user", "content": text} for text in texts]}
    text = json.dumps(body, ensure_ascii=ascii_only)
    if not ascii_only:
        text = text.encode("utf-8", "backslashreplace").decode()
    strings = [message["content"] for message in scan(text)["messages"]]
    wanted: list[tuple[int, int, int]] = []
    for number, string in enumerate(strings):
        for _ in range(data.draw(st.integers(0, 3)) if string else 0):
            start = data.draw(st.integers(0, len(string) - 1))
            wanted.append((number, start, data.draw(st.integers(start + 1, len(string)))))
    places = [RawPlace(*raw_place(text, strings[n], start, end), "hash") for n, start, end in wanted]
    runs = stored(cut_runs(text, places, DIGEST))
    rebuilt, missing = rebuild(runs, no_blob)
    assert len(rebuilt) == len(utf8(text))
    assert missing == sum(run["cut"] for run in runs if isinstance(run, dict))
    cut_raw = {position for place in places for position in range(place.start, place.end)}
    expected = b"".join(b"*" * len(utf8(c)) if n in cut_raw else utf8(c) for n, c in enumerate(text))
    assert rebuilt == expected
    parts = parts_of(runs)
    assert parts is not None
    assert [segment.path for segment in parts.prompt.segments] == [f"messages[{n}].content" for n in range(len(texts))]
    for number, segment in enumerate(parts.prompt.segments):
        cut = {position for n, start, end in wanted if n == number for position in range(start, end)}
        original = strings[number]
        assert segment.text == "".join(FILLER if n in cut else c for n, c in enumerate(original))
        assert {position for start, end in segment.cuts for position in range(start, end)} == cut
        if cut:
            assert isinstance(segment.stored, CutText)
            assert segment.stored.filled == segment.text
            assert [place[:2] for place in segment.stored.cuts()] == [*segment.cuts]
            for start, end, label in segment.stored.cuts():
                assert label == Cut(end - start, "hash", DIGEST(original[start:end]))


@pytest.mark.parametrize("digits", ["4711", "-1.5e3", "1"])
def test_digits_within_a_text_are_text(digits: str) -> None:
    """A telephone number in a sentence is cut to a filler that no piece can be, not to other digits."""
    text = json.dumps({"messages": [{"role": "user", "content": f"call {digits}, please"}]})
    string = scan(text)["messages"][0]["content"]
    place = RawPlace(*raw_place(text, string, 5, 5 + len(digits)), "redact:phone")
    runs = stored(cut_runs(text, [place], DIGEST))
    assert "number" not in runs[1]
    parts = parts_of(runs)
    assert parts is not None
    assert parts.prompt.segments[0].text == f"call {FILLER * len(digits)}, please"


def test_a_number_that_is_secret_is_still_a_number() -> None:
    """The body reads as it did, and what was cut of it is labelled."""
    text = json.dumps({"extra_query": {"n": 4711, "s": "4711"}, "messages": [{"role": "user", "content": "x"}]})
    first, second = text.index("4711"), text.rindex("4711")
    runs = stored(cut_runs(text, [RawPlace(first, first + 4, SECRET), RawPlace(second, second + 4, SECRET)], DIGEST))
    assert [run.get("number") for run in runs if isinstance(run, dict)] == [True, None]
    parts = parts_of(runs)
    assert parts is not None
    assert [segment.text for segment in parts.prompt.segments] == ["x"]


def test_what_is_cut_twice_is_cut_once() -> None:
    """Places may overlap, touch, hold each other and come in any order."""
    text = '{"input": "abcdefghij"}'
    places = [RawPlace(14, 18, "b"), RawPlace(11, 15, "a"), RawPlace(12, 13, "c"), RawPlace(18, 19, "d")]
    runs = cut_runs(text, places, DIGEST)
    assert [run if isinstance(run, str) else (run["cut"], run["policy"]) for run in runs] == [
        '{"input": "', (4, "a"), (3, "b"), (1, "d"), 'ij"}',
    ]  # fmt: skip


@pytest.mark.parametrize("length", [10, 2**18])
def test_a_body_is_read_once(length: int) -> None:
    """Sealing, cutting and grading come for the same body: they get the same one, of whatever length."""
    text = json.dumps({"messages": [{"role": "user", "content": "x" * length}]})
    read = read_body(text)
    assert read is not None
    assert read_body("".join(list(text))) is read
    assert parts_of([text]) is read.parts
    assert read_body("{") is None


def test_blobs_are_put_back() -> None:
    """A run that is stored elsewhere is fetched by its digest; a body without it is not rebuilt."""
    data = b"QUFB" * 2000
    digest = hashlib.sha256(data).hexdigest()
    before = (
        '{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,'
    )
    runs = stored([before, {"blob": digest, "bytes": len(data)}, '"}}]}, {"role": "user", "content": "after"}]}'])
    assert rebuild(runs, {digest: data}.__getitem__) == (before.encode() + data + runs[2].encode(), 0)
    parts = parts_of(runs)
    assert parts is not None
    assert [(part.kind, part.path) for part in parts.prompt.outside] == [
        ("binary", "messages[0].content[0].image_url.url")
    ]
    assert [segment.text for segment in parts.prompt.segments] == ["after"]
    with pytest.raises(KeyError):
        rebuild(runs, {}.__getitem__)


@pytest.mark.parametrize(
    "runs", [None, {}, "text", [1], [None], [[]], [{"other": 1}], ["{", {"cut": "x"}], ["{", {"cut": -1}], [b"{}"]]
)
def test_runs_that_nobody_wrote(runs: Any) -> None:
    """What comes from outside is not trusted: it can't be read, and that is all."""
    found = parts_of(runs)
    assert found is None or found.prompt.segments == ()
