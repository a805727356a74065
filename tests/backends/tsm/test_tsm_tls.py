"""TLS of TSM sessions between our library and its TSM server, and what each of them refuses as unsafe."""

from __future__ import annotations

import socket
import ssl
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme

from archiver.platforms.opening import open_tsm_server
from archiver.values.errors import PlatformError, UsageError
from archiver.values.record import Operation, Status
from backends.embedded import process
from backends.embedded.process import StoreProcess
from backends.tsm import TsmOptions
from backends.tsm.library import api
from backends.tsm.library.api import Library, SignOn
from backends.tsm.library.codes import Code
from tests.backends.tsm.program_options import PROTECTED, run, settings, write_options
from tests.backends.tsm.tsm_sessions import Server, archives, data_plane, record_of_sessions, retrieves, rows_of

Attempt = Callable[..., int]

LONG_AGO = datetime.now(UTC) - timedelta(days=30)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def bundle(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("authority") / "authority.pem"
    authority.cert_pem.write_to_path(path)
    return path


def start(folder: Path, certificate: trustme.LeafCert) -> StoreProcess:
    folder.mkdir(parents=True, exist_ok=True)
    certificate.cert_chain_pems[0].write_to_path(folder / "server.pem")
    certificate.private_key_pem.write_to_path(folder / "server.key")
    return process.start(folder / "store", tls_certificate=folder / "server.pem", tls_key=folder / "server.key")


@pytest.fixture(scope="module")
def secured(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    with start(tmp_path_factory.mktemp("secured"), certificate) as running:
        yield running


@pytest.mark.long
def test_api_program_passes_over_tls(sanitized: Path, tmp_path: Path, authority: trustme.CA, bundle: Path) -> None:
    with start(tmp_path, authority.issue_cert("127.0.0.1")) as store:
        environment = settings(tmp_path / "options", store)
        stanzas = tmp_path / "options" / "dsm.sys"
        port = f"   TCPPort {store.tsm_port}\n"
        text = stanzas.read_text()
        assert text.count(port) > 5
        stanzas.write_text(text.replace(port, f"{port}   SSL yes\n   SSLCAFILE {bundle}\n"))
        run([str(sanitized)], {**environment, "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0"})


def write_stanza(
    folder: Path, monkeypatch: pytest.MonkeyPatch, port: int, *lines: str, host: str = "127.0.0.1"
) -> None:
    address = [f"TCPServeraddress {host}", f"TCPPort {port}", PROTECTED, "COMMTimeout 10"]
    for name, value in write_options(folder, {"MAIN": [*address, *lines]}).items():
        if name.startswith("DSMI_"):
            monkeypatch.setenv(name, value)


def test_objects_are_archived_and_retrieved_over_tls(
    shim: Path, secured: StoreProcess, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_stanza(tmp_path, monkeypatch, secured.tsm_port, "SSL yes", f"SSLCAFILE {bundle}")
    server = Server(secured, shim, tmp_path)
    backend, _ = server.prepared(server="MAIN", configuration=None)
    numbers = range(300)
    plane = data_plane(backend.worker_setting(), reads=tuple(numbers))
    rows = rows_of(record_of_sessions(plane, archives(*numbers), retrieves(*numbers)))
    done = [row for row in rows if row.operation in (Operation.ARCHIVE, Operation.RETRIEVE)]
    assert len(done) == 2 * len(numbers)
    assert {row.status for row in done} == {Status.OK}  # so every byte was verified


@pytest.mark.parametrize("is_secure", [True, False])
def test_profile_reports_whether_tls_is_used(
    shim: Path, secured: StoreProcess, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_secure: bool
) -> None:
    with process.start(tmp_path / "plain") as plain:
        store = secured if is_secure else plain
        answer = "yes" if is_secure else "no"
        write_stanza(tmp_path, monkeypatch, store.tsm_port, f"SSL {answer}", f"SSLCAFILE {bundle}")
        backend = Server(store, shim, tmp_path).backend(server="MAIN", configuration=None)
        assert backend.profile().tls is is_secure


def test_server_named_by_address_is_reached_over_tls(
    shim: Path, secured: StoreProcess, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "OWN_LIBRARY", shim)
    options = TsmOptions(
        server=f"127.0.0.1:{secured.tsm_port}", node=secured.node, password=secured.node_password, encrypted=True
    )
    with open_tsm_server(replace(options, ca_file=bundle)) as backend:
        assert backend.profile().tls is True
    with open_tsm_server(options) as backend, pytest.raises(PlatformError, match="SSL_BAD_CERTIFICATE"):
        backend.profile()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"server": "STANZA", "encrypted": True}, "a stanza of dsm.sys says SSL YES"),
        ({"ca_file": Path("ca")}, "--tsm-ca: goes with --tsm-tls and Archiver's library"),
        ({"ca_file": Path("ca"), "encrypted": True, "library": "lib.so"}, "IBM's trusts the certificates in its own"),
    ],
)
def test_tls_options_that_would_be_ignored_are_refused(change: dict[str, Any], words: str) -> None:
    options = TsmOptions(server="127.0.0.1:1", node="N", password="secret")
    with pytest.raises(UsageError, match=words), open_tsm_server(replace(options, **change)):
        pass


@contextmanager
def only_shaking_hands(certificate: trustme.LeafCert) -> Iterator[int]:
    """Start a server that only does the TLS handshake with this certificate. Yields its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)

    def serve() -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection, context.wrap_socket(connection, server_side=True) as secure:
                secure.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.fixture
def attempt(shim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attempt:
    """Sign on with these lines in the stanza. Returns the code."""

    def sign_on(store: StoreProcess, *lines: str, host: str = "127.0.0.1", port: int | None = None) -> int:
        write_stanza(tmp_path, monkeypatch, port or store.tsm_port, *lines, host=host)
        library = Library(str(shim))
        library.set_up(None)  # resets what an earlier test of this process set
        code, handle = SignOn(library, store.node, store.node_password, "").attempt()
        if handle:
            library.functions.dsmTerminate(handle)
        return code

    return sign_on


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_certificate_is_accepted_by_host_name_and_by_address(
    attempt: Attempt, secured: StoreProcess, bundle: Path, host: str
) -> None:
    assert attempt(secured, "SSL yes", f"SSLCAFILE {bundle}", host=host) == Code.OK
    assert attempt(secured, "SSL yes", "SSLREQuired yes", f'SSLCAFILE "{bundle}"', host=host) == Code.OK


@pytest.mark.parametrize("fault", ["wrong name", "wrong address", "expired", "untrusted"])
def test_invalid_certificate_is_refused(
    attempt: Attempt, secured: StoreProcess, authority: trustme.CA, bundle: Path, fault: str
) -> None:
    certificate = {
        "wrong name": lambda: authority.issue_cert("elsewhere.example", "127.0.0.1"),
        "wrong address": lambda: authority.issue_cert("127.0.0.2", "localhost"),
        "expired": lambda: authority.issue_cert(
            "localhost", "127.0.0.1", not_before=LONG_AGO, not_after=LONG_AGO + timedelta(days=1)
        ),
        "untrusted": lambda: trustme.CA().issue_cert("localhost", "127.0.0.1"),
    }[fault]()
    host = "localhost" if fault == "wrong name" else "127.0.0.1"
    with only_shaking_hands(certificate) as port:
        code = attempt(secured, "SSL yes", f"SSLCAFILE {bundle}", host=host, port=port)
    assert code == Code.SSL_BAD_CERTIFICATE


def test_system_authorities_are_used_without_a_ca_file(
    attempt: Attempt, secured: StoreProcess, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert attempt(secured, "SSL yes") == Code.SSL_BAD_CERTIFICATE
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert attempt(secured, "SSL yes") == Code.OK


def test_invalid_ca_file_yields_keyfile_open_error(attempt: Attempt, secured: StoreProcess, tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("not a certificate\n")
    for path in (tmp_path / "none.pem", tmp_path / "missing.pem"):
        assert attempt(secured, "SSL yes", f"SSLCAFILE {path}") == Code.SSL_KEYFILE_OPEN_FAILED


@pytest.mark.parametrize("lines", [("SSLREQuired yes",), ("SSLREQuired yes", "SSL no"), ("SSL perhaps",)])
def test_contradictory_or_invalid_ssl_options_are_refused(
    attempt: Attempt, secured: StoreProcess, lines: tuple[str, ...]
) -> None:
    assert attempt(secured, *lines) == Code.INVALID_OPT


def test_silent_server_at_the_handshake_is_a_timeout(attempt: Attempt, secured: StoreProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert attempt(secured, "SSL yes", "COMMTimeout 1", port=port) == Code.CONN_TIMEDOUT


def test_tls_mismatch_between_client_and_server_fails(
    attempt: Attempt, secured: StoreProcess, store: StoreProcess, bundle: Path, tmp_path: Path
) -> None:
    assert attempt(secured, "SSL no") == Code.TCPIP_FAILURE
    hint = f"127.0.0.1 port {secured.tsm_port} ended the connection without an answer; if it expects TLS"
    assert hint in (tmp_path / "dsierror.log").read_text()
    assert attempt(store, "SSL yes", f"SSLCAFILE {bundle}") == Code.SSL_INIT_FAILED
    assert attempt(secured, "SSL yes", f"SSLCAFILE {bundle}") == Code.OK


def test_tls_below_1_2_is_refused(secured: StoreProcess) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    port = urlsplit(secured.endpoint).port
    for each in (secured.tsm_port, port):
        with socket.create_connection(("127.0.0.1", each), timeout=10) as plain, pytest.raises(ssl.SSLError):
            context.wrap_socket(plain)
