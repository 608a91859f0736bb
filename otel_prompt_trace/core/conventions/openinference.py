"""OpenInference: messages flattened into indexed keys, beside the request body as one JSON text.

Its instrumentations write both. The body is the better source where it is one, since no attribute limit takes a part
of it; where it is the ``repr`` of something, or says less than the flat keys do, those are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_prompt_trace.core.conventions import request_bodies, response_bodies
from otel_prompt_trace.core.conventions.candidate import Candidate
from otel_prompt_trace.core.conventions.indexed import nested
from otel_prompt_trace.core.conventions.messages import message, output_of
from otel_prompt_trace.core.conventions.values import decoded, given, items, mapping, parts_in, text

BODY = "input.value"
ANSWER = "output.value"
INPUT = "llm.input_messages"
OUTPUT = "llm.output_messages"
PROMPTS = "llm.prompts"
CHOICES = "llm.choices"
TOOLS = "llm.tools"
PARAMETERS = "llm.invocation_parameters"


def requests(content: Mapping[str, Any]) -> list[Candidate | None]:
    """What the model was given, by each of the keys that tell it, the best first."""
    settings = request_bodies.settings_of(content.get(PARAMETERS))
    tools = _tools(content)
    if tools:
        settings["tools"] = tools
    return [_with(settings, found) for found in (_body(content), _messages(content), _prompts(content))]


def responses(content: Mapping[str, Any]) -> list[Candidate | None]:
    """What the model gave back, by each of the keys that tell it, the best first."""
    found = response_bodies.response_of(content.get(ANSWER))
    body = None if found is None else Candidate(ANSWER, found)
    return [body, _answers(content), _choices(content), _function_call(content)]


def plain_answer(content: Mapping[str, Any]) -> Candidate | None:
    """An answer that is no response body: the text itself, or an object of the application's."""
    value = content.get(ANSWER)
    if value is None or value == "":
        return None
    return Candidate(ANSWER, {"output": decoded(value)})


def _with(settings: dict[str, Any], found: Candidate | None) -> Candidate | None:
    return None if found is None else found._replace(fields={**settings, **found.fields})


def _body(content: Mapping[str, Any]) -> Candidate | None:
    fields = request_bodies.request_of(content.get(BODY))
    return None if fields is None else Candidate(BODY, fields)


def _messages(content: Mapping[str, Any]) -> Candidate | None:
    listed, missing = _listed(content, INPUT)
    return Candidate(INPUT, {"messages": listed}, missing) if listed else None


def _prompts(content: Mapping[str, Any]) -> Candidate | None:
    flat, missing = _texts(content, PROMPTS, "prompt")
    if not flat:
        return None
    prompt = {"prompt": flat[0]} if len(flat) == 1 and isinstance(flat[0], str) else {"messages": flat}
    return Candidate(PROMPTS, prompt, missing)


def _answers(content: Mapping[str, Any]) -> Candidate | None:
    listed, missing = _listed(content, OUTPUT)
    return Candidate(OUTPUT, given({"output": output_of(listed)}), missing) if listed else None


def _choices(content: Mapping[str, Any]) -> Candidate | None:
    flat, missing = _texts(content, CHOICES, "completion")
    return Candidate(CHOICES, {"output": output_of(flat)}, missing) if flat else None


def _function_call(content: Mapping[str, Any]) -> Candidate | None:
    call = content.get("llm.function_call")
    return Candidate("llm.function_call", {"output": decoded(call)}) if call else None


def _listed(content: Mapping[str, Any], prefix: str) -> tuple[list[Any], tuple[str, ...]]:
    whole = items(content.get(prefix))
    if whole is not None:
        return [given(found) if (found := mapping(entry)) is not None else entry for entry in whole], ()
    flat, indexes, missing = nested(content, prefix)
    messages = [_message(entry, f"{prefix}.{index}", missing) for entry, index in zip(flat, indexes, strict=True)]
    return messages, tuple(missing)


def _message(entry: Any, path: str, missing: list[str]) -> Any:
    fields = mapping(entry)
    inner = mapping((fields or {}).get("message"))
    if inner is None:
        return entry
    path += ".message"
    contents, plain = inner.pop("contents", None), inner.pop("content", None)
    parts = [_part(part) for part in items(contents) or ()]
    if isinstance(plain, str):
        _fill(parts, plain, f"{path}.contents", missing)
    elif plain is not None:
        parts = [*(parts_in(plain) or items(plain) or [plain]), *parts]
    told = {part.get("id") for part in parts if isinstance(part, Mapping) and part.get("type") == "tool_call"}
    calls = [call for entry in items(inner.pop("tool_calls", None)) or () if (call := _call(entry)) is not None]
    calls = [call for call in calls if call.get("id") is None or call["id"] not in told]  # written in both places
    if "role" not in inner:
        missing.append(f"{path}.role")
    if not parts and not calls and plain is None and not inner.keys() - {"role", "name", "tool_call_id"}:
        missing.append(f"{path}.content")
    body: Any = plain if isinstance(plain, str) and not parts else (parts or None)
    return message(inner.pop("role", None), body, **inner, tool_calls=calls or None)


def _fill(parts: list[Any], plain: str, path: str, missing: list[str]) -> None:
    """Put the plain text before the parts; some instrumentations write the first part nowhere else."""
    if not parts:
        return
    if f"{path}.0" in missing:
        missing.remove(f"{path}.0")
    elif any(isinstance(part, Mapping) and part.get("text") == plain for part in parts):
        return
    parts.insert(0, {"type": "text", "text": plain})


def _part(entry: Any) -> Any:
    fields = mapping(entry)
    if fields is None:
        return entry
    part = given(mapping(fields.pop("message_content", None)) or {})
    call = _call(fields)
    if call is not None:
        fields.pop("tool_call", None)
        return {**part, **fields, "type": "tool_call", **call.pop("function", {}), **given({"id": call.get("id")})}
    image = mapping(part.pop("image", None))
    if image is not None:
        inner = mapping(image.get("image")) or image
        return {**part, **fields, "type": "image_url", "image_url": inner}
    if "data" in part:  # a vendor's sealed reasoning: bytes that nobody reads
        part["encrypted_content"] = part.pop("data")
    return {**part, **fields}


def _call(entry: Any) -> dict[str, Any] | None:
    call = mapping((mapping(entry) or {}).get("tool_call"))
    if call is None:
        return None
    return {"type": "function", **given(call)}


def _texts(content: Mapping[str, Any], prefix: str, wrapper: str) -> tuple[list[Any], tuple[str, ...]]:
    whole = items(content.get(prefix))
    if whole is not None:
        return whole, ()
    single = text(content.get(prefix))
    if single is not None:
        return [single], ()
    flat, _, missing = nested(content, prefix)
    found = []
    for entry in flat:
        fields = mapping(entry) or {}
        inner = mapping(fields.get(wrapper)) or fields
        found.append(inner["text"] if isinstance(inner.get("text"), str) else entry)
    return found, tuple(missing)


def _tools(content: Mapping[str, Any]) -> list[Any] | None:
    whole = items(content.get(TOOLS))
    if whole is not None:
        return whole
    found = []
    for entry in nested(content, TOOLS).items:
        tool = mapping((mapping(entry) or {}).get("tool")) or {}
        schema = decoded(tool.get("json_schema"))
        found.append(schema if tool.keys() == {"json_schema"} else tool or entry)
    return found or None
