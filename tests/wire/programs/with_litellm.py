"""Calls by LiteLLM, which sends by whatever library the model's host is reached by."""

from __future__ import annotations

from typing import Any

import litellm

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Wann? é 返"}]


def _asked(at: Any, model: str, **more: Any) -> dict[str, Any]:
    base = f"{at.url}/v1" if model.startswith("openai/") else at.url
    return {"model": model, "messages": MESSAGES, "api_base": base, "api_key": "none", "num_retries": 0, **more}


def _said(answer: Any) -> Any:
    """An answer without what LiteLLM makes up."""
    return [[choice.message.content, choice.finish_reason] for choice in answer.choices]


def openai_chat(at: Any) -> Any:
    return _said(litellm.completion(**_asked(at, "openai/gpt-stand-in")))


def openai_chat_stream(at: Any) -> None:
    for chunk in litellm.completion(**_asked(at, "openai/gpt-stand-in", stream=True)):
        at.see("chunk", [[choice.delta.content, choice.finish_reason] for choice in chunk.choices])


def anthropic_chat(at: Any) -> Any:
    return _said(litellm.completion(**_asked(at, "anthropic/claude-stand-in", max_tokens=50)))


def anthropic_chat_stream(at: Any) -> None:
    for chunk in litellm.completion(**_asked(at, "anthropic/claude-stand-in", max_tokens=50, stream=True)):
        at.see("chunk", [[choice.delta.content, choice.finish_reason] for choice in chunk.choices])


def refused(at: Any) -> None:
    litellm.completion(**_asked(at, "anthropic/claude-stand-in", max_tokens=50))


async def async_openai_chat(at: Any) -> Any:
    return _said(await litellm.acompletion(**_asked(at, "openai/gpt-stand-in")))


async def async_anthropic_chat(at: Any) -> Any:
    return _said(await litellm.acompletion(**_asked(at, "anthropic/claude-stand-in", max_tokens=50)))


async def async_anthropic_chat_stream(at: Any) -> None:
    asked = _asked(at, "anthropic/claude-stand-in", max_tokens=50, stream=True)
    async for chunk in await litellm.acompletion(**asked):
        at.see("chunk", [[choice.delta.content, choice.finish_reason] for choice in chunk.choices])
