"""Calls of Amazon Bedrock by boto3."""

from __future__ import annotations

import gc
import json
from typing import Any

import boto3
from botocore.config import Config

MODEL = "anthropic.claude-stand-in-v1:0"
MESSAGES = [{"role": "user", "content": [{"text": "Wann? é 返"}]}]
INVOKED = json.dumps({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": MESSAGES})


def _client(at: Any, attempts: int = 1, **more: Any) -> Any:
    config = Config(retries={"total_max_attempts": attempts, "mode": "standard"}, **more)
    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none", "region_name": "us-east-1"}
    return boto3.client("bedrock-runtime", endpoint_url=at.url, config=config, **keys)


def _said(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key != "ResponseMetadata"}


def converse(at: Any) -> Any:
    answer = _client(at).converse(modelId=MODEL, messages=MESSAGES, system=[{"text": "Be brief."}])
    at.see("metadata", answer["ResponseMetadata"]["HTTPStatusCode"], answer["ResponseMetadata"]["RetryAttempts"])
    return _said(answer)


def converse_stream(at: Any) -> None:
    answer = _client(at).converse_stream(modelId=MODEL, messages=MESSAGES)
    at.see("answer", type(answer["stream"]).__name__)
    for event in answer["stream"]:
        at.see("event", event)


def converse_stream_left(at: Any) -> None:
    stream = _client(at).converse_stream(modelId=MODEL, messages=MESSAGES)["stream"]
    at.go(3)
    for number, event in enumerate(stream, 1):
        at.see("event", event)
        if number == 3:
            break
    stream.close()


def converse_stream_collected(at: Any) -> None:
    client = _client(at)
    answer = client.converse_stream(modelId=MODEL, messages=MESSAGES)
    at.go(2)
    events = iter(answer["stream"])
    at.see("events", [next(events), next(events)])
    del events, answer
    gc.collect()
    client.close()


def converse_stream_throttled(at: Any) -> None:
    for event in _client(at).converse_stream(modelId=MODEL, messages=MESSAGES)["stream"]:
        at.see("event", event)


def converse_stream_cut(at: Any) -> None:
    for event in _client(at).converse_stream(modelId=MODEL, messages=MESSAGES)["stream"]:
        at.see("event", event)


def invoke(at: Any) -> None:
    answer = _client(at).invoke_model(modelId=MODEL, body=INVOKED)
    body = answer["body"]
    at.see("body", type(body).__name__, body.read(), body.read())


def invoke_lines(at: Any) -> None:
    answer = _client(at).invoke_model(modelId=MODEL, body=INVOKED)
    at.see("lines", list(answer["body"].iter_lines(chunk_size=16)))


def invoke_unread(at: Any) -> None:
    answer = _client(at).invoke_model(modelId=MODEL, body=INVOKED)
    at.see("status", answer["ResponseMetadata"]["HTTPStatusCode"])
    answer["body"].close()


def invoke_stream(at: Any) -> None:
    answer = _client(at).invoke_model_with_response_stream(modelId=MODEL, body=INVOKED)
    for event in answer["body"]:
        at.see("event", event)


def retried(at: Any) -> Any:
    answer = _client(at, 3).converse(modelId=MODEL, messages=MESSAGES)
    at.see("retries", answer["ResponseMetadata"]["RetryAttempts"])
    return _said(answer)


def refused(at: Any) -> None:
    _client(at).converse(modelId=MODEL, messages=MESSAGES)


def timed_out(at: Any) -> None:
    _client(at, read_timeout=0.3).converse(modelId=MODEL, messages=MESSAGES)
