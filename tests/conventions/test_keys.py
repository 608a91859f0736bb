"""Which attribute keys carry content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.core.conventions import content_key, keys, known_keys
from otel_prompt_trace.core.conventions.table import BELOW, INDEXED, TABLE

CONTENT = {
    "gen_ai.input.messages": ("otel", "in"),
    "gen_ai.output.messages": ("otel", "out"),
    "gen_ai.system_instructions": ("otel", "system"),
    "gen_ai.tool.definitions": ("otel", "tools"),
    "gen_ai.tool.call.arguments": ("otel", "tool"),
    "gen_ai.tool.call.result": ("otel", "tool"),
    "gen_ai.retrieval.query.text": ("otel", "query"),
    "gen_ai.retrieval.documents": ("otel", "retrieval"),
    "gen_ai.memory.records": ("otel", "retrieval"),
    "gen_ai.prompt.variable.city": ("otel", "template"),
    "gen_ai.input.messages.0.role": ("otel", "in"),
    "gen_ai.prompt.0.content": ("openllmetry", "in"),
    "gen_ai.prompt.12.role": ("openllmetry", "in"),
    "gen_ai.prompt.1.tool_calls.0.id": ("openllmetry", "in"),
    "gen_ai.completion.0.finish_reason": ("openllmetry", "out"),
    "llm.request.functions.0.parameters": ("openllmetry", "tools"),
    "gen_ai.request.structured_output_schema": ("openllmetry", "schema"),
    "traceloop.entity.input": ("openllmetry", "in"),
    "traceloop.entity.output": ("openllmetry", "out"),
    "traceloop.prompt.template": ("openllmetry", "template"),
    "traceloop.prompt.template_variables": ("openllmetry", "template"),
    "gen_ai.task.input": ("openllmetry", "in"),
    "gen_ai.task.output": ("openllmetry", "out"),
    "db.query.result.document": ("openllmetry", "retrieval"),
    "db.query.result.metadata": ("openllmetry", "retrieval"),
    "db.search.result.entity": ("openllmetry", "retrieval"),
    "mcp.request.argument": ("mcp", "tool"),
    "mcp.response.value": ("mcp", "tool"),
    "llm.input_messages.0.message.content": ("openinference", "in"),
    "llm.input_messages.0.message.role": ("openinference", "in"),
    "llm.input_messages.3.message.contents.1.message_content.image.image.url": ("openinference", "in"),
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": ("openinference", "out"),
    "llm.prompts": ("openinference", "in"),
    "llm.prompts.0.prompt.text": ("openinference", "in"),
    "llm.choices.0.completion.text": ("openinference", "out"),
    "input.value": ("openinference", "in"),
    "input.mime_type": ("openinference", "in"),
    "output.value": ("openinference", "out"),
    "output.mime_type": ("openinference", "out"),
    "llm.prompt_template.template": ("openinference", "template"),
    "llm.prompt_template.variables": ("openinference", "template"),
    "llm.tools.0.tool.json_schema": ("openinference", "tools"),
    "llm.invocation_parameters": ("openinference", "params"),
    "llm.function_call": ("openinference", "out"),
    "retrieval.documents.0.document.content": ("openinference", "retrieval"),
    "retrieval.documents.0.document.score": ("openinference", "retrieval"),
    "reranker.query": ("openinference", "query"),
    "reranker.input_documents.4.document.id": ("openinference", "retrieval"),
    "reranker.output_documents.0.document.content": ("openinference", "retrieval"),
    "embedding.embeddings.0.embedding.text": ("openinference", "embedding"),
    "embedding.embeddings.0.embedding.vector": ("openinference", "embedding"),
    "tool.parameters": ("openinference", "tool"),
    "pydantic_ai.all_messages": ("pydantic_ai", "both"),
    "all_messages_events": ("pydantic_ai", "both"),
    "events": ("pydantic_ai", "both"),
    "final_result": ("pydantic_ai", "out"),
    "model_request_parameters": ("pydantic_ai", "params"),
    "tool_arguments": ("pydantic_ai", "tool"),
    "tool_response": ("pydantic_ai", "tool"),
    "request_data": ("logfire", "in"),
    "response_data": ("logfire", "out"),
    "gen_ai.prompt": ("langsmith", "in"),
    "gen_ai.completion": ("langsmith", "out"),
    "ai.prompt": ("vercel", "in"),
    "ai.prompt.messages": ("vercel", "in"),
    "ai.prompt.tools": ("vercel", "tools"),
    "ai.response.text": ("vercel", "out"),
    "ai.response.object": ("vercel", "out"),
    "ai.response.toolCalls": ("vercel", "out"),
    "ai.response.reasoning": ("vercel", "out"),
    "ai.response.files": ("vercel", "out"),
    "ai.toolCall.args": ("vercel", "tool"),
    "ai.toolCall.result": ("vercel", "tool"),
    "langfuse.observation.input": ("langfuse", "in"),
    "langfuse.trace.output": ("langfuse", "out"),
    "gcp.vertex.agent.llm_request": ("google_adk", "in"),
    "gcp.vertex.agent.llm_response": ("google_adk", "out"),
    "gcp.vertex.agent.tool_call_args": ("google_adk", "tool"),
    "gcp.vertex.agent.tool_response": ("google_adk", "tool"),
    "mlflow.spanInputs": ("mlflow", "in"),
    "mlflow.spanOutputs": ("mlflow", "out"),
    "genkit:input": ("genkit", "in"),
    "genkit:output": ("genkit", "out"),
    "lk.input_text": ("livekit", "in"),
    "lk.user_input": ("livekit", "in"),
    "lk.chat_ctx": ("livekit", "in"),
    "lk.response.text": ("livekit", "out"),
    "lk.pii.chat_ctx": ("livekit", "in"),
    "gen_ai.workflow.input": ("openlit", "in"),
    "gen_ai.workflow.output": ("openlit", "out"),
    "gen_ai.tool.args": ("openlit", "tool"),
    "llm.openai.messages": ("litellm", "in"),
    "llm.azure_ai.input": ("litellm", "in"),
    "llm.text-completion-openai.prompt": ("litellm", "in"),
    "llm.cohere.tools": ("litellm", "tools"),
    "llm.together_ai.choices": ("litellm", "out"),
    "llm.vertex_ai.systemInstruction": ("litellm", "system"),
    "llm.anthropic.content": ("litellm", "out"),
    "llm.t.output": ("litellm", "out"),
    "llm.Unknown.stringified_raw_response": ("litellm", "out"),
}
ORDINARY = [
    "",
    "http.method",
    "net.peer.port",
    "db.statement",
    "db.query.text",
    "input",
    "output",
    "query",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "gen_ai.response.finish_reasons",
    "gen_ai.response.id",
    "gen_ai.operation.name",
    "gen_ai.conversation.id",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.input.messages_ref",
    "gen_ai.output.messages_ref",
    "gen_ai.system_instructions_ref",
    "gen_ai.tool.definitions_ref",
    "gen_ai.prompt.name",
    "gen_ai.prompt.",
    "gen_ai.data_source.id",
    "gen_ai.agent.name",
    "gen_ai.tool.name",
    "gen_ai.tool.call.id",
    "llm.model_name",
    "llm.token_count.prompt",
    "llm.token_count.prompt_details.cache_read",
    "llm.cost.prompt",
    "llm.cost.input",
    "llm.usage.output",
    "llm.openai.model",
    "llm.openai.usage",
    "llm.openai.max_tokens",
    "llm..messages",
    "llm.messages",
    "llm.openai.metadata.messages",
    "llm.prompt_template.version",
    "llm.finish_reason",
    "llm.headers",
    "llm.request.type",
    "ai.usage.promptTokens",
    "ai.response.finishReason",
    "db.query.result.id",
    "db.query.result.score",
    "openinference.span.kind",
    "session.id",
    "user.id",
    "metadata",
    "traceloop.association.properties.user",
    "langfuse.observation.metadata.step",
    "prompt_trace.qid",
    "prompt_trace.ref",
    "prompt_trace.sha256",
    "prompt_trace.chars",
]


@pytest.mark.parametrize(("key", "meant"), CONTENT.items())
def test_content_keys(key: str, meant: tuple[str, str]) -> None:
    """Every key by which a convention hands content over is known, with whose it is and which way it goes."""
    assert content_key(key) == meant


@pytest.mark.parametrize("key", ORDINARY)
def test_ordinary_keys(key: str) -> None:
    """What spans are for stays on them: also at the second look, when the answer is remembered."""
    assert content_key(key) is None
    assert content_key(key) is None


def test_no_key_is_listed_twice() -> None:
    """One key has one meaning: the table gives it once."""
    listed = [key for directions in TABLE.values() for names in directions.values() for key in names]
    assert len(listed) == len(set(listed))
    assert len(known_keys()) == len(listed) + len(INDEXED) + len(BELOW)


@pytest.fixture
def fresh_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory of this test's own."""
    monkeypatch.setattr(keys, "_answers", dict(keys._EXACT))


@pytest.mark.usefixtures("fresh_memory")
def test_made_up_keys_fill_no_memory() -> None:
    """However many keys an application makes up, a bounded number is remembered, none of them long."""
    for number in range(20_000):
        assert content_key(f"made.up.{number}") is None
    assert content_key("x" * 100_000) is None
    assert len(keys._answers) <= keys._REMEMBERED + len(keys._EXACT)
    assert max(map(len, keys._answers)) <= keys._LONGEST
    assert content_key("input.value") == ("openinference", "in"), "and the table is still whole"
    assert content_key("gen_ai.prompt.20001.content") == ("openllmetry", "in")


@pytest.mark.usefixtures("fresh_memory")
def test_a_memory_that_is_full_changes_no_answer() -> None:
    """A key asked for the first time after the memory is full is answered as before."""
    for number in range(keys._REMEMBERED + 1):
        content_key(f"filling.{number}")
    assert content_key("gen_ai.prompt.version") is None
    assert content_key("never.asked.before") is None
    assert content_key("llm.tools.7.tool.json_schema") == ("openinference", "tools")


@pytest.mark.parametrize("key", [None, 7, b"input.value", ["input.value"], {}, object()])
def test_a_key_that_is_no_string(key: object) -> None:
    """An application's slip does not raise on its thread."""
    assert content_key(key) is None  # type: ignore[arg-type]


@given(st.text(), st.sampled_from(sorted(known_keys())))
def test_any_text(tail: str, known: str) -> None:
    """No text raises, alone or behind a known key."""
    for key in (tail, known + tail, tail + known):
        answer = content_key(key)
        assert answer is None or len(answer) == 2
