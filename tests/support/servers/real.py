"""Real platforms for tests. A test is skipped if the platform's program is not installed.

If ARCHIVER_NEEDS_PLATFORMS is set, a missing program fails the test instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from archiver.platforms.programs import find
from archiver.platforms.servers import Server, running
from archiver.values.errors import PlatformError

NAMES = ("minio", "versitygw")  # platforms on which tests do every kind of run
STORES = ("ceph-rgw", "minio", "seaweedfs", "versitygw")  # platforms that tests start, use, kill and check


def need(name: str) -> Path:
    """Return the program. Skip or fail the test if it is not installed."""
    try:
        return find(name)
    except PlatformError as missing:
        if os.environ.get("ARCHIVER_NEEDS_PLATFORMS"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@contextmanager
def real_server(name: str, folder: Path, **options: Any) -> Iterator[Server]:
    """Run a server of that platform for the block."""
    need(name)
    with running(name, folder, **options) as server:
        yield server


def client_of(
    server: Server,
    service: str = "s3",
    *,
    access_key: str | None = None,
    secret_key: str | None = None,
    session_token: str | None = None,
    **options: Any,
) -> Any:
    """Return a boto3 client that never retries. It uses the server's root keys unless others are given."""
    return boto3.client(
        service,
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=access_key or server.access.access_key,
        aws_secret_access_key=secret_key or server.access.secret_key,
        aws_session_token=session_token,
        config=Config(retries={"total_max_attempts": 1}),
        **options,
    )


def environment_of(server: Server) -> dict[str, str]:
    """Return the server's keys as environment variables of a command."""
    return {"AWS_ACCESS_KEY_ID": server.access.access_key, "AWS_SECRET_ACCESS_KEY": server.access.secret_key}
