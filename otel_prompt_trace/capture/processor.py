"""The span processor: the tracer provider's ``force_flush`` and ``shutdown`` reach the payloads as well."""

from __future__ import annotations

from opentelemetry.sdk.trace import SpanProcessor

from otel_prompt_trace.runtime import Runtime


class PromptTraceProcessor(SpanProcessor):
    """Flushes payloads with the spans. It puts nothing on spans and takes nothing off them."""

    def __init__(self, runtime: Runtime, provider: object) -> None:
        self.runtime = runtime
        self.provider = provider
        self.active = True

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Whether every payload is in the store within the time given, none waiting and none lost."""
        return self.runtime.flush(timeout_millis / 1000).ok if self.active else True

    def shutdown(self) -> None:
        """Deliver once; what can't be delivered stays in the spool. Recording goes on until the process ends."""
        if self.active:
            self.runtime.settle()
