"""Credentials of token services: a failure is one message, and expiring credentials are refreshed or refused."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from archiver.cli.runs.run import run as run_command
from archiver.engine import execution
from archiver.engine.plan import check_credentials
from archiver.engine.worker.assignment import Assignment
from archiver.engine.workers.contract import OnReport, Start
from archiver.engine.workers.processes import WorkerProcesses
from archiver.measure.reports import Carried
from archiver.values.errors import PlatformError, UsageError
from backends.base import CredentialsTerm
from backends.embedded import process as embedded
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Credentials
from backends.s3.credentials import FoundCredentials
from scenarios.reading.reader import read_scenario
from scenarios.work.sessions import Sessions, UntilPrecise
from tests.support.commands import archiver
from tests.support.runs import TINY

Answer = Callable[[int], tuple[int, str]]
START_URL = "https://sign-in.example/start"


def later(**lapse: int) -> str:
    return (datetime.now(UTC) + timedelta(**lapse)).strftime("%Y-%m-%dT%H:%M:%SZ")


def issued(action: str, number: int, **lapse: int) -> tuple[int, str]:
    """The answer of a token service with its credentials number ``number``."""
    return 200, (
        f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result><Credentials>'
        f"<AccessKeyId>ASIAEXAMPLE{number}</AccessKeyId><SecretAccessKey>secret-{number}</SecretAccessKey>"
        f"<SessionToken>token-{number}</SessionToken><Expiration>{later(**lapse)}</Expiration></Credentials>"
        f"<AssumedRoleUser><Arn>arn:aws:sts::1:role/r</Arn><AssumedRoleId>id</AssumedRoleId></AssumedRoleUser>"
        f"</{action}Result></{action}Response>"
    )


def refused(code: str, message: str) -> tuple[int, str]:
    return 400, (
        '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
        f"<Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
    )


@pytest.fixture
def token_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], list[int]]]:
    """Starts a token service: ``token_service(answer)`` answers request number n with ``answer(n)``."""
    servers: list[tuple[ThreadingHTTPServer, threading.Thread]] = []

    def start(answer: Answer) -> list[int]:
        asked: list[int] = []

        class Service(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked.append(len(asked) + 1)
                status, text = answer(len(asked))
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_POST

            def log_message(self, format: str, *arguments: object) -> None:
                """Log nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        servers.append((server, thread))
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_port}")
        return asked

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Profiles of every kind, and a home with an expired sign-in."""
    (tmp_path / "config").write_text(f"""
[profile keys]
aws_access_key_id = AKIDEXAMPLE
aws_secret_access_key = hidden-secret
region = us-east-1

[profile role]
role_arn = arn:aws:iam::000000000001:role/archive
source_profile = keys
region = us-east-1

[profile web]
role_arn = arn:aws:iam::000000000001:role/archive
web_identity_token_file = {tmp_path / "token"}
region = us-east-1

[profile signed-in]
sso_start_url = {START_URL}
sso_region = us-east-1
sso_account_id = 000000000001
sso_role_name = archive

[profile process]
credential_process = {tmp_path / "process.sh"}

[profile code]
role_arn = arn:aws:iam::000000000001:role/archive
source_profile = keys
mfa_serial = arn:aws:iam::000000000001:mfa/me
region = us-east-1

[profile keys-with-code]
aws_access_key_id = AKIDEXAMPLE
aws_secret_access_key = hidden-secret
mfa_serial = arn:aws:iam::000000000001:mfa/me

[profile role-of-keys-with-code]
role_arn = arn:aws:iam::000000000001:role/archive
source_profile = keys-with-code
region = us-east-1

[profile behind-code]
role_arn = arn:aws:iam::000000000001:role/archive
source_profile = code
region = us-east-1
""")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    cache = tmp_path / ".aws/sso/cache"
    cache.mkdir(parents=True)
    name = hashlib.sha1(START_URL.encode(), usedforsecurity=False).hexdigest()
    (cache / f"{name}.json").write_text(
        json.dumps({"startUrl": START_URL, "region": "us-east-1", "accessToken": "t", "expiresAt": later(hours=-1)})
    )
    return tmp_path


def program(folder: Path, text: str) -> None:
    """Write the program that the profile ``process`` runs."""
    (folder / "process.sh").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "process.sh").chmod(0o755)


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ("signed-in", "sign in again: aws sso login"),
        ("role", "not authorized to assume"),
        ("web", "No such file or directory"),
        ("process", "no permission today"),
    ],
)
def test_unavailable_credentials_give_one_message_and_exit_status_3(
    config: Path, token_service: Callable[[Answer], list[int]], profile: str, words: str
) -> None:
    token_service(lambda _: refused("AccessDenied", "not authorized to assume the role"))
    program(config, "echo no permission today >&2; exit 1")
    failed = archiver("run", "dr550", *TINY, "--endpoint", "http://127.0.0.1:1", "--profile", profile)
    assert failed.returncode == 3
    lines = [line for line in failed.stderr.splitlines() if not line.startswith("endpoint ")]
    assert len(lines) == 1, failed.stderr
    assert lines[0].startswith(f"archiver: no S3 credentials (profile {profile}): ")
    assert words in lines[0]
    assert "hidden-secret" not in failed.stderr


def test_web_identity_that_has_ended_is_a_platform_error(
    config: Path, token_service: Callable[[Answer], list[int]]
) -> None:
    (config / "token").write_text("an-identity")
    token_service(lambda _: refused("ExpiredTokenException", "Token expired"))
    with pytest.raises(PlatformError, match="Token expired") as caught:
        FoundCredentials("web")
    assert "an-identity" not in str(caught.value)


@pytest.mark.parametrize("text", ["echo 'no json'", "echo '{}'", "echo '{\"Version\": 1}'", "exit 1"])
def test_program_that_gives_no_credentials_is_a_platform_error(config: Path, text: str) -> None:
    program(config, text)
    with pytest.raises(PlatformError, match=r"no S3 credentials \(profile process\)"):
        FoundCredentials("process")


@pytest.mark.parametrize(("profile", "action"), [("role", "AssumeRole"), ("web", "AssumeRoleWithWebIdentity")])
def test_credentials_about_to_end_are_refreshed(
    config: Path, token_service: Callable[[Answer], list[int]], profile: str, action: str
) -> None:
    (config / "token").write_text("an-identity")
    # The first credentials end soon. botocore refreshes credentials that end within ten minutes.
    asked = token_service(lambda n: issued(action, n, minutes=5 if n == 1 else 60))
    found = FoundCredentials(profile)
    assert found.current() == Credentials("ASIAEXAMPLE2", "secret-2", "token-2")
    assert found.refresh(30 * 60).is_renewable
    assert found.current().access_key == "ASIAEXAMPLE2"
    found.refresh(2 * 3600)  # longer than these last
    assert found.current().access_key == "ASIAEXAMPLE3"
    assert asked == [1, 2, 3]
    assert "secret" not in repr(found)


def test_credentials_are_not_renewable_beyond_the_end_of_their_sign_in(
    config: Path, token_service: Callable[[Answer], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(number: int) -> tuple[int, str]:
        end = datetime.now(UTC) + timedelta(hours=1)
        keys = {"accessKeyId": f"K{number}", "secretAccessKey": "S", "sessionToken": "T"}
        return 200, json.dumps({"roleCredentials": {**keys, "expiration": int(end.timestamp() * 1000)}})

    token_service(answer)
    monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", os.environ["AWS_ENDPOINT_URL_STS"])
    (path,) = (config / ".aws/sso/cache").iterdir()
    token = json.loads(path.read_text())
    for sign_in, is_renewable in ((later(hours=8), True), (later(minutes=50), False)):
        path.write_text(json.dumps({**token, "expiresAt": sign_in}))
        # A separate process: botocore looks up the home folder when it is loaded.
        script = (
            "from backends.s3.credentials import FoundCredentials\n"
            "found = FoundCredentials('signed-in')\n"
            "print(found.refresh(2 * 3600).is_renewable, found.current().access_key)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.stdout.split()[0] == str(is_renewable), done.stderr


def test_refresh_that_fails_is_a_platform_error(token_service: Callable[[Answer], list[int]]) -> None:
    token_service(lambda n: issued("AssumeRole", n, minutes=5) if n == 1 else refused("AccessDenied", "no longer"))
    found = FoundCredentials("role")
    with pytest.raises(PlatformError, match="no longer"):
        found.current()


def test_environment_credentials_end_at_their_stated_expiration(monkeypatch: pytest.MonkeyPatch) -> None:
    end = later(hours=1)
    for name, value in (("ACCESS_KEY_ID", "K"), ("SECRET_ACCESS_KEY", "S"), ("SESSION_TOKEN", "T")):
        monkeypatch.setenv(f"AWS_{name}", value)
    assert FoundCredentials(None).refresh(1e6) == CredentialsTerm()
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", end)
    found = FoundCredentials(None)
    assert found.refresh(1e6) == CredentialsTerm(datetime.fromisoformat(end).timestamp(), is_renewable=False)
    assert found.current() == Credentials("K", "S", "T")
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", later(hours=-1))
    with pytest.raises(PlatformError, match="expired"):
        FoundCredentials(None)


@pytest.mark.parametrize("profile", ["code", "behind-code"])
def test_roles_that_require_a_code_cannot_be_refreshed(
    token_service: Callable[[Answer], list[int]], profile: str
) -> None:
    token_service(lambda n: issued("AssumeRole", n, minutes=60))
    code = f"from backends.s3.credentials import FoundCredentials; print(FoundCredentials({profile!r}).refresh(0))"
    # Without a terminal the code is read from standard input.
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="123456\n",
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "is_renewable=False" in done.stdout, done.stderr


def test_role_of_keys_whose_profile_names_a_device_can_be_refreshed(
    token_service: Callable[[Answer], list[int]],
) -> None:
    token_service(lambda n: issued("AssumeRole", n, minutes=60))
    assert FoundCredentials("role-of-keys-with-code").refresh(0).is_renewable  # no code is requested


@pytest.mark.parametrize("command", [("audit", "latest"), ("worm", "--check", "DEL-02")])
def test_audits_and_checks_start_with_refreshed_credentials(config: Path, command: tuple[str, ...]) -> None:
    with embedded.start(config / "store") as store:
        keys = {"AWS_ACCESS_KEY_ID": store.access_key, "AWS_SECRET_ACCESS_KEY": store.secret_key}
        ran = archiver("run", "dr550", *TINY, "--endpoint", store.endpoint, **keys)
        assert ran.returncode == 0, ran.stderr
        made = {"Version": 1, "AccessKeyId": store.access_key, "SecretAccessKey": store.secret_key}
        (config / "keys.json").write_text(json.dumps({**made, "Expiration": later(minutes=30)}))
        program(config, f"cd {config}; echo asked >> asked; cat keys.json")
        done = archiver(*command, AWS_PROFILE="process", AWS_ENDPOINT_URL=store.endpoint)
        assert done.returncode == 0, done.stderr
        # botocore alone would accept 30 minutes
        assert len((config / "asked").read_text().split()) > 1


def test_run_longer_than_its_credentials_is_refused_with_their_end(home: Path, tmp_path: Path) -> None:
    with embedded.start(tmp_path / "store") as store:
        end = later(minutes=10)
        keys = {
            "AWS_ACCESS_KEY_ID": store.access_key,
            "AWS_SECRET_ACCESS_KEY": store.secret_key,
            "AWS_CREDENTIAL_EXPIRATION": end,
        }
        longer = ("--quick", "--set", "stop.seconds_max=10m")
        too_long = archiver("run", "dr550", *longer, "--endpoint", store.endpoint, **keys)
        assert too_long.returncode == 2, too_long.stderr
        assert f"the credentials end at {end} and cannot be refreshed, but the run may last until" in too_long.stderr
        assert not (home / "runs").exists()
        assert archiver("run", "dr550", *TINY, "--endpoint", store.endpoint, **keys).returncode == 0


def test_phase_longer_than_refreshed_credentials_is_refused(
    config: Path, token_service: Callable[[Answer], list[int]]
) -> None:
    token_service(lambda n: issued("AssumeRole", n, minutes=20))
    backend = S3Backend(S3Options(("http://127.0.0.1:1",), profile="role"))
    scenario = read_scenario("dr550", quick=True, order="paper", order_seed=1, repetitions=1)
    check_credentials(scenario, backend)
    phase = scenario.phases[0]
    (workload,) = phase.workloads
    assert isinstance(workload.work, Sessions)
    assert isinstance(workload.work.stop, UntilPrecise)
    work = replace(workload.work, stop=replace(workload.work.stop, seconds_max=3600.0))
    long = replace(scenario, phases=(replace(phase, workloads=(replace(workload, work=work),)),))
    with pytest.raises(UsageError, match=r"the credentials end at .*, but a phase may last 1h.*duration_seconds"):
        check_credentials(long, backend)


def test_workers_get_refreshed_credentials_at_each_phase(
    config: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phases: list[set[str]] = []

    class Noting(WorkerProcesses):
        def run(self, assignments: Sequence[Assignment], start: Start, on_report: OnReport) -> Carried:
            phases.append({each.backend_setting.access_key for each in assignments})
            return super().run(assignments, start, on_report)

    monkeypatch.setattr(execution, "WorkerProcesses", Noting)
    names = [f"key-{number}" for number in range(300)]
    with embedded.start(config / "store", credentials=names) as store:
        for number, name in enumerate(names):
            made = store.credentials[name]
            (config / f"{number}.json").write_text(
                json.dumps(
                    {
                        "Version": 1,
                        "AccessKeyId": made.access_key,
                        "SecretAccessKey": made.secret_key,
                        "Expiration": later(minutes=9),  # so soon that botocore refreshes them each time
                    }
                )
            )
        (config / "count").write_text("0")
        program(config, f"cd {config}; n=$(cat count); echo $(((n + 1) % 300)) > count; cat $n.json")
        with pytest.raises(SystemExit) as ended:
            run_command.main(
                ["dr550", *TINY, "--endpoint", store.endpoint, "--profile", "process", "--quiet"], standalone_mode=False
            )
    assert ended.value.code == 0
    assert len(phases) > 2
    assert all(len(keys) == 1 for keys in phases)
    assert len(set.union(*phases)) == len(phases)  # different keys in each phase


def test_profile_that_is_wrong_is_a_usage_error(config: Path) -> None:
    (config / "config").write_text("[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = absent\n")
    with pytest.raises(UsageError, match=r"no S3 credentials: .*absent.*; check --profile or AWS_PROFILE"):
        FoundCredentials("role")


def test_profile_without_credentials_is_named_with_its_remedy(config: Path) -> None:
    (config / "config").write_text("[profile empty]\nregion = eu-central-1\n")
    with pytest.raises(UsageError, match=r"no S3 credentials: profile empty has none; add keys, a role or a sign-in"):
        FoundCredentials("empty")
