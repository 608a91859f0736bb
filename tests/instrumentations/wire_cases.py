"""The application with further ways to make its calls: ``python wire_cases.py CONFIG.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.instrumentations import application
from tests.instrumentations.application import make_call


def patient(client: Any, calls: list[dict[str, str]]) -> None:
    """The SDK tries again, twice at most."""
    for call in calls:
        make_call(client.with_options(max_retries=2), call)


def within(name: str, attributes: dict[str, str]) -> Any:
    """All calls within one span of the application's own."""

    def make(client: Any, calls: list[dict[str, str]]) -> None:
        from opentelemetry import trace

        with trace.get_tracer("application").start_as_current_span(name, attributes=attributes):
            for call in calls:
                make_call(client, call)

    return make


def legacy(client: Any, calls: list[dict[str, str]]) -> None:
    """Completions of the kind that takes one prompt."""
    for call in calls:
        client.completions.create(**json.loads(call["body"]))


application.MODES |= {
    "patient": patient,
    "within a chat": within("chat gpt-4o", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}),
    "within an agent": within("invoke_agent", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}),
    "legacy": legacy,
}

if __name__ == "__main__":
    application.main(json.loads(Path(sys.argv[1]).read_text()))
    sys.stdout.flush()
