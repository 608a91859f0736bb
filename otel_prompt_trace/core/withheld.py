"""Texts that must not be kept: found wherever they stand, in every string of an event.

A text may stand as it is or as JSON escapes it (in a tool call's arguments, say), also where that JSON stands in other
JSON, up to four deep: all of these are cut, at every occurrence.
In doubt nothing is kept: bytes that hold it, and values of a type that can't be searched, lose what they hold.

What stays although a text may stand in it: the fields of an event that the recorder wrote, and the words of a model
API's own protocol (``"role": "user"``), without which a body that was cut could not be read any more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from otel_prompt_trace.core.cutting import Digest, Place, cut_text, nameless
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.parameters import FIRST, REFERENCES, SETTINGS, VISIBLE, named
from otel_prompt_trace.core.redaction import Redactor, places
from otel_prompt_trace.core.text import Cut, CutText, utf8

# Written by the recorder or by the application's code, never by whoever wrote the text; readers need them whole.
_OURS = named(
    """v kind qid ts writer seq call trace_id span_id parent origin joined service version environment policy evidence
    route scope sighting trust producer hmac_sha256 sha256 segments outside segment start end chars model provider
    encoding finish_reason host api body bytes"""
)
_NAMES = named("user session tenant conversation_id source_id chunk_id name dropped")
_PROTOCOL = named(
    """system developer user assistant tool function model text image image_url input_text output_text input_image
    input_file input_audio file document base64 url tool_use tool_result function_call function_call_output message
    reasoning thinking redacted_thinking ephemeral json_object json_schema object string array number integer
    boolean"""
)
_FIELDS = named(
    """role type id content text parts name tool_calls tool_call_id tool_use_id call_id status detail format function
    arguments input output args response json source data inline_data inlineData media_type mimeType mime_type url
    image_url file file_id file_url file_data fileUri file_uri filename b64_json signature encrypted_content tools
    messages prompt parameters description properties required schema strict rank chunk_id score metadata attributes
    body value"""
) | {*FIRST, *REFERENCES, *SETTINGS, *VISIBLE}
_ATTRIBUTE = re.compile(r"[a-z_]+(\.[a-z0-9_]+)+")  # the name of an attribute, in code as well
_MEDIA_TYPE = re.compile(r"(image|audio|video|text|application)/[a-z0-9.+-]{1,40}")
_MEDIA_TYPES = frozenset({"media_type", "mimeType", "mime_type"})
TELLING = 8  # characters; a shorter secret stands in many a text that has nothing to do with it
_DEEPEST = 4  # JSON in JSON: a tool's result that an agent hands on to another stands three deep


class Withheld:
    """The texts that one batch must not keep, each with the policy that says so.

    ``redact`` finds more of them, in whatever text it is given.
    """

    def __init__(self, texts: Mapping[str, str], digest: Digest, redact: Redactor | None = None) -> None:
        self._redact = redact
        self._digest = digest
        # Whitespace tells nothing, and whether a stretch of a prompt is blank must stay to be seen.
        self._texts = {text: policy for text, policy in texts.items() if text and not text.isspace()}

    def __bool__(self) -> bool:
        return bool(self._texts) or self._redact is not None

    def places(self, text: str) -> list[Place]:
        """Every occurrence of every withheld text, overlapping ones as well."""
        return list(self._places(text))

    def stand_in(self, value: Any) -> bool:
        """Whether any of the texts stands in this string; False for a value of another type."""
        if isinstance(value, CutText):
            return any(self.stand_in(run) for run in value.runs)
        return isinstance(value, str) and next(self._places(value), None) is not None

    @staticmethod
    def is_field(name: str) -> bool:
        """Whether a name is one that an API or a convention gives a field, and nobody's text."""
        return name in _FIELDS or _ATTRIBUTE.fullmatch(name) is not None

    def rename(self, event: Event) -> Event:
        """The event without the texts in the names of fields below it; a digest takes their place."""
        return {name: item if name in _OURS else self._rename(item) for name, item in event.items()}

    def clean(self, event: Event) -> Event:
        """The event with every occurrence cut out of every string; a name stays a string, with digests in it."""
        cleaned = {name: item if name in _OURS else self._clean(item, name) for name, item in event.items()}
        path = event.get("path")  # of the URL: it may name a user, and stays a string as a name does
        return {**cleaned, "path": self._name(path)} if isinstance(path, str) else cleaned

    def _places(self, text: str) -> Iterator[Place]:
        for withheld, policy in self._standing(escaped="\\" in text):
            start = text.find(withheld)
            while start >= 0:
                yield start, start + len(withheld), policy
                start = text.find(withheld, start + 1)
        if self._redact is not None:
            yield from places(self._redact, text)

    def _standing(self, *, escaped: bool) -> Iterator[tuple[str, str]]:
        yield from self._texts.items()
        if escaped:
            yield from self._escaped.items()

    @cached_property
    def _escaped(self) -> dict[str, str]:
        """The texts as JSON escapes them: never without a backslash, so few strings are searched for these."""
        forms: dict[str, str] = {}
        for text, policy in self._texts.items():
            for form in _escaped(text):
                forms.setdefault(form, policy)
        return forms

    def _rename(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {self._field(name): self._rename(item) for name, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
            return [self._rename(item) for item in value]
        return value

    def _field(self, name: Any) -> Any:
        if not isinstance(name, str):
            return name if name is None or isinstance(name, bool | int | float) else self._name(str(name))
        return name if self.is_field(name) else self._name(name)

    def _name(self, text: str) -> str:
        places = self.places(text)
        if not places:
            return text
        runs = cut_text(text, places, self._digest).runs
        return "".join(
            f"[{run.policy} {(run.hmac_sha256 or '')[:16]}]" if isinstance(run, Cut) else run for run in runs
        )

    def _clean(self, value: Any, key: Any) -> Any:
        if isinstance(value, str):
            return self._clean_text(value, key)
        if isinstance(value, CutText):
            runs = (run if isinstance(run, Cut) else self._clean_text(run, None) for run in value.runs)
            return CutText(tuple(r for run in runs for r in (run.runs if isinstance(run, CutText) else (run,))))
        if isinstance(value, Mapping):
            return {name: self._clean(item, name) for name, item in value.items()}
        if isinstance(value, bytes | bytearray | memoryview):
            return nameless(value) if self._may_hold(bytes(value)) else value
        if isinstance(value, Sequence):
            return [self._clean(item, key) for item in value]
        return value if value is None or isinstance(value, bool | int | float) else nameless(value)

    def _may_hold(self, raw: bytes) -> bool:
        """Whether any of the texts stands in bytes; what a redaction finds there can't be said."""
        standing = self._standing(escaped=b"\\" in raw)
        return self._redact is not None or any(utf8(text) in raw for text, _ in standing)

    def _clean_text(self, text: str, key: Any) -> str | CutText:
        if is_protocol(key, text):
            return text
        if key in _NAMES:
            return self._name(text)
        places = self.places(text)
        return cut_text(text, places, self._digest) if places else text


def is_protocol(key: Any, text: str) -> bool:
    """Whether a string is a word of a model API's protocol, without which the rest could not be read."""
    if key in ("role", "type"):
        return text in _PROTOCOL
    return key in _MEDIA_TYPES and _MEDIA_TYPE.fullmatch(text) is not None


def texts_of(value: Any) -> list[str]:
    """The texts of a JSON value that would tell what it says: strings and names that no protocol gives."""
    found: list[str] = []
    waiting: list[tuple[Any, Any]] = [(None, value)]  # no recursion: a value may be nested deeply
    while waiting:
        key, item = waiting.pop()
        if isinstance(item, Mapping):
            waiting += item.items()
            found += [name for name in item if isinstance(name, str) and not Withheld.is_field(name)]
        elif isinstance(item, str):
            found += [] if is_protocol(key, item) else [item]
        elif isinstance(item, Sequence) and not isinstance(item, bytes | bytearray | memoryview):
            waiting += [(key, below) for below in item]
    return [text for text in found if len(text) >= TELLING]


def _escaped(text: str) -> set[str]:
    """The text as it stands within a JSON string, and within one in that, to the last depth, where that differs."""
    forms = last = {text}
    for _ in range(_DEEPEST):
        last = {json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in last for ascii_only in (True, False)}
        forms = forms | last
    return forms - {text}
