"""Which requests are looked at: by their path and body, and where the configuration says more, by host and service.

A rule is ``host:PATTERN``, ``service:PATTERN`` or ``route:PATTERN``; a pattern alone is a host's. Patterns are those of
:mod:`fnmatch`. ``route`` is that of the application's own request, as its web framework's instrumentation names it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import orjson

from otel_prompt_trace.core.bodies.apis import BY_NAME, Api, api_of
from otel_prompt_trace.core.bodies.scan import NotJson, scan
from otel_prompt_trace.exceptions import ConfigurationError

_LONGEST_SCAN = 1 << 20  # characters; a longer one would hold up the application for tenths of a second
SUBJECTS = ("host", "service", "route")
_PORT = re.compile(r":[0-9]+\Z")
_WITH_PORT = re.compile(r"(?:[^:]+|\[[0-9a-fA-F:*?]+\]):?[0-9*?]*")


class Rules:
    """The rules in force.

    Args:
        allow: where any are given, only what one of them matches is captured.
        deny: what one of these matches is not.
        apis: further paths, each with the API that is spoken there, as ``PATTERN=api``.
        service: this process's service name; empty while nobody has told it.
    """

    def __init__(
        self, allow: Sequence[str] = (), deny: Sequence[str] = (), apis: Sequence[str] = (), service: str = ""
    ) -> None:
        self._allow = [_rule(text) for text in allow]
        self._deny = [_rule(text) for text in deny]
        self._apis = [_path(text) for text in apis]
        self.service = service

    def api(self, method: str, host: str, path: str, route: Callable[[], str]) -> Api | None:
        """The API that a request may be for; None for what is left alone."""
        if method != "POST":
            return None
        api = api_of(path, self._apis)
        if api is None:
            return None
        if self._allow and not self._matches(self._allow, host, route):
            return None
        if not self._deny:
            return api
        return None if self._in_doubt(route) or self._matches(self._deny, host, route) else api

    def _in_doubt(self, route: Callable[[], str]) -> bool:
        """Whether a rule that denies is about something that is not known: then it denies."""
        subjects = {subject for subject, _ in self._deny}
        return ("service" in subjects and not self.service) or ("route" in subjects and not route())

    def _matches(self, rules: Sequence[tuple[str, str]], host: str, route: Callable[[], str]) -> bool:
        for subject, pattern in rules:
            if subject == "host":
                value = host.rpartition("@")[2].lower()
                if fnmatchcase(_PORT.sub("", value), pattern):
                    return True
            else:
                value = self.service if subject == "service" else route()
            if fnmatchcase(value, pattern):
                return True
        return False


def body_of(api: Api, body: bytes) -> Mapping[str, Any] | None:
    """The body as a JSON object, if it is a request of the API; else None, and nothing of it is kept."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = _leniently(body)
    return value if isinstance(value, dict) and api.is_request(value) else None


def _leniently(body: bytes) -> Any:
    """What hosts take although it is no strict JSON: a lone surrogate's escape, huge numbers, deep nesting."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    try:
        return json.loads(text, strict=False, parse_constant=_refuse)  # in C, on the application's thread
    except (ValueError, RecursionError):
        if len(text) > _LONGEST_SCAN:
            return None
    try:
        return scan(text)
    except NotJson:
        return None


def _refuse(name: str) -> Any:
    raise ValueError(name)  # NaN and its like are no JSON


def _rule(text: str) -> tuple[str, str]:
    subject, colon, pattern = (part.strip() for part in text.partition(":"))
    if not colon or subject not in SUBJECTS:
        subject, pattern = "host", text.strip()
        if colon and not _WITH_PORT.fullmatch(pattern):  # it would match no host, and nobody would notice
            named = ", ".join(f"{subject}:PATTERN" for subject in SUBJECTS)
            raise ConfigurationError(f"{pattern!r} is no rule for the wire: it takes {named}, or a host's pattern")
    if not pattern:
        raise ConfigurationError(f"{text!r} is no rule for the wire: it names nothing")
    return subject, pattern.lower() if subject == "host" else pattern


def _path(text: str) -> tuple[str, str]:
    pattern, _, name = (part.strip() for part in text.rpartition("="))
    if not pattern.startswith(("/", "*")) or name not in BY_NAME:
        raise ConfigurationError(
            f"PROMPT_TRACE_WIRE_APIS={text!r}: it takes /PATH/PATTERN=API, the API one of {', '.join(BY_NAME)}"
        )
    return pattern, name
