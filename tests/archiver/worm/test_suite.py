"""Test the suite of S3 checks as a whole, on a correct store and on platforms with faults."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from archiver.worm import checks
from archiver.worm.case import LOCKING_FAR, Case, instant_of, md5_of
from archiver.worm.catalogue import catalogue
from archiver.worm.checks import CHECKS, races
from archiver.worm.platforms.s3 import LOCKED_SECONDS_MAX, locked_seconds_max
from archiver.worm.requests import exchange
from archiver.worm.requests.exchange import Answer, Headers, RecordedExchange, S3Client
from archiver.worm.suite import CheckResult
from archiver.worm.verdict import CheckVerdict
from backends.embedded import process
from backends.s3.control import Credentials
from tests.archiver.worm.checked_platform import CheckedPlatform, of, reasons
from tests.support.servers.lying_client import DENIED, Asked, Lie, Store, lying

checks.load()

S3_IDS = [each for each in catalogue() if not each.startswith("TSM-")]
WAITS = {
    "CLK-01", "CLK-02", "CLK-03", "CLK-04", "CLK-10", "DFT-08", "EVH-03", "EVH-04", "ING-11", "LH-02", "RET-02",
    "RET-04", "RET-05", "RET-16", "VER-06",
}  # fmt: skip
LONG = {"BAT-03", "LH-10", "VER-04", "VER-05"}  # checks with a thousand objects or more
LONG_RACES = {each for each in S3_IDS if each.startswith("RAC-")} - {"RAC-07", "RAC-09", "RAC-11"}
NOT_OFFERED = {"ING-15", "OVR-09", "OVR-11", "SID-02", "SID-05"}
NOT_TRIED = {"DFT-07", "GOV-09", "GOV-10", "RAC-09"} | {each for each in S3_IDS if each not in CHECKS}


class Platform(CheckedPlatform):
    """A store, and the suite of checks run on it; results are by check."""

    def results(self, ids: Sequence[str], client: S3Client | None = None) -> dict[str, CheckResult]:
        client = client or self.client
        heard: list[CheckResult] = []
        found = self.run(ids, client, heard.append)
        assert [each.id for each in found] == list(ids)
        assert sorted(each.id for each in heard) == sorted(ids)
        return {each.id: each for each in found}

    def lied_about(self, lie: Lie, ids: Sequence[str]) -> dict[str, CheckResult]:
        return self.results(ids, lying(self.client, lie, self.bucket))


@pytest.fixture(scope="module")
def platform(checked_store: process.StoreProcess) -> Platform:
    return Platform(checked_store)


def shorten_races(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit a race to 60 pairs of requests, of which 16 must overlap."""
    monkeypatch.setattr(races, "PAIRS", 60)
    monkeypatch.setattr(races, "RATE_MAX", 0.2)


@pytest.fixture(scope="module")
def results(platform: Platform) -> dict[str, CheckResult]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        shorten_races(monkeypatch)
        return platform.results([each for each in S3_IDS if each not in WAITS | LONG | LONG_RACES])


def test_embedded_store_passes_every_check_that_it_offers(results: dict[str, CheckResult]) -> None:
    assert of(CheckVerdict.NOT_OFFERED, results.values()) == NOT_OFFERED, reasons(results.values())
    assert of(CheckVerdict.NOT_TRIED, results.values()) == NOT_TRIED, reasons(results.values())
    assert of(CheckVerdict.PASS, results.values()) == set(results) - NOT_OFFERED - NOT_TRIED, reasons(results.values())
    assert all(each.reason for each in results.values() if each.verdict is not CheckVerdict.PASS)


@pytest.mark.long
def test_embedded_store_passes_complete_races(platform: Platform) -> None:
    results = platform.results(["RAC-07", "RAC-11"])
    assert of(CheckVerdict.PASS, results.values()) == set(results), reasons(results.values())


def longest_lock_seconds(result: CheckResult) -> float:
    """Return the longest lock that the check requested."""
    text = repr(result.exchanges)
    dates = re.findall(r"(?:retain-until-date', '|<RetainUntilDate>)([0-9-]+T[0-9:.+-]+Z?)", text)
    found = [instant for instant in map(instant_of, dates) if instant is not None]
    return max((instant.timestamp() for instant in found), default=0.0) - result.started_at


def test_checks_lock_objects_no_longer_than_the_ledger_records(results: dict[str, CheckResult]) -> None:
    lengths = {each.id: longest_lock_seconds(each) for each in results.values()}
    assert lengths["DEL-02"] > 0
    assert {each for each, seconds in lengths.items() if seconds > locked_seconds_max([each])} == set()
    assert {each for each, seconds in lengths.items() if seconds > LOCKED_SECONDS_MAX} == set(LOCKING_FAR)


def test_every_check_function_is_in_the_catalogue() -> None:
    assert set(CHECKS) <= set(catalogue())


def test_check_without_a_function_is_not_tried_and_gives_the_reason(platform: Platform) -> None:
    without = [each for each in S3_IDS if each not in CHECKS]
    assert without
    for result in platform.results(without).values():
        assert result.verdict is CheckVerdict.NOT_TRIED
        assert "cannot be tried from outside" in result.reason
        assert not result.exchanges


def test_check_with_unexpected_error_is_inconclusive_and_others_continue(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(case: Case) -> None:
        case.put()
        raise LookupError("what nobody foresaw")

    monkeypatch.setitem(CHECKS, "DEL-02", break_off)
    results = platform.results(["DEL-01", "DEL-02", "DEL-05"])
    assert results["DEL-02"].verdict is CheckVerdict.INCONCLUSIVE
    assert "the check itself ended with an error" in results["DEL-02"].reason
    assert "LookupError: what nobody foresaw" in results["DEL-02"].reason
    assert len(results["DEL-02"].exchanges) == 1
    assert of(CheckVerdict.PASS, results.values()) == {"DEL-01", "DEL-05"}


# Recorded evidence


class Overheard(S3Client):
    """A client that also records every sent request."""

    sent: list[str]

    def recording(self, record: list[RecordedExchange]) -> Overheard:
        client = Overheard(self.endpoint, self.region, self.credentials, record)
        client.sent = self.sent
        return client

    def _exchange(self, method: str, target: str, headers: Headers, body: bytes) -> Answer:
        self.sent.append(f"{target} {headers} {body!r}")
        return super()._exchange(method, target, headers, body)


def signatures_of(text: str) -> set[str]:
    """Return the signatures in a header, a URL and a form."""
    found = set()
    for mark in ("Signature=", 'name="x-amz-signature"\\r\\n\\r\\n'):
        found |= {after[:64] for after in text.split(mark)[1:]}
    return found


def test_evidence_contains_no_secret_and_no_signature(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_races(monkeypatch)
    client = Overheard(platform.client.endpoint, "us-east-1", platform.client.credentials, [])
    client.sent = []
    ids = ["CLK-08", "DEL-02", "DFT-02", "GOV-02", "GOV-06", "ING-08", "ING-12", "ING-13", "RAC-07", "SID-06"]
    results = platform.results(ids, client)
    signatures = set().union(*map(signatures_of, client.sent))
    assert any("X-Amz-Signature=" in each for each in client.sent)
    assert any('name="x-amz-signature"' in each for each in client.sent)
    assert all(len(each) == 64 and set(each) <= set("0123456789abcdef") for each in signatures)
    kept = repr(list(results.values())) + reasons(results.values())
    assert len(signatures) > 50
    assert [each for each in signatures if each in kept] == []
    assert [each for each in platform.secrets if each in kept] == []


def test_evidence_contains_no_session_token(platform: Platform) -> None:
    own = platform.client.credentials
    assert own is not None
    record: list[RecordedExchange] = []
    client = S3Client(
        platform.client.endpoint, "us-east-1", Credentials(own.access_key, own.secret_key, "token-of-a-session"), record
    )
    client.send("GET", platform.bucket, "key", unsure=True)
    target = client.presigned("GET", platform.bucket, "key")
    assert "token-of-a-session" in target
    assert client.send_as_is("GET", target).code == "InvalidToken"
    assert len(record) == 2
    assert "token-of-a-session" not in repr(record)
    assert exchange.REDACTED in repr(record)


# Platforms with faults


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_an_error_of_the_server_is_inconclusive_and_no_refusal(platform: Platform, status: int) -> None:
    def lie(asked: Asked, _: Store) -> Answer:
        changes = asked.method == "DELETE" or asked.is_batch or asked.sets("retention") or asked.sets("legal-hold")
        return Answer(status, {}, b"<Error><Code>AccessDenied</Code></Error>") if changes else asked.pass_on()

    ids = ["BAT-01", "DEL-01", "DEL-02", "DEL-04", "DEL-10", "DEL-12", "GOV-02", "LH-01", "LH-07", "RET-08", "RET-10"]
    results = platform.lied_about(lie, ids)
    assert of(CheckVerdict.INCONCLUSIVE, results.values()) == set(ids), reasons(results.values())


@pytest.mark.parametrize("identifier", ["DEL-02", "GOV-02", "LH-01", "RET-10"])
@pytest.mark.parametrize("refusal", ["200 with an error", "closed connection"])
def test_refusal_that_is_none_passes_no_check(platform: Platform, refusal: str, identifier: str) -> None:
    def lie(asked: Asked, _: Store) -> Answer:
        if not (asked.method == "DELETE" or asked.sets("retention") or asked.sets("legal-hold")):
            return asked.pass_on()
        if refusal == "closed connection":
            raise ConnectionResetError("closed")
        return Answer(200, {}, b"<Error><Code>AccessDenied</Code></Error>")

    results = platform.lied_about(lie, [identifier])
    assert results[identifier].verdict is not CheckVerdict.PASS, reasons(results.values())


def test_check_does_not_pass_over_a_part_that_is_not_offered(platform: Platform) -> None:
    def ignores_sha1(asked: Asked, _: Store) -> Answer:
        headers = {name: value for name, value in asked.headers.items() if name != "x-amz-checksum-sha1"}
        has_it = asked.is_put and len(headers) < len(asked.headers)
        return asked.changed({**headers, "content-md5": md5_of(asked.body)}) if has_it else asked.pass_on()

    results = platform.lied_about(ignores_sha1, ["ING-08"])
    assert results["ING-08"].verdict is CheckVerdict.NOT_OFFERED, reasons(results.values())
    assert "sha1: NOT OFFERED: x-amz-checksum-sha1 is not known" in results["ING-08"].reason


def test_a_refusal_proves_nothing_where_nothing_can_be_deleted(platform: Platform) -> None:
    def lie(asked: Asked, _: Store) -> Answer:
        return DENIED if asked.is_delete else asked.pass_on()

    results = platform.lied_about(lie, ["DEL-02", "DEL-04", "GOV-02", "LH-01", "RET-10", "DEL-01"])
    assert results.pop("DEL-01").verdict is CheckVerdict.FAIL
    assert of(CheckVerdict.INCONCLUSIVE, results.values()) == set(results), reasons(results.values())
    assert all("the control failed" in each.reason for each in results.values()), reasons(results.values())


@pytest.mark.parametrize("headers", [{}, {"x-amz-version-id": "1"}], ids=["without versions", "with a version"])
def test_platform_that_accepts_everything_passes_no_refusal_check(platform: Platform, headers: dict[str, str]) -> None:
    ids = [each for each in S3_IDS if each in CHECKS and each not in WAITS | LONG | LONG_RACES]
    results = platform.lied_about(lambda *_: Answer(200, headers, b""), ids)
    refusals = {each for each in ids if "refuse" in catalogue()[each].must}
    assert len(refusals) > 30
    assert of(CheckVerdict.PASS, results.values()) & refusals == set(), reasons(results.values())
    assert "CFG-01" in of(CheckVerdict.FAIL, results.values()), reasons(results.values())
    assert "broke off" not in reasons(results.values())


def test_silent_server_times_out_and_affects_only_one_check(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:

        def lie(asked: Asked, _: Store) -> Answer:
            if asked.is_delete and "/DEL-02/" in asked.key:
                client: Any = S3Client(f"http://127.0.0.1:{silent.getsockname()[1]}", "us-east-1", None, [])
                with monkeypatch.context() as impatient:
                    impatient.setattr(exchange, "TIMEOUT_SECONDS", 0.2)
                    answer: Answer = client._exchange("DELETE", "/", (), b"")
                return answer
            return asked.pass_on()

        results = platform.lied_about(lie, ["DEL-01", "DEL-02", "DEL-05"])
    assert of(CheckVerdict.INCONCLUSIVE, results.values()) == {"DEL-02"}, reasons(results.values())
    assert "no answer" in results["DEL-02"].reason
    exchanges = [each for each in results["DEL-02"].exchanges if isinstance(each, RecordedExchange)]
    (silence,) = [each for each in exchanges if each.status is None]
    assert "TimeoutError" in silence.failure
    assert of(CheckVerdict.PASS, results.values()) == {"DEL-01", "DEL-05"}
