"""What a model host answered on the wire, read into the fields of a ``response`` event.

Bytes become messages (``sse``, ``json_values``, ``event_stream``), the messages of a stream become the body that the
same API would have answered without streaming (one module an API), and one function an API reads that body: so a
streamed answer and a plain one give the same fields. Pure; nothing here raises, for any bytes.
"""

from __future__ import annotations

from otel_prompt_trace.core.replies.content_encoding import decode_body
from otel_prompt_trace.core.replies.reading import APIS, ReplyReader, read_reply

__all__ = ["APIS", "ReplyReader", "decode_body", "read_reply"]
