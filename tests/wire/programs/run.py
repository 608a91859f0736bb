"""Runs the scenarios of one client program and writes down what the application saw: ``python run.py CONFIG.json``.

A scenario is a public function of the program, and is given a :class:`Place`. Everything that this process knows of
the project is one call of ``install()``, and that only where it is asked. Each scenario runs under an entry span of
its own, whose ids are written down beside what was seen.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import importlib
import inspect
import json
import re
import socket
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")


class Place:
    """Where a scenario finds its host, and where it says what it saw."""

    def __init__(self, port: int, gate: int) -> None:
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self.seen: list[Any] = []
        self._gate = gate
        self._asking: socket.socket | None = None

    def see(self, what: str, *values: Any) -> None:
        """The application saw something: an answer, a chunk, an error, a call of a hook."""
        self.seen.append([what, *(self._plain(value) for value in values)])

    def go(self, chunks: int = 1) -> None:
        """Let so many chunks of a gated answer go; one more lets go what follows the last chunk."""
        if self._asking is None:
            self._asking = socket.create_connection(("127.0.0.1", self._gate))
        self._asking.sendall(b"." * chunks)

    def attempt(self, error: BaseException) -> None:
        """An exception that reached the application, with what it came from, as the application would print it."""
        chain: list[BaseException] = []
        below: BaseException | None = error
        while below is not None and below not in chain:
            chain.append(below)
            below = below.__cause__ or (None if below.__suppress_context__ else below.__context__)
        self.see("raised", [[f"{type(e).__module__}.{type(e).__qualname__}", str(e)] for e in chain])

    def close(self) -> None:
        """No more chunks are asked for."""
        if self._asking is not None:
            self._asking.close()

    def _plain(self, value: Any) -> Any:
        if isinstance(value, bytes | bytearray | memoryview):
            data = bytes(value)
            try:
                return {"bytes": len(data), "text": data.decode()}
            except UnicodeDecodeError:
                return {"bytes": len(data), "base64": base64.b64encode(data).decode()}
        if isinstance(value, dict):
            return {str(key): self._plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(item) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        if hasattr(value, "model_dump"):
            return self._plain(value.model_dump(mode="json", warnings=False))
        text = str(value).replace(f"127.0.0.1:{self.port}", "HOST").replace(f"port={self.port}", "port=PORT")
        text = text.replace(str(("127.0.0.1", self.port)), "HOST")
        return _ADDRESS.sub("ADDRESS", text)


def main(config: dict[str, Any]) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    trace.set_tracer_provider(TracerProvider())
    if config["ours"] == "first":
        install()
    program = importlib.import_module(config["program"])
    if config["ours"] == "last":
        install()
    scenarios = {}
    for scenario in config["scenarios"]:
        place = Place(scenario["port"], scenario["gate"])
        with trace.get_tracer("application").start_as_current_span("entry", kind=trace.SpanKind.SERVER) as span:
            context = span.get_span_context()
            run(getattr(program, scenario["name"]), place)
        place.close()
        entry = f"{context.trace_id:032x}-{context.span_id:016x}"
        scenarios[scenario["name"]] = {"seen": place.seen, "entry": entry}
    if config["ours"]:
        import otel_prompt_trace

        print(otel_prompt_trace.flush(30))
        otel_prompt_trace.uninstall()
    Path(config["out"]).write_text(json.dumps(scenarios))


def install() -> None:
    import otel_prompt_trace

    otel_prompt_trace.install()


def run(scenario: Any, place: Place) -> None:
    """Run one scenario; what nobody catches, and what is only warned of, is seen as well."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda told: place.see("unraisable", repr(told.exc_value), told.err_msg)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                if inspect.iscoroutinefunction(scenario):
                    returned = asyncio.run(looped(scenario, place))
                else:
                    returned = scenario(place)
            except Exception as error:  # noqa: BLE001 - it is what the application saw
                place.attempt(error)
                traceback.clear_frames(error.__traceback__)
            else:
                place.see("returned", returned)
                del returned
            gc.collect()
        for warning in warned:
            if not str(warning.message).startswith("unclosed "):  # it comes when the collector does
                place.see("warned", warning.category.__name__, str(warning.message))
    finally:
        sys.unraisablehook = before


async def looped(scenario: Any, place: Place) -> Any:
    told = asyncio.get_running_loop()
    told.set_exception_handler(lambda _, context: place.see("loop told", context["message"], context.get("exception")))
    return await scenario(place)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
