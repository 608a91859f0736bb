"""The addresses: ``/q/<qid>``, ``/t/<trace id>``, and the front page.

A page is HTML, or JSON where ``?format=json``, an ending ``.json`` or the header ``Accept: application/json`` asks for
it. The JSON of a query is what ``prompt-trace get`` prints (a text beyond two million characters without its number of
tokens). A qid that ends in ``.json`` itself is asked for with ``?format=html``.

Answers: 200; 300 several queries begin so; 400 no qid or trace id; 404 nothing is known of it; 410 it was erased;
503 the store can't be read. Each says in words what it is and what to do next.
"""

from __future__ import annotations

import contextlib
import re
from datetime import date
from html import unescape
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from otel_prompt_trace.core.published import published
from otel_prompt_trace.core.qid import is_trace_id
from otel_prompt_trace.core.text import encodable
from otel_prompt_trace.exceptions import Ambiguous, Erased, InvalidQid, NotFound, PromptTraceError
from otel_prompt_trace.records import Records
from otel_prompt_trace.viewer import listings
from otel_prompt_trace.viewer.finding import Shown, find_record, find_trace, read_rows
from otel_prompt_trace.viewer.guard import Guard
from otel_prompt_trace.viewer.html import Html, join, link
from otel_prompt_trace.viewer.jaeger import Jaeger
from otel_prompt_trace.viewer.pages import record_page

_SHORT_TRACE = re.compile(r"[0-9a-fA-F]{1,32}")
_SUFFIX = ".json"
_NEWEST = 20


def application(source: Records, jaeger: Jaeger | None = None) -> Guard:
    """The ASGI application that shows what ``source`` holds.

    Args:
        source: the store and the spool.
        jaeger: asked for the qids of a trace, and linked to.
    """
    viewer = _Viewer(source, jaeger)
    routes = [
        Route("/", viewer.front),
        Route("/q/{reference}", viewer.query),
        Route("/t/{trace_id}", viewer.trace),
    ]
    handlers: Any = {PromptTraceError: viewer.problem, HTTPException: viewer.problem}
    return Guard(Starlette(routes=routes, exception_handlers=handlers))


class _Viewer:
    """One handler an address. They are no coroutines: reading may take time, and Starlette gives each a thread."""

    def __init__(self, source: Records, jaeger: Jaeger | None) -> None:
        self._source = source
        self._jaeger = jaeger

    def front(self, _request: Request) -> Response:
        """What can be asked, and the newest queries."""
        source = self._source
        return HTMLResponse(listings.front_page(source.store.url, str(source.spool), source.newest(_NEWEST)))

    def query(self, request: Request) -> Response:
        """The record of a qid."""
        shown = self._record(request)
        if wants_json(request):
            return _json(orjson.dumps(published(shown.record, shown.grade)))
        return self._page(shown, _asked_trace(request))

    def trace(self, request: Request) -> Response:
        """The queries of a trace; of a trace with one query, that query."""
        trace_id, day = _read_trace(request), _day(request)
        found = find_trace(self._source, self._jaeger, trace_id, day)
        rows = read_rows(self._source, found, day)
        if wants_json(request):
            return _json(listings.trace_json(found, rows))
        read = list(rows)
        if len(read) == 1 and read[0].shown is not None and not found.notes:
            return self._page(read[0].shown, trace_id)
        page = self._jaeger.page(trace_id) if self._jaeger is not None else None
        return HTMLResponse(listings.trace_page(found, read, page))

    def problem(self, request: Request, error: Exception) -> Response:
        """What is wrong, in the form that was asked for."""
        status, title, nexts = self._explain(request, error)
        message = error.detail if isinstance(error, HTTPException) else str(error)
        candidates = error.candidates if isinstance(error, Ambiguous) else []
        if wants_json(request):
            said = {"error": title, "message": message, "next": [_words(each) for each in nexts]}
            return _json(orjson.dumps(encodable(said | ({"candidates": candidates} if candidates else {}))), status)
        return HTMLResponse(listings.problem_page(title, message, nexts, candidates), status)

    def _record(self, request: Request) -> Shown:
        reference, day = request.path_params["reference"], _day(request)
        if reference.endswith(_SUFFIX) and "format" not in request.query_params:
            try:
                return find_record(self._source, reference.removesuffix(_SUFFIX), day)
            except NotFound:
                with contextlib.suppress(NotFound):
                    return find_record(self._source, reference, day)  # a qid may end so itself
                raise
        return find_record(self._source, reference, day)

    def _page(self, shown: Shown, trace: str | None) -> Response:
        return HTMLResponse(record_page(shown, trace=trace, jaeger=self._jaeger.url if self._jaeger else None))

    def _explain(self, request: Request, error: Exception) -> tuple[int, str, list[Html | str]]:
        """Status, title, and what to do next."""
        match error:
            case Erased():
                return 410, "erased", ["Only its content-free tombstone is left. Nobody can bring it back."]
            case Ambiguous():
                return 300, "several queries", ["Say which of them: a longer beginning, or the whole qid."]
            case NotFound():
                return 404, "not found", self._where_else(request)
            case InvalidQid():
                return 400, "no query id", ["/q/<qid> takes a query id, /t/<trace id> 32 hexadecimal digits."]
            case HTTPException():
                return error.status_code, "no such page", [join(("Begin at ", link("/"), "."))]
            case _:
                return (
                    503,
                    "the store can't be read",
                    [
                        "'prompt-trace doctor' tries every step of it and says what to mend.",
                        "Records are safe meanwhile: they wait in the spools of the processes that made them.",
                    ],
                )

    def _where_else(self, request: Request) -> list[Html | str]:
        nexts: list[Html | str] = []
        trace = _asked_trace(request)
        if trace is not None:
            nexts.append(join(("Look for other queries of ", link(f"/t/{trace}", f"its trace {trace}"), ".")))
        nexts += [
            "It may wait in the spool of another machine: 'prompt-trace ship' delivers it there, then load this again.",
            f"It may lie in another store than {self._source.store.url}: 'prompt-trace serve --store URL'.",
        ]
        if "trace_id" in request.path_params:
            nexts.append("A day may be named, and is then searched: ?date=YYYY-MM-DD.")
            if self._jaeger is None:
                nexts.append("Jaeger knows the qids of a trace: 'prompt-trace serve --jaeger http://127.0.0.1:16686'.")
        return nexts


def wants_json(request: Request) -> bool:
    """Whether JSON was asked for: by ``?format=``, else the path's ending, else the header ``Accept``."""
    form = request.query_params.get("format")
    if form in {"json", "html"}:
        return form == "json"
    if request.url.path.endswith(_SUFFIX):
        return True
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def _read_trace(request: Request) -> str:
    """The trace id in the path, with the leading zeros that some interfaces leave out.

    Raises:
        InvalidQid: it is none.
    """
    given = request.path_params["trace_id"].removesuffix(_SUFFIX)
    trace_id = given.lower().zfill(32)
    if not _SHORT_TRACE.fullmatch(given) or not is_trace_id(trace_id):
        raise InvalidQid(f"{given[:40]!r} is no trace id: 32 hexadecimal digits")
    return str(trace_id)


def _asked_trace(request: Request) -> str | None:
    """The trace that a link of Jaeger's came from."""
    trace = (request.query_params.get("trace") or request.path_params.get("trace_id") or "").lower()
    return trace if is_trace_id(trace) else None


def _day(request: Request) -> date | None:
    given = request.query_params.get("date")
    if given is None:
        return None
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise HTTPException(400, f"{given[:40]!r} is no day: ?date=2026-11-30") from None


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


def _words(text: Html | str) -> str:
    """What stands in a remark, without its links' markup."""
    return unescape(re.sub(r"<[^>]*>", "", text)) if isinstance(text, Html) else text
