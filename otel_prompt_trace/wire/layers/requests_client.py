"""requests: ``Session.send``, which follows redirects inside itself, and so does our one exchange."""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.capture.guard import never_raises
from otel_prompt_trace.wire.exchange import Exchange, Hop
from otel_prompt_trace.wire.layers import urllib3_requests as sending
from otel_prompt_trace.wire.layers import urllib3_responses as answers
from otel_prompt_trace.wire.outermost import layer
from otel_prompt_trace.wire.patching import Patch


@never_raises
def _went_out(response: Any, exchange: Exchange) -> None:
    """What adapters' hooks made of the request, and the further ones that auth and redirects led to."""
    hops = [
        Hop(*sending.address(one.request.url), sending.as_given(one.request.body), one.status_code)
        for one in (*response.history, response)
    ]
    exchange.went_out(hops)


@never_raises
def _answered(response: Any, exchange: Exchange) -> None:
    _went_out(response, exchange)
    raw, read = response.raw, vars(response).get("_content", False)
    if read is False and hasattr(raw, "status"):
        answers.tee(raw, exchange)
    elif read is not False and hasattr(raw, "status"):
        answers.whole(raw, exchange, read or b"", decoded=getattr(raw, "_decoder", None) is not None)
    else:  # an adapter of another kind
        exchange.answered(response.status_code, response.headers.get("content-type"), None)
        exchange.seen(read or b"")
        exchange.over(complete=read is not False)


@never_raises
def _give_back(request: Any, came_of_it: Any) -> None:
    """The copies that redirects made have the body as well."""
    history = getattr(came_of_it, "history", None) or ()
    sending.give_back([request, getattr(came_of_it, "request", None), *(past.request for past in history)])


def _send(wrapped: Any, _session: Any, args: Any, kwargs: Any) -> Any:
    request = args[0] if args else kwargs.get("request")
    exchange = sending.begin_prepared(request)
    if exchange is None:
        return wrapped(*args, **kwargs)
    try:
        with layer(exchange):
            response = wrapped(*args, **kwargs)
    except BaseException as error:
        _give_back(request, error)
        raise
    _give_back(request, response)
    _answered(response, exchange)
    return response


PATCHES = [Patch("requests.sessions", "Session.send", _send, ("request",))]
