"""Kinds of platforms: command line, variables, and the guarantee of an acknowledgement of each program.

One idea: a platform is one process, whose end is the end of the platform. A platform that needs several processes has a
supervisor for them.
"""

from __future__ import annotations

import json
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from archiver.platforms import ceph

_HEALTH_PATH = "/archiver-health"


@dataclass(frozen=True, slots=True)
class Access:
    """Temporary credentials of one server."""

    access_key: str
    secret_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of a server."""

    program: Path
    folder: Path  # folder of data, versions, accounts and certificates
    port: int  # port of its S3 endpoint, on loopback
    access: Access
    tls: bool  # certificates/public.crt and private.key in the folder are certificate and key
    inner_ports: tuple[int, ...] = ()  # free ports on loopback, as many as its kind needs


@dataclass(frozen=True, slots=True)
class PlatformKind(ABC):
    """The way to run one platform's program."""

    health: str  # the path that answers 200 when the server is ready
    durability: str
    inner_ports: int = 0  # number of ports that it needs in addition to its S3 endpoint's
    stop_seconds_max: float = math.inf  # time after which it is killed if it has not ended

    def files(self, launch: Launch) -> Mapping[Path, str]:
        """Return the files that the program reads, which only the owner may read."""
        return {}

    def inner_health(self, launch: Launch) -> Sequence[str]:
        """Return further URLs that answer without an error when the server is ready."""
        return ()

    def leftovers(self, launch: Launch) -> Sequence[Path]:
        """Return the files outside its folder that the program may leave behind."""
        return ()

    @abstractmethod
    def command(self, launch: Launch) -> list[str]:
        """Return the command line."""

    @abstractmethod
    def environment(self, launch: Launch) -> dict[str, str]:
        """Return the variables. They include the credentials, because any user of the host can read a command line."""


class _Minio(PlatformKind):
    def command(self, launch: Launch) -> list[str]:
        # MinIO uses TLS if it finds a certificate, so `tls` needs no flag.
        return [
            str(launch.program), "server", str(launch.folder / "data"), "--address", f"127.0.0.1:{launch.port}",
            "--certs-dir", str(launch.folder / "certificates"), "--quiet",
        ]  # fmt: skip

    def environment(self, launch: Launch) -> dict[str, str]:
        return {
            "MINIO_ROOT_USER": launch.access.access_key,
            "MINIO_ROOT_PASSWORD": launch.access.secret_key,
            "MINIO_BROWSER": "off",
            "MINIO_PROMETHEUS_AUTH_TYPE": "public",
            "MINIO_UPDATE": "off",
        }


class _VersityGateway(PlatformKind):
    def command(self, launch: Launch) -> list[str]:
        folder = launch.folder
        certificates = folder / "certificates"
        secured = ["--cert", str(certificates / "public.crt"), "--key", str(certificates / "private.key")]
        return [
            str(launch.program), "--port", f"127.0.0.1:{launch.port}", "--quiet", "--keep-alive",
            "--health", _HEALTH_PATH, *(secured if launch.tls else []), "--iam-dir", str(folder / "accounts"),
            "posix", "--versioning-dir", str(folder / "versions"), str(folder / "data"),
        ]  # fmt: skip

    def environment(self, launch: Launch) -> dict[str, str]:
        return {"ROOT_ACCESS_KEY_ID": launch.access.access_key, "ROOT_SECRET_ACCESS_KEY": launch.access.secret_key}


class _CephGateway(PlatformKind):
    def command(self, launch: Launch) -> list[str]:
        tree = launch.program.parents[2]
        return [
            sys.executable, "-m", ceph.__name__, str(tree), str(launch.folder), str(launch.port),
            *(["--tls"] if launch.tls else []),
        ]  # fmt: skip

    def environment(self, launch: Launch) -> dict[str, str]:
        return {ceph.ACCESS_KEY: launch.access.access_key, ceph.SECRET_KEY: launch.access.secret_key}


class _Moto(PlatformKind):
    """A mock of Amazon S3 for tests of programs. Here it shows how much a passed check proves."""

    def command(self, launch: Launch) -> list[str]:
        certificates = launch.folder / "certificates"
        secured = ["--ssl-cert", str(certificates / "public.crt"), "--ssl-key", str(certificates / "private.key")]
        return [
            str(launch.program), "--host", "127.0.0.1", "--port", str(launch.port), *(secured if launch.tls else []),
        ]  # fmt: skip

    def environment(self, launch: Launch) -> dict[str, str]:
        return {}  # it accepts any credentials


class _Seaweedfs(PlatformKind):
    """All four servers of SeaweedFS in one process: master, volume server, filer and S3 gateway."""

    def files(self, launch: Launch) -> Mapping[Path, str]:
        keys = {"accessKey": launch.access.access_key, "secretKey": launch.access.secret_key}
        identities = {"identities": [{"name": "archiver", "credentials": [keys], "actions": ["Admin"]}]}
        return {_identities(launch): json.dumps(identities)}

    def command(self, launch: Launch) -> list[str]:
        master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3_grpc, metrics = launch.inner_ports
        certificates = launch.folder / "certificates"
        options = {
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "dir": launch.folder / "data",
            "metricsPort": metrics,
            "master.port": master,
            "master.port.grpc": master_grpc,
            "master.telemetry": "false",
            # A single master elects itself after this time. The default is 10 s at each restart.
            "master.electionTimeout": "1s",
            "volume.port": volume,
            "volume.port.grpc": volume_grpc,
            "volume.max": 10_000,  # each bucket takes seven volumes; without a free one a PUT fails with status 500
            "volume.preStopSeconds": 0,
            "filer": "true",
            "filer.port": filer,
            "filer.port.grpc": filer_grpc,
            # Sockets in the folder, where the process runs: a full path can be too long for a socket.
            "filer.localSocket": "filer.sock",
            "s3": "true",
            "s3.port": launch.port,
            "s3.port.grpc": s3_grpc,
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "s3.localSocket": "s3.sock",
            "s3.config": _identities(launch),
            "s3.iam.readOnly": "false",  # checks of access rights create users
        }
        if launch.tls:
            options |= {"s3.cert.file": certificates / "public.crt", "s3.key.file": certificates / "private.key"}
        return [str(launch.program), "-logtostderr", "server", *(f"-{name}={value}" for name, value in options.items())]

    def environment(self, launch: Launch) -> dict[str, str]:
        return {}

    def inner_health(self, launch: Launch) -> Sequence[str]:
        # The gateway answers before the master has found the volumes. The first PUT then takes 5 s, and a GET can fail.
        return [f"http://127.0.0.1:{launch.inner_ports[0]}/dir/assign"]

    def leftovers(self, launch: Launch) -> Sequence[Path]:
        _, master, _, volume, _, filer, s3, _ = launch.inner_ports
        parts = (("master", master), ("volume", volume), ("filer", filer), ("s3", s3))
        return [Path(f"/tmp/seaweedfs-{part}-grpc-{port}.sock") for part, port in parts]


def _identities(launch: Launch) -> Path:
    return launch.folder / "accounts" / "identities.json"


KINDS: Mapping[str, PlatformKind] = {
    # strace shows these system calls at the pinned versions, for 8 KiB and 1 MiB.
    "ceph-rgw": _CephGateway("/swift/healthcheck", "fdatasync of each object before its acknowledgement"),
    "minio": _Minio("/minio/health/cluster", "fdatasync of each object before its acknowledgement, not of its folder"),
    "moto": _Moto("/moto-api/", "none: it stores nothing"),
    # strace shows that it syncs new volumes only. Its filer waits 15 s for requests of its own gateway that never end.
    # All acknowledged data is in the system's memory by then, so killing it earlier loses nothing.
    "seaweedfs": _Seaweedfs(
        "/healthz", "none: acknowledged from the system's memory", inner_ports=8, stop_seconds_max=1.0
    ),
    "versitygw": _VersityGateway(_HEALTH_PATH, "none: acknowledged from the system's memory"),
}
