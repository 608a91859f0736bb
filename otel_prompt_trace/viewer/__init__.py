"""Pages for a browser, and the same as JSON: what a link in Jaeger leads to.

``application`` answers addresses, ``finding`` reads what they name, ``pages`` and ``listings`` are pure functions from
records to HTML, ``guard`` decides who is answered at all, ``serving`` runs it on loopback.

Invariants:

- Only this machine is answered: the socket is bound to loopback, and the name in the request's ``Host`` is a loopback
  one, so that no page of another site can point its own name here.
- Nothing that is shown is obeyed. Every text is escaped unless it is :class:`~otel_prompt_trace.viewer.html.Html`, and
  the content security policy of every answer lets no script run.
- Nothing is changed: there is no address that writes, and no method but ``GET`` and ``HEAD``.

HTML is put together by one small function that escapes by default. A template engine would be a further dependency,
and its templates would be the one part of this package that no type checker reads.
"""
