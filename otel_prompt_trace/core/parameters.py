"""The table of what a field of a request is: content, a definition, a reference to something held elsewhere, a setting.

A field is content unless the table knows it: nothing hides in a field that we do not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_prompt_trace.core.segments import Outside, Segment, child, leaves


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
    encoding_formats responseMimeType response_mime_type output.type output_type thinking_type reasoning_summary
    tool_choice toolChoice function_call parallel_tool_calls
    stream stream_options include background store service_tier serviceTier performanceConfig performance_config
    user safety_identifier safety_settings safetySettings metadata requestMetadata request_metadata labels tags
    custom_id cache_control prompt_cache_key prompt_cache_retention prompt_cache_options inference_geo betas
    timeout extra_headers extra_query headers http_options httpOptions api_base base_url api_version api_key
    organization project region"""
)

# One more level of parameters, under the same names.
NESTED = frozenset({"extra_body", "generationConfig", "generation_config", "inferenceConfig", "config"})


def content_of(name: str, path: str, value: Any) -> Iterator[Segment | Outside]:
    """The content of one field beside the messages, by the table of what is known."""
    if name in SETTINGS or name in VISIBLE or name in ("tools", "response_format") or value is None:
        return
    if name in REFERENCES:
        if value:
            yield Outside(path, "reference", value[:200] if isinstance(value, str) else name, value)
    elif name == "prompt" and isinstance(value, Mapping):  # stored with the provider, filled in with variables
        if value.get("id"):
            yield Outside(child(path, "id"), "reference", str(value["id"])[:200], value["id"])
        rest = {key: item for key, item in value.items() if key not in ("id", "version")}
        yield from leaves(rest, path, name, None)
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


def is_schema(value: Any) -> bool:
    """Whether the ``text`` of a Responses request holds a schema that the answer must follow."""
    shape = value.get("format") if isinstance(value, Mapping) else None
    return isinstance(shape, Mapping) and bool(shape.keys() - {"type"})
