"""Test scripts that reproduce a finding, on the platform that has the finding and on one without it."""

from __future__ import annotations

import json
import re
import time
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from archiver.values.errors import ResultsError
from archiver.values.platform import PlatformProfile
from archiver.worm import checks
from archiver.worm.case import starter
from archiver.worm.checks import deleting, races, retention, retrieval
from archiver.worm.requests.exchange import Answer
from archiver.worm.suite import Suite
from backends.embedded import process
from backends.s3.control import Credentials
from results.recorded.database import RunDatabase
from results.recorded.model import CheckRecord
from results.worm.reproduction.evidence import Reproduction, reproducible_check, reproduction_of
from results.worm.reproduction.script import script_text
from results.worm.reproduction.tracker import tracker_text
from tests.archiver.worm.checked_platform import CheckedPlatform
from tests.archiver.worm.scripts import CANNOT_TELL, NOT_SEEN, SEEN, run_script, write_profiles
from tests.support.commands import archiver
from tests.support.servers import real
from tests.support.servers.lying_client import BYPASS, GONE, Asked, Lie, Store, lying, shown_with
from tests.support.servers.lying_server import lying_server, tell

checks.load()
RIGHTS = ("bypass", "delete")


class Platform(CheckedPlatform):
    """A correct store, and checks of it behind a lie."""

    def found(self, lie: Lie, identifier: str) -> tuple[CheckRecord, list[dict[str, Any]]]:
        """Return the record and the evidence of a check of the lying platform."""
        client = lying(self.client, lie, self.bucket)
        limited = {right: client.recording([]) for right in RIGHTS}
        for right, lacking in limited.items():
            lacking.credentials = self.limited[right]
        suite = Suite(starter(client, self.bucket, True, limited, self.make_bucket, 0.0))
        [result] = suite.run([identifier], lambda _: None)
        return result.record, [each.document for each in result.exchanges]

    def reproduction(self, lie: Lie, identifier: str) -> Reproduction:
        record, exchanges = self.found(lie, identifier)
        return reproduction_of(reproducible_check([record], identifier), exchanges)


@pytest.fixture(scope="module")
def platform(checked_store: process.StoreProcess) -> Platform:
    return Platform(checked_store)


def deletes_under_governance(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    return store.owner.delete(asked.version, bypass=True) if asked.is_delete and answer.status == 403 else answer


def refuses_with_400(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    body = answer.body.replace(b"AccessDenied", b"InvalidRequest")
    return Answer(400, answer.headers, body) if asked.is_delete and answer.status == 403 else answer


def forgets_the_lock_of_a_put(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_put and asked.lock is not None and answer.version_id is not None:
        store.unlock(asked.version._replace(id=answer.version_id))
    return answer


def shortens_for_anybody(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("retention") and answer.status == 403 and asked.lock is not None:
        return store.relock(store.current(asked), asked.lock)
    return answer


def deletes_where_a_signed_header_is_missing(asked: Asked, store: Store) -> Answer:
    is_missing = BYPASS in asked.query.get("X-Amz-SignedHeaders", "") and BYPASS not in asked.headers
    return store.owner.delete(asked.version, bypass=True) if asked.is_delete and is_missing else asked.pass_on()


def names_another_reason_for_an_invalid_configuration(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    is_invalid = asked.sets("object-lock") and answer.status == 400
    return replace(answer, body=answer.body.replace(b"MalformedXML", b"InvalidBucket")) if is_invalid else answer


def gives_in_when_all_try_at_once(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_delete and answer.status == 403:
        store.told[asked.version] = store.told.get(asked.version, 0) + 1
        if store.told[asked.version] == 30:
            store.destroy(asked.version)
    return answer


def omits_a_version_from_lists(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    return replace(answer, body=re.sub(rb"<Version>.*?</Version>", b"", answer.body, count=1, flags=re.S))


def changes_the_type_of_what_it_locks(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("retention") and answer.ok:
        store.told[store.current(asked)] = True
    is_changed = asked.is_read and asked.version._replace(body=b"") in store.told
    return replace(answer, headers={**answer.headers, "content-type": "other/type"}) if is_changed else answer


def names_no_version_of_a_copy(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    headers = {name: value for name, value in answer.headers.items() if name != "x-amz-version-id"}
    return replace(answer, headers=headers) if asked.way == "copy" else answer


def copies_without_lock_and_id(asked: Asked, store: Store) -> Answer:
    answer = names_no_version_of_a_copy(asked, store)
    if asked.way == "copy" and answer.ok:
        store.unlock(store.current(asked))
    return answer


def shows_no_lock_by_get(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    return shown_with(answer, mode=None, until=None) if asked.method == "GET" and asked.is_read else answer


def takes_a_rule_without_a_period(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    has_none = b"<Days>" not in asked.body and b"<Years>" not in asked.body
    return Answer(200, {}, b"") if asked.sets("object-lock") and answer.status == 400 and has_none else answer


def deletes_buckets_with_a_marker(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    return GONE if asked.method == "DELETE" and not asked.key and answer.status == 409 else answer


def shortens_within_a_second(asked: Asked, store: Store) -> Answer:
    before = store.owner.state(asked.version).until if asked.sets("retention") else None
    answer = asked.pass_on()
    if before is not None and asked.lock is not None and timedelta() < before - asked.lock.until < timedelta(seconds=1):
        return store.relock(store.current(asked), asked.lock)
    return answer


def looks_before_it_deletes(asked: Asked, store: Store) -> Answer:
    if asked.is_delete and not store.is_locked(asked.version):
        time.sleep(0.02)
        store.destroy(asked.version)
        return GONE
    return asked.pass_on()


@pytest.mark.parametrize(
    ("lie", "identifier", "verdict"),
    [
        (deletes_under_governance, "DEL-02", "FAIL"),
        (refuses_with_400, "DEL-02", "DEVIATION"),
        (forgets_the_lock_of_a_put, "ING-01", "FAIL"),
        (shortens_for_anybody, "RET-04", "FAIL"),
        (deletes_where_a_signed_header_is_missing, "GOV-06", "FAIL"),
        (names_another_reason_for_an_invalid_configuration, "CFG-04", "DEVIATION"),
        (gives_in_when_all_try_at_once, "DEL-10", "FAIL"),
        (omits_a_version_from_lists, "VER-04", "FAIL"),
        (changes_the_type_of_what_it_locks, "RET-17", "FAIL"),
        (names_no_version_of_a_copy, "OVR-03", "FAIL"),
        (copies_without_lock_and_id, "OVR-07", "FAIL"),
        (shows_no_lock_by_get, "ING-01", "DEVIATION"),
        (takes_a_rule_without_a_period, "CFG-05", "FAIL"),  # the embedded store refuses what prepares the finding
        (deletes_buckets_with_a_marker, "CFG-11", "DEVIATION"),
        (shortens_within_a_second, "RET-04", "FAIL"),
        (looks_before_it_deletes, "RAC-01", "FAIL"),
    ],
)
def test_script_reports_the_finding_only_on_the_faulty_platform(
    lie: Lie, identifier: str, verdict: str, platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(races, "PAIRS", 12)
    monkeypatch.setattr(races, "SETTLED_SECONDS", 0.0)
    monkeypatch.setattr(deleting, "RETRIES", 40)
    monkeypatch.setattr(retention, "SOON_SECONDS", 1.0)
    monkeypatch.setattr(retrieval, "PAGE_ENTRIES_MAX", 3)
    reproduction = platform.reproduction(lie, identifier)
    assert reproduction.check.verdict == verdict
    text = script_text(reproduction, "a finding")
    assert not re.search(r"import archiver|from (archiver|backends|results|scenarios)", text)
    own = platform.client.credentials
    assert own is not None
    with lying_server(platform.client, "") as server:
        status, output = run_script(text.replace("range(2000)", "range(2)"), tmp_path, server.endpoint, own)
        assert status == NOT_SEEN, output
        tell(server, platform.client, lie, "")
        status, output = run_script(text.replace("range(2000)", "range(12)"), tmp_path, server.endpoint, own)
        assert status == SEEN, output


def test_script_creates_its_bucket_in_the_region_of_the_profile(platform: Platform, tmp_path: Path) -> None:
    text = script_text(platform.reproduction(deletes_under_governance, "DEL-02"), "a finding")
    own = platform.client.credentials
    assert own is not None
    places: list[bytes] = []

    def looks_at_new_buckets(asked: Asked, store: Store) -> Answer:
        if asked.method == "PUT" and not asked.key and not asked.query:
            places.append(b"".join(re.findall(b"<LocationConstraint>(.*?)</", asked.body)))
        return asked.pass_on()

    with lying_server(platform.client, "") as server:
        tell(server, platform.client, looks_at_new_buckets, "")
        for region in ("us-east-1", "eu-central-1"):
            status, output = run_script(text, tmp_path, server.endpoint, own, AWS_DEFAULT_REGION=region)
            assert status == NOT_SEEN, output
    assert places == [b"", b"eu-central-1"]


def test_script_for_limited_credentials_needs_the_second_profile(platform: Platform, tmp_path: Path) -> None:
    text = script_text(platform.reproduction(deletes_under_governance, "GOV-02"), "a finding")
    assert "LIMITED_PROFILE names a profile without the right to bypass" in text
    own, limited = platform.client.credentials, platform.limited["bypass"]
    assert own is not None
    write_profiles(tmp_path, {"limited": limited})
    status, output = run_script(text, tmp_path, platform.client.endpoint, own, LIMITED_PROFILE="limited")
    assert status == NOT_SEEN, output
    with lying_server(platform.client, "") as server:
        tell(server, platform.client, deletes_under_governance, "")
        status, output = run_script(text, tmp_path, server.endpoint, own, LIMITED_PROFILE="limited")
    assert status == SEEN, output
    assert run_script(text, tmp_path, platform.client.endpoint, own)[0] == CANNOT_TELL  # no profile is named


def test_script_needs_a_bucket_in_which_the_second_profile_may_write(platform: Platform, tmp_path: Path) -> None:
    text = script_text(platform.reproduction(deletes_under_governance, "GOV-02"), "a finding")
    own = platform.client.credentials
    assert own is not None

    def gives_rights_in_one_bucket(asked: Asked, store: Store) -> Answer:
        is_outside = asked.bucket != platform.bucket and "/control-" in f"/{asked.key}"
        return Answer(403, {}, b"") if is_outside else deletes_under_governance(asked, store)

    write_profiles(tmp_path, {"limited": platform.limited["bypass"]})
    with lying_server(platform.client, "") as server:
        tell(server, platform.client, gives_rights_in_one_bucket, "")
        status, output = run_script(text, tmp_path, server.endpoint, own, LIMITED_PROFILE="limited")
        assert (status, "let BUCKET name a bucket where it may" in output) == (CANNOT_TELL, True), output
        variables = {"LIMITED_PROFILE": "limited", "BUCKET": platform.bucket}
        status, output = run_script(text, tmp_path, server.endpoint, own, **variables)
    assert status == SEEN, output


def test_text_names_subresource_presigned_url_and_rights(platform: Platform) -> None:
    profile = PlatformProfile("Store", "s3", ("http://127.0.0.1:9",), "1.2", False, True, "unknown", 0.0)
    found = {
        "CFG-05": (takes_a_rule_without_a_period, "`PUT /bucket?object-lock`"),
        "GOV-06": (
            deletes_where_a_signed_header_is_missing,
            "by a presigned URL that covers x-amz-bypass-governance-retention",
        ),
        "GOV-02": (deletes_under_governance, "sent without the right to bypass (s3:BypassGovernanceRetention)"),
    }
    for identifier, (lie, words) in found.items():
        text = tracker_text(platform.reproduction(lie, identifier), profile, "run-1", f"{identifier}.py")
        assert words in text, text


def test_script_without_server_or_access_reports_cannot_tell(platform: Platform, tmp_path: Path) -> None:
    text = script_text(platform.reproduction(deletes_under_governance, "DEL-02"), "a finding")
    own = platform.client.credentials
    assert own is not None
    status, output = run_script(text, tmp_path, "http://127.0.0.1:1", own)
    assert (status, "CANNOT TELL" in output) == (CANNOT_TELL, True), output
    status, output = run_script(text, tmp_path, platform.client.endpoint, replace(own, secret_key="wrong"))
    assert (status, "CANNOT TELL" in output) == (CANNOT_TELL, True), output


def test_script_and_text_have_steps_and_no_secret(platform: Platform) -> None:
    reproduction = platform.reproduction(deletes_under_governance, "DEL-02")
    profile = PlatformProfile("Store", "s3", ("http://127.0.0.1:9",), "1.2", False, True, "unknown", 0.0)
    text = tracker_text(reproduction, profile, "run-1", "DEL-02.py")
    assert "# DEL-02 on Store 1.2: " in text
    assert f"- Expected: {reproduction.check.must}" in text
    assert f"- Seen: {reproduction.finding.words}" in text
    steps = [line for line in text.splitlines() if re.match(r"\d\. ", line)]
    assert [step.split()[1].strip("`") for step in steps] == ["PUT", "GET", "DELETE", "GET"]
    assert [step.rpartition(": ")[2].split()[0] for step in steps] == ["200", "200", "204", "404"]
    assert f"- Source: {reproduction.check.source}" in text
    own = platform.client.credentials
    assert own is not None
    secrets_ = [own.secret_key, own.access_key, *(each.secret_key for each in platform.limited.values())]
    both = text + script_text(reproduction, "a finding")
    assert not [secret for secret in secrets_ if secret in both]


def test_reproduction_is_refused_if_a_script_cannot_show_the_finding(platform: Platform) -> None:
    record, exchanges = platform.found(deletes_under_governance, "DEL-02")

    def refused(*records: CheckRecord) -> str:
        with pytest.raises(ResultsError) as refusal:
            reproduction_of(reproducible_check(records, records[0].id), exchanges)
        return str(refusal.value)

    assert "only a FAIL or a DEVIATION" in refused(replace(record, verdict="PASS"))
    assert "TSM API" in refused(replace(record, id="TSM-01"))
    assert "only under load" in refused(replace(record, round="under load"))
    assert "does not say which requests" in refused(replace(record, findings=()))
    incomplete = replace(record.findings[0], is_complete=False)
    assert "lacks some of the requests" in refused(replace(record, findings=(incomplete,)))
    assert "which two requests met" in refused(replace(record, id="RAC-01", family="Races"))
    with pytest.raises(ResultsError, match="did not try"):
        reproducible_check([record], "DEL-03")
    for exchange in exchanges:
        exchange["request_bytes"] += 1
    assert "only the first" in refused(record)


def test_finding_names_its_attempt_and_whether_the_evidence_is_complete(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, exchanges = platform.found(refuses_with_400, "DEL-02")
    (position,) = record.findings[0].attempt
    attempt = exchanges[position - 1]
    assert (attempt["method"], attempt["status"], attempt["signature"]) == ("DELETE", 400, "header")
    assert position < record.findings[0].exchanges  # the state was read afterwards
    assert record.findings[0].is_complete
    monkeypatch.setattr(retrieval, "PAGE_ENTRIES_MAX", 3)
    record, _ = platform.found(omits_a_version_from_lists, "VER-04")
    assert [each.is_complete for each in record.findings] == [True, False], record.reason


@pytest.fixture
def own(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Credentials:
    """Set the platform's credentials as AWS variables and return them."""
    credentials = platform.client.credentials
    assert credentials is not None
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", credentials.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", credentials.secret_key)
    return credentials


def test_worm_reproduce_writes_script_and_text_of_a_run(
    platform: Platform, own: Credentials, home: Path, tmp_path: Path
) -> None:
    with lying_server(platform.client, "") as server:
        tell(server, platform.client, deletes_under_governance, "")
        assert archiver("worm", "--endpoint", server.endpoint, "--check", "DEL-02").returncode == 1
        done = archiver("worm", "reproduce", "latest", "DEL-02", "--out", str(tmp_path / "out"))
        assert done.returncode == 0, done.stderr
        assert {path.name for path in (tmp_path / "out").iterdir()} == {"DEL-02.py", "DEL-02.md"}
        texts = [path.read_text() for path in sorted((tmp_path / "out").iterdir())]
        assert all("Who: any client that may delete versions" in " ".join(text.split()) for text in texts), texts
        status, output = run_script((tmp_path / "out" / "DEL-02.py").read_text(), tmp_path, server.endpoint, own)
    assert status == SEEN, output
    assert "DEL-99: this run did not try" in archiver("worm", "reproduce", "latest", "DEL-99").stderr
    assert "after its name" in archiver("worm", "--check", "DEL-02", "reproduce", "latest", "DEL-02").stderr


@pytest.mark.usefixtures("own")
def test_known_finding_does_not_fail_a_run_with_against_or_expected(
    platform: Platform, home: Path, tmp_path: Path
) -> None:
    expected, earlier = tmp_path / "expected.toml", tmp_path / "earlier.json"
    expected.write_text('[[expected]]\ncheck = "DEL-02"\nreason = "known"\nlink = "https://tracker.example/1"\n')
    with lying_server(platform.client, "") as server:
        worm = ("worm", "--endpoint", server.endpoint, "--check", "DEL-02")
        honest = archiver(*worm, "--json")
        assert honest.returncode == 0, honest.stderr
        earlier.write_text(honest.stdout)
        tell(server, platform.client, deletes_under_governance, "")
        new = archiver(*worm, "--json", "--against", str(earlier))
        assert new.returncode == 1
        assert [each["check"] for each in json.loads(new.stdout)["against"]["new"]] == ["DEL-02"]
        known = archiver(*worm, "--against", "latest")
        assert known.returncode == 0, known.stdout
        with_entry = archiver(*worm, "--expected", str(expected))
        assert with_entry.returncode == 0, with_entry.stdout
        assert "https://tracker.example/1" in with_entry.stdout
    done = archiver("report", "latest", "--format", "junit", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "expected: known" in (tmp_path / "junit.xml").read_text()


# Findings of the pinned versions that are deterministic
FINDINGS = {
    "minio": ("OVR-04", "BAT-06", "ING-09", "ING-14", "GOV-05", "GOV-06", "DEL-02", "LH-08"),
    "versitygw": ("LH-02", "DFT-05", "ING-06", "ING-14", "OVR-03", "RET-11", "GOV-05", "CFG-02"),
}


@pytest.mark.platforms
@pytest.mark.parametrize("name", real.NAMES)
def test_scripts_reproduce_findings_of_real_platforms(
    name: str, platform: Platform, home: Path, tmp_path: Path
) -> None:
    real.need(name)
    ids = FINDINGS[name]
    done = archiver("worm", "--platform", name, *(word for each in ids for word in ("--check", each)))
    assert done.returncode == 1, done.stderr
    own = platform.client.credentials
    assert own is not None
    [path] = home.glob("runs/*/run.db")
    with closing(RunDatabase.open(path)) as database:
        records = [reproducible_check(database.checks(), each) for each in ids]
        found = {record.id: reproduction_of(record, database.exchanges(record)) for record in records}
    with real.real_server(name, tmp_path / "server") as server:
        access = Credentials(server.access.access_key, server.access.secret_key, None)
        for identifier, reproduction in found.items():
            text = script_text(reproduction, identifier)
            status, output = run_script(text, tmp_path, server.endpoint, access)
            assert status == SEEN, f"{identifier}: {output}"
            status, output = run_script(text, tmp_path, platform.client.endpoint, own)
            assert status == NOT_SEEN, f"{identifier}: {output}"
