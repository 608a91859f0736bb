"""The configurations are consistent in themselves and with each other, and the real programs take them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.collector.guard import configuration
from tests.collector.running import CONFIGS

PIPELINES = ("local.yaml", "production.yaml", "jaeger.yaml")
OTHERS = {"kubernetes.yaml", "docker-compose.yaml"}  # tests/faults/test_guarantees_page.py, test_compose.py
VARIABLE = re.compile(r"\$\{env:(\w+)(?::-([^}]*))?\}")
# What the published awss3 exporter takes: https://github.com/open-telemetry/opentelemetry-collector-contrib/blob/v0.161.0/exporter/awss3exporter/README.md
AWSS3 = {"marshaler", "timeout", "s3uploader", "sending_queue", "retry_on_failure"}
UPLOADER = {
    "region", "s3_bucket", "s3_prefix", "s3_partition_format", "s3_partition_timezone", "endpoint", "compression",
    "s3_force_path_style", "unique_key_func_name",
}  # fmt: skip


def test_every_configuration_is_tested() -> None:
    """A file that is added here is added to the tests."""
    assert {path.name for path in CONFIGS.glob("*.yaml")} == {*PIPELINES, *OTHERS}


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_name_what_is_defined_and_everything_stays_on_loopback(name: str) -> None:
    """Each receiver, processor, exporter and extension in use is defined, and none is defined for nothing."""
    config = configuration(name)
    pipelines = config["service"]["pipelines"].values()
    connectors = set(config.get("connectors", ()))
    used = {kind: {each for pipeline in pipelines for each in pipeline.get(kind, ())} for kind in kinds()}
    assert connectors <= used["receivers"]
    assert connectors <= used["exporters"]
    for kind in kinds():
        assert used[kind] - connectors == set(config[kind])
    assert set(config["service"]["extensions"]) == set(config["extensions"])
    without_comments = re.sub(r"#.*", "", (CONFIGS / name).read_text())
    assert set(re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", without_comments)) == {"127.0.0.1"}


def kinds() -> tuple[str, ...]:
    """What a pipeline is made of."""
    return ("receivers", "processors", "exporters")


def defaults(name: str) -> dict[str, str]:
    """The variables of a configuration, with the values that they have where nobody sets them."""
    return dict(VARIABLE.findall((CONFIGS / name).read_text()))


def resolved(text: str, variables: dict[str, str]) -> str:
    """A value of a configuration as the program sees it."""
    return VARIABLE.sub(lambda found: variables.get(found[1], found[2] or ""), text)


def test_collectors_send_to_where_jaeger_listens() -> None:
    """And take OTLP where applications send it by default; the two never ask for one port."""
    jaeger = configuration("jaeger.yaml")
    taken = [each["endpoint"] for each in jaeger["receivers"]["otlp"]["protocols"].values()]
    taken = [resolved(each, {}) for each in taken]
    assert taken == ["127.0.0.1:14317", "127.0.0.1:14318"]
    for name in ("local.yaml", "production.yaml"):
        config = configuration(name)
        assert resolved(config["exporters"]["otlp_grpc/jaeger"]["endpoint"], {}) == taken[0]
        protocols = config["receivers"]["otlp"]["protocols"]
        own = [resolved(protocols[each]["endpoint"], {}) for each in ("grpc", "http")]
        assert own == ["127.0.0.1:4317", "127.0.0.1:4318"]
        health = resolved(config["extensions"]["health_check"]["endpoint"], {})
        assert health != resolved(jaeger["extensions"]["healthcheckv2"]["http"]["endpoint"], {})
    assert resolved(jaeger["extensions"]["jaeger_query"]["http"]["endpoint"], {}) == "127.0.0.1:16686"


def test_archive_and_jaeger_queue_on_disk() -> None:
    """Both exporters of production.yaml, and no processor in between keeps spans that no disk has."""
    config = configuration("production.yaml")
    for name in ("awss3/spans", "otlp_grpc/jaeger"):
        exporter = config["exporters"][name]
        queue = exporter["sending_queue"]
        assert queue["storage"] in config["service"]["extensions"]
        assert queue["sizer"] == queue["batch"]["sizer"] == "bytes"
        size = int(resolved(str(queue["queue_size"]), {}))
        assert queue["batch"]["min_size"] <= queue["batch"]["max_size"] < size
        assert exporter["retry_on_failure"]["max_elapsed_time"] == "0s"
    assert config["extensions"]["file_storage/queue"]["fsync"] is True
    assert config["exporters"]["otlp_grpc/jaeger"]["sending_queue"]["batch"]["max_size"] < 4 << 20
    assert config["service"]["pipelines"]["traces/archive"].get("processors") is None
    assert not any(each.startswith("batch") for each in config["processors"])


def test_archive_is_what_the_published_exporter_can_write() -> None:
    """By its own settings alone: the tests may run a stand-in for it."""
    exporter = configuration("production.yaml")["exporters"]["awss3/spans"]
    assert set(exporter) == AWSS3
    assert set(exporter["s3uploader"]) == UPLOADER
    assert exporter["s3uploader"]["s3_partition_timezone"] == "UTC"


@pytest.mark.parametrize("name", PIPELINES)
def test_head_of_the_file_names_its_variables(name: str) -> None:
    """Those that production.yaml takes and a person has to decide on; every one has a default."""
    text = (CONFIGS / name).read_text()
    assert text.count("${env:") == len(VARIABLE.findall(text))
    assert all(":-" in each for each in re.findall(r"\$\{env:[^}]*\}", text))
    if name == "production.yaml":
        head = text[: text.index("receivers:")]
        for variable in ("S3_BUCKET_SPANS", "S3_REGION", "S3_ENDPOINT", "JAEGER_OTLP_ENDPOINT", "OTELCOL_STORAGE_DIR"):
            assert variable in head
            assert variable in defaults(name)


@pytest.mark.integration
@pytest.mark.parametrize("name", ["local.yaml", "production.yaml"])
def test_collector_takes_it(name: str, collector_binary: Path) -> None:
    """Every component, setting, pattern and statement."""
    assert validated(collector_binary, name, {}) == ""


@pytest.mark.integration
def test_collector_refuses_what_is_wrong(collector_binary: Path) -> None:
    """Else taking the configurations would mean nothing."""
    said = validated(collector_binary, "production.yaml", {"SPAN_STRING_LIMIT": "many"})
    assert "truncate_all" in said


def validated(binary: Path, name: str, variables: dict[str, Any]) -> str:
    """What the collector says against a configuration."""
    command = [str(binary), "validate", "--config", str(CONFIGS / name)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
    assert (done.returncode == 0) == (done.stderr == "")
    return done.stderr
