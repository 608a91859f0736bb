"""The same call through what others offer for it: the official upload hook, and the SDKs of two vendors.

They are no requirement of this project. Their environment is the section ``[benchmarks]`` of
``tests/instrumentations/requirements.txt``; a peer that can't be imported is passed over, and that is said.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from benchmarks.subjects import ANSWER, TEN, USAGE, Nowhere, Open, Opener, Texts, messages, provider

HOOK, LANGFUSE, LANGSMITH = "upload hook", "Langfuse", "LangSmith"
_number = itertools.count()
_BATCHES: Final = {  # as its server says
    "use_multipart_endpoint": True, "size_limit": 100, "size_limit_bytes": 20_971_520,
    "scale_up_qsize_trigger": 1000, "scale_up_nthreads_limit": 16, "scale_down_nempty_trigger": 4,
}  # fmt: skip


def peers(url: str) -> tuple[dict[str, Opener], dict[str, str]]:
    """Those that are here, by name, and the reason of each that is not; ``url`` is a sink's."""
    here: dict[str, Opener] = {}
    missing: dict[str, str] = {}
    for name, (module, opener) in _PEERS.items():
        try:
            import_module(module)
        except ImportError as error:
            missing[name] = str(error)
        else:
            here[name] = opener(url)
    return here, missing


def _hook(_url: str) -> Opener:
    @contextmanager
    def opened(given: Texts) -> Iterator[Open]:
        hooks: Any = import_module("opentelemetry.util.genai._upload.completion_hook")
        types: Any = import_module("opentelemetry.util.genai.types")
        with tempfile.TemporaryDirectory() as folder, provider(Nowhere()) as made:
            hook = hooks.UploadCompletionHook(base_path=f"file://{folder}")
            tracer = made.get_tracer("benchmark")

            def call() -> None:
                text = given.joined()
                with tracer.start_as_current_span("chat a-model", attributes=TEN) as span:
                    hook.on_completion(
                        inputs=[types.InputMessage("user", [types.TextPart(text)])],
                        outputs=[types.OutputMessage("assistant", [types.TextPart(ANSWER)], "stop")],
                        system_instruction=[],
                        span=span,
                    )

            try:
                yield Open(call, made.force_flush)
            finally:
                hook.shutdown()

    return opened


def _langfuse(url: str) -> Opener:
    @contextmanager
    def opened(given: Texts) -> Iterator[Open]:
        langfuse: Any = import_module("langfuse")
        with provider(None) as made:
            key = f"pk-{next(_number)}"  # it keeps one client a key
            client = langfuse.Langfuse(public_key=key, secret_key=key, base_url=url, tracer_provider=made)

            def call() -> None:
                with client.start_as_current_observation(
                    name="chat", as_type="generation", model="a-model", input=messages(given.joined())
                ) as generation:
                    generation.update(output=ANSWER, usage_details={"input": 2500, "output": 18})

            yield Open(call, client.flush)

    return opened


def _langsmith(url: str) -> Opener:
    @contextmanager
    def opened(given: Texts) -> Iterator[Open]:
        langsmith: Any = import_module("langsmith")
        run_tree: Any = import_module("langsmith.run_trees").RunTree
        client = langsmith.Client(api_url=url, api_key="k", info={"batch_ingest_config": _BATCHES})

        def call() -> None:
            inputs = {"messages": messages(given.joined())}
            run = run_tree(name="chat", run_type="llm", inputs=inputs, ls_client=client)
            run.post()
            run.end(outputs={"output": ANSWER, "usage": USAGE})
            run.patch()

        try:
            yield Open(call, client.flush)
        finally:
            client.cleanup()

    return opened


_PEERS: Final = {
    HOOK: ("opentelemetry.util.genai._upload.completion_hook", _hook),
    LANGFUSE: ("langfuse", _langfuse),
    LANGSMITH: ("langsmith", _langsmith),
}
