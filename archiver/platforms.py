"""Platforms that Archiver starts itself, and how a backend for any platform is made.

One idea: a platform named by --platform is started for the command and stopped after it; one named by an endpoint is
somebody else's, and is only ever spoken to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import backends
from archiver.errors import UsageError
from archiver.home import store_dir
from archiver.run import HostedStore
from backends.base import Backend
from backends.embedded import process as embedded
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Credentials

PLATFORMS = ("embedded",)
EMBEDDED_DURABILITY = "fsync of data and catalogue before each acknowledgement"


@dataclass(frozen=True, slots=True)
class EmbeddedStore:
    """The embedded store's process, as a run sees it."""

    process: embedded.StoreProcess
    platform: str = "embedded"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def data_dir(self) -> Path:
        return self.process.data_dir

    def data_files(self) -> Sequence[Path]:
        return self.process.data_files()


@contextmanager
def open_backend(
    backend: str, platform: str | None, options: S3Options
) -> Iterator[tuple[Backend, HostedStore | None]]:
    """The backend to run on, and the store behind it where Archiver started one; stopped when the block ends.

    Without ``platform`` and without endpoints the AWS variables decide, then the embedded store.
    """
    if platform is not None and options.endpoints:
        raise UsageError("--platform starts a platform and --endpoint names one that runs already; choose one of them")
    if backend != "s3":
        if platform is not None or options.endpoints:
            raise UsageError(f"the {backend} backend takes neither --platform nor --endpoint")
        yield backends.load(backend)(), None
        return
    endpoints = options.endpoints
    if platform is None and not endpoints:
        from_environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        endpoints = (from_environment,) if from_environment else ()
    if endpoints:
        yield S3Backend(replace(options, endpoints=endpoints)), None
        return
    with embedded.start(store_dir()) as store:
        hosted = replace(
            options,
            endpoints=(store.endpoint,),
            credentials=Credentials(store.access_key, store.secret_key, None),
            region="us-east-1",
            platform_name="embedded",
            durability=EMBEDDED_DURABILITY,
        )
        yield S3Backend(hosted), EmbeddedStore(store)
