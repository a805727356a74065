"""The documents agree with the code: commands, help texts, links, permissions and request counts."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from archiver.cli import main
from archiver.platforms.servers import Server
from archiver.watch.prometheus import builtin, read_by, read_names
from scenarios.reading.reader import read_scenario
from tests.support.commands import archiver
from tests.support.documented import ALL, ROOT, command_of, example, words_of, written_commands
from tests.support.runs import TINY, TINY_LOCK_COST
from tests.support.servers import real
from tests.support.servers.pretender import KEYS, pretending

PAGE = "docs/measuring-your-own-platform.md"
AWS_PAGE = "docs/platforms/aws-s3.md"
PLATFORM_PAGES = [f"docs/platforms/{path.name}" for path in sorted((ROOT / "docs/platforms").glob("*.md"))]
DOCS = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))]
# The permissions that each call of the control plane requires; source: "Required permissions for Amazon S3 API
# operations".
CONTROL_RIGHTS = {
    "list_buckets": {"ListAllMyBuckets"},
    "create_bucket": {"CreateBucket", "PutBucketObjectLockConfiguration", "PutBucketVersioning"},
    "get_object_lock_configuration": {"GetBucketObjectLockConfiguration"},
    "get_object": {"GetObject", "GetObjectVersion"},
    "get_object_retention": {"GetObjectRetention"},
    "get_object_legal_hold": {"GetObjectLegalHold"},
    "head_object": {"GetObject", "GetObjectVersion", "GetObjectRetention", "GetObjectLegalHold"},
    "list_object_versions": {"ListBucketVersions"},
    "delete_objects": {"DeleteObject", "DeleteObjectVersion", "BypassGovernanceRetention"},
    "put_object_legal_hold": {"PutObjectLegalHold"},
    "put_object_retention": {"PutObjectRetention"},
    "list_multipart_uploads": {"ListBucketMultipartUploads"},
    "abort_multipart_upload": {"AbortMultipartUpload"},
    "put_object_lock_configuration": {"PutBucketObjectLockConfiguration"},
    "delete_bucket": {"DeleteBucket"},
}
# The permissions that each method of the data plane requires. HEAD also requests the bucket, GET its lock
# configuration. POST is part of multipart uploads. DELETE is of an object, a version or a multipart upload.
DATA_RIGHTS = {
    "PUT": {"PutObject", "PutObjectRetention", "PutObjectLegalHold"},
    "GET": {"GetObject", "GetObjectRetention", "GetBucketObjectLockConfiguration"},
    "HEAD": {"ListBucket", "GetObject"},
    "POST": {"PutObject", "PutObjectRetention", "PutObjectLegalHold"},
    "DELETE": {"DeleteObject", "DeleteObjectVersion", "AbortMultipartUpload"},
}


def test_docs_index_names_every_command() -> None:
    index = (ROOT / "docs/index.md").read_text()
    assert [name for name in ALL if f"`{name}" not in index] == []


def test_help_is_a_sentence_an_example_and_described_options() -> None:
    for name, command in ALL.items():
        text = command.help or ""
        assert text.split("\n\n")[0].rstrip().endswith("."), name
        assert example(name).startswith(name)
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{name} {parameter.opts[0]} has no help"
                assert parameter.opts[0].startswith("--"), f"{name} {parameter.opts[0]} is not a long flag"


@pytest.mark.parametrize("name", ["README.md", "DESIGN.md", "CHANGELOG.md", "backends/README.md", *DOCS])
def test_links_and_named_files_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", text)
    files = re.findall(r"`((?:archiver|backends|scenarios|results|tests|benchmarks)/[\w/.\-]+\.\w+)`", text)
    for link in links:
        assert ((ROOT / name).parent / link.partition("#")[0]).exists(), f"{name} links to {link}, which is not there"
    for file in files:
        assert (ROOT / file).exists(), f"{name} names {file}, which is not there"


def test_make_targets_in_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)`", (ROOT / "README.md").read_text()))
    assert named
    assert named <= targets


# The page of commands has usage lines instead; tests/test_examples.py runs the commands of the tutorial.
PARSED = [name for name in ("README.md", *DOCS) if name not in ("docs/reference/commands.md", "docs/tutorial.md")]
WRITTEN = [(name, line) for name in PARSED for line in written_commands(name) if "[" not in line]  # usage has brackets
PLANNED = [(name, line) for name in ("README.md", PAGE, *PLATFORM_PAGES) for line in written_commands(name)]


@pytest.fixture
def with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to a folder with the files that the documents' commands read."""
    monkeypatch.chdir(tmp_path)
    Path("ceph.toml").write_text((ROOT / "archiver/watch/node_exporter.toml").read_text())
    Path("minio.token").write_text("token")
    for name in ("alice.pub", "id_ed25519", "root.pem"):
        Path(name).write_text("")
    Path("array.toml").write_text("")
    Path("cloud.toml").write_text("")
    Path("expected.toml").write_text("")
    Path("need.toml").write_text("")
    Path("sizes.csv").write_text("")
    Path("system.toml").write_text("")


@pytest.mark.usefixtures("with_files")
@pytest.mark.parametrize(("name", "line"), WRITTEN)
def test_every_command_in_code_blocks_parses(name: str, line: str) -> None:
    command, arguments = command_of(words_of(line))
    command.make_context(name, arguments)


@pytest.mark.usefixtures("with_files")
@pytest.mark.parametrize("line", [line for _, line in PLANNED if line.startswith("archiver run")])
def test_every_run_in_code_blocks_passes_dry_run(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archiver.engine.plan.check_space", lambda *_: None)  # this machine's disk may be smaller
    with pretending() as (endpoint, archived):
        done = CliRunner(env=KEYS).invoke(main, [*_answered_here(words_of(line)[1:], endpoint), "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "archives at most" in done.output
    assert not archived


# Options that name a platform, a cluster or files that this machine does not have.
ELSEWHERE = frozenset(
    ("--platform", "--dask", "--ca-bundle", "--tsm-library", "--tsm-server", "--tsm-node", "--tsm-password-file",
     "--management-class")
)  # fmt: skip


def _answered_here(words: list[str], endpoint: str) -> list[str]:
    """Return the same command for the platform at ``endpoint``, or for the embedded store."""
    found, rest = list[str](), iter(words)
    for word in rest:
        if word in ELSEWHERE:
            next(rest)
        elif word == "--endpoint":
            found += [word, endpoint]
            next(rest)
        elif word == "--backend":
            backend = next(rest)
            found += [word, backend] if backend == "tsm" else []
        else:
            found.append(word)
    return found


@pytest.mark.parametrize("name", [PAGE, *PLATFORM_PAGES])
def test_every_command_and_option_in_running_text_exists(name: str) -> None:
    options = {flag for command in ALL.values() for parameter in command.params for flag in parameter.opts}
    spans = re.findall(r"`([^`\n]+)`", (ROOT / name).read_text())
    for span in spans:
        if span.startswith("archiver "):
            command, arguments = command_of(shlex.split(span))
            command.make_parser(click.Context(command)).parse_args(arguments)
        elif span.startswith("--"):
            assert {word for word in span.split() if word.startswith("--")} <= options, span
    assert any(span.startswith("--") for span in spans)  # the page writes options as code


def fenced(language: str, name: str = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / name).read_text(), re.MULTILINE | re.DOTALL)


def test_names_file_of_ceph_page_reads_gateway_and_host_metrics(tmp_path: Path) -> None:
    (added,) = fenced("toml", "docs/platforms/ceph-rgw.md")
    path = tmp_path / "ceph.toml"
    path.write_text(builtin("node_exporter").read_text() + added)
    names = read_names(path)
    gateways = {
        "ceph_rgw_req": [({"instance_id": "a"}, 3.0), ({"instance_id": "b"}, 4.0)],
        "ceph_rgw_failed_req": [({"instance_id": "a"}, 1.0)],
    }
    assert read_by(names, gateways) == {"requests": {"": 7.0}, "request_errors": {"": 1.0}}
    host = {"node_disk_io_time_seconds_total": [({"device": "sdb"}, 5.0)]}
    assert read_by(names, host) == {"disk_busy_seconds": {"sdb": 5.0}}


def statements() -> list[list[dict[str, Any]]]:
    """Return the statements of the policy for a run and its clean-up, and those of the separate second policy."""
    return [json.loads(policy)["Statement"] for policy in fenced("json")]


def rights(policies: list[list[dict[str, Any]]]) -> list[str]:
    actions = [action for policy in policies for statement in policy for action in as_list(statement["Action"])]
    return [action.removeprefix("s3:") for action in actions]


def as_list(one_or_more: str | list[str]) -> list[str]:
    return [one_or_more] if isinstance(one_or_more, str) else one_or_more


def test_documented_policies_allow_exactly_the_calls_of_the_code() -> None:
    control = "".join((ROOT / "backends/s3" / name).read_text() for name in ("control.py", "removal.py"))
    calls = set(re.findall(r'self\._client(?:, "(\w+)"|\.(\w+)\()', control))
    without_right = {"generate_presigned_url"}  # nothing is sent
    assert {paginated or called for paginated, called in calls} - without_right == set(CONTROL_RIGHTS)
    data = (ROOT / "backends/s3/wire/endpoint_requests.py").read_text()
    assert set(re.findall(r'RequestTemplate\(\s*"(\w+)"', data)) == set(DATA_RIGHTS)
    needed = set[str]().union(*CONTROL_RIGHTS.values(), *DATA_RIGHTS.values())
    allowed = rights(statements())
    assert set(allowed) == needed
    assert len(allowed) == len(needed)  # none twice
    assert set(rights(statements()[1:])) == {"BypassGovernanceRetention", "PutObjectLegalHold"}


def restricted(server: Server, *policies: list[dict[str, Any]]) -> dict[str, str]:
    """Return a credential, as environment variables, that has only the permissions of these policies."""
    policy = {"Version": "2012-10-17", "Statement": [each for policy in policies for each in policy]}
    given = real.client_of(server, "sts").assume_role(
        RoleArn="arn:aws:iam::000000000000:role/ignored", RoleSessionName="page", Policy=json.dumps(policy)
    )["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": given["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": given["SecretAccessKey"],
        "AWS_SESSION_TOKEN": given["SessionToken"],
    }


@pytest.mark.platforms
def test_documented_policies_suffice_for_run_and_cleanup_on_minio(tmp_path: Path) -> None:
    both = statements()
    with real.real_server("minio", tmp_path / "minio") as server:
        done = archiver("run", "dr550", *TINY, "--endpoint", server.endpoint, "--quiet", **restricted(server, both[0]))
        assert done.returncode == 0, done.stderr
        kept = archiver("cleanup", "latest", "--bypass-governance", **restricted(server, both[0]))
        assert kept.returncode == 1
        assert "locked until" in kept.stdout
        removed = archiver("cleanup", "latest", "--bypass-governance", **restricted(server, *both))
        assert removed.returncode == 0, removed.stdout + removed.stderr
        assert "and its bucket" in removed.stdout


@pytest.mark.platforms
def test_documented_rights_suffice_for_lock_cost_on_minio(tmp_path: Path) -> None:
    run, apart = statements()
    hold = [{**each, "Action": ["s3:PutObjectLegalHold"]} for each in apart]
    options = (*TINY_LOCK_COST, "--max-retain", "25h", "--quiet")
    with real.real_server("minio", tmp_path / "minio") as server:
        done = archiver("run", "lock-cost", *options, "--endpoint", server.endpoint, **restricted(server, run, hold))
        assert done.returncode == 0, done.stderr
        without = archiver("run", "lock-cost", *options, "--endpoint", server.endpoint, **restricted(server, run))
        assert without.returncode == 1
        assert "AccessDenied" in without.stderr
        for _ in range(2):
            everything = restricted(server, run, apart)
            removed = archiver("cleanup", "latest", "--bypass-governance", "--release-holds", **everything)
            assert removed.returncode == 0, removed.stdout + removed.stderr


def planned(seed: int, *, quick: bool = False) -> dict[str, int]:
    """Return the largest number of requests of the built-in matrix, by method."""
    workloads = [
        (each.objects_max, each)
        for phase in read_scenario("dr550", order_seed=seed, quick=quick).phases
        for each in phase.workloads
    ]
    return {
        "PUT": sum(count for count, each in workloads if each.work.operation_label == "archive"),
        "GET": sum(count for count, each in workloads if each.work.operation_label == "retrieve"),
        "HEAD": sum(count // each.objects_per_session for count, each in workloads),
    }


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.skipif(shutil.which("awk") is None, reason="awk is not installed")
def test_documented_awk_program_counts_requests_of_a_plan(quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archiver.engine.plan.check_space", lambda *_: None)  # this machine's disk may be smaller
    found = re.search(r"\| tr -d , \| awk '\n(.*?)'", (ROOT / AWS_PAGE).read_text(), re.DOTALL)
    assert found
    options = ["--quick"] if quick else []
    plan = CliRunner().invoke(main, ["run", "dr550", "--seed", "1", "--dry-run", *options]).output
    counted = subprocess.run(
        ["awk", found[1]], input=plan.replace(",", ""), capture_output=True, text=True, check=True
    ).stdout.split()
    assert {name: int(count) for name, count in zip(counted[::2], counted[1::2], strict=True)} == planned(
        1, quick=quick
    )


def test_documented_request_counts_and_sizes_match_matrix() -> None:
    text = " ".join((ROOT / AWS_PAGE).read_text().split())
    assert "about 760,000 PUT (34 GB), as many GET and 230,000 HEAD;" in text
    assert "with `--quick` 308,000 (4.3 GB), as many, and 214,000." in text
    for seed in range(3):
        assert planned(seed) == pytest.approx({"PUT": 760_000, "GET": 760_000, "HEAD": 230_000}, rel=0.1)
        assert planned(seed, quick=True) == pytest.approx({"PUT": 308_000, "GET": 308_000, "HEAD": 214_000}, rel=0.1)
        assert read_scenario("dr550", quick=True, order_seed=seed).archived_max()[1] == pytest.approx(4.3e9, rel=0.1)
        assert read_scenario("dr550", order_seed=seed).archived_max()[1] == pytest.approx(34e9, rel=0.1)
