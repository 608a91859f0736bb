"""The page of guarantees names tests that exist, and the manifest beside it is consistent and does what it says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.pipeline.spool_folder import prepare_folder
from otel_prompt_trace.settings import load
from otel_prompt_trace.store.opening import check_url
from tests.faults.conftest import Start
from tests.faults.running import check_stored
from tests.lifecycle.serving import environ
from tests.waiting import until

pytestmark = pytest.mark.fault

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "guarantees.md"
_MANIFEST = _ROOT / "collector-config" / "kubernetes.yaml"
_NAMED = re.compile(r'^\[(\d+)\]: (\S+) "(\w+)"$', re.MULTILINE)


def test_every_line_names_a_test_that_exists() -> None:
    """And every test that is named is named by a line; none of them is marked to be skipped or to fail."""
    text = _PAGE.read_text()
    named = {number: (path, test) for number, path, test in _NAMED.findall(text)}
    used = set(re.findall(r"\[(\d+)\](?!:)", text))
    used |= {each for group in re.findall(r"\(\[([^()]*)\]\)", text) for each in re.findall(r"\d+", group)}
    assert used == set(named)
    for path, test in named.values():
        module = ast.parse((_PAGE.parent / path).resolve(strict=True).read_text())
        functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
        assert test in functions, f"{path} has no {test}"
        decorators = [ast.unparse(each) for each in functions[test].decorator_list]
        assert not any("skip" in each or "xfail" in each for each in decorators)


def _rows() -> list[list[str]]:
    return [line.strip("|").split("|") for line in _PAGE.read_text().splitlines() if line.startswith("| ")]


def test_every_row_is_shown_or_says_that_it_is_not() -> None:
    """A row without a test speaks of losses alone."""
    rows = _rows()
    assert len(rows) > 20
    for row in rows[1:]:
        if "[" not in "".join(row):
            assert all(cell.strip() in ("lost", "what happens", "") for cell in row[1:]), row


def _documents() -> dict[str, dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    return {each["kind"]: each for each in yaml.safe_load_all(_MANIFEST.read_text())}


def _workloads() -> list[tuple[dict[str, Any], dict[str, Any], set[str]]]:
    """Of each workload: the pod, its sidecar, and the names of the volumes that a pod of it has."""
    found = []
    for kind in ("Deployment", "StatefulSet"):
        spec = _documents()[kind]["spec"]
        pod = spec["template"]["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
        volumes = {each["name"] for each in pod.get("volumes", ())}
        volumes |= {each["metadata"]["name"] for each in spec.get("volumeClaimTemplates", ())}
        (sidecar,) = pod["initContainers"]
        found.append((pod, sidecar, volumes))
    return found


def test_application_and_sidecar_share_spool_store_and_user() -> None:
    """Both mount the volume that holds the spool, have the same variables, and run as one user."""
    settings = _documents()["ConfigMap"]
    variables = settings["data"]
    loaded = load(variables)
    check_url(loaded.store)
    assert set(variables) <= {f"PROMPT_TRACE_{name.upper()}" for name in loaded.__slots__}
    for pod, sidecar, volumes in _workloads():
        assert sidecar["restartPolicy"] == "Always"
        assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["runAsGroup"]
        for container in (sidecar, *pod["containers"]):
            assert "securityContext" not in container
            assert container["envFrom"] == [{"configMapRef": {"name": settings["metadata"]["name"]}}]
            (mount,) = container["volumeMounts"]
            assert mount["name"] in volumes
            assert not mount.get("readOnly")
            assert Path(mount["mountPath"]) in loaded.spool.parents
    (deployed, _, _), _ = _workloads()
    (volume,) = deployed["volumes"]
    assert loaded.spool_max_bytes < _bytes(volume["emptyDir"]["sizeLimit"])
    (claim,) = _documents()["StatefulSet"]["spec"]["volumeClaimTemplates"]
    assert loaded.spool_max_bytes < _bytes(claim["spec"]["resources"]["requests"]["storage"])


def _bytes(quantity: str) -> int:
    return int(quantity.removesuffix("Gi")) << 30


def test_a_folder_in_a_volume_of_a_group_can_be_the_spool(tmp_path: Path) -> None:
    """As a volume with ``fsGroup`` is: open to its group, which the spool's own folder is not."""
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o2777)
    with pytest.raises(ConfigurationError):
        prepare_folder(volume)
    prepare_folder(volume / "spool")
    assert (volume / "spool").stat().st_mode & 0o077 == 0


@pytest.mark.integration
def test_the_sidecar_ships_on_its_way_out(tmp_path: Path, start: Start) -> None:
    """Its command as it stands in the manifest: it ships what a killed application left, and once more at the end.

    When the second application is killed the store has just been down, so that the sidecar is pausing: told to stop,
    it does not leave what is there.
    """
    store, spool = tmp_path / "store", tmp_path / "spool"
    (_, sidecar, _), _ = _workloads()
    variables = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(_ROOT)}
    with subprocess.Popen(
        sidecar["command"], cwd=tmp_path, env=environ(tmp_path, variables), stdout=subprocess.PIPE, text=True
    ) as shipping:
        first = start()
        first.do("record", count=9)
        first.kill()
        until(lambda: spool.exists() and not list(spool.glob("*.spool")), 40)
        store.rename(tmp_path / "away")
        store.write_text("in the way")
        last = start()
        last.do("record", count=9)
        last.kill()
        store.unlink()
        (tmp_path / "away").rename(store)
        shipping.terminate()
        said, _ = shipping.communicate(timeout=40)
    assert shipping.returncode == 0, said
    assert list(spool.glob("*.spool")) == []
    check_stored(pt.open_store(store), [*first.told, *last.told])
