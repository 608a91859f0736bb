"""A bucket that lets nobody delete: what is recorded is stored, and whoever erases is told what is left."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.doctor.storing import look_at_store
from otel_prompt_trace.exceptions import Erased
from otel_prompt_trace.settings import load
from otel_prompt_trace.sources import Sources
from tests.seaweed import Seaweed

pytestmark = pytest.mark.integration


@pytest.fixture(params=["policy", "lock"])
def undeletable(request: pytest.FixtureRequest, seaweed: Seaweed, seaweed_client: Any) -> Iterator[str]:
    """The URL of a store in such a bucket: by its policy, or by an object lock."""
    prefix = f"test/{uuid.uuid4().hex}"
    if request.param == "lock":
        yield seaweed.url("locked", prefix)
        return
    bucket = f"denied-{uuid.uuid4().hex[:8]}"
    seaweed_client.create_bucket(Bucket=bucket)
    denied = ["s3:DeleteObject", "s3:DeleteObjectVersion"]
    statement = {"Effect": "Deny", "Principal": "*", "Action": denied, "Resource": f"arn:aws:s3:::{bucket}/*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    seaweed_client.put_bucket_policy(Bucket=bucket, Policy=policy)
    yield seaweed.url(bucket, prefix)
    seaweed_client.delete_bucket_policy(Bucket=bucket)


def test_everything_is_stored_and_nothing_is_deleted(undeletable: str, tmp_path: Path) -> None:
    """Recording needs no right to delete. Erasing hides the record, deletes nothing, and names each object and why."""
    pt.install(store=undeletable, spool=str(tmp_path / "spool"), wire="off")
    try:
        with pt.query(question="kept") as q, q.call(model="m", prompt="a prompt") as call:
            call.respond("an answer")
        result = pt.flush(30)
    finally:
        pt.uninstall()
    assert (result.stored, result.spooled, result.lost) == (4, 0, 0)
    store = pt.open_store(undeletable)
    assert store.get(q.qid).calls[0].prompt is not None
    receipt = store.erase(q.qid)
    assert (receipt.deleted, receipt.verified) == ((), False)
    assert len(receipt.remaining) == 1
    assert q.qid in receipt.remaining[0].key
    assert "403 AccessDenied" in receipt.remaining[0].reason
    with pytest.raises(Erased):
        store.get(q.qid)


def test_doctor_takes_it_for_a_good_store(undeletable: str, tmp_path: Path) -> None:
    """It is append-only as it should be; that nothing can be erased from here is a warning, with what it means."""
    found = {f.name: f for f in look_at_store(load({}, store=undeletable, spool=str(tmp_path)), Sources())}
    assert (found["store"].status, found["store delete"].status) == ("ok", "warn")
    assert "AccessDenied" in found["store delete"].detail
    assert "erase" in found["store delete"].advice
