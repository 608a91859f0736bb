"""Credentials in a request's body: cut in their places, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.core.conventions.cut_json import decode_cut
from otel_prompt_trace.core.conventions.values import decoded
from otel_prompt_trace.core.cutting import cut_text
from otel_prompt_trace.core.parameters import named
from otel_prompt_trace.core.seal import keyed_digest
from otel_prompt_trace.core.secret_places import POLICY, holds_secrets, secret_places, without_secrets
from otel_prompt_trace.core.text import Cut, CutText, unwrap, wrap

DIGEST = keyed_digest(b"key")
MESSAGES = [{"role": "user", "content": 'the token is 1, says naïve "Bob"\n'}]


def places(body: Any, **options: Any) -> list[str]:
    """What is cut of a body, as JSON text."""
    text = json.dumps(body, **options)
    return [text[start:end] for start, end in secret_places(text)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"extra_headers": {"Authorization": "Bearer x", "X-Number": "1"}}, ["Bearer x", "1"]),
        ({"extra_query": {"key": "abc", "n": 12, "all": ["d", {"e": -1.5}]}}, ["abc", "12", "d", "-1.5"]),
        ({"tools": [{"type": "mcp", "authorization": "t1", "headers": {"a": "t2"}}]}, ["t1", "t2"]),
        ({"mcp_servers": [{"authorization_token": "t"}], "api_key": 77}, ["t", "77"]),
        ({"kwargs": {"extra_body": {"Api_Key": "k"}}}, ["k"]),
        ({"extra_headers": {"a": "", "b": None, "c": True}}, []),
        ({"input": {"headers": {"a": "b"}}}, ["b"]),
        ({"connector": {"token": "t", "bearer": "b", "cookie": "c", "sasToken": "s"}}, ["t", "b", "c", "s"]),
        ({"X-API-KEY": "a", "bearerToken": "b", "user_secret": "c", "dbPassword": "d"}, ["a", "b", "c", "d"]),
        ({"credential": "a", "private_key": "b", "passwd": "c", "AWS_SESSION_TOKEN": "d"}, ["a", "b", "c", "d"]),
        ({"auth": {"user": "a"}, "proxy-auth": "b", "connectionString": "c", "api_key_2": "d"}, ["a", "b", "c", "d"]),
        ({"url": "https://ann:pw@h.example/sse?key=a%20b&n=12&flag&e=#k=v"}, ["ann:pw", "a%20b", "12", "flag"]),
        ({"at": ["http://pw@h?sig=x;y=z", {"s3": "s3://b?k=1"}]}, ["pw", "x", "z", "1"]),
    ],
)
def test_what_configures_a_request_is_cut(fields: dict[str, Any], expected: list[str]) -> None:
    """Headers, query parameters and keys, wherever they stand outside the conversation, and every string in them."""
    assert places({"messages": MESSAGES, **fields}) == expected
    assert places({**fields, "messages": MESSAGES}, indent=2) == expected
    assert places([fields]) == expected


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": {"password": "p"}}}]}]},
        {"input": [{"type": "function_call_output", "output": {"headers": {"a": "b"}}}]},
        {"contents": [{"parts": [{"functionCall": {"args": {"api_key": "k"}}}]}], "system": {"password": "p"}},
        [{"role": "user", "parts": [{"type": "tool_call", "arguments": {"authorization": "a"}}]}],
        {"args": [[{"role": "tool", "content": {"access_token": "a"}}]]},
        {"tools": [{"function": {"parameters": {"properties": {"password": {"type": "string"}, "headers": {}}}}}]},
        {"note": 'what is "extra_headers": {"a": "b"} for?'},
        {"max_tokens": 5, "tokenizer": "t", "headers_seen": "x"},
    ],
)
def test_the_conversation_and_schemas_are_left_alone(body: Any) -> None:
    """A tool's argument is the model's text, a tool's parameter is the developer's: neither is a credential."""
    assert places(body) == []
    assert without_secrets(body, DIGEST) == body


LIKE_THEM = named(
    """max_tokens token_count input_tokens maxOutputTokens tokenizer eos_token pad_token_id next_page_token
    progressToken prompt_cache_key author authority secretary password_hint key cacheKey monkey public_key saas
    cookie_count"""
)


@pytest.mark.parametrize("name", sorted(LIKE_THEM))
def test_names_that_are_like_a_credential_s(name: str) -> None:
    """A count of tokens, a mark of a vocabulary, a place in a list, a key of a cache: what configures a call stays."""
    assert places({name: "v", "extra": {name: 7, "list": [{name: {"a": "b"}}]}}) == []


@pytest.mark.parametrize("keyword", ["properties", "$defs", "dependentRequired", "parameter_definitions"])
def test_a_schema_s_own_names_and_urls_stay(keyword: str) -> None:
    """What a tool takes is told to the model: a parameter of any name, and the URL that is its default."""
    url = {"type": "string", "default": "https://ann:pw@h.example?key=v"}
    schema = {keyword: {"token": url, "user_password": {"type": "string", "enum": ["a"]}, "auth": ["token"]}}
    body = {"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}
    assert places(body) == []
    assert without_secrets(body, DIGEST) == body
    assert not holds_secrets(body)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'{"u":"https:\/\/ann:p\"w@h\/x?a=b\u0026c=d&e#f"}', ['ann:p\\"w', "b", "d", "e"]),
        (r'{"u":"https://h/?k\u003dv\u00e9"}', [r"v\u00e9"]),
        (r'{"u":"https://h/a@b/c?", "v":"see https://a?b=c", "w":"https://a?b=c d"}', []),
        ('{"u":"https://h/x?k=v', ["https://h/x?k=v"]),
    ],
)
def test_a_url_as_it_stands_in_json(text: str, expected: list[str]) -> None:
    """Escaped or not, it is cut in its places alone; prose that names a URL is left, and one that breaks off goes."""
    assert [text[start:end] for start, end in secret_places(text)] == expected


def test_place_length_and_digest_stay() -> None:
    """The text around is as it was, and what was cut is labelled."""
    text = json.dumps({"model": "m", "messages": MESSAGES, "extra_headers": {"X-Key": 'k"1'}})
    cut = without_secrets(text, DIGEST)
    assert isinstance(cut, CutText)
    before, label, after = cut.runs
    assert (before, after) == (text[: text.index('k\\"1')], '"}}')
    assert label == Cut(4, POLICY, DIGEST('k\\"1'))
    assert len(cut) == len(text)
    assert unwrap(wrap(cut)) == cut


def test_a_cut_body_is_still_read() -> None:
    """Each string keeps its own cuts, a number becomes one, and the rest is what the body says."""
    body = {"extra_query": {"n": 12}, "messages": MESSAGES, "extra_headers": {"a": "bc", "d": "ef"}}
    assert decoded(without_secrets(json.dumps(body), DIGEST)) == without_secrets(body, DIGEST)
    assert decoded(without_secrets(json.dumps(body), DIGEST))["messages"] == MESSAGES


@pytest.mark.parametrize("end", range(40, 64, 3))
def test_a_body_that_breaks_off_keeps_no_secret(end: int) -> None:
    """A limit may have cut the text before us: a secret that does not end is cut to the end of what there is."""
    text = '{"model": "m", "extra_headers": {"a": "one-secret-of-many", "b": "another"}}'[:end]
    cut = without_secrets(text, DIGEST)
    kept = cut.filled if isinstance(cut, CutText) else cut
    assert len(kept) == len(text)
    assert "one" not in kept


@pytest.mark.parametrize(
    "text", ["", "{", "no JSON: {'extra_headers': {'a': 'b'}}", '{"extra_headers" 1', '{"a": }', "[1, 2", '"headers"']
)
def test_what_is_no_body_stays(text: str) -> None:
    """Whatever else a value is: kept as it was handed over."""
    assert without_secrets(text, DIGEST) == text


def test_what_is_nested_without_end_costs_nothing_but_itself() -> None:
    """Neither depth nor a huge number ends in an error, and what follows is not missed."""
    deep = "[" * 5000 + "]" * 5000
    assert secret_places(f'{{"a": {deep}}}') == []
    huge = f'{{"n": {"9" * 5000}, "extra_headers": {{"a": "bc"}}}}'
    assert [huge[start:end] for start, end in secret_places(huge)] == ["bc"]


_NAMES = st.sampled_from(["headers", "api_key", "properties", "messages", "input", "role", "content", "a", 'q"', "é"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x", 'sé"c\n', "日本", "\ud83d", "\ue000", "\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(_NAMES, _VALUES, max_size=4), st.booleans())
def test_text_and_object_are_cut_alike(body: dict[str, Any], ascii_only: bool) -> None:
    """Whichever form a body is handed over in, the same strings are cut, and none but those."""
    text = json.dumps(body, ensure_ascii=ascii_only)
    cut = without_secrets(text, DIGEST)
    places = [(start, end, POLICY) for start, end in secret_places(text)]
    assert cut == (cut_text(text, places, DIGEST) if places else text)
    assert _shape(decoded(cut)) == _shape(without_secrets(body, DIGEST))


def _shape(value: Any) -> Any:
    """The value with a mark for each text that holds a cut: lengths differ where JSON escapes characters."""
    if isinstance(value, CutText):
        assert all(isinstance(run, Cut) for run in value.runs)
        return "cut"
    if isinstance(value, dict):
        return {name: _shape(item) for name, item in value.items()}
    return [_shape(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "runs",
    [
        ('{"a": "b', Cut(3, "hash"), "}"),  # the quote is gone
        ("no JSON ", Cut(3, "hash")),
        (Cut(3, "hash"), '{"a": 1}'),
        ('{"a": ', Cut(3, "hash"), "}"),  # what was cut there is not ours to guess
    ],
)
def test_a_cut_that_took_the_form_with_it(runs: tuple[str | Cut, ...]) -> None:
    """The text stays what it is: nothing is read out of it."""
    assert decode_cut(CutText(runs)) == CutText(runs)


def test_cuts_within_strings_and_names() -> None:
    """What another policy cut inside a string stays inside it; a name says that it was cut."""
    one, two, three = (Cut(n, "hash", str(n)) for n in (3, 2, 1))
    text = CutText(('{"a": "x', one, two, 'y", "', three, '": ["\\uE000\ue001"]}'))  # characters that might be marks
    assert decode_cut(text) == {"a": CutText(("x", one, two, "y")), "\ufffc": ["\ue000\ue001"]}
