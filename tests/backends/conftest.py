"""An embedded store in a process of its own, started once, and boto3 clients for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.config import Config

from backends.embedded import process
from backends.embedded.process import StoreProcess

# Each name states the permission that the credential lacks.
CREDENTIALS = ("no-bypass:without=bypass", "no-retention:without=retention", "no-hold:without=hold",
               "no-delete:without=delete", "reader:without=bypass,retention,hold,delete")  # fmt: skip


def s3_client(store: StoreProcess, name: str = "default", **config: Any) -> Any:
    """A boto3 client with one of the store's credentials. It never retries."""
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
    """Make a boto3 client for any store process."""
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
