"""Request bodies of model APIs, where an instrumentation hands one over as a value.

OpenAI (chat, responses, completions), Anthropic, Google and Bedrock Converse. A value is taken for a request body only
if its messages are messages: several libraries put the ``repr`` of their own objects there, which is no prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_prompt_trace.core.conventions.messages import message
from otel_prompt_trace.core.conventions.values import first_of, given, items, mapping, text

# What makes a mapping a message, or an item of OpenAI's Responses API.
_IN_MESSAGE = frozenset({"content", "parts", "tool_calls", "function_call", "tool_call_id", "output", "arguments"})
_RESPONSES_ITEM = frozenset(
    {"reasoning", "function_call", "function_call_output", "item_reference", "compaction", "message"}
)
_CONSUMED = frozenset(
    {
        "messages",
        "input",
        "contents",
        "prompt",
        "system",
        "instructions",
        "systemInstruction",
        "system_instruction",
        "tools",
        "functions",
        "toolConfig",
        "tool_config",
        "model",
        "modelId",
        "temperature",
        "extra_body",
    }
)
_REFERENCES = ("previous_response_id", "conversation", "cachedContent", "cached_content")
_NEVER_KEPT = frozenset({"extra_headers", "extra_query", "headers", "http_options", "httpOptions"})  # nor their values
_SCHEMAS = ("response_format", "output_format", "response_schema", "responseSchema", "response_json_schema")
_CONFIGS = ("generationConfig", "generation_config", "inferenceConfig", "config")


def request_of(value: Any) -> dict[str, Any] | None:
    """The fields of a request event from a request body, or from a bare list of messages; None for anything else."""
    body = mapping(value)
    if body is None:
        return _of_list(value)
    body = {**body, **(mapping(body.get("extra_body")) or {})}
    prompt = _prompt(body)
    if prompt is None:
        return None
    held = [name for name in _REFERENCES if body.get(name)]
    if isinstance(body.get("prompt"), Mapping):  # a prompt that is stored with the provider
        held.append("prompt")
    return {**prompt, **settings_of(body), **({"held_by_reference": held} if held else {})}


def settings_of(value: Any) -> dict[str, Any]:
    """Model, temperature, tools, response format and the other parameters of a request body, without its prompt."""
    body = mapping(value)
    if body is None:
        return {}
    config = next((found for name in _CONFIGS if (found := mapping(body.get(name))) is not None), {})
    temperature = body.get("temperature")
    return given(
        {
            "model": text(first_of(body, ("model", "modelId"))),
            "temperature": config.get("temperature") if temperature is None else temperature,
            "tools": _tools(body) or _tools(config),
            "response_format": _schema(body) or _schema(config),
            "parameters": {**_rest(body), **_rest(config)} or None,
        }
    )


def are_messages(listed: list[Any]) -> bool:
    """Whether every item is a message, or an item of a Responses request."""
    return bool(listed) and all(isinstance(entry, Mapping) and _is_message(entry) for entry in listed)


def _prompt(body: dict[str, Any]) -> dict[str, Any] | None:
    system = [message("system", entry) for entry in _systems(body)]
    for name in ("messages", "input", "contents"):
        listed = items(body.get(name))
        if listed is not None and are_messages(listed):
            return {"messages": [*system, *listed]}
    single = body.get("input")
    if isinstance(single, str) and ("model" in body or system):
        return {"messages": [*system, message("user", single)]} if system else {"prompt": single}
    prompts = body.get("prompt")
    if isinstance(prompts, str) and prompts:
        return {"prompt": prompts}
    several = items(prompts)
    if several and all(isinstance(entry, str) for entry in several):
        return {"prompt": several[0]} if len(several) == 1 else {"messages": several}
    return None


def _of_list(value: Any) -> dict[str, Any] | None:
    listed = items(value)
    return {"messages": listed} if listed and are_messages(listed) else None


def _systems(body: dict[str, Any]) -> list[Any]:
    """Instructions that stand apart from the messages; what is a list of messages already is no system text."""
    config = mapping(body.get("config")) or {}
    names = ("system", "instructions", "systemInstruction", "system_instruction")
    found = [body.get(name) for name in names] + [config.get("system_instruction")]
    return [entry for entry in found if isinstance(entry, str | list | Mapping) and entry]


def _is_message(entry: Mapping[Any, Any]) -> bool:
    if isinstance(entry.get("role"), str):
        return not _IN_MESSAGE.isdisjoint(entry)
    kind = entry.get("type")
    return isinstance(kind, str) and (kind in _RESPONSES_ITEM or not _IN_MESSAGE.isdisjoint(entry))


def _tools(body: dict[str, Any]) -> Any:
    config = mapping(first_of(body, ("toolConfig", "tool_config"))) or {}
    return items(body.get("tools")) or items(body.get("functions")) or items(config.get("tools"))


def _rest(body: dict[str, Any]) -> dict[str, Any]:
    """Everything that is neither prompt nor definition. ``{"type": "text"}`` is a setting, and no schema."""
    left_out = {*_CONSUMED, *_CONFIGS, *_NEVER_KEPT}
    rest = {name: item for name, item in given(body).items() if name not in left_out}
    shaped = mapping(rest.get("text"))
    if shaped is not None and _is_schema(shaped.get("format")):
        rest["text"] = {name: item for name, item in shaped.items() if name != "format"}
    return {name: item for name, item in rest.items() if name not in _SCHEMAS or not _is_schema(item)}


def _schema(body: dict[str, Any]) -> Any:
    shaped = mapping(body.get("text")) or {}
    found = [*(body.get(name) for name in _SCHEMAS), shaped.get("format")]
    return next((schema for schema in found if _is_schema(schema)), None)


def _is_schema(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value.keys() - {"type"})
