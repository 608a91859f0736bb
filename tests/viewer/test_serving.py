"""``prompt-trace serve`` as a process: where it listens, whom it answers, how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.settings import check_jaeger, load
from otel_prompt_trace.viewer.serving import listen
from tests.cli.test_hostile import event, stored
from tests.viewer.conftest import Places

_ADDRESS = re.compile(r"http://\S+/")


@contextmanager
def serving(places: Places, *options: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and the address that its line names."""
    command = [sys.executable, "-m", "otel_prompt_trace.cli", "serve", "--store", str(places.store)]
    command += ["--spool", str(places.spool), "--port", "0", *options]
    environ = {**os.environ, **variables}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = _ADDRESS.search(line)
        assert found, line + process.communicate(timeout=20)[1]
        yield process, found[0]
    finally:
        process.kill()
        process.communicate(timeout=20)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_and_ends_well_when_told(places: Places, number: signal.Signals) -> None:
    """From the line on requests are answered; a signal ends it with 0 and without a word, also right after the line."""
    stored(places.store, [event(1, "query", question="who?")])
    with serving(places) as (process, address):
        with urllib.request.urlopen(f"{address}q/q1", timeout=20) as answer:
            assert b"who?" in answer.read()
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "", "")
    with serving(places) as (process, _):
        process.send_signal(number)
        assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 0


def test_a_store_that_hangs_is_given_up_and_keeps_no_process(places: Places) -> None:
    """It takes connections and says nothing: a page says so within seconds, and a signal ends what still waits."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as hanging:
        url = f"s3://payloads?endpoint_url=http://127.0.0.1:{hanging.getsockname()[1]}&region=us-east-1"
        keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
        with serving(places, "--store", url, **keys) as (process, address), ThreadPoolExecutor(1) as browser:
            began = time.monotonic()
            with pytest.raises(urllib.error.HTTPError, match="503") as refused:
                urllib.request.urlopen(f"{address}q/01M8Q2FRPXVC8H5SNXSEC8YCHW", timeout=60)
            assert b"the store can" in refused.value.read()
            assert time.monotonic() - began < 30
            waiting = browser.submit(urllib.request.urlopen, f"{address}q/01M8Q2FRPXVC8H5SNXSEC8YCHW", timeout=60)
            hanging.settimeout(20)
            held = [hanging.accept()[0] for _ in range(3)]  # of the page before two attempts, of this one the first
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=20)
            assert time.monotonic() - began < 8
            with pytest.raises(urllib.error.HTTPError, match="503") as ended:
                waiting.result()
        for each in (*held, refused.value, ended.value):
            each.close()
    assert process.returncode == 0
    assert "Traceback" not in err


def test_it_listens_on_loopback_alone(places: Places) -> None:
    """127.0.0.1 by default; on IPv6 the same; another address of this machine does not answer."""
    with serving(places) as (_, address):
        port = int(address.rpartition(":")[2].rstrip("/"))
        assert address == f"http://127.0.0.1:{port}/"
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", port), timeout=5)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org", "", "127.1"])
def test_another_address_is_refused(host: str) -> None:
    """The error says why, and how another machine can look."""
    with pytest.raises(ConfigurationError, match="only a loopback address is served"):
        listen(host, 0)


def test_a_port_that_is_taken_is_a_message(places: Places) -> None:
    """It ends with 2 and says which option helps."""
    with listen("localhost", 0) as held:
        port = held.getsockname()[1]
        command = [sys.executable, "-m", "otel_prompt_trace.cli", "serve", "--port", str(port)]
        done = subprocess.run([*command, "--store", str(places.store)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"127.0.0.1:{port} can't be listened on" in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_extra_the_command_says_what_to_install() -> None:
    """Where starlette is not installed, the extra is named instead of a traceback."""
    script = (
        "import sys\nsys.modules['starlette'] = None\nsys.argv[1:] = ['serve']\n"
        "from otel_prompt_trace.cli import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "otel-prompt-trace[viewer]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "url", ["127.0.0.1:16686", "ftp://x", "http://", "http://u:p@x", "http://x?y", "http://x:0", "http://x y"]
)
def test_what_is_no_address_of_a_jaeger_is_refused(url: str) -> None:
    """In the variable and in the option alike; the message does not repeat it, since it may hold a password."""
    with pytest.raises(ConfigurationError, match="PROMPT_TRACE_JAEGER is http") as refused:
        load({"PROMPT_TRACE_JAEGER": url, "HOME": "/tmp"})
    assert "u:p" not in str(refused.value)


def test_the_jaeger_of_the_environment_is_taken() -> None:
    """Without a slash at its end; none where the variable is empty."""
    assert load({"PROMPT_TRACE_JAEGER": "http://127.0.0.1:16686/"}).jaeger == "http://127.0.0.1:16686"
    assert load({}).jaeger == check_jaeger("") == ""
