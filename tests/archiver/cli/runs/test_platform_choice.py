"""Test which store a command uses: the one of its options, of AWS variables or of AWS configuration files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.embedded import process as embedded
from tests.support.commands import archiver
from tests.support.runs import TINY, left_in


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.StoreProcess]:
    """A running store that another owner runs."""
    with embedded.start(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture
def profiles(store: embedded.StoreProcess, tmp_path: Path) -> dict[str, str]:
    """Environment variables for two AWS profiles: prod has an endpoint in a services section, bare has none."""
    keys = f"aws_access_key_id = {store.access_key}\naws_secret_access_key = {store.secret_key}\n"
    config = (
        f"[profile prod]\n{keys}services = lab\n[profile bare]\n{keys}\n"
        f"[services lab]\ns3 =\n  endpoint_url = {store.endpoint}\n"
    )
    (tmp_path / "config").write_text(config)
    return {"AWS_CONFIG_FILE": str(tmp_path / "config")}


def test_endpoint_of_a_profile_is_used_by_every_command(
    home: Path, store: embedded.StoreProcess, profiles: dict[str, str]
) -> None:
    first = f"endpoint {store.endpoint} from profile prod (services section lab)"
    ran = archiver("run", "dr550", *TINY, "--profile", "prod", "--json", **profiles)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.splitlines()[0] == first
    document = json.loads(ran.stdout)
    assert document["location"]["endpoint"] == store.endpoint
    assert {row["platform"] for row in left_in(home)} == {None}
    assert not (home / "store").exists()  # no store was started

    recorded = f"endpoint {store.endpoint} from the record of run {document['run']}"
    audited = archiver("audit", "latest", "--sample", "2", AWS_PROFILE="prod", **profiles)
    assert (audited.returncode, audited.stderr.splitlines()[0]) == (0, recorded), audited.stderr
    read = archiver("run", "dr550", *TINY, "--objects-from", "latest", AWS_PROFILE="bare", **profiles)
    assert (read.returncode, read.stderr.splitlines()[0]) == (0, recorded), read.stderr
    cleaned = archiver("cleanup", "latest", "--bypass-governance", "--profile", "bare", **profiles)
    assert (cleaned.returncode, cleaned.stderr.splitlines()[0]) == (0, recorded), cleaned.stderr
    checked = archiver("worm", "--check", "DEL-02", "--profile", "prod", **profiles)
    assert (checked.returncode, checked.stderr.splitlines()[0]) == (0, first), checked.stderr


@pytest.mark.parametrize("command", [("run", "dr550", *TINY), ("run", "dr550", "--dry-run"), ("worm",)])
def test_profile_without_an_endpoint_is_refused(home: Path, profiles: dict[str, str], command: tuple[str, ...]) -> None:
    for given, environment in ((("--profile", "bare"), {}), ((), {"AWS_PROFILE": "bare"})):
        refused = archiver(*command, *given, **environment, **profiles)
        assert refused.returncode == 2
        assert "AWS profile bare is named, but no S3 endpoint: give one with --endpoint" in refused.stderr
        assert "--platform embedded" in refused.stderr
        assert not home.exists()


@pytest.mark.parametrize(
    ("given", "environment", "first"),
    [
        ((), {}, "platform embedded, started here since no endpoint is named"),
        (
            (),
            {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"},
            "platform embedded, started here since no endpoint is named; the AWS credentials in the environment are "
            "not used",
        ),
        (("--platform", "embedded"), {"AWS_PROFILE": "bare"}, "platform embedded, started here as --platform says"),
        (("--endpoint", "http://store:1"), {}, "endpoint http://store:1 from --endpoint"),
        ((), {"AWS_ENDPOINT_URL_S3": "http://store:2"}, "endpoint http://store:2 from AWS_ENDPOINT_URL_S3"),
    ],
)
def test_first_line_names_platform_and_its_origin(
    profiles: dict[str, str], given: tuple[str, ...], environment: dict[str, str], first: str
) -> None:
    shown = archiver("run", "dr550", "--quick", "--dry-run", *given, **environment, **profiles)
    assert shown.stderr.splitlines()[0] == first
    assert shown.returncode == (0 if first.startswith("platform") else 2), "at an endpoint credentials are needed"


def test_broken_endpoint_of_profile_is_refused_without_showing_secret(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[profile lab]\nendpoint_url = http://me:hidden@store\n")
    refused = archiver("run", "dr550", "--dry-run", "--profile", "lab", AWS_CONFIG_FILE=str(tmp_path / "config"))
    assert refused.returncode == 2
    assert "profile lab (endpoint_url): credentials do not belong in an endpoint" in refused.stderr
    assert "hidden" not in refused.stderr + refused.stdout


def test_running_platform_has_name_and_version_given_by_the_user(home: Path, store: embedded.StoreProcess) -> None:
    keys = {"AWS_ACCESS_KEY_ID": store.access_key, "AWS_SECRET_ACCESS_KEY": store.secret_key}
    named = ("--endpoint", store.endpoint, "--platform-name", "StorageGRID", "--platform-version", "12.0")
    checked = archiver("worm", "--check", "CFG-03", *named, **keys)
    assert checked.stdout.startswith(f"StorageGRID 12.0 at {store.endpoint}, run "), checked.stdout + checked.stderr
    (page,) = home.glob("runs/*/report/worm.md")
    assert page.read_text().startswith("# WORM conformance: StorageGRID 12.0\n")
    ran = archiver("run", "dr550", *TINY, *named, "--json", **keys)
    assert ran.returncode == 0, ran.stderr
    platform = json.loads(ran.stdout)["platform"]
    assert (platform["name"], platform["version"]) == ("StorageGRID", "12.0")


@pytest.mark.parametrize("command", [("run", "dr550", *TINY), ("worm",)])
@pytest.mark.parametrize("option", ["--platform-name", "--platform-version"])
@pytest.mark.parametrize("platform", [(), ("--platform", "embedded")])
def test_platform_started_by_archiver_accepts_no_other_name(
    home: Path, command: tuple[str, ...], option: str, platform: tuple[str, ...]
) -> None:
    refused = archiver(*command, *platform, option, "other")
    assert refused.returncode == 2
    assert "are for a platform that runs already: --endpoint URL" in refused.stderr
    assert not home.exists()
