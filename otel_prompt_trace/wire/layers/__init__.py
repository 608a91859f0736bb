"""The HTTP clients whose requests are captured, one module for each."""

from __future__ import annotations

from otel_prompt_trace.wire.layers import (
    aiohttp_client,
    botocore_client,
    httpx_clients,
    requests_client,
    urllib3_client,
)
from otel_prompt_trace.wire.patching import Patch


def patches() -> list[Patch]:
    """The patches of all libraries that are known."""
    return [
        *httpx_clients.PATCHES,
        *requests_client.PATCHES,
        *botocore_client.PATCHES,
        *urllib3_client.PATCHES,
        *aiohttp_client.PATCHES,
    ]
