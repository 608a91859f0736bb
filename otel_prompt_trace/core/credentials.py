"""Names of a request's fields that hold credentials: these reach no record, whatever the policy.

A request's body can carry secrets: the ``authorization`` of an OpenAI MCP tool, the ``authorization_token`` of an
Anthropic MCP server, headers that a host is to send on, the key of a search index that it is to read. What stands in
the conversation itself is no credential of the request: the model was told it, and the record says so.
"""

from __future__ import annotations

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
    lowered = str(name).lower()
    return lowered in _FIELDS or lowered in _ALL_BELOW
