"""What is measured: one model call, recorded in each of the ways that an application may choose.

A subject is opened afresh for each round. The text of the prompt is put together from its pieces within the call, as an
application does it: joined, or placed in a :class:`~otel_prompt_trace.Prompt`.
"""

from __future__ import annotations

import itertools
import json
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import otel_prompt_trace as pt

PIECES: Final = 8
_PROMPTS = 32
ANSWER: Final = "The policy covers it, up to the amount that is named in the second clause."
USAGE: Final = {"input_tokens": 2500, "output_tokens": 18}
TEN: Final[dict[str, Any]] = {
    "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "a-model",
    "gen_ai.request.temperature": 0.2, "gen_ai.response.model": "a-model-1", "gen_ai.response.id": "r-17",
    "gen_ai.usage.input_tokens": 2500, "gen_ai.usage.output_tokens": 18, "server.address": "models.example",
    "server.port": 443,
}  # fmt: skip
KEY: Final = "gen_ai.input.messages"


@dataclass(frozen=True, slots=True)
class Texts:
    """Prompts of about ``size`` characters, each of :data:`PIECES` pieces, one after the other and round again.

    Each call has another one: a compressor would find the same text again within its window, and have no work.
    """

    size: int
    prompts: tuple[tuple[tuple[str, str], ...], ...]
    _turns: Iterator[tuple[tuple[str, str], ...]]

    def pieces(self) -> tuple[tuple[str, str], ...]:
        """The next prompt, as pairs of a chunk's id and its text."""
        return next(self._turns)

    def joined(self) -> str:
        """The next prompt as one string."""
        return "".join([text for _, text in next(self._turns)])


def texts(size: int) -> Texts:
    """Prompts of one size, all of them different."""
    each = size // PIECES
    prompts = tuple(
        tuple((f"chunk-{number}", _prose(turn * PIECES + number, each)) for number in range(PIECES))
        for turn in range(_PROMPTS)
    )
    return Texts(size, prompts, itertools.cycle(prompts))


def _prose(seed: int, length: int) -> str:
    """Words as often as words are: a few everywhere, most of them rarely. It compresses to about half, as text does."""
    draw = random.Random(seed)  # noqa: S311
    found, left = [], length
    while left > 0:
        word = _WORDS[int(len(_WORDS) ** draw.random()) - 1]
        found.append(word)
        left -= len(word) + 1
    return " ".join(found) + "\n"


def _words(number: int) -> list[str]:
    draw = random.Random(number)  # noqa: S311
    letters, often = "etaoinshrdlucmfwypvbgkqjxz", range(26, 0, -1)
    return ["".join(draw.choices(letters, often, k=draw.randint(2, 9))) for _ in range(number)]


_WORDS: Final = _words(20_000)


@dataclass(frozen=True, slots=True)
class Open:
    """A subject at work: ``call`` is one call, ``settle`` ends when all of it is exported or stored.

    ``around`` encloses a few calls: for ours, the query that they belong to.
    """

    call: Callable[[], object]
    settle: Callable[[], object] = lambda: None
    around: Callable[[], AbstractContextManager[object]] = field(default=nullcontext)


Opener = Callable[[Texts], AbstractContextManager[Open]]


class Nowhere(SpanExporter):
    """Takes spans and does nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - the interface's
        """Do nothing."""
        return SpanExportResult.SUCCESS


@contextmanager
def provider(exporter: SpanExporter | None) -> Iterator[TracerProvider]:
    """A tracer provider, with a batch processor where there is an exporter."""
    made = TracerProvider(shutdown_on_exit=False)
    if exporter is not None:
        made.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield made
    finally:
        made.shutdown()


def span(exporter: Callable[[], SpanExporter] | None, *, prompt: bool) -> Opener:
    """A span with ten attributes, and the prompt as one more or not at all."""

    @contextmanager
    def opened(given: Texts) -> Iterator[Open]:
        with provider(None if exporter is None else exporter()) as made:
            tracer = made.get_tracer("benchmark")

            def call() -> None:
                text = given.joined()
                with tracer.start_as_current_span("chat a-model", attributes=TEN) as current:
                    if prompt:
                        current.set_attribute(KEY, json.dumps(messages(text)))

            yield Open(call, made.force_flush)

    return opened


def otlp(url: str) -> Callable[[], SpanExporter]:
    """Makes an exporter that sends compressed spans to a sink."""
    return lambda: OTLPSpanExporter(f"{url}/v1/traces", compression=Compression.Gzip)


def messages(text: str) -> list[dict[str, Any]]:
    """A prompt as the semantic conventions write it."""
    return [{"role": "user", "parts": [{"type": "text", "content": text}]}]


def ours(durability: str, *, store: str | None = None, delivery: str = "thread") -> Opener:
    """A call of ours, its prompt placed piece by piece, its span under a batch processor too.

    Args:
        durability, delivery: the settings of these names.
        store: where to; by default a folder.
    """

    @contextmanager
    def opened(given: Texts) -> Iterator[Open]:
        with tempfile.TemporaryDirectory() as folder, provider(Nowhere()) as made:
            pt.install(
                store=store or f"{folder}/store", spool=f"{folder}/spool", durability=durability, delivery=delivery,
                tracer_provider=made, wire="off",
            )  # fmt: skip
            query: Any = None

            @contextmanager
            def around() -> Iterator[object]:
                nonlocal query
                with pt.query("What does it cover?") as query:
                    yield query

            def call() -> None:
                prompt = pt.Prompt()
                for name, text in given.pieces():
                    prompt.add("rag", text, source_id=name, trust="retrieved")
                with query.call(model="a-model", prompt=prompt) as made_call:
                    made_call.respond(ANSWER, finish_reason="stop", usage=USAGE)

            try:
                yield Open(call, deliver, around)
            finally:
                pt.uninstall()

    return opened


def deliver() -> None:
    """Wait until everything of ours is stored.

    Raises:
        RuntimeError: it was not.
    """
    if not pt.flush(60).ok:
        raise RuntimeError("a payload was not delivered: what was measured is not what is meant")


MODES: Final = ("memory", "written", "fsync")
BARE, BATCH, ATTRIBUTE, OTLP = "bare span", "batch processor", "prompt as attribute", "prompt as attribute, OTLP gzip"


def subjects(url: str) -> dict[str, Opener]:
    """Every subject that needs nothing but this project, by name; ``url`` is a sink's."""
    return {
        BARE: span(None, prompt=False),
        BATCH: span(Nowhere, prompt=False),
        ATTRIBUTE: span(Nowhere, prompt=True),
        OTLP: span(otlp(url), prompt=True),
        **{f"ours, {mode}": ours(mode) for mode in MODES},
    }
