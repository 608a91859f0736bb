"""No test writes to a real store unless it asks, whatever its application installs, and wherever."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.testing.conftest import RunPytest

APP = """
import otel_prompt_trace as pt

def answer(store=None, **settings):
    if store is not None:
        pt.install(store=str(store), **settings)
    with pt.query() as q:
        prompt = pt.Prompt().add("a", "one ").add("b", "two")
        with q.call(model="m", prompt=prompt) as call:
            call.respond("ok")
    assert pt.flush(20).ok
    return q.qid
"""


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """A folder that an application takes for its real store."""
    return tmp_path / "real"


def written(*folders: Path) -> list[Path]:
    """The files below some folders."""
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


def test_install_with_a_store_in_a_test(run_pytest: RunPytest, real: Path, tmp_path: Path) -> None:
    """An argument, or the environment: the payload stays in the process, and what the application reads is there."""
    test = f"""
import os
import otel_prompt_trace as pt
from app import answer

def test_argument():
    qid = answer({str(real)!r}, spool={str(tmp_path / "spool")!r}, durability="fsync")
    assert pt.open_store({str(real)!r}).get(qid).calls[0].prompt is not None
    pt.uninstall()

def test_bucket():
    answer("s3://bucket/prefix?endpoint_url=http://127.0.0.1:9")
    pt.uninstall()

def test_environment(monkeypatch):
    monkeypatch.setenv("PROMPT_TRACE_STORE", {str(real)!r})
    for name in [name for name in os.environ if name.startswith("PROMPT_TRACE_TEST")]:
        monkeypatch.delenv(name)
    assert pt.install()
    answer()
    pt.uninstall()
"""
    run_pytest(app=APP, test_it=test).assert_outcomes(passed=3)
    assert written(real, tmp_path / "spool", tmp_path / "state") == []


def test_erasing_reaches_no_real_store(run_pytest: RunPytest, real: Path) -> None:
    """An application that erases by itself is kept off as well."""
    test = f"""
import otel_prompt_trace as pt

def test_erase():
    assert pt.open_store({str(real)!r}).erase("q1").qid == "q1"
"""
    run_pytest(test_it=test).assert_outcomes(passed=1)
    assert written(real) == []


@pytest.mark.parametrize("where", ["conftest", "app", "plugin"])
def test_install_while_pytest_starts(
    run_pytest: RunPytest, real: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """In a conftest, in a module that is imported, or in a plugin that is loaded before ours."""
    installs = f"import otel_prompt_trace as pt\npt.install(store={str(real)!r}, policy='hash')\n"
    files = {"app": APP, "test_it": "from app import answer\n\ndef test_it():\n    assert answer()\n"}
    options: list[str] = []
    if where == "plugin":
        files["early"] = installs
        options = ["-p", "early"]
        monkeypatch.syspath_prepend(".")
    elif where == "conftest":
        files["conftest"] = installs
    else:
        files["app"] += installs
    files["test_it"] += (
        "\ndef test_settings():\n"
        "    from otel_prompt_trace.current import current\n"
        "    found = current().settings\n"
        "    assert (found.store, found.policy) == ('memory:', 'hash')\n"
    )
    import os

    monkeypatch.setenv("PYTHONPATH", f"{os.environ['PYTHONPATH']}{os.pathsep}{Path.cwd()}")
    run_pytest(*options, **files).assert_outcomes(passed=2)
    assert written(real) == []


def test_a_subprocess_of_a_test(run_pytest: RunPytest, real: Path, tmp_path: Path) -> None:
    """It learns of it from its environment."""
    test = f"""
import subprocess, sys

def test_it():
    code = "from app import answer; print(answer({str(real)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(done.stdout.strip()) == 26
"""
    run_pytest(app=APP, test_it=test).assert_outcomes(passed=1)
    assert written(real, tmp_path / "state") == []


def test_a_command_of_a_test_delivers_nothing_of_the_machines_spool(
    run_pytest: RunPytest, real: Path, tmp_path: Path
) -> None:
    """``ship`` in a test neither reads the application's spool nor empties it."""
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "01ABC.spool").write_bytes(b"what waits there")
    test = f"""
import pytest
from otel_prompt_trace.cli.running import run

def test_it():
    with pytest.raises(SystemExit) as ended:
        run(["ship", "--store", {str(real)!r}, "--spool", {str(spool)!r}])
    assert ended.value.code == 0
"""
    run_pytest(test_it=test).assert_outcomes(passed=1)
    assert [path.name for path in written(spool, real)] == ["01ABC.spool"]


@pytest.mark.parametrize("how", ["marker", "module", "ini", "option"])
def test_asked_for_it_is_real(run_pytest: RunPytest, real: Path, how: str) -> None:
    """A marker on a test or a module, the ini option, the command line's: then the application's word counts."""
    test = f"from app import answer\nimport pytest\n\ndef test_it():\n    answer({str(real)!r})\n"
    if how == "marker":
        test = test.replace("def test_it", "@pytest.mark.prompt_trace_store\ndef test_it")
    elif how == "module":
        test += "\npytestmark = pytest.mark.prompt_trace_store('real')\n"
    result = run_pytest(
        *(["--prompt-trace-store=real"] if how == "option" else []),
        ini="prompt_trace_store = real" if how == "ini" else "",
        app=APP,
        test_it=test,
    )
    result.assert_outcomes(passed=1)
    assert len(written(real)) == 1


def test_the_marker_counts_for_its_test_alone(run_pytest: RunPytest, real: Path) -> None:
    """What it installed for a real store is redirected again after it."""
    test = f"""
import pytest
import otel_prompt_trace as pt
from app import answer

def test_before():
    answer({str(real)!r})

@pytest.mark.prompt_trace_store
def test_real():
    print(answer({str(real)!r}))

def test_after():
    answer()
    answer({str(real)!r})
    from otel_prompt_trace.current import current
    assert current().settings.store == "memory:"
"""
    run_pytest(app=APP, test_it=test).assert_outcomes(passed=3)
    assert len(written(real)) == 1


def test_all_of_them_to_one_folder(run_pytest: RunPytest, real: Path, tmp_path: Path) -> None:
    """To look at afterwards with ``prompt-trace show``: whatever store the application names."""
    kept = tmp_path / "kept"
    test = f"from app import answer\n\ndef test_it():\n    answer({str(real)!r})\n    answer('s3://bucket/p')\n"
    run_pytest(f"--prompt-trace-store={kept}", app=APP, test_it=test).assert_outcomes(passed=1)
    assert (len(written(kept)), written(real)) == (2, [])


def test_each_test_begins_with_an_empty_store(run_pytest: RunPytest) -> None:
    """Nothing is left of the one before, also without the fixture."""
    test = """
import pytest
import otel_prompt_trace as pt
from app import answer

@pytest.mark.parametrize("turn", range(3))
def test_it(turn):
    answer("s3://bucket/p")
    assert len(list(pt.open_store("memory:").qids())) == 1
"""
    run_pytest(app=APP, test_it=test).assert_outcomes(passed=3)


@pytest.mark.skipif("xdist" not in sys.modules, reason="needs pytest-xdist")
def test_beside_other_workers(run_pytest: RunPytest, real: Path, tmp_path: Path) -> None:
    """Each worker of xdist keeps off by itself; options and ini reach all of them."""
    test = f"""
import pytest
from app import answer

@pytest.mark.parametrize("turn", range(4))
def test_it(turn, prompt_trace):
    qid = answer({str(real)!r})
    assert [record.qid for record in prompt_trace.records] == [qid]
"""
    run_pytest("-n", "2", app=APP, test_it=test).assert_outcomes(passed=4)
    assert written(real, tmp_path / "state") == []


def test_a_run_within_a_run_leaves_it_as_it_was(pytester: pytest.Pytester, real: Path) -> None:
    """Also in one process: the inner one keeps off, and afterwards the outer one's stores are what they were."""
    from otel_prompt_trace.redirection import redirected_to

    before = redirected_to()
    test = "def test_it():\n    assert redirected_to() == 'memory:'\n"
    pytester.makepyfile(f"from otel_prompt_trace.redirection import redirected_to\n\n{test}")
    pytester.runpytest_inprocess("-p", "otel_prompt_trace.pytest_plugin").assert_outcomes(passed=1)
    assert redirected_to() == before
