"""A Celery application over a broker of plain folders. Each task is one query, whose qid goes to a file."""

from __future__ import annotations

import os
from pathlib import Path

from celery import Celery

import otel_prompt_trace as pt
from otel_prompt_trace.pipeline import shipper

if os.environ.get("ADOPT_SOON"):
    shipper._FIRST_ADOPT_SECONDS, shipper.ADOPT_SECONDS = 0.1, 0.1

_FOLDER = Path(os.environ["BROKER_FOLDER"])
pt.install(wire="off")
app = Celery("tasks", broker="filesystem://")
app.conf.update(
    broker_transport_options={
        "data_folder_in": str(_FOLDER), "data_folder_out": str(_FOLDER), "control_folder": str(_FOLDER / "control"),
    },
    worker_prefetch_multiplier=1,
)  # fmt: skip


@app.task(name="ask")
def ask(number: int) -> None:
    """Record one query, then say so."""
    with pt.query(question=f"task {number}") as query:
        query.tool_call("t")
    with (_FOLDER / "done").open("a") as file:  # one short write: no other process's comes in between
        file.write(f"{number} {query.qid} {os.getpid()}\n")
