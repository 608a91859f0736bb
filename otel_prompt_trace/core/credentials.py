"""Names of a request's fields that hold credentials: these reach no record, whatever the policy.

A request's body can carry secrets: the ``authorization`` of an OpenAI MCP tool, the ``authorization_token`` of an
Anthropic MCP server, headers that a host is to send on, the key of a search index that it is to read. What stands in
the conversation itself is no credential of the request: the model was told it, and the record says so.

Gateways and hosts have names of their own, so a name counts by the words that it ends with as well, however they are
joined (``user_secret``, ``X-Proxy-Auth``, ``bearerToken``). A count or a mark of tokens is no credential.
"""

from __future__ import annotations

import re

from otel_prompt_trace.core.parameters import named

_FIELDS = frozenset(
    {
        "authorization",
        "authorization_token",
        "api_key",
        "apikey",
        "api-key",
        "x-api-key",
        "access_token",
        "password",
        "client_secret",
        "bearer_token",
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "azure_ad_token",
        "vertex_credentials",
    }
)
_ALL_BELOW = frozenset(
    {
        "headers",
        "extra_headers",
        "default_headers",
        "http_headers",
        "extra_query",
        "authentication",  # of Azure's data sources
        "authconfig",  # of Vertex's tools
        "auth_config",
        "apiauth",
        "api_auth",
    }
)
_LAST_WORDS = named(
    """token secret secrets password passwords passwd cookie cookies credential credentials bearer authorization auth
    oauth sas apikey"""
)
_LAST_TWO = named(
    """api_key private_key access_key secret_key account_key subscription_key signing_key master_key connection_string
    connection_str auth_config"""
)
_JOINED = re.compile(r"(?:(?:access|auth|bearer|session|refresh|client|security)(?:token|secret)"
                     r"|(?:api|private|access|secret)key|password|passwd|connectionstring)$")  # fmt: skip
# Before ``token``: of a vocabulary, of a count or a price, of a place in a list, of a task that is told of.
_NO_SECRET_TOKENS = named(
    """max min num per eos bos pad sep cls mask unk stop start end special image audio video text first last next new
    prompt completion input output reasoning cached total page continuation pagination progress budget"""
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_]+")
_REMEMBERED = 4096
_LONGEST = 128  # characters of a name whose end is looked at

CONVERSATION = frozenset(
    {
        "messages",
        "input",
        "contents",
        "prompt",
        "system",
        "instructions",
        "systemInstruction",
        "system_instruction",
        "message",
        "chat_history",
        "documents",
        "inputText",
    }
)


def is_credential(name: object) -> bool:
    """Whether everything below a field of this name is secret."""
    return _ANSWERS[name if type(name) is str else str(name)]


class _Answers(dict[str, bool]):
    """Answers by name, asked of every field of every request. Bounded: names may come from anywhere."""

    def __missing__(self, name: str) -> bool:
        answer = _is_credential(name[-_LONGEST:])
        if len(name) <= _LONGEST and len(self) < _REMEMBERED:
            self[name] = answer
        return answer


_ANSWERS = _Answers()


def _is_credential(name: str) -> bool:
    lowered = name.lower()
    if lowered in _FIELDS or lowered in _ALL_BELOW:
        return True
    words = [word.lower() for word in _WORDS.findall(name)]
    while words and words[-1].isdigit():  # ``api_key_2``, ``oauth2``
        words.pop()
    if not words or (words[-1] == "token" and words[-2:-1] and words[-2] in _NO_SECRET_TOKENS):
        return False
    ending = "_".join(words[-2:])
    if words[-1] in _LAST_WORDS or ending in _LAST_TWO or ending in _ALL_BELOW:
        return True
    return _JOINED.search(words[-1]) is not None
