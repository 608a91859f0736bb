"""Keys that stay on spans although their values are long or read like prose, each with the reason.

The list was reviewed value by value. A new entry needs the same: whether the text is one that a model was given or
gave back, then it belongs into the table of keys instead.
"""

from __future__ import annotations

LEFT: dict[str, str] = {
    "api_url": "an application's own attribute: the address it calls",
    "entity.N.description": "the application's own description of a tool or an agent",
    "exception.message": "an error; cut by size on a live span, whatever it holds",
    "exception.stacktrace": "an error; cut by size on a live span, whatever it holds",
    "gen_ai.agent.description": "the application's own description; an ordinary attribute of the convention",
    "gen_ai.tool.description": "the application's own description; an ordinary attribute of the convention",
    "logfire.json_schema": "the shape of the span's own attributes",
    "metadata": "what the user of OpenInference attached to the span; here counts of tokens",
    "tool.description": "the application's own description; an ordinary attribute of the convention",
}
