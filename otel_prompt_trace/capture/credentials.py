"""Credentials among what a call is given: they reach no record, whatever the policy.

A request's body can carry secrets: the ``authorization`` of an OpenAI MCP tool, the ``authorization_token`` of an
Anthropic MCP server, headers handed to a client. Each is withheld from everything that is recorded of its query: its
place, its length and a keyed digest stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_FIELDS = frozenset(
    {"authorization", "authorization_token", "api_key", "apikey", "api-key", "x-api-key", "access_token", "password"}
)
_ALL_BELOW = frozenset({"headers", "extra_headers", "default_headers", "http_headers"})
_DEPTH = 20


def credentials(fields: Mapping[str, Any]) -> list[str]:
    """The credentials in the tools and parameters of a call."""
    given = {name: value for name, value in fields.items() if name in ("tools", "response_format", "parameters")}
    return list(_below(given, secret=False, depth=0)) if given else []


def _below(value: Any, *, secret: bool, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if secret and value:
            yield value
    elif depth < _DEPTH and isinstance(value, Mapping):
        for name, item in value.items():
            key = str(name).lower()
            yield from _below(item, secret=secret or key in _FIELDS or key in _ALL_BELOW, depth=depth + 1)
    elif depth < _DEPTH and isinstance(value, list | tuple):
        for item in value:
            yield from _below(item, secret=secret, depth=depth + 1)
