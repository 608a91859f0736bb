"""Where the credentials of a request stand in its body, and the body without them.

They are cut in their places, inside the quotes of their strings, and everything else stays as it was: a short secret
(``"1"``) does not take the same characters out of the prompt, and a JSON text can still be read.

Only what configures the request is looked at. The conversation is the model's own text, whatever its fields are called
(a tool's argument ``password`` is a part of the prompt), and a schema names what others may give (a tool's parameter
``headers``). A string that is a URL loses its user's name and password and the values of its query, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from json import decoder
from typing import Any

import orjson

from otel_prompt_trace.core.credentials import CONVERSATION, is_credential
from otel_prompt_trace.core.cutting import Digest, cut_text, cut_value
from otel_prompt_trace.core.parameters import named
from otel_prompt_trace.core.secret_urls import in_json, in_url, may_begin
from otel_prompt_trace.core.text import Foreign

POLICY = "credential"  # what the label of a cut says

_TOLD = CONVERSATION | frozenset({"content", "parts", "arguments", "tool_calls", "function_call"})
_NAMED_BY_OTHERS = named(  # of a schema
    """properties patternProperties $defs definitions dependentRequired dependentSchemas dependencies
    parameter_definitions"""
)
_IN_MESSAGE = frozenset({"content", "parts", "tool_calls", "function_call", "tool_call_id"})
# How such names end as a key of JSON text, or a URL begins, for a text that is not whole.
_ENDINGS = re.compile(
    r"(?:headers|_query|authorization|authentication|token|key|key_id|passwords?|passwd|secrets?|cookies?|credentials?"
    r'|bearer|auth|authconfig|auth_config|sas|string|_str)[_-]?[0-9]*"|:\\?/\\?/',
    re.IGNORECASE,
)
_scan: Callable[[str, int, bool], tuple[str, int]] = vars(decoder)["scanstring"]  # what the quotes hold, and its end
_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[-+.\w]+")
_TOKEN = re.compile(
    r'"([^"\\]*(?:\\.[^"\\]*)*)"([ \t\r\n]*:)?|([\[{])|([\]}])|(-?[0-9][-+.0-9a-zA-Z]*)|([a-z]+)|(")', re.DOTALL
)
_DEPTH = 100
_DECODER = json.JSONDecoder(strict=False, parse_int=str, parse_float=str)  # for what is read past and never used


def without_secrets(value: Any, digest: Digest) -> Any:
    """The value with credentials cut: a JSON text of an object or list, or the object itself. Else as it is.

    Args:
        digest: the keyed digest that stays in a secret's place.
    """
    if isinstance(value, str):
        places = secret_places(value)
        return cut_text(value, [(start, end, POLICY) for start, end in places], digest) if places else value
    return _cut(value, digest, 0) if isinstance(value, Mapping | list | tuple) else value


def cut_whole(value: Any, digest: Digest) -> Any:
    """The value with everything below it cut: numbers as well, since a key may be one."""
    if isinstance(value, Mapping):
        return {name: cut_whole(item, digest) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [cut_whole(item, digest) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return cut_value(str(value), POLICY, digest)
    return cut_value(value, POLICY, digest)


def holds_secrets(value: Any) -> bool:
    """Whether there is anything to cut in a value; in doubt there is."""
    try:
        return _holds(value)
    except RecursionError:
        return True


def secret_places(text: str) -> list[tuple[int, int]]:
    """Start and end of every secret in a JSON text of an object or list; none in any other text.

    Of a text that breaks off, or breaks the rules of JSON, what was found before that counts; a secret that does not
    end reaches to the end of the text.
    """
    if text[:64].lstrip()[:1] not in ("{", "[") or not _may_hold(text):
        return []
    walk = _Walk(text)
    try:
        walk.value(0, secret=False, named=True, depth=0)
    except (ValueError, RecursionError):
        if walk.inside is not None:
            walk.places.append((walk.inside, len(text)))
    return walk.places


def _may_hold(text: str) -> bool:
    """Whether a second look is worth while: nearly every text is sent away by the first, which C takes."""
    try:
        return _holds(orjson.loads(text))
    except (ValueError, RecursionError):
        return _ENDINGS.search(text) is not None


def _holds(value: Any, *, named: bool = True, schema: bool = False) -> bool:
    if isinstance(value, dict):
        return not _is_message(value) and any(
            (named and is_credential(name))
            or (
                isinstance(item, dict | list | str)
                and not _is_told(name, is_object=isinstance(item, dict))
                and _holds(item, named=name not in _NAMED_BY_OTHERS, schema=schema or name in _NAMED_BY_OTHERS)
            )
            for name, item in value.items()
        )
    if isinstance(value, str):
        return not schema and "://" in value[:34] and next(in_url(value), None) is not None
    return isinstance(value, list) and any(
        isinstance(item, dict | list | str) and _holds(item, schema=schema) for item in value
    )


class _Walk:
    """One pass through a JSON text that keeps the places of secrets."""

    def __init__(self, text: str) -> None:
        self.places: list[tuple[int, int]] = []
        self.inside: int | None = None  # where the secret value begins that the walk is in
        self._schema = 0  # how many names of others the walk is below
        self._text = text

    def value(self, at: int, *, secret: bool, named: bool, depth: int) -> int:
        """Where the value that begins at ``at`` ends; ``named`` says whether the names in it are a request's."""
        at = self._skip(at)
        first = self._text[at : at + 1]
        if depth > _DEPTH:  # too deep to be looked at: in doubt nothing is kept
            return self._all(at, secret=True)
        if first == "{":
            return self._object(at + 1, secret=secret, named=named, depth=depth)
        if first == "[":
            return self._list(at + 1, secret=secret, depth=depth)
        if first == '"':
            if not secret and not self._schema and may_begin(self._text, at + 1):
                return self._url(at)
            _, end = _scan(self._text, at + 1, False)
            if secret and end - 1 > at + 1:
                self.places.append((at + 1, end - 1))
            return end
        scalar = _SCALAR.match(self._text, at)
        if scalar is None:
            raise ValueError("no value")
        if secret and first in "-0123456789":
            self.places.append(scalar.span())
        return scalar.end()

    def _url(self, at: int) -> int:
        """Where a string ends that begins as a URL does; one that breaks off may hold a secret to its end."""
        self.inside, before = at + 1, self.inside
        _, end = _scan(self._text, at + 1, False)
        self.inside = before
        self.places += in_json(self._text, at + 1, end - 1)
        return end

    def _object(self, at: int, *, secret: bool, named: bool, depth: int) -> int:
        before, names = len(self.places), list[str]()
        at = self._skip(at)
        while self._text[at : at + 1] != "}":
            at = self._expect(at, '"')
            name, at = _scan(self._text, at, False)
            names.append(name)
            at = self._skip(self._expect(self._skip(at), ":"))
            if not secret and _is_told(name, is_object=self._text[at : at + 1] == "{"):
                at = self._past(at)
            else:
                at = self._field(name, at, secret=secret, named=named, depth=depth)
            at = self._next(at, "}")
        if not secret and _is_message(names):
            del self.places[before:]
        return at + 1

    def _past(self, at: int) -> int:
        try:
            return _DECODER.raw_decode(self._text, at)[1]
        except RecursionError:
            return self._all(at, secret=False)

    def _all(self, at: int, *, secret: bool) -> int:
        """Where a value ends, however deeply nested; if it is ``secret``, so is every string and number in it."""
        level = 0
        for token in _TOKEN.finditer(self._text, at):
            string, named, opened, closed, number, _, unfinished = token.groups()
            if unfinished:
                break
            level += bool(opened) - bool(closed)
            if secret and ((string and not named) or number):
                self.places.append(token.span(1 if string else 5))
            if level <= 0:
                return token.end()
        raise ValueError("it ends too early")

    def _field(self, name: str, at: int, *, secret: bool, named: bool, depth: int) -> int:
        begins = not secret and named and is_credential(name)
        if begins:
            self.inside = at
        others = name in _NAMED_BY_OTHERS
        self._schema += others
        end = self.value(at, secret=secret or begins, named=not others, depth=depth + 1)
        self._schema -= others
        if begins:
            self.inside = None
        return end

    def _list(self, at: int, *, secret: bool, depth: int) -> int:
        at = self._skip(at)
        while self._text[at : at + 1] != "]":
            at = self._next(self.value(at, secret=secret, named=True, depth=depth + 1), "]")
        return at + 1

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        return at if found is None else found.end()

    def _expect(self, at: int, character: str) -> int:
        if self._text[at : at + 1] != character:
            raise ValueError(f"no {character}")
        return at + 1

    def _next(self, at: int, end: str) -> int:
        at = self._skip(at)
        return at if self._text[at : at + 1] == end else self._skip(self._expect(at, ","))


def _cut(value: Any, digest: Digest, depth: int, *, named: bool = True, schema: bool = False) -> Any:
    """The same for a value that is no text; what lies too deep to be looked at is left out."""
    if depth > _DEPTH:
        return Foreign(type(value).__name__, "")
    if isinstance(value, Mapping):
        if _is_message(value):
            return value
        return {n: _cut_field(n, item, digest, depth, named=named, schema=schema) for n, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(item, digest, depth + 1, schema=schema) for item in value]
    if isinstance(value, str) and not schema and (places := list(in_url(value))):
        return cut_text(value, [(start, end, POLICY) for start, end in places], digest)
    return value


def _cut_field(name: Any, item: Any, digest: Digest, depth: int, *, named: bool, schema: bool) -> Any:
    if named and is_credential(name):
        return cut_whole(item, digest)
    if _is_told(name, is_object=isinstance(item, Mapping)):
        return item
    others = name in _NAMED_BY_OTHERS
    return _cut(item, digest, depth + 1, named=not others, schema=schema or others)


def _is_told(name: object, *, is_object: bool) -> bool:
    """Whether a field holds what the model is told. An ``input`` that is an object holds anything."""
    return name in _TOLD and not (name == "input" and is_object)


def _is_message(names: Iterable[Any]) -> bool:
    given = set(names)
    return "role" in given and not _IN_MESSAGE.isdisjoint(given)
