"""No command leaves a secret in its output, its files, or the arguments and environments of its processes.

One idea: the tests run commands with every kind of secret, given in every possible way, and then search all that the
commands printed and wrote, and the processes that they started.

The embedded store and `archiver platform start` keep their own credentials in files. These are the exception; only
their owner can read them.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import signal
import stat
import sys
import textwrap
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server

import boto3
import psutil
import pytest
import trustme
from botocore.config import Config

from backends.embedded import process as embedded
from backends.tsm.library import api
from tests.archiver.traces.made import write_example_files
from tests.secret_search import Search
from tests.support.servers import real
from tests.support.waiting import SECONDS_MAX, wait_until

TINY = (
    "--quick", "--set", "object_sizes=8KiB", "--set", "objects_per_session=2", "--set", "clients=1",
    "--set", "stop.seconds_min=20ms", "--set", "stop.seconds_max=40ms", "--workers", "1",
)  # fmt: skip
HAS_TSM_LIBRARY = api.OWN_LIBRARY.exists()
OWN_FILES = {"credentials.json", "nodes.json"}


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Search:
    root = tmp_path / "root"
    root.mkdir()
    monkeypatch.setenv("ARCHIVER_HOME", str(root / "home"))
    return Search(root)


@dataclass(frozen=True, slots=True)
class Given:
    """A store with TLS that runs outside the searched folder, and what a user needs to reach it."""

    store: embedded.StoreProcess
    folder: Path
    authority: Path

    @property
    def endpoint(self) -> str:
        return self.store.endpoint.replace("127.0.0.1", "localhost")

    @property
    def address(self) -> tuple[str, ...]:
        return ("--endpoint", self.endpoint, "--ca-bundle", str(self.authority))

    @property
    def keys(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.store.access_key, "AWS_SECRET_ACCESS_KEY": self.store.secret_key}

    def file(self, name: str, content: str | bytes) -> str:
        path = self.folder / name
        path.touch(0o600)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)


@pytest.fixture
def given(tmp_path: Path, search: Search) -> Iterator[Given]:
    folder = tmp_path / "given"
    folder.mkdir()
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(folder / "server.pem")
    certificate.private_key_pem.write_to_path(folder / "server.key")
    search.plant("TLS key", b"".join(certificate.private_key_pem.bytes().splitlines()[1:-1]))
    with embedded.start(
        folder / "store", tls_certificate=folder / "server.pem", tls_key=folder / "server.key",
        credentials=["clerk:without=bypass,retention,hold,delete"],
    ) as store:  # fmt: skip
        search.plant("secret key", store.secret_key)
        search.plant("limited secret key", store.credentials["clerk"].secret_key)
        assert store.node_password is not None
        search.plant("TSM password", store.node_password)
        yield Given(store, folder, folder / "authority.pem")


def planted(search: Search, name: str) -> str:
    """Return a new secret with characters that URLs, JSON and HTML escape."""
    search.plant(name, f"{secrets.token_hex(12)}/{secrets.token_hex(12)}+&=")
    return search.secrets[name].decode()


def profile_file(given: Given, name: str, access_key: str, secret_key: str, session_token: str = "") -> dict[str, str]:
    """Write an AWS profile; return the environment variables that select it."""
    text = f"[{name}]\naws_access_key_id = {access_key}\naws_secret_access_key = {secret_key}\n"
    text += f"aws_session_token = {session_token}\n" if session_token else ""
    return {"AWS_SHARED_CREDENTIALS_FILE": given.file(f"profile-{name}", text), "AWS_PROFILE": name}


class Echo(BaseHTTPRequestHandler):
    """Refuse every request with an error that quotes its headers, as S3 does if a signature does not match."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        heads = "".join(f"{name.lower()}:{value}\n" for name, value in self.headers.items())
        token = self.headers.get("x-amz-security-token", "")
        body = (
            "<?xml version='1.0'?><Error><Code>SignatureDoesNotMatch</Code><Message>It does not match</Message>"
            f"<CanonicalRequest>GET\n/\n\n{escape(heads)}</CanonicalRequest><Token-0>{escape(token)}</Token-0></Error>"
        ).encode()
        self.send_response(403, "Forbidden")
        self.send_header("x-amz-request-id", "ECHO")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


@contextmanager
def echoing_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run_through_s3(search: Search, given: Given) -> None:
    """Do a run that writes everything it can write."""
    search.run("run", "dr550", *TINY, *given.address, "--op-log", "log", environment=given.keys)
    assert list(search.root.glob("log/*.parquet"))


def tsm_environment(search: Search, given: Given) -> dict[str, str]:
    """Write TSM option files for the store, which accepts only TLS; return the variables that select them."""
    given.file("dsm.opt", "SErvername SECRETS\n")
    given.file(
        "dsm.sys",
        f"SErvername SECRETS\n  COMMMethod TCPip\n  TCPServeraddress localhost\n  TCPPort {given.store.tsm_port}\n"
        f"  SSL YES\n  SSLCAFILE {given.authority}\n  PASSWORDAccess prompt\n",
    )
    return {
        "DSMI_DIR": str(given.folder), "DSMI_CONFIG": str(given.folder / "dsm.opt"), "DSMI_LOG": str(search.root),
    }  # fmt: skip


def publish(search: Search) -> None:
    search.run("bundle", "make", "latest", "audit.zip")
    assert (search.root / "audit.zip").exists()


def fail_with_everything_quoted(search: Search, given: Given) -> None:
    """Run against a server that quotes requests in its refusals, with keys, a session token and a metrics token."""
    token_file = given.file("metrics.token", planted(search, "metrics token"))
    secret_key, session_token = planted(search, "profile's secret key"), planted(search, "session token")
    profile = profile_file(given, "temporary", "ASIAEXAMPLE", secret_key, session_token)
    with echoing_server() as url:
        said = search.run(
            "run", "dr550", *TINY, "--endpoint", url, "--bucket", "theirs", "--metrics-token-file", token_file,
            "--watch", f"prometheus:{url}/metrics", environment=profile, status=3,
        )  # fmt: skip
        assert "SignatureDoesNotMatch" in said


def crash(search: Search, given: Given) -> None:
    """Make a worker fail unexpectedly, with a traceback that contains the representation of its assignment."""
    package = given.folder / "crash"
    package.mkdir()
    (package / "sitecustomize.py").write_text(
        textwrap.dedent("""
            import archiver.engine.workers.processes, archiver.engine.work.worker

            def run_phase(assignment, channel):
                raise RuntimeError(repr(assignment) + str(vars(type(assignment))))

            archiver.engine.work.worker.run_phase = archiver.engine.workers.processes.run_phase = run_phase
        """)
    )
    environment = {**given.keys, "PYTHONPATH": os.pathsep.join([str(package), *sys.path])}
    said = search.run("run", "dr550", *TINY, *given.address, environment=environment, status=None)
    assert "Traceback" in said
    assert "Assignment(" in said


def nothing_was_left(search: Search) -> None:
    for path in search.root.rglob("*"):
        if path.name in OWN_FILES or (path.parent.parent.name == "platforms" and path.name == "dsm.sys"):
            search.own.add(path)
        if path.parent.name == "platforms" and path.suffix == ".json":
            search.own.add(path)
    for path in search.own:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    found = search.found()
    assert not found, "\n".join(found)


def plant_its_own(search: Search, store: Path | None = None) -> None:
    """Search also for the credentials that an embedded store made; by default of the store in Archiver's home."""
    folder = store or search.root / "home" / "store"
    for each in json.loads((folder / "credentials.json").read_text())["credentials"]:
        search.plant(f"{folder.name}'s secret key of {each['name']}", each["secret_key"])
    for each in json.loads((folder / "nodes.json").read_text())["nodes"]:
        search.plant(f"{folder.name}'s password of {each['name']}", each["password"])
        search.plant(f"{folder.name}'s key of {each['name']}", base64.b64decode(each["key"]))


def free_port() -> int:
    with create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def page(url: str) -> bytes | None:
    """Return the page at this URL, also that of an error status. None if no server listens."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS_MAX) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.read()
    except OSError:
        return None


def test_run_report_bundle_and_failing_run_leave_no_secret(search: Search, given: Given) -> None:
    run_through_s3(search, given)
    publish(search)
    fail_with_everything_quoted(search, given)
    nothing_was_left(search)


@pytest.mark.skipif(not HAS_TSM_LIBRARY, reason="our TSM library was not built: no C compiler")
@pytest.mark.long
def test_tsm_commands_leave_no_password(search: Search, given: Given) -> None:
    environment = tsm_environment(search, given)
    right = given.file("password", f"{given.store.node_password}\n")
    wrong = given.file("wrong.password", planted(search, "wrong TSM password"))
    options = ("--tsm-server", "SECRETS", "--tsm-node", given.store.node, "--tsm-password-file", right)
    tsm = ("--backend", "tsm", "--management-class", "NONE")
    search.run("run", "dr550", *TINY, *tsm, *options, environment=environment)
    publish(search)
    search.run("audit", "latest", *options, "--json", environment=environment, status=None)
    search.run("cleanup", "latest", *options, environment=environment)
    said = search.run("run", "dr550", *TINY, *tsm, *options[:-1], wrong, environment=environment, status=3)
    assert "password" in said
    search.run("run", "dr550", *TINY, "--backend", "tsm", "--json")
    search.run("worm", "--check", "TSM-04")
    plant_its_own(search)
    nothing_was_left(search)


@pytest.mark.long
def test_unexpected_worker_failure_reveals_no_secret(search: Search, given: Given) -> None:
    crash(search, given)
    nothing_was_left(search)


@pytest.mark.long
def test_commands_on_runs_leave_no_secret(search: Search, given: Given) -> None:
    address, keys = given.address, given.keys
    authority = ("--ca-bundle", str(given.authority))
    clerk = given.store.credentials["clerk"]
    limited = profile_file(given, "clerk", clerk.access_key, clerk.secret_key)
    owner = profile_file(given, "owner", given.store.access_key, given.store.secret_key)
    search.run("run", "dr550", *TINY, *address, "--json", environment=owner)
    search.run("run", "dr550", *TINY, *address, "--dask", "local:2", environment=keys)
    runs = sorted(path.name for path in (search.root / "home" / "runs").iterdir())
    search.run("compare", *runs, "--out", "comparison")
    search.run("compare", *runs, "--json")
    search.run("report", "latest", "--format", "json")
    search.run("report", "latest", "--format", "html")
    search.run("report", "--index", ".")
    search.run("audit", "latest", *authority, environment=keys)
    search.run("ledger", "--json", "--price-per-gb-month", "0.02")
    search.run("cleanup", "latest", *authority, environment=limited, status=None)
    search.run("cleanup", "latest", "--bypass-governance", *authority, environment=keys)
    checks = ("--check", "DEL", "--check", "GOV", "--check", "ING", "--limited-profile", "bypass=clerk")
    both = {**keys, "AWS_SHARED_CREDENTIALS_FILE": limited["AWS_SHARED_CREDENTIALS_FILE"]}
    search.run("worm", *address, *checks, environment=both, status=None)
    search.run("bundle", "make", "latest", "evidence.json")
    search.run("bundle", "verify", "evidence.json", "--json")
    search.run("report", "latest", "--format", "html")
    wrong = {**keys, "AWS_SECRET_ACCESS_KEY": planted(search, "wrong secret key")}
    search.run("run", "dr550", *TINY, *address, environment=wrong, status=3)
    search.run("run", "dr550", *TINY, "--endpoint", "http://127.0.0.1:1", environment=keys, status=3)
    search.run("run", "dr550", *TINY, "--endpoint", given.endpoint, environment=keys, status=3)  # no authority
    search.run("doctor", "--seconds", "200ms", "--json", environment=keys)
    nothing_was_left(search)


@pytest.mark.long
def test_traces_leave_no_secret(search: Search, given: Given) -> None:
    write_example_files(search.root)
    (search.root / "trace.key").unlink()
    search.plant("key for anonymising", secrets.token_bytes(40))
    key_file = given.file("trace.key", search.secrets["key for anonymising"])
    search.run("trace", "anonymise", "public.parquet", "day.parquet", "--key-file", key_file)
    search.run("replay", "day.parquet", "--speed", "10", "--tolerance", "10s", *given.address, environment=given.keys)
    port = free_port()
    capture = search.start(
        "capture", "--listen", f"127.0.0.1:{port}", "--upstream", given.endpoint, "--ca-bundle", str(given.authority),
        "captured.parquet",
    )  # fmt: skip
    use_presigned_url(search, given, port)
    capture.send_signal(signal.SIGINT)
    search.finish(capture)
    search.run("trace", "head", "captured.parquet")
    token, signature = planted(search, "token in a log"), planted(search, "signature in a log")
    target = f"/mails/letter?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Security-Token={token}&X-Amz-Signature={signature}"
    line = f'127.0.0.1 - - [22/Nov/2026:10:00:00 +0000] "GET {target} HTTP/1.1" 200 8192 "-" "x"\n'
    log = given.file("access.log", line + line.replace("[22/Nov", "[99/Nov"))
    search.run("trace", "import", "--kind", "nginx", log, "imported.parquet", status=None)
    search.run("trace", "import", "--kind", "nginx", "--strict", log, "strict.parquet", status=2)
    nothing_was_left(search)


def use_presigned_url(search: Search, given: Given, port: int) -> None:
    """Send requests through the capturing proxy: some signed in their headers, one presigned."""
    with closing(
        boto3.session.Session().client(
            "s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
            aws_access_key_id=given.store.access_key, aws_secret_access_key=given.store.secret_key,
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
        )
    ) as client:  # fmt: skip
        wait_until(lambda: page(f"http://127.0.0.1:{port}/") is not None, "proxy")
        client.create_bucket(Bucket="mails")
        client.put_object(Bucket="mails", Key="letter", Body=b"x" * 100)
        url = client.generate_presigned_url("get_object", Params={"Bucket": "mails", "Key": "letter"})
    (signature,) = re.findall(r"X-Amz-Signature=(\w+)", url)
    search.plant("signature of a presigned URL", signature)
    assert page(url) == b"x" * 100


@pytest.mark.long
def test_run_resumed_after_store_loss_leaves_no_secret(search: Search) -> None:
    port = free_port()
    run = search.start(
        "run", "dr550", "--quick", "--set", "object_sizes=8KiB", "--set", "objects_per_session=2", "--set", "clients=1",
        "--set", "stop.seconds_min=3s", "--set", "stop.seconds_max=3s", "--set", "stop.sessions_min=1000",
        "--metrics-port", str(port),
        environment={"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"},
    )  # fmt: skip
    wait_until(lambda: b"archiver_phase{" in (page(f"http://127.0.0.1:{port}/metrics") or b""), "phase")
    search.seen["the page of metrics"] = page(f"http://127.0.0.1:{port}/metrics") or b""
    plant_its_own(search)
    (store,) = [child for child in psutil.Process(run.pid).children() if "backends.embedded.server" in child.cmdline()]
    store.kill()
    assert "archiver resume" in search.finish(run, status=1)
    search.run("resume", "latest")
    publish(search)
    nothing_was_left(search)


@pytest.mark.long
def test_served_and_started_stores_leave_no_secret(search: Search, given: Given) -> None:
    certificate = ("--tls-certificate", str(given.folder / "server.pem"), "--tls-key", str(given.folder / "server.key"))
    serve = search.start("serve", "--port", "0", "--tsm-port", "0", "--node", "OTHER", *certificate)
    wait_until((search.root / "home" / "store" / "credentials.json").exists, "store")
    serve.send_signal(signal.SIGINT)
    search.finish(serve, status=None)  # 0, or 130 if it did not listen yet
    plant_its_own(search)
    search.run("platform", "start", "embedded")
    try:
        plant_its_own(search, search.root / "home" / "platforms" / "embedded")
        search.run("platform", "list")
        printed = search.run("platform", "environment", "embedded")
        assert "AWS_SECRET_ACCESS_KEY=" in printed  # the purpose of this command
        search.forget_last()
    finally:
        search.run("platform", "stop", "embedded")
    nothing_was_left(search)


@pytest.mark.platforms
def test_platform_runs_leave_no_generated_credentials(search: Search) -> None:
    for name in real.NAMES:
        real.need(name)
        search.run("run", "dr550", *TINY, "--platform", name)
        for place, environment in list(search.seen.items()):
            if "(environment of" in place:
                for variable in re.findall(rb"(?:MINIO_ROOT_PASSWORD|ROOT_SECRET_ACCESS_KEY)=([^\0]+)", environment):
                    search.plant(f"secret key of {name}", variable)
                    del search.seen[place]  # these programs take their credentials from the environment
        assert f"secret key of {name}" in search.secrets
        publish(search)
        (search.root / "audit.zip").rename(search.root / f"{name}.zip")
    nothing_was_left(search)
