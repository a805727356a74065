"""Test what checks conclude from credentials that the user named, which may lack more or less than the user says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from archiver.worm import checks
from archiver.worm.case import starter
from archiver.worm.checks import CHECKS
from archiver.worm.requests.exchange import Answer, S3Client
from archiver.worm.requests.limited import RIGHTS, limited_clients
from archiver.worm.suite import CheckResult, Suite
from archiver.worm.verdict import CheckVerdict
from backends.embedded import process
from backends.s3.control import Credentials
from tests.archiver.worm.checked_platform import CheckedPlatform, of, reasons
from tests.support.commands import archiver
from tests.support.servers.lying_client import Asked, Store, lying

checks.load()
NEEDING = ("LH-09", "SID-06", "EVH-02", "EVH-08", "GOV-02", "GOV-03", "GOV-08", "BAT-08")
DECIDED_BY_TWO_RIGHTS = {"LH-09", "EVH-08", "GOV-02", "GOV-03", "BAT-08"}  # the right, and one for the control


@dataclass
class Platform:
    """A correct store, and the checks that need credentials without a right."""

    store: CheckedPlatform
    lacking_all: Credentials

    def run(self, named: Mapping[str, Credentials], client: S3Client | None = None) -> list[CheckResult]:
        """Return the results with the credentials that a user named, by the right that they should lack."""
        client = client or self.store.client
        with limited_clients("", client, given=named, are_trusted=False) as fewer:
            start = starter(
                client, self.store.bucket, True, fewer.clients, self.store.make_bucket, 0.0, fewer.are_trusted
            )
            return Suite(start).run(NEEDING, lambda _: None)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    credentials = [*(f"no-{right}:without={right}" for right in RIGHTS), f"clerk:without={','.join(RIGHTS)}"]
    with process.start(tmp_path_factory.mktemp("named") / "store", credentials=credentials) as store:
        clerk = store.credentials["clerk"]
        yield Platform(CheckedPlatform(store), Credentials(clerk.access_key, clerk.secret_key, None))


def test_correct_store_passes_with_one_credential_for_each_right(platform: Platform) -> None:
    results = platform.run(platform.store.limited)
    assert of(CheckVerdict.PASS, results) == set(NEEDING), reasons(results)


@pytest.mark.parametrize("right", RIGHTS)
def test_credential_that_has_the_right_accuses_no_correct_store(right: str, platform: Platform) -> None:
    results = platform.run(dict.fromkeys(RIGHTS, platform.store.limited[right]))
    assert of(CheckVerdict.FAIL, results) == set(), reasons(results)
    assert of(CheckVerdict.INCONCLUSIVE, results) == set(), reasons(results)
    if right != "hold":
        (refused,) = [each for each in results if each.id == "LH-09"]
        assert refused.verdict is CheckVerdict.NOT_TRIED
        assert "only for want of the right to hold" in refused.reason


def test_credential_that_lacks_all_rights_proves_nothing(platform: Platform) -> None:
    results = platform.run(dict.fromkeys(RIGHTS, platform.lacking_all))
    assert of(CheckVerdict.NOT_TRIED, results) == DECIDED_BY_TWO_RIGHTS, reasons(results)
    assert of(CheckVerdict.FAIL, results) == set(), reasons(results)


def test_platform_that_lets_a_named_credential_release_holds_fails(platform: Platform) -> None:
    def releases_for_anybody(asked: Asked, store: Store) -> Answer:
        answer = asked.pass_on()
        is_release = asked.sets("legal-hold") and b"OFF" in asked.body
        return store.owner.set_hold(asked.version, "OFF") if is_release and answer.status == 403 else answer

    client = lying(platform.store.client, releases_for_anybody, platform.store.bucket)
    results = platform.run(platform.store.limited, client)
    assert of(CheckVerdict.FAIL, results) == {"LH-09"}, reasons(results)


def test_command_uses_a_profile_for_each_right(
    platform: Platform, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert platform.store.client.credentials is not None
    people = {"default": platform.store.client.credentials, "clerk": platform.store.limited["hold"]}
    lines = [
        f"[{name}]\naws_access_key_id = {each.access_key}\naws_secret_access_key = {each.secret_key}\n"
        for name, each in people.items()
    ]
    (tmp_path / "credentials").write_text("".join(lines))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    command = ("worm", "--endpoint", platform.store.client.endpoint, "--check", "LH-09", "--check", "GOV-02")
    done = archiver(*command, "--limited-profile", "hold=clerk")
    assert done.returncode == 0, done.stderr
    assert "1 NOT TRIED" in done.stdout
    for wrong in ("clerk", "hold=", "read=clerk", "hold=clerk,hold=other"):
        refused = archiver(*command, "--limited-profile", wrong)
        assert (refused.returncode, f"--limited-profile {wrong}" in refused.stderr) == (2, True), refused.stderr


def test_every_check_that_needs_fewer_rights_is_tried_here() -> None:
    assert set(NEEDING) <= set(CHECKS)
