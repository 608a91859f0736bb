"""Which API a request belongs to: by its path, whatever the host, and by the shape that the path promises.

Both must match. A path alone says little (many things are served under ``/messages``), and a body is read only where
its path says that it may be for a model. Compatible servers and gateways mount these paths anywhere, so only the end
of a path counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

Shape = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its name, what its paths look like, and whether a JSON object is a request to it."""

    name: str
    path: re.Pattern[str]
    is_request: Shape


def _lists(name: str) -> Shape:
    return lambda body: isinstance(body.get(name), list)


def _anthropic(body: Mapping[str, Any]) -> bool:
    """Many things that are no model have a path that ends like this one's."""
    return isinstance(body.get("messages"), list) and not body.keys().isdisjoint(
        ("model", "max_tokens", "anthropic_version")
    )


def _completion(body: Mapping[str, Any]) -> bool:
    return isinstance(body.get("prompt"), str | list) and "messages" not in body


def _responses(body: Mapping[str, Any]) -> bool:
    return isinstance(body.get("input"), str | list) or isinstance(body.get("prompt"), dict)


def _generate(body: Mapping[str, Any]) -> bool:
    return isinstance(body.get("contents"), list | dict | str)


def _native(body: Mapping[str, Any]) -> bool:
    """A body of Bedrock's InvokeModel: whatever the model's own API takes, but no text to embed or to rerank."""
    if isinstance(body.get("messages"), list) or isinstance(body.get("prompt"), str):
        return True
    if isinstance(body.get("inputText"), str):
        return "textGenerationConfig" in body
    return isinstance(body.get("message"), str)


def _cohere(body: Mapping[str, Any]) -> bool:
    return isinstance(body.get("message"), str) or isinstance(body.get("messages"), list)


def _ollama_generate(body: Mapping[str, Any]) -> bool:
    return isinstance(body.get("model"), str) and isinstance(body.get("prompt", ""), str)


def _api(name: str, path: str, is_request: Shape) -> Api:
    return Api(name, re.compile(rf"{path}\Z"), is_request)


APIS: tuple[Api, ...] = (
    _api("openai.chat", r"/(?:chat|agents)/completions/?", _lists("messages")),
    _api("openai.completions", r"(?<!/chat)(?<!/agents)/completions/?", _completion),
    _api("openai.responses", r"/responses/?", _responses),
    _api("anthropic.messages", r"(?:/messages/?|:(?:stream)?[rR]awPredict)", _anthropic),
    _api("google.generate", r":(?:stream)?[gG]enerateContent", _generate),
    _api("bedrock.converse", r"/model/[^/]+/converse(?:-stream)?", _lists("messages")),
    _api("bedrock.invoke", r"/model/[^/]+/invoke(?:-with-response-stream)?", _native),
    _api("ollama.chat", r"/api/chat", _lists("messages")),
    _api("ollama.generate", r"/api/generate", _ollama_generate),
    _api("cohere.chat", r"/v[12]/chat", _cohere),
)
BY_NAME: Mapping[str, Api] = {api.name: api for api in APIS}


def api_of(path: str, further: Iterable[tuple[str, str]] = ()) -> Api | None:
    """The API that a path promises; None for any other path.

    Args:
        path: of the URL, without its query.
        further: pairs of a pattern (``/my/llm/*``) and the name of the API that is spoken there; these go first.
    """
    for pattern, name in further:
        if fnmatchcase(path, pattern):
            return BY_NAME[name]
    return _promised(path)


@lru_cache(maxsize=256)
def _promised(path: str) -> Api | None:
    return next((api for api in APIS if api.path.search(path)), None)


def model_in_path(path: str) -> str | None:
    """The model that a path names (Bedrock, Google, Azure's deployments), its escapes decoded."""
    found = re.search(r"/(?:model|models|deployments)/([^/:]+(?::[0-9]+)?|[^/]+%3[aA][0-9]+)(?=[/:]|\Z)", path)
    return None if found is None else re.sub("%([2-7][0-9a-fA-F])", lambda code: chr(int(code[1], 16)), found[1])
