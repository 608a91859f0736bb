"""The application of the demo: answers questions from a handbook, and declares what it puts into a prompt.

It knows nothing of stores and spools. What it says to the tracing library is what any application would say: which
question, what was retrieved, what was dropped, and who made which part of the prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import otel_prompt_trace as pt
from otel_prompt_trace import tokens
from otel_prompt_trace.demo.conversation import INSTRUCTIONS
from otel_prompt_trace.demo.handbook import CHUNKS, INDEX_VERSION, Chunk, index_version
from otel_prompt_trace.demo.retrieval import Index, clamp

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types.chat import ChatCompletion

SYSTEM = (
    "You answer questions of the staff of Merrowby Parcels from the handbook sections below. "
    "Name the section that you relied on, and say so when they do not hold the answer."
)


@dataclass(frozen=True, slots=True)
class Host:
    """A model host: a client of the ``openai`` SDK, a model, and the public encoding to count its tokens with."""

    client: OpenAI
    model: str
    encoding: str

    def complete(self, messages: list[dict[str, Any]]) -> ChatCompletion:
        """One chat completion."""
        return self.client.chat.completions.create(model=self.model, messages=messages, temperature=0)  # type: ignore[arg-type]

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return tokens.count(text, self.encoding) or 0


def ask(host: Host, question: str, *, top_k: int, budget: int) -> tuple[str, str]:
    """Answer one question; returns the qid and the answer. ``budget`` is for the chunks, in tokens."""
    index = Index(CHUNKS)
    with pt.query(question=question, user="demo") as q:
        with q.stage("search"):
            hits = index.search(question, top_k)
        q.retrieved(
            [(hit.chunk.chunk_id, hit.score) for hit in hits],
            top_k=top_k,
            index_version=INDEX_VERSION,
            embed_model="bm25",
        )
        with q.stage("render"):
            kept, dropped = clamp(hits, budget, host.count)
            q.dropped([hit.chunk.chunk_id for hit in dropped], rule="continue")
            prompt = pt.Prompt()
            prompt.message("system").add("system", SYSTEM, trust="policy")
            prompt.message("user").literal("Handbook sections:\n\n")
            for hit in kept:
                prompt.literal(f"[{hit.chunk.chunk_id}]\n")
                prompt.add("rag", hit.chunk.text, source_id=hit.chunk.chunk_id, trust="retrieved")
                prompt.literal("\n\n")
            prompt.literal("Question: ").add("user", question, trust="user")
        with q.stage("generate"):
            return q.qid, _answer(host, q, prompt, prompt.messages())


class Conversation:
    """A chat over the handbook. Which producers are declared is up to the caller: that is the story.

    The prompt of every turn is the house rules (a prefix that never changes), the instructions, every earlier turn,
    and the question with the chunks found for it.
    """

    def __init__(
        self, host: Host, name: str, rules: str, chunks: tuple[Chunk, ...], *, declare: frozenset[str]
    ) -> None:
        self._host = host
        self._name = name
        self._rules = rules
        self._index = Index(chunks)
        self._index_version = index_version(chunks)
        self._declare = declare
        self._turns: list[tuple[str, str]] = []

    def ask(self, question: str) -> str:
        """One turn; returns its qid."""
        with pt.query(question=question, conversation_id=self._name, user="demo") as q:
            with q.stage("search"):
                hits = self._index.search(question, 3)
            q.retrieved(
                [(hit.chunk.chunk_id, hit.score) for hit in hits],
                top_k=3,
                index_version=self._index_version,
                embed_model="bm25",
            )
            messages = [{"role": "system", "content": self._system()}, *self._history()]
            sections = "".join(
                pt.declare("template", f"[{hit.chunk.chunk_id}]\n", trust="owner")
                + pt.declare("rag", hit.chunk.text, source_id=hit.chunk.chunk_id, trust="retrieved")
                + pt.declare("template", f"\n[end of {hit.chunk.chunk_id}]\n", trust="owner")
                for hit in hits
            )
            asked = pt.declare("template", "\nQuestion: ", trust="owner") + pt.declare("user", question, trust="user")
            messages.append({"role": "user", "content": sections + asked})
            with q.stage("generate"):
                answer = _answer(self._host, q, messages, messages)
        self._turns.append((question, answer))
        return q.qid

    def _system(self) -> str:
        rules = self._rules + "\n\n"
        if "house rules" in self._declare:
            rules = pt.declare("house rules", rules, trust="policy")
        return rules + pt.declare("system", INSTRUCTIONS, trust="policy")

    def _history(self) -> list[dict[str, Any]]:
        messages = []
        for number, (question, answer) in enumerate(self._turns, 1):
            for role, text in (("user", question), ("assistant", answer)):
                if "history" in self._declare:
                    text = pt.declare("history", text, source_id=f"turn {number} {role}", trust="owner")  # noqa: PLW2901
                messages.append({"role": role, "content": text})
        return messages


def _answer(host: Host, q: pt.Query, prompt: Any, messages: list[dict[str, Any]]) -> str:
    with q.call(model=host.model, prompt=prompt, temperature=0, encoding=host.encoding) as call:
        completion = host.complete(messages)
        choice = completion.choices[0]
        output = choice.message.content or ""
        call.respond(output, finish_reason=choice.finish_reason, usage=completion.usage, model=completion.model)
    return output
