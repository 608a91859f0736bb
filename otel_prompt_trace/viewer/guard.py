"""Who is answered, and what every answer says to the browser: around all of the application.

- The ``Host`` of a request names loopback (DNS rebinding: another site's name that resolves to this machine does not).
- A page of another site may lead here by a link, and load nothing from here into itself.
- Answers run no script, are framed by nobody, are read by no other site and are kept in no cache.
"""

from __future__ import annotations

import asyncio
import re
from ipaddress import ip_address
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from otel_prompt_trace.viewer.html import STYLE_SOURCE

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,253})(?::[0-9]{1,5})?")
_POLICY = f"default-src 'none'; style-src {STYLE_SOURCE}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "vary": "Accept",
}
_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class Guard:
    """The application behind these rules."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse in plain text."""
        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
            await send(message)

        if scope["type"] != "http":
            raise RuntimeError("only HTTP is spoken here")
        app = refusal(scope["method"], Headers(scope=scope)) or self._app
        try:
            await app(scope, receive, send_guarded)
        except asyncio.CancelledError:  # told to end, while a page waited for a store
            if not started:
                await PlainTextResponse("prompt-trace serve was told to end.\n", 503)(scope, receive, send_guarded)


def refusal(method: str, headers: Headers) -> PlainTextResponse | None:
    """Why a request is not answered; None where it is."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not names_loopback(hosts[0]):
        text = "Only requests to this machine by a loopback name are answered: open http://127.0.0.1:<port>/\n"
        return PlainTextResponse(text, 421)
    if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        to, into = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
        if (to, into) != ("navigate", "document"):
            return PlainTextResponse("A page of another site may link here, and load nothing from here.\n", 403)
    if method not in {"GET", "HEAD"}:
        return PlainTextResponse("Nothing can be changed here: GET and HEAD only.\n", 405, {"allow": "GET, HEAD"})
    return None


def names_loopback(host: str) -> bool:
    """Whether a ``Host`` header is ``localhost`` or a loopback address, with or without a port."""
    found = _HOST.fullmatch(host)
    return found is not None and is_loopback(found["name"].strip("[]"))


def is_loopback(name: str) -> bool:
    """Whether a host's name is ``localhost`` or a loopback address."""
    if name.lower() == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
