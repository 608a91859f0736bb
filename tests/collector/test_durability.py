"""What the sender was told is archived is archived: over kills, outages of the store, locks and missing rights."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.collector.bucket import Bucket
from tests.collector.conftest import StartCollector
from tests.collector.sending import Load, send_spans
from tests.seaweed import Seaweed
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.fault]


def archived(bucket: Bucket, sent: list[str]) -> Counter[str]:
    """Wait until the archive holds every span of ``sent``; how often each span is there."""
    wanted = set(sent)
    found: Counter[str] = Counter()

    def complete() -> bool:
        nonlocal found
        found = Counter(bucket.span_ids())
        return wanted <= set(found)

    with contextlib.suppress(AssertionError):
        until(complete, 60)
    missing = wanted - set(found)
    assert not missing, f"{len(missing)} of {len(wanted)} acknowledged spans are not in the archive"
    return found


@pytest.mark.timeout(240)
def test_a_killed_collector_archives_all_that_it_acknowledged(
    start_collector: StartCollector, spans_bucket: Bucket
) -> None:
    """Killed three times under load, with batches in memory, in the queue and on their way to the bucket."""
    collector = start_collector("production.yaml", **spans_bucket.variables)
    with Load(collector.grpc) as load:
        for _ in range(3):
            before = len(load.acknowledged)
            until(lambda before=before: len(load.acknowledged) >= before + 2_000, 60)
            collector.program.kill()
            collector.start_again()
        until(lambda: len(load.acknowledged) >= 8_000, 60)
    found = archived(spans_bucket, load.acknowledged)
    assert load.refused, "no kill came between a sender and its receipt: the load was too small"
    twice = sum(count - 1 for count in found.values())
    unasked = len(set(found) - set(load.acknowledged))
    print(f"acknowledged {len(load.acknowledged)}, archived {len(found)}, copies {twice}, unacknowledged {unasked}")


def test_nothing_is_lost_while_the_bucket_is_missing(
    start_collector: StartCollector, spans_bucket: Bucket, seaweed: Seaweed
) -> None:
    """Spans wait on disk, over a kill and over an orderly end too, and the log says why; once it is there they come."""
    bucket = Bucket(seaweed, f"later-{uuid.uuid4().hex[:12]}")
    collector = start_collector("production.yaml", **bucket.variables)
    sent = send_spans(collector.grpc, 200)
    until(lambda: "NoSuchBucket" in collector.program.said())
    collector.program.kill()
    collector.start_again()
    sent += send_spans(collector.grpc, 200)
    assert collector.program.stop() == 0
    collector.start_again()
    sent += send_spans(collector.grpc, 200)
    assert bucket.objects() == []
    bucket.make()
    assert archived(bucket, sent) == Counter(sent)


@pytest.mark.timeout(240)
def test_a_full_queue_refuses_instead_of_forgetting(start_collector: StartCollector, seaweed: Seaweed) -> None:
    """Senders are told, also after a kill; what was acknowledged before is archived once the bucket is there."""
    bucket = Bucket(seaweed, f"full-{uuid.uuid4().hex[:12]}")
    collector = start_collector("production.yaml", ARCHIVE_QUEUE_BYTES=str(20 << 20), **bucket.variables)
    with Load(collector.grpc, batch=200, chars=4000) as load:
        until(lambda: load.refused, 90)
    assert len(load.acknowledged) > 2_000
    assert "sending queue is full" in collector.program.said()
    collector.program.kill()
    collector.start_again()
    with Load(collector.grpc, batch=200, chars=4000) as again:
        until(lambda: again.refused, 90)
    bucket.make()
    archived(bucket, load.acknowledged + again.acknowledged)


def test_wrong_credentials_lose_nothing(start_collector: StartCollector, spans_bucket: Bucket) -> None:
    """The log names the refusal and not the secret; with the right ones all that was taken is archived."""
    wrong = {**spans_bucket.variables, "AWS_SECRET_ACCESS_KEY": "wrong-and-never-shown"}
    collector = start_collector("production.yaml", **wrong)
    sent = send_spans(collector.grpc, 300)
    until(lambda: "SignatureDoesNotMatch" in collector.program.said())
    assert "wrong-and-never-shown" not in collector.program.said()
    assert spans_bucket.objects() == []
    assert collector.program.stop() == 0
    collector.start_again(**spans_bucket.variables)
    assert archived(spans_bucket, sent) == Counter(sent)


def test_a_locked_bucket_takes_the_archive_and_gives_nothing_up(
    start_collector: StartCollector, seaweed: Seaweed
) -> None:
    """Object lock: spans are archived as ever, and no version of an object can be deleted or replaced."""
    from botocore.exceptions import ClientError

    bucket = Bucket(seaweed, f"locked-{uuid.uuid4().hex[:12]}")
    bucket.make(ObjectLockEnabledForBucket=True)
    client = seaweed.client()
    rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}
    client.put_object_lock_configuration(
        Bucket=bucket.name, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    collector = start_collector("production.yaml", **bucket.variables)
    sent = send_spans(collector.grpc, 300)
    archived(bucket, sent)
    versions = client.list_object_versions(Bucket=bucket.name)["Versions"]
    assert {each["Key"] for each in versions} == set(bucket.objects())
    for each in versions:
        with pytest.raises(ClientError) as refused:
            client.delete_object(Bucket=bucket.name, Key=each["Key"], VersionId=each["VersionId"])
        assert refused.value.response["Error"]["Code"] == "AccessDenied"
    assert Counter(bucket.span_ids()) == Counter(sent)


def test_the_collector_needs_no_right_to_delete(start_collector: StartCollector, spans_bucket: Bucket) -> None:
    """With a bucket policy that denies deleting and reading, it archives all the same."""
    from botocore.exceptions import ClientError

    client = spans_bucket.server.client()
    with denied(spans_bucket, "s3:DeleteObject", "s3:DeleteObjectVersion"):
        collector = start_collector("production.yaml", **spans_bucket.variables)
        sent = send_spans(collector.grpc, 300)
        archived(spans_bucket, sent)
        (key, *_) = spans_bucket.objects()
        with pytest.raises(ClientError) as refused:
            client.delete_object(Bucket=spans_bucket.name, Key=key)
        assert refused.value.response["Error"]["Code"] == "AccessDenied"
        assert key in spans_bucket.objects()


@contextlib.contextmanager
def denied(bucket: Bucket, *actions: str) -> Iterator[None]:
    """A policy of the bucket that denies these to everybody."""
    statement = {"Effect": "Deny", "Principal": "*", "Action": actions, "Resource": f"arn:aws:s3:::{bucket.name}/*"}
    client = bucket.server.client()
    client.put_bucket_policy(Bucket=bucket.name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    yield
    client.delete_bucket_policy(Bucket=bucket.name)
