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
from archiver.rig import registry, servers
from archiver.run import HostedStore
from backends.base import Backend
from backends.embedded import policy
from backends.embedded import process as embedded
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Credentials
from backends.tsm import TsmBackend, TsmOptions
from backends.tsm.configuration import parse_server, private_configuration

PLATFORMS = ("embedded", *servers.KINDS)
EMBEDDED_DURABILITY = "fsync of data and catalogue before each acknowledgement"


@dataclass(frozen=True, slots=True)
class PlatformOptions:
    """What the user chose of the platform, for whichever protocol is spoken to it."""

    s3: S3Options
    tsm: TsmOptions


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
    backend: str, platform: str | None, options: PlatformOptions
) -> Iterator[tuple[Backend, HostedStore | None]]:
    """The backend to run on, and the store behind it where Archiver started one; stopped when the block ends.

    Without ``platform`` and without an endpoint or server the protocol's own variables decide (AWS's, DSMI_CONFIG),
    then the embedded store.
    """
    if platform is not None and (options.s3.endpoints or options.tsm.server):
        raise UsageError(
            "--platform starts a platform; --endpoint and --tsm-server name one that runs already; choose one of them"
        )
    if backend == "s3":
        with _open_s3(platform, options.s3) as opened:
            yield opened
    elif backend == "tsm":
        with _open_tsm(platform, options.tsm) as opened:
            yield opened
    else:
        if platform is not None or options.s3.endpoints:
            raise UsageError(f"the {backend} backend takes neither --platform nor --endpoint")
        yield backends.load(backend)(), None


@contextmanager
def _open_s3(platform: str | None, options: S3Options) -> Iterator[tuple[Backend, HostedStore | None]]:
    endpoints = options.endpoints
    if platform is None and not endpoints:
        from_environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        endpoints = (from_environment,) if from_environment else ()
    if endpoints:
        yield S3Backend(replace(options, endpoints=endpoints)), None
        return
    if platform is not None and platform in servers.KINDS:
        with servers.running(platform, registry.folder_of(platform)) as server:
            hosted = replace(
                options,
                endpoints=(server.endpoint,),
                credentials=Credentials(server.access.access_key, server.access.secret_key, None),
                region="us-east-1",
                platform_name=server.platform,
                durability=servers.KINDS[platform].durability,
            )
            yield S3Backend(hosted), server
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


@contextmanager
def _open_tsm(platform: str | None, options: TsmOptions) -> Iterator[tuple[Backend, HostedStore | None]]:
    if platform in servers.KINDS:
        raise UsageError(f"--platform {platform}: speaks S3 only; leave out --backend tsm")
    if platform is None and (options.server is not None or os.environ.get("DSMI_CONFIG")):
        address = parse_server(options.server) if options.server is not None else None
        if address is None:  # a stanza of the user's
            yield TsmBackend(options), None
            return
        with private_configuration(*address) as configuration:
            yield TsmBackend(replace(options, configuration=configuration)), None
        return
    with embedded.start(store_dir()) as store, private_configuration(store.tsm_host, store.tsm_port) as configuration:
        hosted = replace(
            options,
            server=f"{store.tsm_host}:{store.tsm_port}",
            node=options.node or store.node,
            password=store.node_password if options.password_file is None else None,
            configuration=configuration,
            class_seconds={
                name: float(each.retver_seconds)
                for name, each in policy.load(store.data_dir).items()
                if each.retver_seconds is not None
            },
            platform_name="embedded",
            durability=EMBEDDED_DURABILITY,
        )
        yield TsmBackend(hosted), EmbeddedStore(store)
