"""A time-stamping authority (RFC 3161) on loopback. `openssl ts` makes its answers with a certificate of the test."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

_CONFIGURATION = """
[tsa]
default_tsa = authority
[authority]
serial = serial
signer_cert = tsa.pem
signer_key = tsa.key
signer_digest = sha256
ess_cert_id_alg = sha256
default_policy = 1.2.3.4
digests = {digest}
"""


@dataclass
class TimeStampingAuthority:
    """An authority. ``change`` is applied to each answer that its HTTP server sends."""

    folder: Path
    url: str = ""
    change: Callable[[bytes], bytes] = bytes
    status: int = 200

    @property
    def root(self) -> Path:
        """The PEM file of its root certificate."""
        return self.folder / "root.pem"

    def answer(self, request: bytes) -> bytes:
        """Return the answer to a TimeStampReq, as `openssl ts` makes it."""
        (self.folder / "request").write_bytes(request)
        words = ("-config", "tsa.cnf", "-queryfile", "request", "-out", "answer")
        subprocess.run(("openssl", "ts", "-reply", *words), cwd=self.folder, capture_output=True, check=True)
        return (self.folder / "answer").read_bytes()


@contextmanager
def time_stamping_authority(folder: Path, *, digest: str = "sha256") -> Iterator[TimeStampingAuthority]:
    """Run an authority with new keys, which accepts hashes of one kind."""
    folder.mkdir()
    _write_certificates(folder)
    (folder / "tsa.cnf").write_text(_CONFIGURATION.format(digest=digest))
    (folder / "serial").write_text("01\n")
    authority = TimeStampingAuthority(folder)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            request = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/timestamp-query"
            content = authority.change(authority.answer(request))
            self.send_response(authority.status)
            self.send_header("Content-Type", "application/timestamp-reply")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        authority.url = f"http://127.0.0.1:{server.server_address[1]}/"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield authority
        finally:
            server.shutdown()
            thread.join()


def _write_certificates(folder: Path) -> None:
    """Write root.pem, and tsa.pem with its key. Only tsa.pem may make timestamps.

    Each authority has a different name, because a verifier finds the root certificate by its name.
    """
    issuer = f"root of {folder.name}"
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root = _certificate(issuer, issuer, root_key, root_key, x509.BasicConstraints(ca=True, path_length=None))
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
    (folder / "root.pem").write_bytes(root.public_bytes(Encoding.PEM))
    tsa = _certificate("tsa", issuer, key, root_key, purpose)
    (folder / "tsa.pem").write_bytes(tsa.public_bytes(Encoding.PEM))
    (folder / "tsa.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _certificate(
    name: str,
    issuer: str,
    key: ec.EllipticCurvePrivateKey,
    root_key: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> x509.Certificate:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(extension, critical=True)
        .sign(root_key, hashes.SHA256())
    )
