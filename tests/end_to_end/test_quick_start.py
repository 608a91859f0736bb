"""The README's quick start, command by command, as it stands there: only the ports are moved to free ones."""

from __future__ import annotations

import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collector.running import Jaeger
from tests.collector.test_readme import Here, here
from tests.end_to_end.chain import ROOT
from tests.instrumentations.conftest import Environments
from tests.instrumentations.replay_server import ReplayServer
from tests.waiting import until

__all__ = ["here"]

_SECTION = re.search(r"^## Quick start\n(.*?)^## ", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
assert _SECTION is not None
_BLOCKS = re.findall(r"```bash\n(.*?)```", _SECTION[1], re.DOTALL)
_QID = re.compile(r"[0-9a-f]{32}-[0-9a-f]{16}")
_APP = """
import openai

answer = openai.OpenAI().chat.completions.create(
    model="gpt-4o", messages=[{"role": "user", "content": "May I return this lamp?"}]
)
print(answer.choices[0].message.content)
"""

INSTALL = "pip install 'otel-prompt-trace[cli,viewer]'\n"
JAEGER, COLLECTOR = "jaeger --config jaeger.yaml", "otelcol-contrib --config local.yaml"
COMPOSE = "docker compose -f collector-config/docker-compose.yaml up\n"
LOOK = ["prompt-trace doctor", "prompt-trace ls", "prompt-trace show QID", "prompt-trace get QID --body",
        "prompt-trace serve --jaeger http://127.0.0.1:16686"]  # fmt: skip


def test_every_command_is_run_below() -> None:
    """One that is added to the section is added to the test; Docker's is the one that is not run here."""
    install, beside, compose, run, look = _BLOCKS
    assert install == INSTALL
    assert beside.splitlines() == [JAEGER, COLLECTOR]
    assert compose == COMPOSE
    assert (ROOT / "collector-config/docker-compose.yaml").exists()
    assert run.splitlines()[-1].endswith("opentelemetry-instrument python app.py")
    assert look.splitlines() == LOOK
    extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert {"cli", "viewer"} <= set(extras)


@pytest.fixture
def shell(here: Here, environments: Environments, model: ReplayServer, tmp_path: Path) -> Iterator[Here]:
    """A place like a user's: an application's environment first on the path, its script in the folder."""
    python = environments("quickstart")  # holds what the first command installs, from this checkout
    (tmp_path / "app.py").write_text(_APP)
    here.variables["PATH"] = f"{python.parent}:{here.variables['PATH']}"
    here.variables |= {"OPENAI_BASE_URL": f"{model.base_url}/v1", "OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1"}
    del here.variables["PROMPT_TRACE_STORE"], here.variables["PYTHONPATH"]
    return here


@pytest.mark.integration
@pytest.mark.timeout(600)
def test_from_the_first_command_to_the_page(shell: Here, model: ReplayServer, tmp_path: Path) -> None:
    """An unchanged script: its trace in Jaeger, its prompt by qid, and the page that Jaeger's link opens."""
    shell.start(JAEGER, f"{shell.ui}/api/services")
    shell.start(COLLECTOR, shell.health)
    run = _BLOCKS[3].replace("127.0.0.1:4317", shell.endpoint)
    exports = next(line for line in run.splitlines() if line.startswith("export "))

    def do(script: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["bash", "-euc", script], cwd=tmp_path, env=shell.variables, capture_output=True, timeout=120
        )

    ran = do(run)
    assert (ran.returncode, ran.stdout) == (0, b"Within 14 days.\n"), ran.stderr
    assert b"Traceback" not in ran.stderr

    doctor, ls, show, get, serve = LOOK
    looked = do(f"{exports}\n{doctor}")
    assert looked.returncode in {0, 3}, looked.stdout
    assert b"takes an export of no span" in looked.stdout
    found = _QID.search(do(f"{exports}\n{ls}").stdout.decode())
    assert found is not None
    qid, trace_id = found[0], found[0][:32]
    assert do(f"{exports}\n{show.replace('QID', qid)}").returncode in {0, 3}
    (body,) = model.requests
    assert do(f"{exports}\n{get.replace('QID', qid)}").stdout == body

    jaeger = Jaeger.__new__(Jaeger)  # the one that is running already
    jaeger.url = shell.ui
    until(lambda: jaeger.find("shop", **{"prompt_trace.qid": qid}), 60)
    command = serve.replace("http://127.0.0.1:16686", shell.ui)
    viewer = subprocess.Popen(
        ["bash", "-euc", f"{exports}\nexec {command} --port 0"],
        cwd=tmp_path, env=shell.variables, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert viewer.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:\d+", viewer.stdout.readline())
        assert address is not None
        for path in (f"/q/{qid}?trace={trace_id}", f"/t/{trace_id}"):
            with urllib.request.urlopen(address[0] + path, timeout=60) as page:
                assert b"May I return this lamp?" in page.read()
    finally:
        viewer.terminate()
        viewer.communicate(timeout=30)
    assert viewer.returncode == 0
