"""Platforms that Archiver starts itself, and how a backend for any platform is made.

One idea: a platform named by --platform is started for the command and stopped after it; one named by an endpoint is
somebody else's, and is only ever spoken to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import backends
from archiver.errors import UsageError
from archiver.home import store_dir
from archiver.machine import disk_roles
from archiver.preflight import HostedStore
from archiver.rig import registry, servers
from backends.base import Backend
from backends.embedded import process as embedded
from backends.embedded.core.rules import policy
from backends.minio import MinioBackend
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
    metrics_token: str | None = field(default=None, repr=False)
    catalogue_dir: Path | None = None  # of the embedded store; None: in its data folder
    # What the embedded store is to have, too: NAME:without=RIGHT, NAME:retver=..., NAME.
    credentials: tuple[str, ...] = ()
    management_classes: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


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

    @property
    def endpoint(self) -> str:
        return self.process.endpoint

    def data_files(self) -> Sequence[Path]:
        return self.process.data_files()

    def disk_roles(self) -> Mapping[str, str]:
        return disk_roles({"object": self.process.data_dir, "catalogue": self.process.catalogue_dir})


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
    if backend in ("s3", "minio"):
        with _open_s3(backend, platform, options) as opened:
            yield opened
    elif backend == "tsm":
        with _open_tsm(platform, options) as opened:
            yield opened
    else:
        if platform is not None or options.s3.endpoints:
            raise UsageError(f"the {backend} backend takes neither --platform nor --endpoint")
        yield backends.load(backend)(), None


@contextmanager
def _open_s3(
    backend: str, platform: str | None, options: PlatformOptions
) -> Iterator[tuple[Backend, HostedStore | None]]:
    endpoints = options.s3.endpoints
    if platform is None and not endpoints:
        from_environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        endpoints = (from_environment,) if from_environment else ()
    if endpoints:
        given = replace(options.s3, endpoints=endpoints)
        yield MinioBackend(given, options.metrics_token) if backend == "minio" else S3Backend(given), None
        return
    platform = platform or ("minio" if backend == "minio" else "embedded")
    if backend == "minio" and platform != "minio":
        raise UsageError(f"--backend minio --platform {platform}: {platform} is not MinIO; leave out --backend minio")
    if platform in servers.KINDS:
        with servers.running(platform, registry.folder_of(platform)) as server:
            access = Credentials(server.access.access_key, server.access.secret_key, None)
            hosted = _hosted(options.s3, server.endpoint, access, platform, servers.KINDS[platform].durability)
            yield MinioBackend(hosted) if platform == "minio" else S3Backend(hosted), server
        return
    with embedded.start(
        store_dir(),
        catalogue_dir=options.catalogue_dir,
        credentials=options.credentials,
        management_classes=options.management_classes,
        nodes=options.nodes,
    ) as store:
        access = Credentials(store.access_key, store.secret_key, None)
        hosted = _hosted(options.s3, store.endpoint, access, "embedded", EMBEDDED_DURABILITY)
        yield S3Backend(hosted), EmbeddedStore(store)


def _hosted(options: S3Options, endpoint: str, access: Credentials, platform: str, durability: str) -> S3Options:
    """The user's options for a platform that Archiver started."""
    return replace(
        options,
        endpoints=(endpoint,),
        credentials=access,
        region="us-east-1",
        platform_name=platform,
        durability=durability,
    )


@contextmanager
def _open_tsm(platform: str | None, given: PlatformOptions) -> Iterator[tuple[Backend, HostedStore | None]]:
    options = given.tsm
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
    with (
        embedded.start(store_dir(), catalogue_dir=given.catalogue_dir) as store,
        private_configuration(store.tsm_host, store.tsm_port) as configuration,
    ):
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
