"""What the application's process and its delivery process say to each other, over a pair of connected sockets.

Each message is its length in bytes (8, little-endian), then MessagePack. The application says ``Open``, and then one
``Batch`` after another; to each the other answers: ``Opened``, and for a batch an ``Answer``. The end of the stream
ends the delivery process.
"""

from __future__ import annotations

import socket
import struct
from datetime import datetime
from typing import TypeVar

import msgspec

from otel_prompt_trace import exceptions
from otel_prompt_trace.pipeline.delivery.together import Outcome, Sealed

Message = TypeVar("Message", bound=msgspec.Struct)

_LENGTH = struct.Struct("<Q")
_SHORT = 1 << 16
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)  # else one that is gone would end an application that heeds SIGPIPE
_encoder = msgspec.msgpack.Encoder()
_KINDS = ("StoreUnreachable", "StoreDenied", "ObjectCorrupt", "StoreError", "ConfigurationError", "InvalidEvent")


class Open(msgspec.Struct, array_like=True):
    """The address of the store; in bytes, since a folder's name may be no text."""

    store: bytes


class Failure(msgspec.Struct, array_like=True):
    """An error, by the name of its class."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Of an error of ours with its message; any other by its class alone, since it may quote what is stored."""
        kind = next((kind for kind in _KINDS if isinstance(error, getattr(exceptions, kind))), None)
        if kind is None:
            return cls(type(error).__name__, "")
        return cls(kind, str(error).encode("utf-8", "backslashreplace").decode())  # it may name a folder

    @property
    def error(self) -> Exception:
        """The error again; one that is not ours as a RuntimeError."""
        return getattr(exceptions, self.kind)(self.message) if self.kind in _KINDS else RuntimeError(self.kind)


class Opened(msgspec.Struct, array_like=True):
    """The store is open, or can't be."""

    failure: Failure | None = None


class Batch(msgspec.Struct, array_like=True):
    """Queries to store, and the time of it."""

    now: datetime
    queries: list[Sealed]


class Told(msgspec.Struct, array_like=True):
    """What became of one query."""

    failure: Failure | None
    seconds: float
    tried: bool

    @classmethod
    def of(cls, outcome: Outcome) -> Told:
        """As it is sent."""
        failure = None if outcome.error is None else Failure.of(outcome.error)
        return cls(failure, outcome.seconds, outcome.tried)

    @property
    def outcome(self) -> Outcome:
        """As it was."""
        return Outcome(None if self.failure is None else self.failure.error, self.seconds, self.tried)


class Answer(msgspec.Struct, array_like=True):
    """What became of each query of a batch."""

    outcomes: list[Told]


class Ended(Exception):
    """The other side is not there any more, or takes too long."""


class Unsaid(Exception):
    """What no message can hold: a line of 4 GiB, or an id that is no text."""


def send(connection: socket.socket, message: msgspec.Struct) -> None:
    """Send one message, in one call.

    Raises:
        Ended: nobody takes it.
        Unsaid: it can't be put into a message, and nothing was sent.
    """
    data = bytearray(_LENGTH.size)
    try:
        _encoder.encode_into(message, data, _LENGTH.size)
    except Exception as error:
        raise Unsaid(type(error).__name__) from error
    _LENGTH.pack_into(data, 0, len(data) - _LENGTH.size)
    try:
        connection.sendall(data, _NO_SIGNAL)
    except OSError as error:
        raise Ended(type(error).__name__) from error


def receive(connection: socket.socket, kind: type[Message]) -> Message:
    """The next message, in one call where it is short, in two where it is not.

    Nothing may follow it: whoever has asked waits for the answer before asking again.

    Raises:
        Ended: there is none, or it is none that this side understands.
    """
    try:
        data = connection.recv(_SHORT)
        while 0 < len(data) < _LENGTH.size:
            more = connection.recv(_SHORT)
            data = data + more if more else b""
        if not data:
            raise Ended("end of stream")
        (length,) = _LENGTH.unpack_from(data)
        whole = bytearray(_LENGTH.size + length)
        reached = len(data)
        whole[:reached] = data
        with memoryview(whole) as view:
            while reached < len(whole):
                count = connection.recv_into(view[reached:], 0, socket.MSG_WAITALL)
                if not count:
                    raise Ended("end of stream")
                reached += count
            return msgspec.msgpack.decode(view[_LENGTH.size :], type=kind)
    except (OSError, ValueError, OverflowError, MemoryError, msgspec.MsgspecError) as error:
        raise Ended(type(error).__name__) from error
