"""The attribute keys that carry content, of every convention that is known.

Content is what went into a model or a tool, what came out, and what was retrieved or embedded for it. Identities,
models, token counts, finish reasons, user metadata and references (``*_ref``) are not: they are small, and they are
what spans are for. Descriptions of agents and tools on the spans of their own are not either: they are the
application's own words, and the conventions count them among a span's ordinary attributes.

- A flat indexed message (``llm.input_messages.3.message.role``) is content as a whole, its role and ids included:
  what stayed behind would still fill the span's 128 attributes, and would tell nothing without its text.
- A MIME type goes with its value: the stub that is left on the span is no JSON, whatever the MIME type says.
- A bare word is listed only where it hardly means anything but a model's text. ``input``, ``output`` and ``query``
  are not listed: applications use them for other things. Their long values are caught by the size rule of spans.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Convention: TypeAlias = Literal[
    "otel",
    "openllmetry",
    "openinference",
    "pydantic_ai",
    "logfire",
    "langsmith",
    "vercel",
    "langfuse",
    "google_adk",
    "mlflow",
    "genkit",
    "livekit",
    "mcp",
    "openlit",
    "sentry",
    "azure",
    "agentops",
    "braintrust",
    "haystack",
    "crewai",
    "beeai",
    "monocle",
    "litellm",
]
Direction: TypeAlias = Literal[
    "in",  # what the model or the operation was given
    "out",  # what it gave back
    "both",  # the whole exchange in one value
    "system",  # instructions that are kept apart from the messages
    "tools",  # definitions of tools
    "schema",  # the schema that the answer must follow
    "params",  # settings of the request, which may hold instructions
    "tool",  # arguments or result of a tool's execution
    "query",  # what was searched for
    "retrieval",  # what was found
    "embedding",  # text to embed, or vectors
    "template",  # a template of a prompt, or what was filled into it
    "evaluation",  # what a judge wrote about an answer
]


class ContentKey(NamedTuple):
    """Whose key it is, and which way its value goes."""

    convention: Convention
    direction: Direction


TABLE: dict[Convention, dict[Direction, tuple[str, ...]]] = {
    "otel": {
        "in": ("gen_ai.input.messages",),
        "out": ("gen_ai.output.messages",),
        "system": ("gen_ai.system_instructions",),
        "tools": ("gen_ai.tool.definitions",),
        "tool": ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
        "query": ("gen_ai.retrieval.query.text", "gen_ai.memory.query.text"),
        "retrieval": ("gen_ai.retrieval.documents", "gen_ai.memory.records"),
        "evaluation": ("gen_ai.evaluation.explanation",),
    },
    "openllmetry": {
        "in": ("traceloop.entity.input", "gen_ai.task.input"),
        "out": ("traceloop.entity.output", "gen_ai.task.output", "llm.completions", "llm.responses"),
        "template": ("traceloop.prompt.template", "traceloop.prompt.template_variables"),
        "tools": ("llm.request.functions",),
        "schema": ("gen_ai.request.structured_output_schema",),
        "retrieval": (
            "db.query.result.document",
            "db.query.result.metadata",
            "db.query.result.entity",
            "db.search.result.document",
            "db.search.result.metadata",
            "db.search.result.entity",
        ),
        "embedding": (
            "db.query.result.vector",
            "db.query.embeddings.vector",
            "db.search.result.vector",
            "db.search.embeddings.vector",
        ),
    },
    "openinference": {
        "in": (
            "llm.input_messages",
            "llm.prompts",
            "input.value",
            "input.mime_type",
            "input.audio.url",
            "input.audio.transcript",
        ),
        "out": (
            "llm.output_messages",
            "llm.choices",
            "llm.function_call",
            "output.value",
            "output.mime_type",
            "output.audio.url",
            "output.audio.transcript",
        ),
        "params": ("llm.invocation_parameters", "embedding.invocation_parameters"),
        "template": ("llm.prompt_template.template", "llm.prompt_template.variables"),
        "tools": ("llm.tools", "tool.json_schema"),
        "tool": ("tool.parameters",),
        "query": ("reranker.query",),
        "retrieval": ("retrieval.documents", "reranker.input_documents", "reranker.output_documents"),
        "embedding": ("embedding.embeddings", "embedding.text", "embedding.vector"),
    },
    "pydantic_ai": {
        "both": ("pydantic_ai.all_messages", "all_messages_events", "events"),
        "out": ("final_result",),
        "params": ("model_request_parameters",),
        "tool": ("tool_arguments", "tool_response"),
    },
    "logfire": {"in": ("request_data", "prompt"), "out": ("response_data",)},
    "langsmith": {"in": ("gen_ai.prompt",), "out": ("gen_ai.completion",)},
    "vercel": {
        "in": ("ai.prompt", "ai.prompt.messages"),
        "out": (
            "ai.response.text",
            "ai.response.object",
            "ai.response.toolCalls",
            "ai.response.reasoning",
            "ai.response.files",
            "ai.result.text",
            "ai.result.object",
            "ai.result.toolCalls",
        ),
        "tools": ("ai.prompt.tools",),
        "schema": ("ai.schema",),
        "tool": ("ai.toolCall.args", "ai.toolCall.result"),
        "embedding": ("ai.value", "ai.values", "ai.embedding", "ai.embeddings"),
        "retrieval": ("ai.documents",),
    },
    "langfuse": {
        "in": ("langfuse.observation.input", "langfuse.trace.input"),
        "out": ("langfuse.observation.output", "langfuse.trace.output"),
    },
    "google_adk": {
        "in": ("gcp.vertex.agent.llm_request", "gcp.vertex.agent.data"),
        "out": ("gcp.vertex.agent.llm_response",),
        "tool": ("gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response"),
    },
    "mlflow": {
        "in": ("mlflow.spanInputs", "mlflow.traceInputs"),
        "out": ("mlflow.spanOutputs", "mlflow.traceOutputs"),
        "both": ("mlflow.chat.messages",),
        "tools": ("mlflow.chat.tools",),
    },
    "genkit": {"in": ("genkit:input",), "out": ("genkit:output",)},
    "livekit": {
        # Newer releases put the segment "pii" into the names of what a person said or was told.
        "in": (
            "lk.input_text",
            "lk.user_input",
            "lk.chat_ctx",
            "lk.user_transcript",
            "lk.pii.input_text",
            "lk.pii.user_input",
            "lk.pii.chat_ctx",
            "lk.pii.user_transcript",
        ),
        "out": (
            "lk.response.text",
            "lk.response.function_calls",
            "lk.pii.response.text",
            "lk.pii.response.function_calls",
        ),
        "system": ("lk.instructions", "lk.pii.instructions"),
        "tool": (
            "lk.function_tool.arguments",
            "lk.function_tool.output",
            "lk.pii.function_tool.arguments",
            "lk.pii.function_tool.output",
        ),
    },
    "mcp": {"tool": ("mcp.request.argument", "mcp.response.value")},
    "openlit": {
        "in": ("gen_ai.content.prompt", "gen_ai.workflow.input"),
        "out": ("gen_ai.content.completion", "gen_ai.content.reasoning", "gen_ai.workflow.output"),
        "tool": ("gen_ai.tool.args",),
    },
    "sentry": {
        "in": ("gen_ai.request.messages",),
        "out": ("gen_ai.response.text", "gen_ai.response.tool_calls", "gen_ai.response.object"),
        "tools": ("gen_ai.request.available_tools",),
        "tool": ("gen_ai.tool.input", "gen_ai.tool.output"),
    },
    "azure": {
        "in": ("gen_ai.agent.invocation_input",),
        "out": ("gen_ai.agent.invocation_output",),
        "both": ("gen_ai.event.content",),
    },
    "agentops": {"in": ("agentops.entity.input",), "out": ("agentops.entity.output",)},
    "braintrust": {
        "in": ("braintrust.input", "braintrust.input_json"),
        "out": ("braintrust.output", "braintrust.output_json"),
    },
    "haystack": {
        "in": ("haystack.component.input", "haystack.pipeline.input_data"),
        "out": ("haystack.component.output", "haystack.pipeline.output_data"),
    },
    "crewai": {
        "in": ("crew_inputs",),
        "out": ("crew_tasks_output",),
        "template": ("crew_agents", "crew_tasks", "formatted_description", "formatted_expected_output"),
    },
    "beeai": {"in": ("history",), "out": ("thought",)},
}

# Below these, a key is content where an index follows: gen_ai.prompt.0.content is, gen_ai.prompt.name is not.
INDEXED: dict[str, ContentKey] = {
    "gen_ai.prompt.": ContentKey("openllmetry", "in"),
    "gen_ai.completion.": ContentKey("openllmetry", "out"),
    "gen_ai.input.messages.": ContentKey("otel", "in"),
    "gen_ai.output.messages.": ContentKey("otel", "out"),
    "gen_ai.system_instructions.": ContentKey("otel", "system"),
    "gen_ai.tool.definitions.": ContentKey("otel", "tools"),
    "gen_ai.retrieval.documents.": ContentKey("otel", "retrieval"),
}

# Below these, every key is content.
BELOW: dict[str, ContentKey] = {
    "gen_ai.prompt.variable.": ContentKey("otel", "template"),
    "llm.request.functions.": ContentKey("openllmetry", "tools"),
    "llm.completions.": ContentKey("openllmetry", "out"),
    "llm.input_messages.": ContentKey("openinference", "in"),
    "llm.output_messages.": ContentKey("openinference", "out"),
    "llm.prompts.": ContentKey("openinference", "in"),
    "llm.choices.": ContentKey("openinference", "out"),
    "llm.function_call.": ContentKey("openinference", "out"),
    "llm.tools.": ContentKey("openinference", "tools"),
    "llm.prompt_template.variables.": ContentKey("openinference", "template"),
    "retrieval.documents.": ContentKey("openinference", "retrieval"),
    "reranker.input_documents.": ContentKey("openinference", "retrieval"),
    "reranker.output_documents.": ContentKey("openinference", "retrieval"),
    "embedding.embeddings.": ContentKey("openinference", "embedding"),
    "mcp.request.argument.": ContentKey("mcp", "tool"),
}

# LiteLLM's raw span has a request and its answer field by field, as llm.<provider>.<field>, whoever the provider is.
OF_PROVIDER: dict[str, Direction] = {
    "messages": "in",
    "input": "in",
    "prompt": "in",
    "contents": "in",
    "extra_body": "in",
    "system": "system",
    "instructions": "system",
    "system_instruction": "system",
    "systemInstruction": "system",
    "tools": "tools",
    "functions": "tools",
    "choices": "out",
    "content": "out",
    "output": "out",
    "candidates": "out",
    "message": "out",
    "stringified_raw_response": "out",
}
# Their fields are counts and prices by direction: llm.token_count.prompt, llm.cost.input, llm.usage.…
NO_PROVIDERS = ("tok", "cos", "usa")
