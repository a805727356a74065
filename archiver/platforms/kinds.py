"""How to run each platform's program: its command line, its variables, and what its acknowledgements mean.

One idea: a platform is one process, whose end is the end of the platform. One that needs several processes has a
supervisor for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

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
    folder: Path  # of data, versions, accounts and certificates
    port: int  # of its S3 endpoint, on loopback
    access: Access
    tls: bool  # certificates/public.crt and private.key in the folder are certificate and key


@dataclass(frozen=True, slots=True)
class Kind(ABC):
    """How to run one platform's program."""

    health: str  # the path that answers 200 when the server is ready
    durability: str

    @abstractmethod
    def command(self, launch: Launch) -> list[str]:
        """Return the command line."""

    @abstractmethod
    def environment(self, launch: Launch) -> dict[str, str]:
        """Return the variables, the credentials among them: a command line can be read by every user of the host."""


class _Minio(Kind):
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


class _VersityGateway(Kind):
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


KINDS: Mapping[str, Kind] = {
    # strace shows both system calls at the pinned versions, for 8 KiB and 1 MiB.
    "minio": _Minio("/minio/health/cluster", "fdatasync of each object before its acknowledgement, not of its folder"),
    "versitygw": _VersityGateway(_HEALTH_PATH, "none: acknowledged from the system's memory"),
}
