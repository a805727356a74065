"""Test the source `embedded`: the counters of an embedded store, in the vocabulary of all sources."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from archiver.watch.embedded import EmbeddedSource
from archiver.watch.source import WatchError
from backends.embedded import process
from backends.embedded.process import StoreProcess
from results.recorded.resources import QUANTITIES, Reading
from tests.backends.embedded.tsm_client import Client


def grown(source: EmbeddedSource, work: Callable[[], object]) -> dict[str, dict[str, float]]:
    """Return the growth of each item during the work, for items that grew."""
    before: Reading = source.read()
    work()
    after = source.read()
    by_how_much = {
        quantity: {item: value - before.get(quantity, {}).get(item, 0) for item, value in values.items()}
        for quantity, values in after.items()
    }
    return {
        quantity: {item: value for item, value in values.items() if value} for quantity, values in by_how_much.items()
    }


def put_objects(store: StoreProcess, count: int) -> None:
    s3: Any = boto3.client(
        "s3", endpoint_url=store.endpoint, region_name="us-east-1", aws_access_key_id=store.access_key,
        aws_secret_access_key=store.secret_key, config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip
    s3.create_bucket(Bucket="b-1")
    for number in range(count):
        s3.put_object(Bucket="b-1", Key=f"{number}", Body=bytes(5000))
    s3.close()


def archive_objects(store: StoreProcess, count: int) -> None:
    with Client(store.tsm_host, store.tsm_port) as client:
        client.sign_on(store.node.encode(), store.node_password or "")
        space = client.space()
        for number in range(count):
            client.send_object(space, b"/%d" % number, bytes(5000))
        assert client.vote() == 0


def test_requests_written_bytes_and_syncs_are_counted_at_once(tmp_path: Path) -> None:
    with process.start(tmp_path / "store", catalogue_dir=tmp_path / "catalogue") as store:
        source = EmbeddedSource(store.endpoint)
        assert source.name == "embedded"
        assert set(source.read()) <= set(QUANTITIES)
        used = grown(source, lambda: put_objects(store, 12))
        assert used["requests"] == {"PutBucket": 1, "PutObject": 12}
        assert used["request_errors"] == {}
        assert 60_000 < used["store_written_bytes"]["segments"] < 65_000
        assert used["store_written_bytes"]["catalogue"] > 13 * 4096
        assert used["store_syncs"] == {"segments": 13, "catalogue": 13}  # one for the segment name, one for the bucket
        used = grown(source, lambda: archive_objects(store, 7))
        assert used["requests"] == {
            "TSM HELLO": 1, "TSM PROOF": 1, "TSM REGISTER_SPACE": 1, "TSM OBJECT": 7, "TSM END_TRANSACTION": 1
        }  # fmt: skip
        assert used["store_syncs"] == {"segments": 1, "catalogue": 2}
        assert grown(source, lambda: None)["requests"] == {}  # reading the counters is not counted


def test_stopped_store_gives_one_error_and_may_be_restarted(tmp_path: Path) -> None:
    store = process.start(tmp_path / "store")
    source = EmbeddedSource(store.endpoint)
    source.read()
    store.stop()
    with pytest.raises(WatchError, match=r"^embedded: "):
        source.read()
    port = int(store.endpoint.rpartition(":")[2])
    with process.start(tmp_path / "store", port=port):
        assert source.read()["store_written_bytes"]["segments"] == 0
