"""What a span stands for: a model call, or something around or beside one.

A call is an operation ``chat``, ``text_completion`` or ``generate_content``, an OpenInference span of kind ``LLM``,
or, in older releases of OpenLLMetry, a request of type ``chat`` or ``completion``. Agents, chains, workflows, tools,
embeddings and reranking are never calls: where one sign says so, no other makes the span a call. Where none says
anything, OpenLLMetry's flat messages do: it writes them on the spans of model calls, some of which it leaves unnamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from otel_prompt_trace.core.conventions.keys import content_key

Role: TypeAlias = Literal["call", "agent", "chain", "workflow", "tool", "embedding", "retrieval", "rerank", "memory"]

_SIGNS: dict[str, dict[str, Role]] = {
    "gen_ai.operation.name": {
        "chat": "call",
        "text_completion": "call",
        "generate_content": "call",
        "embeddings": "embedding",
        "retrieval": "retrieval",
        "execute_tool": "tool",
        "create_agent": "agent",
        "invoke_agent": "agent",
        "plan": "agent",
        "handoff": "agent",
        "agent_handoff": "agent",
        "chain": "chain",
        "invoke_workflow": "workflow",
        "search_memory": "memory",
        "create_memory": "memory",
        "update_memory": "memory",
        "upsert_memory": "memory",
        "delete_memory": "memory",
    },
    "openinference.span.kind": {
        "LLM": "call",
        "AGENT": "agent",
        "CHAIN": "chain",
        "TOOL": "tool",
        "EMBEDDING": "embedding",
        "RETRIEVER": "retrieval",
        "RERANKER": "rerank",
        "GUARDRAIL": "chain",
        "EVALUATOR": "chain",
        "PROMPT": "chain",
    },
    "llm.request.type": {"chat": "call", "completion": "call", "embedding": "embedding", "rerank": "rerank"},
    "traceloop.span.kind": {"workflow": "workflow", "task": "chain", "agent": "agent", "tool": "tool"},
}


_FLAT_MESSAGES = ("gen_ai.prompt.", "gen_ai.completion.")


def span_role(attributes: Mapping[str, Any], content: Iterable[str] = ()) -> Role | None:
    """What a span stands for; None where nothing says so. Never raises.

    Args:
        attributes: the span's ordinary attributes.
        content: the keys of the content that was diverted from it, where that is known already.
    """
    role: Role | None = None
    for key, roles in _SIGNS.items():
        value = attributes.get(key)
        said = roles.get(value) if isinstance(value, str) else None
        if said is not None and said != "call":
            return said
        role = role or said
    if role is None and any(_is_flat_message(key) for key in content):
        return "call"
    return role


def is_model_call(attributes: Mapping[str, Any], content: Iterable[str] = ()) -> bool:
    """Whether a span is a model call; the arguments are those of :func:`span_role`. Never raises."""
    return span_role(attributes, content) == "call"


def _is_flat_message(key: str) -> bool:
    if not key.startswith(_FLAT_MESSAGES):
        return False
    found = content_key(key)
    return found is not None and found.convention == "openllmetry"
