"""Text and values in JSON without losing a bit, and their digests.

A text is a JSON string only if it encodes as UTF-8. What JSON can't carry stands as an object with one of the
reserved key sets below, and an application's own object that has just such a key set is wrapped as well, so that
decoding never guesses:

====================================  ====================================================================
``{"base64", "encoding"}``            ``utf-8/surrogatepass``: text with a lone surrogate; ``bytes``: bytes
``{"integer"}``                       an integer beyond 64 bits, as its decimal digits (``0x`` and hex digits
                                      where it has more of them than Python converts)
``{"float"}``                         ``nan``, ``inf`` or ``-inf``
``{"object", "repr"}``                :class:`Foreign`, a value of another type
``{"runs"}``                          a :class:`CutText`: a text of which a policy took parts
``{"escaped"}``                       an application's object that looks like one of these; it grows by a few
                                      bytes a level, however deep somebody nests such objects
====================================  ====================================================================

sha256 is over the UTF-8 (surrogatepass) of a text.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SURROGATES = "utf-8/surrogatepass"
_RESERVED = ({"base64", "encoding"}, {"integer"}, {"float"}, {"object", "repr"}, {"runs"}, {"escaped"})
_MOST_RESERVED = max(map(len, _RESERVED))
_SMALL = 2**63
_STEP = 2047  # bytes; of more than these hashing lets go of the interpreter's lock
_LONG = 1 << 20  # bytes, whose digest takes most of a millisecond
_DEPTH = 100  # deeper than any request body that a model host takes; a guard against a value that holds itself


FILLER = "\ufffc"  # OBJECT REPLACEMENT CHARACTER stands in for each character that was cut


@dataclass(frozen=True, slots=True)
class Cut:
    """Characters that a policy took out of a text: how many, by which policy, and their keyed digest."""

    chars: int
    policy: str
    hmac_sha256: str | None = None


class CutText:
    """A text of which parts were cut. Place and length of each part stay, so that offsets still hold.

    No dataclass: an encoder that takes any of those would write it as an ordinary object, and nobody could tell.
    """

    __slots__ = ("runs",)

    def __init__(self, runs: tuple[str | Cut, ...]) -> None:
        self.runs = runs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CutText) and self.runs == other.runs

    def __hash__(self) -> int:
        return hash(self.runs)

    def __repr__(self) -> str:
        return f"CutText(runs={self.runs!r})"

    def __len__(self) -> int:
        return sum(len(run) if isinstance(run, str) else run.chars for run in self.runs)

    @property
    def filled(self) -> str:
        """A text as long as the original, with :data:`FILLER` for each character that was cut."""
        return "".join(run if isinstance(run, str) else FILLER * run.chars for run in self.runs)

    def cuts(self) -> Iterator[tuple[int, int, Cut]]:
        """Start, end (code points of the original) and description of each part that was cut."""
        position = 0
        for run in self.runs:
            if isinstance(run, Cut):
                yield position, position + run.chars, run
                position += run.chars
            else:
                position += len(run)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A value of a type that JSON has no place for: its class and its ``repr``, never taken for a text."""

    kind: str
    repr: str


def utf8(text: str) -> bytes:
    """The bytes of a text, lone surrogates included; what every sha256 and length in bytes is taken over."""
    return text.encode("utf-8", "surrogatepass")


def as_text(value: object) -> str:
    """A value that should be a string, as one: what comes from outside may be of any type."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return _digits(value)
    try:
        return str(value)
    except (ValueError, RecursionError):  # it holds an integer of more digits than are converted, or is too deep
        return f"<{type(value).__name__}>"


def encodable(value: Any) -> Any:
    """A text, or the texts in lists and objects, as UTF-8 carries it: a lone surrogate is spelled out."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {name: encodable(item) for name, item in value.items()}
    return [encodable(item) for item in value] if isinstance(value, list) else value


def sha256_text(text: str) -> str:
    """Hex sha256 of :func:`utf8` of ``text``."""
    return sha256_bytes(utf8(text))


def sha256_bytes(data: bytes) -> str:
    """Hex sha256, taken in steps for which the interpreter's lock is kept.

    In one step it would be let go of, for microseconds; beside a thread that never waits it comes back after five
    milliseconds.
    """
    import hashlib  # here: it loads OpenSSL, three megabytes that a process which does not record has no use for

    if len(data) > _LONG:
        return hashlib.sha256(data).hexdigest()
    found, view = hashlib.sha256(), memoryview(data)
    for start in range(0, len(data), _STEP):
        found.update(view[start : start + _STEP])
    return found.hexdigest()


def wrap(value: Any, depth: int = 0) -> Any:
    """A value that JSON carries and :func:`unwrap` turns back into ``value`` (tuples come back as lists)."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _wrap_text(value)
    if kind is dict and depth < _DEPTH:
        return _wrap_dict(value, depth)
    if value is None or kind is bool:
        return value
    if isinstance(value, str):
        return _wrap_text(value)
    if isinstance(value, int):
        # Compared, not looked up in a range: for a subclass (an IntEnum) that would count through it one by one.
        return int(value) if -(2**63) <= value < 2**64 else {"integer": _digits(int(value))}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, CutText):
        return {"runs": [_wrap_run(run) for run in value.runs]}
    if isinstance(value, Foreign):
        return {"object": encodable(value.kind), "repr": encodable(value.repr)}
    if isinstance(value, bytes | bytearray | memoryview):
        return _base64(bytes(value), "bytes")
    if depth >= _DEPTH:
        return _foreign(value)
    if isinstance(value, Mapping):
        return _wrap_mapping(value, depth)
    if isinstance(value, Sequence):
        return [wrap(item, depth + 1) for item in value]
    return _foreign(value)


def unwrap(value: Any) -> Any:
    """The inverse of :func:`wrap`.

    Raises:
        ValueError: an object has a reserved key set and holds nothing that :func:`wrap` writes there.
    """
    if isinstance(value, list):
        return [unwrap(item) for item in value]
    if not isinstance(value, dict):
        return value
    keys = value.keys()
    if keys == {"base64", "encoding"} and isinstance(value["base64"], str):
        return _unwrap_base64(value)
    if keys == {"integer"} and isinstance(value["integer"], str):
        digits = value["integer"]
        return int(digits, 16) if digits.startswith(("0x", "-0x")) else int(digits)
    if keys == {"float"} and isinstance(value["float"], str):
        return float(value["float"])
    if keys == {"object", "repr"} and isinstance(value["object"], str) and isinstance(value["repr"], str):
        return Foreign(value["object"], value["repr"])
    if keys == {"runs"} and isinstance(value["runs"], list):
        return CutText(tuple(_unwrap_run(run) for run in value["runs"]))
    if keys == {"escaped"} and isinstance(value["escaped"], dict):
        value = value["escaped"]
    return {key: unwrap(item) for key, item in value.items()}


def _wrap_run(run: str | Cut) -> Any:
    if isinstance(run, str):
        return _wrap_text(run)
    return {"cut": run.chars, "policy": run.policy, "hmac_sha256": run.hmac_sha256}


def _unwrap_run(run: Any) -> str | Cut:
    if isinstance(run, dict) and "cut" in run:
        chars = run["cut"]
        if not isinstance(chars, int) or isinstance(chars, bool) or chars < 0:
            raise ValueError("a cut run without its length")
        return Cut(chars, str(run.get("policy")), run.get("hmac_sha256"))
    text = unwrap(run)
    if not isinstance(text, str):
        raise ValueError("a run that is neither a text nor a cut")  # noqa: TRY004 - of what was read, not of a caller
    return text


def _wrap_text(text: str) -> Any:
    try:
        text.encode()
    except UnicodeEncodeError:
        return _base64(utf8(text), SURROGATES)
    return str.__str__(text)  # the characters themselves: str() of an enumeration's member is its name


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # more decimal digits than the interpreter converts
        return hex(value)


def _wrap_dict(value: dict[Any, Any], depth: int) -> Any:
    """As :func:`_wrap_mapping`. Nearly all that is recorded are short names with texts and small numbers."""
    plain: dict[str, Any] = {}
    for key, item in value.items():
        if type(key) is not str or not key.isascii():
            return _wrap_mapping(value, depth)
        kind = type(item)
        if (kind is str and item.isascii()) or (kind is int and -_SMALL < item < _SMALL):
            plain[key] = item
        else:
            plain[key] = wrap(item, depth + 1)
    return plain if len(plain) > _MOST_RESERVED else _escaped(plain)


def _wrap_mapping(value: Mapping[Any, Any], depth: int) -> Any:
    plain: dict[str, Any] = {}
    for key, item in value.items():
        name = str.__str__(key) if isinstance(key, str) else str(key)
        name = encodable(name)  # JSON has no other place for a name; the escape is visible, the value whole
        if name in plain:  # 1 and "1", say: JSON would keep one of the two
            return _foreign(value)
        plain[name] = wrap(item, depth + 1)
    return _escaped(plain)


def _escaped(plain: dict[str, Any]) -> dict[str, Any]:
    return {"escaped": plain} if plain.keys() in _RESERVED else plain


def _unwrap_base64(value: dict[str, Any]) -> Any:
    raw = base64.b64decode(value["base64"], validate=True)
    match value["encoding"]:
        case "utf-8/surrogatepass":
            return raw.decode("utf-8", "surrogatepass")
        case "bytes":
            return raw
        case _:
            raise ValueError(f"unknown encoding {value['encoding']!r}")


def _base64(raw: bytes, encoding: str) -> dict[str, str]:
    return {"base64": base64.b64encode(raw).decode("ascii"), "encoding": encoding}


def _foreign(value: object) -> dict[str, str]:
    kind = type(value)
    try:
        shown = encodable(repr(value))
    except Exception:  # noqa: BLE001 - a repr is somebody else's code: it must not take the record with it
        shown = ""
    return {"object": encodable(f"{kind.__module__}.{kind.__qualname__}"), "repr": shown}
