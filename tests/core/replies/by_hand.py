"""All replies written by hand, one or more for each API and form, and what is to be read from them."""

from __future__ import annotations

import json
from typing import Any

from tests.core.replies.anthropic_by_hand import ANTHROPIC
from tests.core.replies.bedrock_by_hand import CONVERSE, NATIVE
from tests.core.replies.cohere_ollama_by_hand import COHERE, OLLAMA
from tests.core.replies.google_by_hand import GOOGLE
from tests.core.replies.openai_by_hand import CHAT, RESPONSES

CASES = [*CHAT, *RESPONSES, *ANTHROPIC, *GOOGLE, *CONVERSE, *NATIVE, *COHERE, *OLLAMA]


def begins(part: Any, whole: Any) -> bool:
    """Whether ``part`` is how ``whole`` looked before it was all there: texts are beginnings, lists are shorter."""
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(begins, part, whole))
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and begins(value, whole[name]) for name, value in part.items())
    if isinstance(part, str) and isinstance(whole, dict):  # a tool's input, not yet whole JSON
        return json.dumps(whole, ensure_ascii=False).startswith(part) or any(begins(part, v) for v in whole.values())
    if isinstance(part, str) and isinstance(whole, list):  # a text beside which more came
        return any(begins(part, item) for item in whole)
    return bool(part == whole)
