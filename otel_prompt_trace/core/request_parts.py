"""What one request shows the model: its segments, what is held elsewhere, and the parts that are no prompt.

A prompt may stand in more than ``prompt`` and ``messages``: a system text, instructions or an input may be given as
parameters beside it. A parameter is content unless the table below knows it: nothing hides in a field that we do not
know. Content of ``system`` and its like stands before the messages, as the model reads it, the rest after them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from otel_prompt_trace.core.segments import Outside, Segment, Split, child, leaves, split


def named(words: str) -> frozenset[str]:
    """A table of names, written as a row of words."""
    return frozenset(words.split())


# Read before the messages, whichever order the parameters were given in.
FIRST = ("system", "instructions", "systemInstruction", "system_instruction", "system_prompt", "preamble", "developer")

# Names of things that the provider holds: what is behind them reaches the model and not the record.
REFERENCES = named(
    """previous_response_id conversation thread_id assistant_id cached_content cachedContent container
    file_id file_ids fileId fileIds vector_store_ids prompt_id promptId prompt_template_id guardrailConfig"""
)

# Definitions and schemas: the model sees them, only the provider knows how they are rendered.
VISIBLE = named(
    """functions function_declarations functionDeclarations toolConfig tool_config mcp_servers response_schema
    responseSchema response_json_schema responseJsonSchema output_format output_config json_schema guided_json
    guided_regex guided_choice guided_grammar grammar web_search_options"""
)

# Settings of sampling, delivery, billing and transport. Numbers and switches need no entry: they hold no text.
SETTINGS = named(
    """model model_id modelId provider custom_llm_provider deployment_id
    temperature top_p topP top_k topK seed n max_tokens maxTokens max_output_tokens maxOutputTokens
    max_completion_tokens frequency_penalty presence_penalty logit_bias logprobs top_logprobs stop stop_sequences
    stopSequences truncation verbosity reasoning reasoning_effort thinking thinkingConfig thinking_config effort
    modalities responseModalities response_modalities audio speechConfig speech_config voice encoding_format
    encoding_formats responseMimeType response_mime_type output.type
    tool_choice toolChoice function_call parallel_tool_calls
    stream stream_options include background store service_tier serviceTier performanceConfig performance_config
    user safety_identifier safety_settings safetySettings metadata requestMetadata request_metadata labels tags
    cache_control prompt_cache_key prompt_cache_retention inference_geo betas
    timeout extra_headers extra_query headers http_options httpOptions api_base base_url api_version api_key
    organization project region"""
)

# One more level of parameters, under the same names.
_NESTED = frozenset({"extra_body", "generationConfig", "generation_config", "inferenceConfig", "config"})
_OWN_PATHS = frozenset({"prompt", "messages", "tools", "response_format"})  # of the request itself
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def split_request(request: Mapping[str, Any]) -> tuple[Split, int] | None:
    """The prompt of a request event, with the number of segments that stand before its own first one.

    None where there is no prompt, or one of a shape that nobody can take apart: kept as it was handed over.
    """
    messages = request.get("messages")
    prompt = messages if messages is not None else request.get("prompt")
    if prompt is None:
        return None
    try:
        own = split(prompt)
    except TypeError:
        return None
    first: list[Segment | Outside] = []
    after: list[Segment | Outside] = []
    for name, path, value in _parameters(request.get("parameters")):
        found = _content(name, path, value)
        (first if name in FIRST else after).extend(found)
    if not first and not after:
        return own, 0
    before = [part for part in first if isinstance(part, Segment)]
    segments = (*before, *own.segments, *(part for part in after if isinstance(part, Segment)))
    outside = (*own.outside, *(part for part in (*first, *after) if isinstance(part, Outside)))
    return Split(segments, outside), len(before)


def visible_parts(request: Mapping[str, Any]) -> dict[str, Any]:
    """The parts that the model may see beside the prompt, by name: tool definitions, a response schema."""
    parts = {name: request[name] for name in ("tools", "response_format") if request.get(name)}
    for name, path, value in _parameters(request.get("parameters")):
        if value and (name in VISIBLE or (name in _OWN_PATHS - {"prompt", "messages"})):
            parts[path] = value
        elif name == "text" and _is_schema(value):
            parts[f"{path}.format"] = value["format"]
    return parts


def change_parameters(parameters: Any, change: Callable[[str, Any], Any]) -> Any:
    """The parameters with each put through ``change(path, value)``; the paths are those of :func:`split_request`."""
    if not isinstance(parameters, Mapping):
        return parameters
    return {
        name: change_nested(path, item, change) if name in _NESTED else change(path, item)
        for name, path, item in ((name, _path(name), item) for name, item in parameters.items())
    }


def change_nested(path: str, value: Any, change: Callable[[str, Any], Any]) -> Any:
    """The same one level below: fields of ``extra_body`` and its like."""
    if not isinstance(value, Mapping):
        return change(path, value)
    return {name: change(child(path, name), item) for name, item in value.items()}


def _parameters(parameters: Any) -> Iterator[tuple[str, str, Any]]:
    """Name, path and value of each parameter, those that are given one level below as well."""
    if not isinstance(parameters, Mapping):
        return
    for name, value in parameters.items():
        path = _path(name)
        if name in _NESTED and isinstance(value, Mapping):
            for inner, item in value.items():
                yield str(inner), child(path, inner), item
        else:
            yield str(name), path, value


def _path(name: object) -> str:
    if isinstance(name, str) and _PLAIN_NAME.fullmatch(name) and name not in _OWN_PATHS:
        return name
    return child("parameters", name)


def _content(name: str, path: str, value: Any) -> Iterator[Segment | Outside]:
    if name in SETTINGS or name in VISIBLE or name in ("tools", "response_format") or value is None:
        return
    if name in REFERENCES:
        if value:
            yield Outside(path, "reference", value[:200] if isinstance(value, str) else name, value)
    elif name == "prompt" and isinstance(value, Mapping):  # stored with the provider, filled in with variables
        yield Outside(child(path, "id"), "reference", str(value.get("id"))[:200], value.get("id"))
        yield from leaves(value.get("variables"), child(path, "variables"), name, None)
    elif name == "text" and isinstance(value, Mapping):  # how the answer is to look
        rest = {key: item for key, item in value.items() if key not in ("format", "verbosity")}
        yield from leaves(rest, path, name, None)
    else:
        role = "system" if name in FIRST else None
        if isinstance(value, list | tuple):  # items of an input have roles of their own
            for position, item in enumerate(value):
                given = item.get("role") if isinstance(item, Mapping) else None
                yield from leaves(item, f"{path}[{position}]", name, given if isinstance(given, str) else role)
        else:
            yield from leaves(value, path, name, role)


def _is_schema(value: Any) -> bool:
    shape = value.get("format") if isinstance(value, Mapping) else None
    return isinstance(shape, Mapping) and bool(shape.keys() - {"type"})
