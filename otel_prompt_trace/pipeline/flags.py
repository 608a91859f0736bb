"""The flags of a frame, apart from its format so that an application's first import loads no codec."""

from __future__ import annotations

END = 1  # it holds an ``end``, or anything else after which its query's object is due
REQUEST = 2  # it holds a ``request``
LINES = 4  # its body is JSON lines, as stored
