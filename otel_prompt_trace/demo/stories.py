"""The two stories of the demo, told from the store: every number is read back from what was recorded.

What each step of the second story declares is what the suggestion after the step before says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from otel_prompt_trace.core.grade import CallGrade, Grade, grade, sketches
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.residuals.shapes import shapes
from otel_prompt_trace.core.residuals.suggest import Suggestion, suggestions
from otel_prompt_trace.core.usage import normalize
from otel_prompt_trace.demo.assistant import Conversation, Host, ask
from otel_prompt_trace.demo.conversation import TURNS, indexed, preamble

QUESTION = TURNS[0]
TOP_K = 5
POLICY = "retention-"

STEPS: tuple[tuple[str, frozenset[str]], ...] = (
    ("house rules and history undeclared", frozenset()),
    ("history undeclared", frozenset({"house rules"})),
    ("everything declared", frozenset({"house rules", "history"})),
)

Read = Callable[[str], Record]
Count = Callable[[str, str], "int | None"]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """One retrieved chunk, and what became of it."""

    rank: int
    chunk_id: str
    score: float
    tokens: int | None
    fate: str
    policy: bool


@dataclass(frozen=True, slots=True)
class FirstStory:
    """One query whose clamp dropped a chunk."""

    record: Record
    grade: Grade
    answer: str
    chunks: tuple[Retrieval, ...]

    @property
    def call(self) -> CallGrade:
        """Its one call."""
        return self.grade.calls[0]


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the conversation, as the census sees it."""

    number: int
    qid: str
    total: int
    unaccounted: int
    cached_tokens: int
    verdict: str


@dataclass(frozen=True, slots=True)
class Step:
    """The conversation with certain producers declared, and what the gaps that are left suggest."""

    title: str
    turns: tuple[Turn, ...]
    suggestions: tuple[Suggestion, ...]


def first(host: Host, read: Read, count: Count, *, budget: int) -> FirstStory:
    """Ask the question and read the record back."""
    qid, answer = ask(host, QUESTION, top_k=TOP_K, budget=budget)
    record = read(qid)
    return FirstStory(record, grade(record, count), answer, tuple(_chunks(record, grade(record, count), host)))


def second(host: Host, read: Read, count: Count, step: Callable[[int, int | None], None]) -> Iterator[Step]:
    """Hold the conversation three times, with more declared each time.

    Each step is graded together with those before it, as ``grade --last`` does: what was a gap is taken in by producers
    of its own, and no remainder.
    """
    total, done = len(STEPS) * len(TURNS), 0
    records: list[Record] = []
    for number, (title, declared) in enumerate(STEPS, 1):
        talk = Conversation(host, f"demo-{number}", preamble(), indexed(), declare=declared)
        qids = []
        for question in TURNS:
            qids.append(talk.ask(question))
            done += 1
            step(done, total)
        records += map(read, qids)
        graded = grade(records, count)[-len(qids) :]
        seen = [call for record, g in zip(records[-len(qids) :], graded, strict=True) for call in sketches(record, g)]
        found = tuple(suggestions(shapes(seen).found))
        yield Step(title, tuple(_turn(n, g) for n, g in enumerate(graded, 1)), found)


def _chunks(record: Record, graded: Grade, host: Host) -> Iterator[Retrieval]:
    census = graded.calls[0].census
    placed = {p.source_id: p for p in census.located} if census else {}
    for hit in record.retrieved:
        found = placed.get(hit["chunk_id"])
        if found is not None:
            fate = f"in the prompt at [{found.start}:{found.end}]"
        elif hit["chunk_id"] in record.dropped:
            fate = "dropped by the clamp"
        else:
            fate = "lost"
        tokens = host.count(found.piece.text) if found is not None and found.piece.text else None
        policy = str(hit["chunk_id"]).startswith(POLICY)
        yield Retrieval(hit["rank"], hit["chunk_id"], hit["score"], tokens, fate, policy)


def _turn(number: int, graded: Grade) -> Turn:
    call = graded.calls[0]
    census, usage = call.census, normalize((call.call.response or {}).get("usage"))
    return Turn(
        number,
        graded.qid,
        census.total if census else 0,
        census.unaccounted if census else 0,
        usage.get("cached_tokens") or 0,
        call.verdict,
    )
