"""A model host on loopback that speaks the OpenAI chat completions API, and says that no model stands behind it.

Invariants:

- It listens on 127.0.0.1 only, on a port that the system chose, and opens no connection itself.
- Every response carries the header ``x-stand-in: true``; every completion the model ``stand-in-1``, the
  fingerprint ``stand-in`` and a text that begins with the notice of :mod:`~otel_prompt_trace.demo.stand_in_model`.
- A parameter that would change the answer of a real model and can't change this one's (tools, response formats,
  images) is refused with an error of OpenAI's shape. Nothing is silently left out.
- The body of every completion request is kept, byte for byte, before it is read as JSON.

Endpoints: ``POST /v1/chat/completions`` (also ``stream: true``, as server-sent events), ``GET /v1/models``.
"""

from __future__ import annotations

import json
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from otel_prompt_trace import tokens
from otel_prompt_trace.demo.chat_request import ChatRequest, Refusal, parse
from otel_prompt_trace.demo.stand_in_model import ENCODING, MODEL, Completion, StandIn
from otel_prompt_trace.exceptions import MissingDependency

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ModelServer"]

_FINGERPRINT = "stand-in"
_MAX_BODY = 32 * 1024 * 1024
_LISTED = {"id": MODEL, "object": "model", "created": 0, "owned_by": "stand-in", "tokenizer": ENCODING}


class ModelServer:
    """The server, running as long as its ``with`` block.

    ``clock`` gives the seconds since the epoch that stand in ``created``.

    Raises:
        MissingDependency: tokens can't be counted, so that no usage could be measured.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        if not tokens.prepare(ENCODING):
            raise MissingDependency("the stand-in model server", "tokens")
        self.requests: list[bytes] = []  # the bodies as received, in the order of their arrival
        self._clock = clock
        self._model = StandIn()
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, name="stand-in-model", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        server, thread = self._server, self._thread
        self._server = self._thread = None
        if server is not None and thread is not None:
            server.shutdown()
            server.server_close()
            thread.join()

    @property
    def base_url(self) -> str:
        """``http://127.0.0.1:PORT/v1``, as the SDK's ``base_url`` takes it.

        Raises:
            RuntimeError: outside the ``with`` block.
        """
        if self._server is None:
            raise RuntimeError("the model server runs only inside its with block")
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def receive(self, body: bytes) -> tuple[ChatRequest, Completion, dict[str, Any]]:
        """Keep a body and answer it: the request, its completion, and the fields that all response objects share.

        Raises:
            Refusal: what the body asks for can't be answered.
        """
        with self._lock:
            self.requests.append(body)
            number = len(self.requests)
        request = parse(body)
        try:
            completion = self._model.complete(request.messages, request.max_tokens)
        except ValueError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, str(error), param="messages") from error
        head = {"id": f"chatcmpl-stand-in-{number}", "created": int(self._clock()), "model": MODEL}
        return request, completion, {**head, "system_fingerprint": _FINGERPRINT}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, owner: ModelServer) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own asks the name service for the host's full name
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):  # a client may leave when it likes
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "stand-in"
    sys_version = ""
    timeout = 30  # seconds; a client that stalls gives its thread back

    def do_GET(self) -> None:
        """The list of models, or one of them."""
        match urlsplit(self.path).path:
            case "/v1/models":
                self._send_json(HTTPStatus.OK, {"object": "list", "data": [_LISTED]})
            case path if path == f"/v1/models/{MODEL}":
                self._send_json(HTTPStatus.OK, _LISTED)
            case _:
                self._refuse(self._unknown())

    def do_POST(self) -> None:
        """A completion, whole or as a stream of events."""
        try:
            body = self._read_body()
            if urlsplit(self.path).path != "/v1/chat/completions":
                raise self._unknown()
            request, completion, head = self.server.owner.receive(body)
        except Refusal as refusal:
            self._refuse(refusal)
        else:
            if request.stream:
                self._send_events(_chunks(completion, head, include_usage=request.include_usage))
            else:
                self._send_json(HTTPStatus.OK, _whole(completion, head))

    def log_message(self, *_args: Any) -> None:
        """Nothing: the demo's terminal belongs to the demo."""

    def _read_body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "The request needs a Content-Length.")
        if int(length) > _MAX_BODY:
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body is longer than {_MAX_BODY} bytes.")
        return self.rfile.read(int(length))

    def _unknown(self) -> Refusal:
        return Refusal(HTTPStatus.NOT_FOUND, f"The stand-in has no {self.command} at this address.", code="unknown_url")

    def _refuse(self, refusal: Refusal) -> None:
        self._send_json(refusal.status, refusal.body)

    def _send_head(self, status: HTTPStatus, content_type: str, *more: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", content_type), ("x-stand-in", "true"), ("Connection", "close"), *more):
            self.send_header(name, value)
        self.end_headers()

    def _send_json(self, status: HTTPStatus, value: Any) -> None:
        body = json.dumps(value).encode()
        self._send_head(status, "application/json", ("Content-Length", str(len(body))))
        self.wfile.write(body)

    def _send_events(self, events: Iterable[dict[str, Any]]) -> None:
        self._send_head(HTTPStatus.OK, "text/event-stream", ("Transfer-Encoding", "chunked"))
        for data in (*map(json.dumps, events), "[DONE]"):
            event = f"data: {data}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")


def _whole(completion: Completion, head: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": completion.text, "refusal": None, "annotations": []}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": completion.finish_reason}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": _usage(completion)}


def _chunks(completion: Completion, head: dict[str, Any], *, include_usage: bool) -> Iterator[dict[str, Any]]:
    head = {**head, "object": "chat.completion.chunk", **({"usage": None} if include_usage else {})}
    for delta in ({"role": "assistant", "content": ""}, *({"content": piece} for piece in completion.pieces)):
        yield {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]}
    last = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": completion.finish_reason}
    yield {**head, "choices": [last]}
    if include_usage:
        yield {**head, "choices": [], "usage": _usage(completion)}


def _usage(completion: Completion) -> dict[str, Any]:
    return {
        "prompt_tokens": completion.prompt_tokens,
        "completion_tokens": completion.completion_tokens,
        "total_tokens": completion.prompt_tokens + completion.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": completion.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
