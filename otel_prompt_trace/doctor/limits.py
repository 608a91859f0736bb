"""The limits of spans that are in force, and what of ours they would cut.

Content is taken off before any limit reaches it, so what a limit can harm is what stays: our own small attributes,
and the instrumentation's other ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from opentelemetry import trace

from otel_prompt_trace.core import attributes
from otel_prompt_trace.doctor.finding import Finding
from otel_prompt_trace.settings import Settings

_OF_ATTRIBUTES = ("ATTRIBUTE_VALUE_LENGTH", "ATTRIBUTE_COUNT")
_OF_SPANS = ("SPAN_EVENT_COUNT", "SPAN_LINK_COUNT", "EVENT_ATTRIBUTE_COUNT", "LINK_ATTRIBUTE_COUNT")
_KINDS = [f"{scope}{kind}" for scope in ("", "SPAN_", "LOGRECORD_") for kind in _OF_ATTRIBUTES]
_VARIABLES = [f"OTEL_{kind}_LIMIT" for kind in (*_KINDS, *_OF_SPANS)]
_FOLDER = len("payloads/dt=2026-11-30//")  # and the qid between the last two
_QIDS = {"a qid of query()": 26, "an entry qid": 49}  # characters
_OURS = 7  # attributes on a span, at most
_BESIDE = 32  # attributes that a model span has of others, about


def look_at_sdk() -> Iterator[Finding]:
    """Whether the SDK can be imported at all: it reads its limits when it is, and fails on one that is no number."""
    try:
        import opentelemetry.sdk.trace  # noqa: F401
    except ValueError as error:
        yield Finding("span limits", "fail", str(error), "the SDK refuses to start with this: write a number")


def look_at_limits(settings: Settings) -> Iterator[Finding]:
    """Those of this process's provider, else those that the environment gives a new one."""
    from opentelemetry.sdk.trace import SpanLimits

    given = [f"{name}={os.environ[name]}" for name in _VARIABLES if os.environ.get(name)]
    provider = trace.get_tracer_provider()
    try:
        limits, whose = _limits_of(provider), "the provider here"
        if limits is None:
            limits, whose = SpanLimits(), "a provider made here"
    except ValueError as error:
        yield Finding("span limits", "fail", str(error), "the SDK refuses to start with this: write a number")
        return
    length, count = limits.max_span_attribute_length, limits.max_span_attributes
    said = f"{whose}: {_shown(count)} attributes and {_shown(limits.max_events)} events a span, "
    said += "texts of any length" if length is None else f"texts of {length:,} characters"
    if given:
        said += f" ({', '.join(given)})"
    if not hasattr(provider, "add_span_processor") and not _is_api_only(provider):
        yield Finding(
            "span limits", "warn", "the provider is not the SDK's: its limits are not known", "ask its vendor"
        )
    else:
        yield Finding("span limits", "ok", said)
    yield from cut_by(length, count, copy=settings.spans == "copy")


def cut_by(length: int | None, count: int | None, *, copy: bool) -> Iterator[Finding]:
    """What a limit of an attribute's length and one of a span's attributes take of what stays on a span.

    Args:
        length: characters of a text; None for no limit.
        count: attributes of a span; None for no limit.
        copy: whether content stays on spans.
    """
    if length is not None:
        short = [name for name, needed in lengths().items() if length < needed]
        if short:
            yield Finding(
                "limits cut",
                "warn",
                f"a text of {length} characters is too short for {', '.join(short)}",
                f"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT of {max(lengths().values())} or more; a cut qid joins nothing",
            )
    if count is not None and count < _OURS + _BESIDE:
        yield Finding(
            "limits cut",
            "warn",
            f"of {count} attributes a span, up to {min(count, _OURS)} are ours: the oldest others are evicted",
            f"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT of {_OURS + _BESIDE} or more; 128 is the default",
        )
    if copy and (length is not None or count is not None):
        yield Finding(
            "limits cut",
            "warn",
            "content that stays on spans (PROMPT_TRACE_SPANS=copy) is cut and evicted there; records are whole",
            "PROMPT_TRACE_SPANS=divert",
        )


def lengths() -> dict[str, int]:
    """The characters that each of our texts on a span takes."""
    return {
        **{f"{attributes.QID} ({kind})": size for kind, size in _QIDS.items()},
        attributes.SHA256: 64,
        attributes.REF: _FOLDER + max(_QIDS.values()),
    }


def _limits_of(provider: Any) -> Any:
    """The limits of an SDK provider, or of one behind a proxy; None where there are none to see."""
    from otel_prompt_trace.diversion.provider import behind

    return getattr(behind(provider), "_span_limits", None)


def _is_api_only(provider: Any) -> bool:
    return type(provider).__module__.startswith("opentelemetry.trace")


def _shown(limit: int | None) -> str:
    return "any number of" if limit is None else f"{limit:,}"
