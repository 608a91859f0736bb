"""A stand-in S3 server on loopback that fails as it is told to, and remembers what it was sent.

It speaks as much S3 as the store needs: conditional puts, gets, and listings of keys and folders; it checks no
signature. :attr:`StubS3.how` says what becomes of each request from then on:

- ``ok``; ``slow``: the same after a while.
- ``refuse``, ``fail``, ``busy``: 403 AccessDenied, 500 InternalError, 503 SlowDown.
- ``hang``: the request is read and never answered, until ``how`` changes; then the connection is closed.
- ``cut``: a put's body is read and the connection closed without an answer. Every second object is stored all the same.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from typing_extensions import Self

ANSWERS = {"refuse": (403, "AccessDenied"), "fail": (500, "InternalError"), "busy": (503, "SlowDown")}
SLOW_SECONDS = 0.05
_BUCKET = "payloads"


class StubS3(ThreadingHTTPServer):
    """The server; it listens as long as its ``with`` block runs."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, how: str = "ok", port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.how = how
        self.objects: dict[str, bytes] = {}
        self.asked: Counter[str] = Counter()  # requests by method and what became of them
        self.lock = threading.Lock()
        self._thread = threading.Thread(target=lambda: self.serve_forever(poll_interval=0.02), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.how = "ok"
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, *_request: Any) -> None:
        """A client that left in the middle is no error here."""

    @property
    def url(self) -> str:
        """By which the project opens it."""
        return f"s3://{_BUCKET}/p?endpoint_url=http://127.0.0.1:{self.server_address[1]}&region=us-east-1"

    @property
    def environment(self) -> dict[str, str]:
        """With which any AWS client gets in."""
        keys = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-tests"}
        return {**keys, "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else an answer in two writes waits for an acknowledgement of the first
    server: StubS3

    def do_PUT(self) -> None:
        """Store an object, unless there is one."""
        body = self._body()
        how = self._turn("PUT")
        if how == "cut":
            with self.server.lock:
                if self.server.asked["PUT cut"] % 2:
                    self.server.objects.setdefault(self._key, body)
            self.close_connection = True
            return
        if how != "ok":
            self._fail(how)
            return
        with self.server.lock:
            there = self._key in self.server.objects
            if not there or self.headers["If-None-Match"] != "*":
                self.server.objects[self._key] = body
                there = False
        if there:
            self._say(412, _error("PreconditionFailed"))
        else:
            self._say(200, b"", etag='"e"')

    def do_GET(self) -> None:
        """An object, or a listing."""
        how = self._turn("GET")
        if how not in ("ok", "cut"):
            self._fail(how)
            return
        if self._key:
            body = self.server.objects.get(self._key)
            self._say(200, body, etag='"e"') if body is not None else self._say(404, _error("NoSuchKey"))
            return
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        self._say(200, self._listing(asked.get("prefix", ""), asked.get("delimiter", ""), "versions" in self.path))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing is logged."""

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{_BUCKET}").lstrip("/")

    def _turn(self, method: str) -> str:
        how = self.server.how
        with self.server.lock:
            self.server.asked[f"{method} {how}"] += 1
        if how == "slow":
            time.sleep(SLOW_SECONDS)
            return "ok"
        while how == "hang" and self.server.how == "hang":
            time.sleep(0.02)
        return how

    def _fail(self, how: str) -> None:
        if how == "hang":
            self.close_connection = True
        else:
            status, code = ANSWERS[how]
            self._say(status, _error(code))

    def _body(self) -> bytes:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return data
        found = b""
        while (size := int(re.split(rb"[;\r]", data, maxsplit=1)[0], 16)) > 0:
            start = data.index(b"\r\n") + 2
            found, data = found + data[start : start + size], data[start + size + 2 :]
        return found

    def _say(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _listing(self, prefix: str, delimiter: str, versions: bool) -> bytes:
        with self.server.lock:
            keys = {key: len(data) for key, data in sorted(self.server.objects.items()) if key.startswith(prefix)}
        entry, root = ("Version", "ListVersionsResult") if versions else ("Contents", "ListBucketResult")
        items, folders = [], []
        for key, size in keys.items():
            head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if found:
                folders.append(prefix + head + found)
                continue
            named = f"<Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>{size}</Size>"
            items.append(f"<{entry}>{named}<ETag>e</ETag></{entry}>")
        common = [
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in dict.fromkeys(folders)
        ]
        inner = f"<IsTruncated>false</IsTruncated>{''.join(items)}{''.join(common)}"
        return f'<?xml version="1.0"?><{root}>{inner}</{root}>'.encode()


def _error(code: str) -> bytes:
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>as the test asked</Message></Error>'.encode()
