"""Settings: the environment first, the same names as arguments of :func:`install`.

=================================  ==========================================================================
``PROMPT_TRACE_STORE``             where payloads go: a folder, or ``s3://bucket/prefix?endpoint_url=…``
``PROMPT_TRACE_SPOOL``             the local folder that holds what the store has not acknowledged yet
``PROMPT_TRACE_DURABILITY``        ``memory``, ``written`` (default, survives SIGKILL) or ``fsync`` (power loss)
``PROMPT_TRACE_POLICY``            policy for text: ``store`` (default) or ``hash`` (keyed digests and lengths)
``PROMPT_TRACE_WIRE``              ``on`` (default): requests to models are captured as they are sent; or ``off``
``PROMPT_TRACE_WIRE_ALLOW``        only these: rules ``host:PATTERN``, ``service:PATTERN``, ``route:PATTERN``, by commas
``PROMPT_TRACE_WIRE_DENY``         never these: the same; a pattern alone is a host's
``PROMPT_TRACE_WIRE_APIS``         further paths, as ``/my/llm/*=openai.chat``, by commas
``PROMPT_TRACE_REDACT``            what is cut out of every text: ready patterns by commas (``email,iban``), or a
                                   function of yours as ``module:function``
``PROMPT_TRACE_HASH_KEY``          the key of those digests; by default one is made and kept beside the spool
``PROMPT_TRACE_ENABLED``           ``false`` switches everything off, as ``OTEL_SDK_DISABLED=true`` does
``PROMPT_TRACE_SPANS``             ``divert`` (default): content leaves spans; ``copy``: it stays on them as well
``PROMPT_TRACE_PROPAGATE``         ``true`` sends the qid on in baggage (it reaches model hosts too; default off)
``PROMPT_TRACE_ACCEPT_QID``        ``trusted`` lets ``query(join=True)`` continue a qid that arrived in baggage
``PROMPT_TRACE_SPOOL_FILE_BYTES``  size of one spool file (default 16 MiB, at most that of the spool)
``PROMPT_TRACE_SPOOL_MAX_BYTES``   size of the whole spool; beyond it new events are lost and counted (default 1 GiB)
``PROMPT_TRACE_SPOOL_MAX_FRAMES``  the same in appends of one process (default 1,000,000)
``PROMPT_TRACE_SPOOL_MAX_AGE``     seconds after which a spool file is closed and handed over (default 600)
``PROMPT_TRACE_SPOOL_FULL``        ``drop`` (default): when the spool is full the newest events are lost; ``block``:
                                   they wait first
``PROMPT_TRACE_SPOOL_BLOCK_MS``    for how many milliseconds (default 100)
``PROMPT_TRACE_FSYNC_MS``          how long an append waits for the disk with ``fsync`` (default 250)
``PROMPT_TRACE_ADOPT``             ``true`` (default): what dead processes left in the spool is delivered from here
``PROMPT_TRACE_DELIVERY``          ``thread`` (default): this process compresses and writes what goes to the store; or
                                   ``process``: one that it starts does, for applications that compute a lot
``PROMPT_TRACE_MEMORY_MAX_BYTES``  size of what waits in memory (default 64 MiB), each: events in
                                   ``memory`` mode, answers that are still open, spans that have not ended
``PROMPT_TRACE_JAEGER``            the Jaeger that ``serve`` asks for the queries of a trace: ``http://127.0.0.1:16686``
``PROMPT_TRACE_TEST_STORE``        in tests: where payloads go whatever ``PROMPT_TRACE_STORE`` and arguments say, and
                                   nothing is spooled on disk; ``memory:`` is the process's own memory
=================================  ==========================================================================

Defaults lie under ``$XDG_STATE_HOME/prompt-trace`` (``~/.local/state/prompt-trace``), never in the working directory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from otel_prompt_trace.core.pieces import POLICIES
from otel_prompt_trace.core.redaction import Redactor, redactor
from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.redirection import redirected_to

_CHOICES = {
    "durability": ("memory", "written", "fsync"),
    "policy": POLICIES,
    "spans": ("divert", "copy"),
    "accept_qid": ("never", "trusted"),
    "wire": ("on", "off"),
    "spool_full": ("drop", "block"),
    "delivery": ("thread", "process"),
}
_SMALLEST_FILE = 64 * 1024
_MIB = 1024 * 1024
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Settings:
    """What :func:`load` read. Paths are absolute; ``hash_key`` is never shown."""

    store: str
    spool: Path
    durability: str
    policy: str
    enabled: bool
    spans: str
    propagate: bool
    accept_qid: str
    spool_file_bytes: int
    spool_max_bytes: int
    memory_max_bytes: int
    spool_max_frames: int = 1_000_000
    spool_max_age: int = 600
    spool_full: str = "drop"
    spool_block_ms: int = 100
    fsync_ms: int = 250
    adopt: bool = True
    delivery: str = "thread"
    wire: str = "on"
    wire_allow: tuple[str, ...] = ()
    wire_deny: tuple[str, ...] = ()
    wire_apis: tuple[str, ...] = ()
    redact: Redactor | None = None
    jaeger: str = ""
    hash_key: str | None = field(default=None, repr=False)
    test_store: str | None = None


def load(environ: Mapping[str, str] | None = None, **arguments: Any) -> Settings:
    """Settings from the environment, each overridden by the argument of its name where that is not None.

    Raises:
        ConfigurationError: a value that its setting does not take; the message names the variable.
        TypeError: an argument that is the name of no setting.
    """
    env = os.environ if environ is None else environ
    given = {name: value for name, value in arguments.items() if value is not None}
    strange = arguments.keys() - {setting.name for setting in fields(Settings)}
    if strange:
        raise TypeError(f"there is no setting {', '.join(sorted(strange))}")

    def text(name: str, default: str) -> str:
        return str(given.get(name, env.get(_variable(name)) or default))

    def place(name: str) -> str:
        return text(name, "") or str(state_folder(env) / name)

    def choice(name: str, default: str) -> str:
        return _choice(name, text(name, default))

    def size(name: str, default: int) -> int:
        return _size(name, given.get(name, env.get(_variable(name)) or default))

    def number(name: str, default: int, unit: str) -> int:
        return _number(name, given.get(name, env.get(_variable(name)) or default), unit)

    def listed(name: str) -> tuple[str, ...]:
        value = given.get(name, env.get(_variable(name)) or "")
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(part.strip() for part in parts if part.strip())

    test_store = redirected_to() or text("test_store", "") or None
    if test_store is not None:  # no spool of the application is read either: what waits there is not the tests'
        key = given.get("hash_key") or env.get(_variable("hash_key")) or "of the tests"
        spool = str(state_folder(env) / "test-spool")
        given |= {"store": test_store, "spool": spool, "durability": "memory", "delivery": "thread", "hash_key": key}
    most = size("spool_max_bytes", 1024 * _MIB)
    return Settings(
        store=place("store"),
        spool=_folder("spool", place("spool")),
        test_store=test_store,
        enabled=_enabled(env, given),
        propagate=_flag("propagate", given.get("propagate", env.get(_variable("propagate")) or "false")),
        hash_key=given.get("hash_key") or env.get(_variable("hash_key")) or None,
        durability=choice("durability", "written"),
        policy=choice("policy", _default_policy(env)),
        spans=choice("spans", "divert"),
        accept_qid=choice("accept_qid", "never"),
        wire=choice("wire", "on"),
        wire_allow=listed("wire_allow"),
        wire_deny=listed("wire_deny"),
        wire_apis=listed("wire_apis"),
        jaeger=check_jaeger(text("jaeger", "")),
        redact=_redactor(given.get("redact", env.get(_variable("redact")) or None)),
        spool_file_bytes=_within(most, size("spool_file_bytes", min(16 * _MIB, most))),
        spool_max_bytes=most,
        memory_max_bytes=size("memory_max_bytes", 64 * _MIB),
        spool_max_frames=number("spool_max_frames", 1_000_000, "appends"),
        spool_max_age=number("spool_max_age", 600, "seconds"),
        spool_full=choice("spool_full", "drop"),
        spool_block_ms=number("spool_block_ms", 100, "milliseconds"),
        fsync_ms=number("fsync_ms", 250, "milliseconds"),
        delivery=choice("delivery", "thread"),
        adopt=_flag("adopt", given.get("adopt", env.get(_variable("adopt")) or "true")),
    )


def _redactor(given: Any) -> Redactor | None:
    """A function from what was configured; the same function for the same configuration."""
    if not given:
        return None
    try:
        return _named_redactor(given) if isinstance(given, str) else redactor(given)
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"PROMPT_TRACE_REDACT={given!r}: {error}") from error


@cache
def _named_redactor(given: str) -> Redactor:
    module, colon, function = given.partition(":")
    if not colon:
        return redactor([name.strip() for name in given.split(",") if name.strip()])
    found = getattr(import_module(module), function)
    if not callable(found):
        raise ConfigurationError(f"PROMPT_TRACE_REDACT={given!r}: it is no function")
    return redactor(found)


def check_jaeger(url: str) -> str:
    """The address of a Jaeger, without a slash at its end; an empty one is none.

    Raises:
        ConfigurationError: it is no address of a server, or carries credentials.
    """
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is no number
        usable = False
    if not usable or any(mark in url for mark in "@?#") or not url.isprintable() or " " in url:
        raise ConfigurationError("PROMPT_TRACE_JAEGER is http://host:port, without credentials or query")
    return url.rstrip("/")


def state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """``$XDG_STATE_HOME/prompt-trace``, where store and spool are by default.

    Raises:
        ConfigurationError: there is neither such a variable nor a home folder.
    """
    env = os.environ if environ is None else environ
    base = Path(env.get("XDG_STATE_HOME") or "")
    if not base.is_absolute():  # a relative one is to be ignored: https://specifications.freedesktop.org/basedir-spec/
        try:
            base = Path("~/.local/state").expanduser()
        except RuntimeError as error:
            raise ConfigurationError("no home folder: set PROMPT_TRACE_STORE and PROMPT_TRACE_SPOOL") from error
    return base / "prompt-trace"


def _default_policy(env: Mapping[str, str]) -> str:
    """``hash`` where somebody has said, in the instrumentations' own words, that no text is to be kept anywhere."""
    capture = env.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").strip().lower()
    return "hash" if capture in {"false", "no_content", "none"} else "store"


def _enabled(env: Mapping[str, str], given: Mapping[str, Any]) -> bool:
    if _flag("OTEL_SDK_DISABLED", env.get("OTEL_SDK_DISABLED") or "false"):
        return False
    return _flag("enabled", given.get("enabled", env.get(_variable("enabled")) or "true"))


def _folder(name: str, value: str) -> Path:
    try:
        return Path(value).expanduser().absolute()
    except RuntimeError as error:  # ~ of a user that does not exist
        raise ConfigurationError(f"{_variable(name)}={value!r}: {error}") from error


def _variable(name: str) -> str:
    return name if name.isupper() else f"PROMPT_TRACE_{name.upper()}"


def _choice(name: str, value: str) -> str:
    if value not in _CHOICES[name]:
        raise ConfigurationError(f"{_variable(name)}={value!r}: it takes {', '.join(_CHOICES[name])}")
    return value


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    lowered = str(value).strip().lower()
    if lowered not in _TRUE | _FALSE:
        raise ConfigurationError(f"{_variable(name)}={value!r}: it takes true or false")
    return lowered in _TRUE


def _number(name: str, value: object, unit: str) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    if number < 1:
        raise ConfigurationError(f"{_variable(name)}={value!r}: it takes a number of {unit}, 1 or more")
    return number


def _within(most: int, size: int) -> int:
    if size > most:
        raise ConfigurationError(
            f"PROMPT_TRACE_SPOOL_FILE_BYTES={size}: one file is larger than PROMPT_TRACE_SPOOL_MAX_BYTES={most},"
            " the size of the whole spool"
        )
    return size


def _size(name: str, value: object) -> int:
    try:
        size = int(str(value))
    except ValueError:
        raise ConfigurationError(f"{_variable(name)}={value!r}: it takes a number of bytes") from None
    if size < _SMALLEST_FILE:
        raise ConfigurationError(f"{_variable(name)}={size}: it takes {_SMALLEST_FILE} bytes or more")
    return size
