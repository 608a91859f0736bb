"""Model requests made by hand with requests, and with urllib3 underneath it."""

from __future__ import annotations

import gc
import io
from collections.abc import Iterator
from typing import Any

import requests
import urllib3

BODY = {"model": "gpt-stand-in", "messages": [{"role": "user", "content": "Wann? é 返"}], "temperature": 0.10}
SPACED = b'{ "model": "gpt-stand-in",\n  "messages": [{"role": "user", "content": "\\u00e9 \\/ \xc3\xa9"}] }\n'
CHAT = "/v1/chat/completions"


def _answer(at: Any, response: Any) -> None:
    at.see("answer", response.status_code, response.content, response.text, [h.status_code for h in response.history])


def json_body(at: Any) -> None:
    _answer(at, requests.post(at.url + CHAT + "?key=secret", json=BODY, timeout=20))


def text_body(at: Any) -> None:
    _answer(at, requests.post(at.url + CHAT, data=SPACED.decode(), timeout=20))


def bytes_as_they_are(at: Any) -> None:
    _answer(at, requests.post(at.url + CHAT, data=SPACED, timeout=20))


def file_body(at: Any) -> None:
    file = io.BytesIO(SPACED)
    _answer(at, requests.post(at.url + CHAT, data=file, timeout=20))
    at.see("file", file.tell(), file.closed)


def generator_body(at: Any) -> None:
    def parts() -> Iterator[bytes]:
        for at_ in range(0, len(SPACED), 40):
            at.see("asked for", at_)
            yield SPACED[at_ : at_ + 40]
        at.see("asked for", "no more")

    _answer(at, requests.post(at.url + CHAT, data=parts(), timeout=20))


def zipped_answer(at: Any) -> None:
    _answer(at, requests.post(at.url + CHAT, json=BODY, timeout=20))


def zipped_raw(at: Any) -> None:
    """Raw bytes stay packed."""
    with requests.post(at.url + CHAT, json=BODY, stream=True, timeout=20) as response:
        at.see("raw", response.raw.read(decode_content=False), response.raw.isclosed())


def redirected(at: Any) -> None:
    _answer(at, requests.post(at.url + CHAT, json=BODY, timeout=20))


def not_a_model(at: Any) -> None:
    _answer(at, requests.post(at.url + "/orders", json={"item": "a secret of the shop"}, timeout=20))
    _answer(at, requests.get(at.url + "/v1/models", timeout=20))


def hooks(at: Any) -> None:
    def hook(response: Any, **_more: Any) -> None:
        at.see("hook", response.status_code, response.raw.isclosed())

    _answer(at, requests.post(at.url + CHAT, json=BODY, hooks={"response": hook}, timeout=20))


def stream_content(at: Any) -> None:
    with requests.post(at.url + CHAT, json=BODY, stream=True, timeout=20) as response:
        at.go()
        for chunk in response.iter_content(None):
            at.see("chunk", chunk)
            at.go()


def stream_sized(at: Any) -> None:
    with requests.post(at.url + CHAT, json=BODY, stream=True, timeout=20) as response:
        at.see("chunks", list(response.iter_content(37)))


def stream_lines(at: Any) -> None:
    with requests.post(at.url + CHAT, json=BODY, stream=True, timeout=20) as response:
        for line in response.iter_lines(chunk_size=1):
            at.see("line", line)


def stream_raw_read(at: Any) -> None:
    """A file-like answer, read in pieces."""
    with requests.post(at.url + CHAT, json=BODY, stream=True, timeout=20) as response:
        while piece := response.raw.read(50):
            at.see("piece", piece, response.raw.tell())


def stream_raw_lines(at: Any) -> None:
    with requests.post(at.url + CHAT, json=BODY, stream=True, timeout=20) as response:
        for line in io.TextIOWrapper(response.raw, "utf-8"):
            at.see("line", line)


def stream_left(at: Any) -> None:
    with requests.post(at.url + CHAT, json=BODY, stream=True, timeout=20) as response:
        at.go(3)
        seen = b""
        for chunk in response.iter_content(None):
            seen += chunk
            if seen.count(b"\n\n") == 3:
                break
        at.see("until then", seen)


def stream_unread(at: Any) -> None:
    response = requests.post(at.url + CHAT, json=BODY, stream=True, timeout=20)
    at.see("status", response.status_code)
    response.close()


def stream_collected(at: Any) -> None:
    session = requests.Session()
    response = session.post(at.url + CHAT, json=BODY, stream=True, timeout=20)
    at.go(2)
    chunks = response.iter_content(None)
    seen = b""
    while seen.count(b"\n\n") < 2:
        seen += next(chunks)
    at.see("until then", seen)
    del chunks, response
    gc.collect()
    session.close()


def stream_cut(at: Any) -> None:
    with requests.post(at.url + CHAT, json=BODY, stream=True, timeout=20) as response:
        at.go()
        for chunk in response.iter_content(None):
            at.see("chunk", chunk)
            at.go()


def refused(at: Any) -> None:
    response = requests.post(at.url + CHAT, json=BODY, timeout=20)
    _answer(at, response)
    response.raise_for_status()


def gateway_page(at: Any) -> None:
    _answer(at, requests.post(at.url + CHAT, json=BODY, timeout=20))


def timed_out(at: Any) -> None:
    requests.post(at.url + CHAT, json=BODY, timeout=0.3)


def cut_in_mid_request(at: Any) -> None:
    large = {**BODY, "messages": [{"role": "user", "content": "x" * 8_000_000}]}
    try:
        requests.post(at.url + CHAT, json=large, timeout=20)
    except requests.ConnectionError:
        at.see("a connection error")


def twice_the_same(at: Any) -> None:
    with requests.Session() as session:
        for _ in range(2):
            _answer(at, session.post(at.url + CHAT, json=BODY, timeout=20))


def retried_by_adapter(at: Any) -> None:
    """urllib3 tries again, below requests."""
    tries = urllib3.Retry(total=3, status_forcelist=[429], allowed_methods=None, backoff_factor=0)
    with requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=tries))
        _answer(at, session.post(at.url + CHAT, json=BODY, timeout=20))


def urllib3_json(at: Any) -> None:
    response = urllib3.PoolManager().request("POST", at.url + CHAT, json=BODY)
    at.see("answer", response.status, response.data)


def urllib3_stream(at: Any) -> None:
    response = urllib3.PoolManager().request("POST", at.url + CHAT, json=BODY, preload_content=False)
    at.go()
    for chunk in response.stream(None):
        at.see("chunk", chunk)
        at.go()
    response.release_conn()


def urllib3_retried(at: Any) -> None:
    tries = urllib3.Retry(total=3, status_forcelist=[429], allowed_methods=None, backoff_factor=0)
    response = urllib3.PoolManager().request("POST", at.url + CHAT, json=BODY, retries=tries)
    at.see("answer", response.status, response.data)
