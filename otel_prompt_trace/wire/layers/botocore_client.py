"""botocore: ``URLLib3Session.send``, called once for each attempt.

Its responses are urllib3's, which it never decodes; a body that is no stream was read when they come back. Streams of
events are told as the application reads them, in whatever pieces botocore asks for.
"""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.capture.guard import never_raises
from otel_prompt_trace.wire.exchange import Exchange
from otel_prompt_trace.wire.layers import urllib3_requests as sending
from otel_prompt_trace.wire.layers import urllib3_responses as answers
from otel_prompt_trace.wire.outermost import layer
from otel_prompt_trace.wire.patching import Patch


@never_raises
def _answered(response: Any, exchange: Exchange) -> None:
    read = vars(response).get("_content")  # the property would read on
    if read is None:
        answers.tee(response.raw, exchange)
    else:
        answers.whole(response.raw, exchange, read, decoded=False)


def _send(wrapped: Any, _session: Any, args: Any, kwargs: Any) -> Any:
    request = args[0] if args else kwargs.get("request")
    exchange = sending.begin_prepared(request)
    if exchange is None:
        return wrapped(*args, **kwargs)
    try:
        with layer(exchange):
            response = wrapped(*args, **kwargs)
    finally:
        sending.give_back([request])
    _answered(response, exchange)
    return response


PATCHES = [Patch("botocore.httpsession", "URLLib3Session.send", _send, ("request",))]
