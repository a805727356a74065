"""The servers that clients are compared on: the null responder, which answers at once, and MinIO."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from archiver.platforms import servers
from archiver.platforms.programs import PROGRAMS
from backends.s3 import null_responder
from benchmarks.peers.base import Target, make_bucket
from benchmarks.processes import pinned


def has_minio() -> bool:
    return PROGRAMS["minio"].is_installed()


@contextmanager
def null_server(object_bytes: int, cores: Sequence[int], *, with_tls: bool = False) -> Iterator[Target]:
    """Run a null responder on these cores; every object has ``object_bytes``."""
    with null_responder.start(object_bytes, cores, with_tls=with_tls) as responder:
        yield Target(responder.endpoint)


@contextmanager
def minio_server(cores: Sequence[int], *, with_tls: bool = False) -> Iterator[Target]:
    """Run an empty MinIO on these cores, with a bucket that can lock objects; TLS is by the responder's certificate."""
    certificate = null_responder.CERTIFICATE
    with tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as temporary:
        folder = Path(temporary) / "minio"
        if with_tls:
            certificates = folder / "certificates"
            certificates.mkdir(mode=0o700, parents=True)
            key, public = re.findall(r"-----BEGIN.*?-----END [A-Z ]+-----\n", certificate.read_text(), re.DOTALL)
            (certificates / "private.key").write_text(key)
            (certificates / "public.crt").write_text(public)
        with ExitStack() as stack:
            with pinned(cores):  # all threads of the server are started on these cores
                server = stack.enter_context(servers.running("minio", folder, tls=certificate if with_tls else None))
            target = Target(server.endpoint, server.access.access_key, server.access.secret_key)
            make_bucket(target)
            yield target
