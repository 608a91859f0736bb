"""What a host says when it refuses or fails: a type and a code, and its message apart from them.

The message is the host's own text and may quote the request; the type and code never do.
"""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.core.replies.values import fields_of, word

_TYPES = ("type", "status", "__type", "name")
_CODES = ("code", "reason")
_MESSAGES = ("message", "Message", "detail", "msg")


def error_of(value: Any, *, failed: bool = False, unnamed: str = "error") -> dict[str, str]:
    """``error`` (``type/code``, as far as given) and ``error_message``; nothing if the value tells of no error.

    Args:
        value: a body, or one message of a stream.
        failed: the status or the kind of the message said already that this is an error.
        unnamed: what stands for an error that has neither type nor code.
    """
    body = fields_of(value)
    said = body.get("error")
    if not said and body.get("type") != "error" and not failed:
        return {}
    if isinstance(said, str):
        return _found(None, word(body.get("code")), said, unnamed)
    inner = fields_of(said) or body
    kinds = [word(inner.get(name)) for name in _TYPES]
    kind = next((kind for kind in kinds if kind not in (None, "error")), None)
    code = next((code for name in _CODES if (code := word(inner.get(name))) is not None), None)
    message = next((text for name in _MESSAGES if isinstance(text := inner.get(name), str) and text), None)
    return _found(kind, code, message, unnamed)


def _found(kind: str | None, code: str | None, message: str | None, unnamed: str) -> dict[str, str]:
    named = "/".join(dict.fromkeys(part for part in (kind, code) if part))
    told = {"error_message": message} if message else {}
    return {"error": named or unnamed, **told}
