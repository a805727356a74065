"""Real platforms for tests: started for a block, or the test is skipped where the program is missing.

Where ARCHIVER_NEEDS_PLATFORMS is set a missing program fails the test, so that nothing is skipped unseen.
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

NAMES = ("minio", "versitygw")  # every kind of run is tried on these
STORES = ("ceph-rgw", "minio", "seaweedfs", "versitygw")  # started, used, killed and checked


def need(name: str) -> Path:
    """The program; skips or fails the test where it is not installed."""
    try:
        return find(name)
    except PlatformError as missing:
        if os.environ.get("ARCHIVER_NEEDS_PLATFORMS"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@contextmanager
def real_server(name: str, folder: Path, **options: Any) -> Iterator[Server]:
    """A server of that platform for as long as the block lasts."""
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
    """A boto3 client, of its root unless keys are given, which reports every answer as it is."""
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
    """The variables with which a command uses it."""
    return {"AWS_ACCESS_KEY_ID": server.access.access_key, "AWS_SECRET_ACCESS_KEY": server.access.secret_key}
