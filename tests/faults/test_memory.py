"""A store that stays down costs no memory for each call: resident memory over two hundred thousand of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from otel_prompt_trace.pipeline.reading import survey
from tests.lifecycle.serving import environ

pytestmark = pytest.mark.fault

_ROOT = Path(__file__).parents[2]
_CALLS = 200_000
_SAMPLES = 20
_GROWTH_MIB = 3.0  # of the second half, at most
_PROGRAM = """
import json, re, sys
import otel_prompt_trace as pt
from otel_prompt_trace.current import current

calls, samples, options = json.loads(sys.argv[1])
pt.install(wire="off", **options)

def mib(name):
    return int(re.search(rf"{name}:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

for number in range(calls):
    if number % (calls // samples) == 0:
        lost = current().accounts.result().lost
        print(json.dumps([number, mib("VmRSS"), mib("RssAnon"), lost]), flush=True)
    with pt.query() as q, q.call(model="m", prompt=f"what of number {number}, and of all the others?") as call:
        call.respond("nothing")
runtime = current()
print(json.dumps([calls, mib("VmRSS"), mib("RssAnon"), runtime.accounts.result().lost]), flush=True)
pt.uninstall()
result = runtime.accounts.result()
print(json.dumps([runtime.accounts.recorded, result.stored, result.spooled, result.lost, result.reasons]), flush=True)
"""


@pytest.mark.parametrize(
    ("durability", "reason"), [("written", {"spool_full"}), ("memory", {"spool_full", "exit_in_memory"})]
)
def test_resident_memory_stays_where_it_is(tmp_path: Path, durability: str, reason: set[str]) -> None:
    """The spool's bound is reached early, and its index too; in the second half nothing grows by more than 3 MiB.

    Whatever did not fit is counted; what did lies in the spool, or is counted at the end where there is none.
    """
    store = tmp_path / "store"
    store.write_text("in the way")
    options: dict[str, Any] = {"store": str(store), "spool": str(tmp_path / "spool"), "durability": durability}
    options |= {"spool_max_bytes": 8 << 20, "spool_file_bytes": 1 << 20, "memory_max_bytes": 8 << 20}
    calls = _CALLS if durability == "written" else _CALLS // 2
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps([calls, _SAMPLES, options])],
        cwd=tmp_path, env=environ(tmp_path, {"PYTHONPATH": os.fspath(_ROOT)}), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    *curve, books = map(json.loads, done.stdout.splitlines())
    print(f"\n{'calls':>8} {'resident':>9} {'anonymous':>9}  MiB   events lost")
    for number, resident, anonymous, lost in curve:
        print(f"{number:>8} {resident:>9.1f} {anonymous:>9.1f} {lost:>17}")
    half = curve[_SAMPLES // 2]
    assert half[3] > 0, "the bound is not reached by the half"
    assert max(each[1] for each in curve[_SAMPLES // 2 :]) - half[1] <= _GROWTH_MIB
    recorded, stored, spooled, lost, reasons = books
    assert recorded == calls * 4 == stored + spooled + lost
    assert sum(reasons.values()) == lost
    assert reasons.keys() == reason
    assert sum(file.events for file in survey(tmp_path / "spool")) == spooled
    assert (spooled > 50_000) == (durability == "written")
