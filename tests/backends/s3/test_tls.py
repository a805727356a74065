"""TLS against the embedded store's S3 server: invalid certificates are refused with a remedy."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from backends.embedded import process as embedded
from tests.support.commands import archiver
from tests.support.runs import keys_of

TINY = (
    "--quick", "--quiet", "--set", "object_sizes=8KiB", "--set", "objects_per_session=2", "--set", "clients=1",
    "--set", "stop.seconds_min=20ms", "--set", "stop.seconds_max=40ms",
)  # fmt: skip
LONG_AGO = datetime.now(UTC) - timedelta(days=30)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def start(folder: Path, certificate: trustme.LeafCert) -> embedded.StoreProcess:
    certificate.cert_chain_pems[0].write_to_path(folder / "server.pem")
    certificate.private_key_pem.write_to_path(folder / "server.key")
    return embedded.start(folder / "store", tls_certificate=folder / "server.pem", tls_key=folder / "server.key")


def run(store: embedded.StoreProcess, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    endpoint = store.endpoint.replace("127.0.0.1", "localhost")
    assert endpoint.startswith("https://localhost:")
    return archiver("run", "dr550", *TINY, "--endpoint", endpoint, *options, **{**keys_of(store), **environment})


@pytest.fixture
def bundle(tmp_path: Path, authority: trustme.CA) -> str:
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


def test_f16_ca_bundle_from_option_or_environment_is_used(tmp_path: Path, authority: trustme.CA, bundle: str) -> None:
    with start(tmp_path, authority.issue_cert("localhost")) as store:
        given = run(store, "--ca-bundle", bundle)
        assert given.returncode == 0, given.stderr
        environment = run(store, AWS_CA_BUNDLE=bundle)
        assert environment.returncode == 0, environment.stderr


def test_https_on_a_plain_port_is_named(tmp_path: Path) -> None:
    with embedded.start(tmp_path / "store") as store:
        endpoint = store.endpoint.replace("http://", "https://")
        refused = archiver("run", "dr550", *TINY, "--endpoint", endpoint, **keys_of(store))
    assert refused.returncode == 3
    assert "does not speak TLS on this port" in refused.stderr
    assert "write http:// in --endpoint" in refused.stderr
    assert "--insecure" not in refused.stderr


@pytest.mark.parametrize("fault", ["wrong name", "expired", "untrusted"])
def test_invalid_certificate_is_refused_with_remedy(
    tmp_path: Path, authority: trustme.CA, bundle: str, fault: str
) -> None:
    certificate = {
        "wrong name": lambda: authority.issue_cert("elsewhere.example"),
        "expired": lambda: authority.issue_cert(
            "localhost", not_before=LONG_AGO, not_after=LONG_AGO + timedelta(days=1)
        ),
        "untrusted": lambda: trustme.CA().issue_cert("localhost"),
    }[fault]()
    with start(tmp_path, certificate) as store:
        refused = run(store, "--ca-bundle", bundle)
        assert refused.returncode == 3
        assert "TLS failed" in refused.stderr
        assert "--ca-bundle" in refused.stderr
        assert "Traceback" not in refused.stderr
        insecure = run(store, "--insecure")
        assert insecure.returncode == 0, insecure.stderr


def test_a_bundle_that_cannot_be_read_is_named(tmp_path: Path, authority: trustme.CA) -> None:
    with start(tmp_path, authority.issue_cert("localhost")) as store:
        refused = run(store, "--ca-bundle", str(tmp_path / "missing.pem"))
    assert refused.returncode == 2
    assert "missing.pem" in refused.stderr
    assert "Traceback" not in refused.stderr
