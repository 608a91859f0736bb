"""One delivery process, and the connection to it.

Invariants:

- The process has a session of its own, so that what a terminal or a supervisor says to the application's group does
  not reach it. It ends when the application's end of the connection is closed, and so with the application.
- The application may close every descriptor that it finds, and get our number again for a file of its own: nothing is
  written to a connection, and none is shut down, that is not the one which was made here.
- What it runs is what this process runs: the same package, found on the same absolute paths. Relative ones meant
  another folder before a ``chdir``.
- One that has not answered is killed at the end; one that has is let go, and ends at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import msgspec

import otel_prompt_trace
from otel_prompt_trace.pipeline.delivery.messages import Ended, Message, Unsaid, receive, send
from otel_prompt_trace.pipeline.forks import starting

_END_SECONDS = 1.0
_COOKIE = 57  # SO_COOKIE: the kernel's own number of a socket, asked for without letting go of the interpreter's lock
# Not ``-m``: what runs at the start of every interpreter here, such as an instrumentation, is not to run there. A
# supervisor may tell every process of a service to end, this one too, and that while it is still importing.
_PROGRAM = (
    "import _signal, sys; [_signal.signal(number, _signal.SIG_IGN) for number in (1, 2, 15)]; "
    "sys.path[:] = sys.argv[2:]; from otel_prompt_trace.pipeline.delivery.child import main; main()"
)


class Impossible(Ended):
    """There will never be one."""


class Link:
    """A delivery process that has been started.

    Raises:
        Impossible: nothing could be started from here.
        Ended: there can be none just now.
    """

    def __init__(self) -> None:
        if not _is_interpreter(sys.executable) or getattr(sys, "frozen", False):
            raise Impossible("this process is no Python interpreter that could be started again")
        self.environment = dict(os.environ)
        self._asking = False
        with starting.moment():
            try:
                self._connection, theirs = socket.socketpair()
            except OSError as error:
                raise Ended(str(error.strerror)) from error
            try:
                self._connection = _above_standard(self._connection)
                self._identity = _identity(self._connection)
                self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and a constant
                    [sys.executable, "-I", "-S", "-c", _PROGRAM, f"prompt-trace delivery of {os.getpid()}", *_path()],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except Exception as error:
                self._connection.close()
                raise Ended(getattr(error, "strerror", None) or type(error).__name__) from error
            finally:
                theirs.close()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def ask(self, question: msgspec.Struct, kind: type[Message], seconds: int) -> Message:
        """Its answer, of ``kind``. By one thread at a time.

        Raises:
            Ended: there is none, or not within ``seconds`` for each of the two ways.
            Unsaid: the question is none that a message could hold; nothing was asked.
        """
        self._check()
        # The kernel's own time-outs: with Python's, each part of a message would let go of the lock.
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            self._connection.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", seconds, 0))
        self._asking = True
        try:
            send(self._connection, question)
        except Unsaid:
            self._asking = False
            raise
        self._check()
        answer = receive(self._connection, kind)
        self._asking = False
        return answer

    def interrupt(self) -> None:
        """Have whoever waits for an answer know that there will be none. From any thread."""
        if self._asking:
            self._process.kill()
            self._shut()

    def end(self) -> None:
        """Let go of it, and wait a moment for its end. By whoever asks, or while nobody does."""
        self._shut()
        self._release()
        if self._asking:
            self._process.kill()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS)

    def forget(self) -> None:
        """In a forked child: the process is the parent's."""
        self._release()
        self._process.returncode = 0  # else its object would wait for it

    def _check(self) -> None:
        if not self._ours:
            raise Ended("its connection has been closed")

    @property
    def _ours(self) -> bool:
        try:
            return _identity(self._connection) == self._identity
        except OSError:
            return False

    def _shut(self) -> None:
        if self._ours:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def _release(self) -> None:
        if self._ours:
            self._connection.close()
        else:
            self._connection.detach()


def _is_interpreter(executable: str | None) -> bool:
    """A server that embeds Python names itself there, or nothing."""
    name = Path(executable or "").name.lower()
    return "python" in name or "pypy" in name


def _above_standard(connection: socket.socket) -> socket.socket:
    """An application without standard streams may make some later, by number."""
    if connection.fileno() > 2:
        return connection
    with connection:
        return socket.socket(fileno=fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))


def _identity(connection: socket.socket) -> object:
    """What tells this connection from all others under its number.

    Raises:
        OSError: there is nothing under its number.
    """
    with contextlib.suppress(OSError):
        return connection.getsockopt(socket.SOL_SOCKET, _COOKIE, 8)
    status = os.fstat(connection.fileno())
    return status.st_dev, status.st_ino


def _path() -> list[str]:
    paths = [entry for entry in sys.path if Path(str(entry)).is_absolute()]
    found = PathFinder.find_spec(otel_prompt_trace.__name__, paths)
    if found is None or found.origin != otel_prompt_trace.__file__:
        paths.insert(0, str(Path(otel_prompt_trace.__file__).parents[1]))
    return paths
