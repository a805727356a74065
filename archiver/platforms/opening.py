"""Start of platforms, and the backend for any platform.

One idea: a platform named by --platform is started for the command and stopped after it. A platform named by an
endpoint has another owner; Archiver only sends requests to it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import backends
from archiver.machine.description import disk_roles
from archiver.machine.home import store_dir
from archiver.platforms import registry, servers
from archiver.platforms.hosted import HostedStore
from archiver.platforms.kinds import KINDS
from archiver.platforms.programs import PROGRAMS
from archiver.values.errors import UsageError
from archiver.values.version import VERSION
from backends.base import Backend
from backends.embedded import process as embedded
from backends.minio import MinioBackend
from backends.s3 import S3Backend, S3Options
from backends.s3.aws_settings import aws_settings
from backends.s3.control import Credentials
from backends.s3.endpoints import expand
from backends.tsm import TsmBackend, TsmOptions
from backends.tsm.library.configuration import client_folder, parse_server, private_configuration

PLATFORMS = ("embedded", *KINDS)
EMBEDDED_DURABILITY = "fsync of data and catalogue before each acknowledgement"


@dataclass(frozen=True, slots=True)
class PlatformOptions:
    """The user's options for a platform of any protocol."""

    s3: S3Options
    tsm: TsmOptions
    metrics_token: str | None = field(default=None, repr=False)
    catalogue_dir: Path | None = None  # for the embedded store; None: in its data folder
    # Credentials, classes and nodes to add to the embedded store: NAME:without=RIGHT, NAME:retver=..., NAME.
    credentials: tuple[str, ...] = ()
    management_classes: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    recorded_in: str | None = None  # for messages: the record that names the platform; None: the user names it
    say: Callable[[str], None] = lambda words: None  # reports which S3 platform is used, and what named it


@dataclass(frozen=True, slots=True)
class EmbeddedStore:
    """The embedded store's process, as a run uses it."""

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
    backend: str, platform: str | None, options: PlatformOptions, *, keeps_nothing: bool = False
) -> Iterator[tuple[Backend, HostedStore | None]]:
    """Yield the backend of a run, and its store if Archiver started one. The store is stopped when the block ends.

    ``keeps_nothing``: a platform without a folder gets a temporary one.

    Without ``platform``, endpoint and server, the protocol's own variables and files decide (AWS's, DSMI_CONFIG). If
    they name none, Archiver starts the embedded store (MinIO for the minio backend). Raises UsageError if the user
    names an AWS profile without an endpoint.
    """
    if platform is not None and (options.s3.endpoints or options.tsm.server):
        raise UsageError(
            "--platform starts a platform; --endpoint and --tsm-server name one that runs already; choose one of them"
        )
    if backend in ("s3", "minio"):
        with _open_s3(backend, platform, options, keeps_nothing) as opened:
            yield opened
    elif backend == "tsm":
        with _open_tsm(platform, options, keeps_nothing) as opened:
            yield opened
    else:
        if platform is not None or options.s3.endpoints:
            raise UsageError(f"the {backend} backend takes neither --platform nor --endpoint")
        yield backends.load(backend)(), None


@contextmanager
def _open_s3(
    backend: str, platform: str | None, options: PlatformOptions, keeps_nothing: bool
) -> Iterator[tuple[Backend, HostedStore | None]]:
    platform, given, words = choose_s3(backend, platform, options)
    options.say(words)
    if platform is None:
        yield MinioBackend(given, options.metrics_token) if backend == "minio" else S3Backend(given), None
        return
    if platform in KINDS:
        with (
            _folder(registry.folder_of(platform), keeps_nothing) as folder,
            servers.running(platform, folder) as server,
        ):
            access = Credentials(server.access.access_key, server.access.secret_key, None)
            hosted = replace(
                _hosted(options.s3, server.endpoint, access, platform, KINDS[platform].durability),
                platform_version=PROGRAMS[platform].version,
            )
            yield MinioBackend(hosted) if platform == "minio" else S3Backend(hosted), server
        return
    with (
        _folder(store_dir(), keeps_nothing) as folder,
        embedded.start(
            folder,
            catalogue_dir=None if folder != store_dir() else options.catalogue_dir,
            credentials=options.credentials,
            management_classes=options.management_classes,
            nodes=options.nodes,
        ) as store,
    ):
        access = Credentials(store.access_key, store.secret_key, None)
        hosted = replace(
            _hosted(options.s3, store.endpoint, access, "embedded", EMBEDDED_DURABILITY), platform_version=VERSION
        )
        yield S3Backend(hosted), EmbeddedStore(store)


@contextmanager
def _folder(usual: Path, keeps_nothing: bool) -> Iterator[Path]:
    """Yield the folder of a platform that Archiver starts.

    If nothing is to be kept and the usual folder does not exist, this is a temporary folder on the same disk.
    """
    if not keeps_nothing or usual.exists():
        yield usual
        return
    existing = next(each for each in usual.parents if each.exists())
    with tempfile.TemporaryDirectory(prefix=".archiver-plan-", dir=existing) as folder:
        yield Path(folder)


def choose_s3(backend: str, platform: str | None, options: PlatformOptions) -> tuple[str | None, S3Options, str]:
    """Return the platform to start (None: it runs already), its S3 options, and a message about what named it.

    Reads only variables and files. Raises UsageError, also if the user names an AWS profile without an endpoint: that
    profile is for another store than one that Archiver starts.
    """
    s3, why = options.s3, f"as {options.recorded_in or '--platform'} says"
    if platform is None:
        s3, why = _with_endpoint(options)
    if platform is None and s3.endpoints:
        for url in s3.endpoints:
            expand(url, s3.endpoint_origin)
        words = f"endpoint{'s' if len(s3.endpoints) > 1 else ''} {', '.join(s3.endpoints)} from {s3.endpoint_origin}"
        return None, s3, words
    if s3.platform_name is not None or s3.platform_version is not None:
        raise UsageError("--platform-name and --platform-version are for a platform that runs already: --endpoint URL")
    platform = platform or ("minio" if backend == "minio" else "embedded")
    if backend == "minio" and platform != "minio":
        raise UsageError(f"--backend minio --platform {platform}: {platform} is not MinIO; leave out --backend minio")
    return platform, s3, f"platform {platform}, started here {why}"


def _with_endpoint(options: PlatformOptions) -> tuple[S3Options, str]:
    """Return the S3 options with the endpoint; without one, the reason why a platform is started instead."""
    s3 = options.s3
    if s3.endpoints:
        return replace(s3, endpoint_origin=options.recorded_in or s3.endpoint_origin), ""
    settings = aws_settings(s3.profile)
    if settings.endpoint is not None:
        return replace(s3, endpoints=(settings.endpoint,), endpoint_origin=settings.endpoint_origin), ""
    if settings.profile is not None:
        raise UsageError(
            f"AWS profile {settings.profile} is named, but no S3 endpoint: give one with --endpoint (Amazon's is "
            "https://s3.REGION.amazonaws.com), or as endpoint_url of the profile; or measure a store of Archiver's "
            "own with --platform embedded"
        )
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return s3, "since no endpoint is named; the AWS credentials in the environment are not used"
    return s3, "since no endpoint is named"


def _hosted(options: S3Options, endpoint: str, access: Credentials, platform: str, durability: str) -> S3Options:
    """Return the user's options for a platform that Archiver started."""
    return replace(
        options,
        endpoints=(endpoint,),
        credentials=access,
        region="us-east-1",
        platform_name=platform,
        durability=durability,
    )


@contextmanager
def open_tsm_server(options: TsmOptions) -> Iterator[TsmBackend]:
    """Yield the backend of a TSM server that runs already: HOST:PORT, a stanza, or what dsm.opt names.

    Raises UsageError for TLS options that the stanza or another library decides.
    """
    address = parse_server(options.server) if options.server is not None else None
    if address is None:
        if options.encrypted or options.ca_file is not None:
            raise UsageError("--tsm-tls, --tsm-ca: for --tsm-server HOST:PORT; a stanza of dsm.sys says SSL YES")
        yield TsmBackend(options)
        return
    if options.ca_file is not None and (options.library is not None or not options.encrypted):
        raise UsageError(
            "--tsm-ca: goes with --tsm-tls and Archiver's library; IBM's trusts the certificates in its own store"
        )
    with private_configuration(
        *address,
        encrypted=options.encrypted,
        ca_file=options.ca_file,
        client_folder=client_folder(options.library),
    ) as configuration:
        yield TsmBackend(replace(options, configuration=configuration))


@contextmanager
def _open_tsm(
    platform: str | None, given: PlatformOptions, keeps_nothing: bool
) -> Iterator[tuple[Backend, HostedStore | None]]:
    options = given.tsm
    if platform in KINDS:
        raise UsageError(f"--platform {platform}: speaks S3 only; leave out --backend tsm")
    if platform is None and (options.server is not None or os.environ.get("DSMI_CONFIG")):
        with open_tsm_server(options) as backend:
            yield backend, None
        return
    with (
        _folder(store_dir(), keeps_nothing) as folder,
        embedded.start(folder, catalogue_dir=None if folder != store_dir() else given.catalogue_dir) as store,
        private_configuration(store.tsm_host, store.tsm_port) as configuration,
    ):
        hosted = replace(
            options,
            server=f"{store.tsm_host}:{store.tsm_port}",
            node=options.node or store.node,
            password=store.node_password if options.password_file is None else None,
            configuration=configuration,
            platform_name="embedded",
            durability=EMBEDDED_DURABILITY,
        )
        yield TsmBackend(hosted), EmbeddedStore(store)
