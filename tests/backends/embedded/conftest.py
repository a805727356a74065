"""Fixtures: buckets of the shared embedded store, and separate stores for one test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.embedded.core.changes.objects import CreateBucket
from backends.embedded.core.store import Store
from tests.backends.embedded.core_calls import Disk
from tests.backends.embedded.running_server import RunningTsmServer
from tests.backends.embedded.tsm_client import Client

_numbers = itertools.count()


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
    """The data folder of a store that the test starts."""
    return tmp_path / "store"


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def said() -> list[str]:
    """The messages of the core to its owner."""
    return []


@pytest.fixture
async def core(data_dir: Path, disk: Disk, said: list[str]) -> AsyncIterator[Store]:
    """The core of a store in this process, with a lock bucket "b"."""
    opened = Store.open(data_dir, free_bytes=lambda: disk.free, say=said.append)
    await opened.change(CreateBucket("b", object_lock=True))
    yield opened
    opened.close()


@pytest.fixture
def tsm_server(data_dir: Path) -> Iterator[RunningTsmServer]:
    """The TSM server of a store in this process."""
    with RunningTsmServer(data_dir) as running:
        yield running


@pytest.fixture
def tsm(tsm_server: RunningTsmServer) -> Iterator[Client]:
    """A session of the store's own node, for all owners."""
    with tsm_server.sign_on() as client:
        yield client
