"""Runs the application in an environment, and reads back what it exported and what was recorded of it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otel_prompt_trace.core.record import Record
from otel_prompt_trace.records import Records
from otel_prompt_trace.store import open_store
from tests.instrumentations.by_hand import Prepared
from tests.instrumentations.replay_server import ReplayServer, Reply

_APPLICATION = Path(__file__).with_name("application.py")
CAPTURE = {
    "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_AND_EVENT",
    "TRACELOOP_TRACE_CONTENT": "true",
    "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE": "content",
    "PROMPT_TRACE_WIRE": "off",  # these tests are of what spans, hooks and log records tell
}
AT_ONE_TIME = ("gathered", "instrumented threads", "copied context")
UNLIMITED = {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "100000", "OTEL_ATTRIBUTE_COUNT_LIMIT": "100000"}
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE")


@dataclass(frozen=True)
class Run:
    """What one run of the application left behind."""

    spans: list[dict[str, Any]]
    logs: list[dict[str, Any]]
    requests: list[bytes]
    printed: str
    records: dict[str, Record] = field(default_factory=dict)
    places: tuple[str, ...] = ()  # the options that name its store and spool

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events of all records, in the order in which they were written."""
        found = [event for record in self.records.values() for event in record.events]
        return sorted(found, key=lambda event: (event["writer"], event["seq"]))


def environ(folder: Path, **more: str) -> dict[str, str]:
    """The environment variables of a child: nothing of the tests' own, no telemetry from outside, no proxies."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "XDG_STATE_HOME": str(folder / "state"), "NO_PROXY": "127.0.0.1", **more}


def run(
    python: Path,
    folder: Path,
    provider: str,
    instrumentations: Sequence[str],
    entries: list[list[Prepared]],
    *,
    ours: bool = True,
    ours_first: bool = False,
    remote: bool = False,
    mode: str = "one by one",
    application: Path = _APPLICATION,
    replies: Iterable[Reply] | None = None,
    **variables: str,
) -> Run:
    """Run the application once, in a folder that is new.

    Args:
        remote: every entry has a remote parent, of which each second one was sampled.
        mode: how the application makes the calls of an entry.
        application: the script that is run: it takes the same configuration, and writes down the same.
        replies: of the model host, where they are not those of the calls.
        variables: of the environment; an empty one is not set at all.
    """
    folder.mkdir(parents=True)
    store, spool, out = folder / "store", folder / "spool", folder / "out.json"
    together = [len(calls) for calls in entries] if mode in AT_ONE_TIME else []
    if replies is None:
        replies = (call.reply for calls in entries for call in calls)
    with ReplayServer(replies, together) as server:
        config = {
            "provider": provider,
            "base_url": server.base_url,
            "instrumentations": list(instrumentations),
            "ours": ours,
            "ours_first": ours_first,
            "remote": remote,
            "mode": mode,
            "entries": [[{"path": call.path, "body": call.body} for call in calls] for calls in entries],
            "out": str(out),
        }
        (folder / "config.json").write_text(json.dumps(config))
        env = environ(folder, PROMPT_TRACE_STORE=str(store), PROMPT_TRACE_SPOOL=str(spool), **{**CAPTURE, **variables})
        if "sdk" not in instrumentations:
            env["ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE"] = "none"
        env = {name: value for name, value in env.items() if value}
        done = subprocess.run(
            [str(python), str(application), str(folder / "config.json")],
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        exported = json.loads(out.read_text())
        printed = done.stdout + done.stderr
        found = records(store, spool) if ours else {}
        places = ("--store", str(store), "--spool", str(spool))
        return Run(exported["spans"], exported["logs"], server.requests, printed, found, places)


def records(store: Path, spool: Path) -> dict[str, Record]:
    """Every record of a folder store, by qid."""
    kept = Records(open_store(str(store)), spool)
    return {qid: kept.get(qid) for qid in kept.newest(10_000)}
