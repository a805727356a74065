"""A real store in a process of its own, started once, and boto3 clients for it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from backends.embedded import process
from backends.embedded.changes import CreateBucket
from backends.embedded.process import StoreProcess
from backends.embedded.store import Store
from tests.backends.embedded.core_calls import Disk

# Names say what the credential lacks.
CREDENTIALS = ("no-bypass:without=bypass", "no-retention:without=retention", "no-hold:without=hold",
               "no-delete:without=delete", "reader:without=bypass,retention,hold,delete")  # fmt: skip

_numbers = itertools.count()


def s3_client(store: StoreProcess, name: str = "default", **config: Any) -> Any:
    """A boto3 client with one of the store's credentials, which reports every answer as it is."""
    credential = store.credentials[name]
    return boto3.client(
        "s3",
        endpoint_url=store.endpoint,
        region_name="us-east-1",
        aws_access_key_id=credential.access_key,
        aws_secret_access_key=credential.secret_key,
        config=Config(retries={"total_max_attempts": 1}, **config),
    )


@pytest.fixture
def until() -> datetime:
    """A retain-until date in five minutes, in whole seconds as clients send it."""
    return datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=5)


@pytest.fixture(scope="session")
def connect() -> Callable[..., Any]:
    """Makes a boto3 client for any store process."""
    return s3_client


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    with process.start(tmp_path_factory.mktemp("store"), credentials=CREDENTIALS) as running:
        yield running
        assert running.is_running(), running.log()


@pytest.fixture(scope="session")
def s3(store: StoreProcess) -> Any:
    return s3_client(store)


@pytest.fixture(scope="session")
def as_credential(store: StoreProcess) -> Callable[[str], Any]:
    clients: dict[str, Any] = {}

    def client(name: str) -> Any:
        if name not in clients:
            clients[name] = s3_client(store, name)
        return clients[name]

    return client


@pytest.fixture
def bucket(s3: Any) -> str:
    """A new bucket with Object Lock."""
    name = f"locked-{next(_numbers)}"
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    return name


@pytest.fixture
def plain_bucket(s3: Any) -> str:
    """A new bucket without versioning or Object Lock."""
    name = f"plain-{next(_numbers)}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def versioned_bucket(s3: Any, plain_bucket: str) -> str:
    """A new bucket with versioning, without Object Lock."""
    s3.put_bucket_versioning(Bucket=plain_bucket, VersioningConfiguration={"Status": "Enabled"})
    return plain_bucket


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Where a test starts a store of its own."""
    return tmp_path / "store"


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def said() -> list[str]:
    """What the core told its owner."""
    return []


@pytest.fixture
async def core(data_dir: Path, disk: Disk, said: list[str]) -> AsyncIterator[Store]:
    """The core of a store in this process, with a lock bucket "b"."""
    opened = Store.open(data_dir, free_bytes=lambda: disk.free, say=said.append)
    await opened.change(CreateBucket("b", object_lock=True))
    yield opened
    opened.close()
