"""Test how generated sequences are carried out, judged, simplified and reported, with correct and faulty stores."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import pytest

from archiver.worm.case import COMPLIANCE_SECONDS
from archiver.worm.catalogue import entry_of, generated_families
from archiver.worm.generated import campaign, events, trial
from archiver.worm.generated.campaign import Campaign, Generation
from archiver.worm.generated.dimensions import (
    Asking,
    Attack,
    AttackTiming,
    Combination,
    Locking,
    Naming,
    PriorEvent,
    Writing,
)
from archiver.worm.generated.shrink import NOT_SEEN_AGAIN, NOT_SIMPLIFIED, shrunk
from archiver.worm.generated.trial import family_of
from archiver.worm.requests.exchange import Answer
from archiver.worm.suite import CheckResult
from archiver.worm.verdict import CheckVerdict
from backends.embedded import process
from backends.s3.control import Credentials
from results.worm.reproduction.evidence import reproducible_check, reproduction_of
from results.worm.reproduction.script import script_text
from tests.archiver.worm.generated_platform import Fault, GeneratedPlatform, alters, array, destroys, shortens, unlocks
from tests.support.servers.lying_client import BYPASS, DENIED, Asked, Lie, LyingClient, Store
from tests.support.servers.lying_server import lying_server

ROWS_OF_A_SEED = 40
UNAVAILABLE = Answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")


@pytest.fixture(scope="module")
def platform(checked_store: process.StoreProcess) -> GeneratedPlatform:
    return GeneratedPlatform(checked_store)


@pytest.fixture(autouse=True)
def short_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "NEAR_SECONDS", 3.0)
    monkeypatch.setattr(trial, "BEFORE_SECONDS", 2.0)


def omits_from_lists(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    return replace(answer, body=b"<ListVersionsResult/>") if "versions" in asked.query else answer


def deletes_neighbour(asked: Asked) -> bool:
    return asked.is_delete and "/neighbour" in asked.key


def deletes_version(asked: Asked) -> bool:
    return asked.is_delete and set(asked.query) == {"versionId"}


DELETES_A_PREFIX = Fault("deletes a prefix", PriorEvent.NEIGHBOUR_DELETED, deletes_neighbour, destroys)
DELETES = Fault("deletes", Attack.DELETE, deletes_version, destroys)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_correct_store_harms_no_record(platform: GeneratedPlatform, seed: int) -> None:
    with platform.trials() as carry_out:
        trials = [carry_out(row) for row in array(seed)[:ROWS_OF_A_SEED]]
    bad = [each for each in trials if each.verdict not in (CheckVerdict.PASS, CheckVerdict.NOT_OFFERED)]
    assert not bad, "\n".join(f"{each.verdict} {each.combination.words}: {each.reason}" for each in bad)
    assert sum(each.verdict is CheckVerdict.PASS for each in trials) > ROWS_OF_A_SEED / 2


@pytest.mark.long
def test_correct_store_passes_the_whole_array(platform: GeneratedPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "NEAR_SECONDS", 8.0)
    results = results_of(platform, None, list(array(4)))
    assert {each.verdict for each in results} == {CheckVerdict.PASS}, "\n".join(each.reason for each in results)


def results_of(platform: GeneratedPlatform, fault: Lie | None, rows: list[Combination]) -> list[CheckResult]:
    """Return the results of a campaign of these rows only."""
    results: list[CheckResult] = []
    with platform.suite(fault) as suite, pytest.MonkeyPatch.context() as changed:
        changed.setattr(Campaign, "_array", lambda _: iter(rows))
        changed.setattr(Campaign, "_walk", lambda _: iter(()))
        changed.setattr(Campaign, "_probe", lambda _: True)
        Campaign(suite, Generation(seconds=10_000.0, seed=1)).run(results.append)
    return results


def test_an_answer_without_a_result_is_no_pass(platform: GeneratedPlatform) -> None:
    def overloaded(asked: Asked, _: Store) -> Answer:
        return UNAVAILABLE if deletes_version(asked) else asked.pass_on()

    def overloaded_after_deleting(asked: Asked, store: Store) -> Answer:
        if deletes_version(asked):
            destroys(asked, store)
            return UNAVAILABLE
        return asked.pass_on()

    with platform.trials(overloaded) as carry_out:
        found = carry_out(Combination(attack=Attack.DELETE))
    assert (found.verdict, found.harm) == (CheckVerdict.INCONCLUSIVE, None)
    results = {each.id: each for each in results_of(platform, overloaded, [Combination(attack=Attack.DELETE)])}
    assert results["GEN-DELETE"].verdict is CheckVerdict.INCONCLUSIVE
    assert "503 SlowDown" in results["GEN-DELETE"].reason
    assert results["GEN-STORE"].verdict is CheckVerdict.PASS  # the record was stored as it must be
    with platform.trials(overloaded_after_deleting) as carry_out:
        found = carry_out(Combination(attack=Attack.DELETE))
    assert found.verdict is CheckVerdict.FAIL
    assert found.harm is not None
    assert (found.harm.kind, found.harm.severity) == ("gone", "S1")


def test_a_refusal_proves_nothing_if_the_credential_can_delete_nothing(platform: GeneratedPlatform) -> None:
    def refuses_others(asked: Asked, _: Store) -> Answer:
        return DENIED if asked.client.sender and asked.is_delete else asked.pass_on()

    with platform.trials(refuses_others) as carry_out:
        found = carry_out(Combination(asking=Asking.NO_HOLD, attack=Attack.DELETE))
    assert found.verdict is CheckVerdict.INCONCLUSIVE
    assert "the control failed" in found.reason


@pytest.mark.parametrize(
    ("locking", "effect", "kind", "severity"),
    [
        (Locking.GOVERNANCE, destroys, "gone", "S1"),
        (Locking.COMPLIANCE, destroys, "gone", "S1"),
        (Locking.GOVERNANCE, alters, "altered", "S1"),
        (Locking.GOVERNANCE, unlocks, "mode", "S2"),
        (Locking.HOLD, unlocks, "released", "S2"),
    ],
)
def test_severity_is_that_of_the_end_state(
    platform: GeneratedPlatform, locking: Locking, effect: object, kind: str, severity: str
) -> None:
    with platform.trials(replace(DELETES, effect=effect)) as carry_out:  # type: ignore[arg-type]
        found = carry_out(Combination(locking=locking, attack=Attack.DELETE))
    assert found.harm is not None
    assert (found.harm.kind, found.harm.severity, found.family) == (kind, severity, "GEN-DELETE")


def test_a_version_that_no_list_shows_is_a_finding_of_listing(platform: GeneratedPlatform) -> None:
    with platform.trials(omits_from_lists) as carry_out:
        found = carry_out(Combination(attack=Attack.DELETE))
    assert found.harm is not None
    assert (found.family, found.harm.kind, found.harm.severity) == ("GEN-LISTING", "not listed", "S2")


def test_a_write_without_a_version_is_a_finding(platform: GeneratedPlatform) -> None:
    def keeps_versions_to_itself(asked: Asked, _: Store) -> Answer:
        answer = asked.pass_on()
        if "versions" in asked.query:
            return replace(answer, body=b"<ListVersionsResult/>")
        return replace(answer, headers={name: value for name, value in answer.headers.items() if "version" not in name})

    with platform.trials(keeps_versions_to_itself) as carry_out:
        found = carry_out(Combination(attack=Attack.DELETE))
    assert found.harm is not None
    assert (found.verdict, found.family, found.harm.kind) == (CheckVerdict.FAIL, "GEN-LISTING", "no version")
    assert found.case.findings(CheckVerdict.FAIL)


def test_a_record_below_newer_versions_need_not_be_current(platform: GeneratedPlatform) -> None:
    events = (PriorEvent.MARKER, PriorEvent.NEWER, PriorEvent.NEWER_DELETED, PriorEvent.MARKER_REMOVED)
    with platform.trials() as carry_out:
        found = carry_out(Combination(events=events, attack=Attack.DELETE))
    assert (found.verdict, found.reason) == (CheckVerdict.PASS, "")


def test_a_failing_sequence_is_shrunk_to_its_cause(platform: GeneratedPlatform) -> None:
    long = Combination(
        Writing.METADATA, Locking.WITH_HOLD, Naming.MIXED_CASE,
        (PriorEvent.NEWER, PriorEvent.NEIGHBOUR_DELETED, PriorEvent.TAGGED),
        Asking.PRESIGNED, Attack.OVERWRITE, AttackTiming.AGAIN_AND_AGAIN,
    )  # fmt: skip
    with platform.trials(DELETES_A_PREFIX) as carry_out:
        smallest, doubt = shrunk(carry_out(long), carry_out)
    assert not doubt
    assert smallest.combination == Combination(events=(PriorEvent.NEIGHBOUR_DELETED,))
    assert smallest.family == "GEN-HISTORY"


def test_an_attack_is_replaced_by_the_plainest_of_the_same_harm(platform: GeneratedPlatform) -> None:
    fault = replace(DELETES, triggered_by=lambda asked: asked.sets("retention"), effect=shortens)
    with platform.trials(fault) as carry_out:
        found = carry_out(Combination(locking=Locking.COMPLIANCE, attack=Attack.SHORTEN_A_LITTLE))
        assert shrunk(found, carry_out)[0].combination == Combination(attack=Attack.SHORTEN)


def test_without_time_a_failing_sequence_stays_as_it_was(platform: GeneratedPlatform) -> None:
    row = Combination(Writing.METADATA, events=(PriorEvent.NEIGHBOUR_DELETED,))
    with platform.trials(DELETES_A_PREFIX) as carry_out:
        smallest, doubt = shrunk(carry_out(row), carry_out, lambda: False)
    assert (smallest.combination, doubt) == (row, NOT_SIMPLIFIED)


def test_a_harm_that_does_not_come_again_is_kept_as_it_was(platform: GeneratedPlatform) -> None:
    deletions = count()
    once = replace(DELETES, triggered_by=lambda asked: deletes_version(asked) and next(deletions) == 0)
    with platform.trials(once) as carry_out:
        found = carry_out(Combination(Writing.METADATA, attack=Attack.DELETE))
        assert shrunk(found, carry_out) == (found, NOT_SEEN_AGAIN)


def test_equal_causes_are_reported_once(platform: GeneratedPlatform) -> None:
    rows = [
        Combination(Writing.METADATA, events=(PriorEvent.NEIGHBOUR_DELETED,), attack=Attack.DELETE_KEY),
        Combination(Writing.TAGS, events=(PriorEvent.NEIGHBOUR_DELETED,), attack=Attack.OVERWRITE),
        Combination(Writing.TAGS, events=(PriorEvent.NEWER,), attack=Attack.OVERWRITE),
    ]
    results = results_of(platform, DELETES_A_PREFIX, rows)
    [found] = [each for each in results if each.verdict is CheckVerdict.FAIL]
    assert found.id.startswith("GEN-HISTORY-")
    assert entry_of(found.id) is generated_families()["GEN-HISTORY"]
    assert "met by 2 of the generated sequences" in found.reason
    assert "a neighbour in its prefix was written and deleted" in found.tries
    assert found.severity == "S1"
    again = [each.id for each in results_of(platform, DELETES_A_PREFIX, rows) if each.verdict is CheckVerdict.FAIL]
    assert again == [found.id]


def completes_under_a_rule(asked: Asked) -> bool:
    if asked.method != "POST" or "uploadId" not in asked.query:
        return False
    return b"<Days>" in asked.client.honest.send("GET", asked.bucket, query=(("object-lock", None),)).body


def deletes_neighbour_after_twin(asked: Asked) -> bool:
    """A neighbour is deleted in a bucket with a name of two slashes."""
    listed = (("versions", None), ("encoding-type", "url"))
    return deletes_neighbour(asked) and b"//record" in asked.client.honest.send("GET", asked.bucket, query=listed).body


@pytest.mark.parametrize(
    ("fault", "row"),
    [
        (DELETES, Combination(locking=Locking.WITH_HOLD, attack=Attack.DELETE)),
        (DELETES_A_PREFIX, Combination(naming=Naming.MARKUP, events=(PriorEvent.NEIGHBOUR_DELETED,))),
        (replace(DELETES, triggered_by=lambda asked: asked.is_batch, effect=unlocks), Combination(attack=Attack.BATCH)),
        (
            replace(DELETES, triggered_by=completes_under_a_rule),
            Combination(Writing.TAGS, Locking.DEFAULT, events=(PriorEvent.UPLOAD_TWICE,), attack=Attack.DELETE),
        ),
        (
            replace(DELETES, triggered_by=deletes_neighbour_after_twin),
            Combination(Writing.TAGS, events=(PriorEvent.TWIN_SLASHES, PriorEvent.NEIGHBOUR_DELETED)),
        ),
        (omits_from_lists, Combination(attack=Attack.DELETE)),
    ],
    ids=["deletion", "neighbour", "batch", "upload under a default rule", "two events", "list"],
)
def test_script_of_a_generated_finding_shows_it_only_on_the_faulty_store(
    platform: GeneratedPlatform, tmp_path: Path, fault: Lie, row: Combination
) -> None:
    [found] = [each for each in results_of(platform, fault, [row]) if each.verdict is CheckVerdict.FAIL]
    exchanges = [each.document for each in found.exchanges]
    text = script_text(reproduction_of(reproducible_check([found.record], found.id), exchanges), "a finding")
    own = platform.client.credentials
    assert own is not None
    assert run_script(text, tmp_path, platform.client.endpoint, own) == (0, "NOT SEEN")
    with lying_server(platform.client, "") as server:
        client = platform.client_of(fault)
        assert isinstance(client, LyingClient)
        server.client = client
        assert run_script(text, tmp_path, server.endpoint, own) == (1, "SEEN AGAIN")


def test_script_of_an_unsigned_bypass_does_not_sign_it(platform: GeneratedPlatform, tmp_path: Path) -> None:
    row = Combination(asking=Asking.UNSIGNED_BYPASS, attack=Attack.DELETE)
    unsigned = replace(DELETES, triggered_by=lambda asked: asked.is_delete and BYPASS in asked.headers)
    [result] = [each for each in results_of(platform, unsigned, [row]) if each.verdict is CheckVerdict.FAIL]
    exchanges = [each.document for each in result.exchanges]
    text = script_text(reproduction_of(reproducible_check([result.record], result.id), exchanges), "a finding")
    own = platform.client.credentials
    assert own is not None
    assert run_script(text, tmp_path, platform.client.endpoint, own) == (0, "NOT SEEN")


def run_script(text: str, folder: Path, endpoint: str, own: Credentials) -> tuple[int, str]:
    """Run a script and return its exit status with its last line."""
    script = folder / "script.py"
    script.write_text(text)
    environment = {"AWS_ENDPOINT_URL": endpoint, "AWS_CONFIG_FILE": str(folder / "config")}
    environment |= {"AWS_ACCESS_KEY_ID": own.access_key, "AWS_SECRET_ACCESS_KEY": own.secret_key}
    done = subprocess.run(
        [sys.executable, "-I", str(script)], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    return done.returncode, done.stdout.splitlines()[-1] if not done.stderr else done.stderr


def test_a_finding_that_no_script_can_show_has_no_reproduction(platform: GeneratedPlatform) -> None:
    found = results_of(platform, DELETES, [Combination(asking=Asking.OLD_SIGNATURE, attack=Attack.DELETE)])
    assert [each.findings[0].is_complete for each in found if each.findings] == [True]  # any signature has the cause
    unsigned = replace(DELETES, triggered_by=lambda asked: asked.headers.get("authorization", "").startswith("AWS "))
    found = results_of(platform, unsigned, [Combination(asking=Asking.OLD_SIGNATURE, attack=Attack.DELETE)])
    assert [each.findings[0].is_complete for each in found if each.findings] == [False]


def test_some_attacks_come_after_all_others_of_the_batch(platform: GeneratedPlatform) -> None:
    locked = count()
    fault = Fault(
        "keeps four locks", AttackTiming.AFTER_OTHERS,
        lambda asked: asked.is_put and asked.lock is not None and next(locked) == 4, unlocks,
    )  # fmt: skip
    late = Combination(attack=Attack.DELETE_KEY, timing=AttackTiming.AFTER_OTHERS)
    others = [Combination(naming=each, attack=Attack.DELETE_KEY) for each in list(Naming)[:5]]
    results = results_of(platform, fault, [late, *others])
    assert any(each.verdict is CheckVerdict.FAIL and "mode" not in each.id for each in results)


def test_values_that_are_not_offered_leave_the_array(platform: GeneratedPlatform) -> None:
    with platform.suite() as suite:
        found = Campaign(suite, Generation(seconds=10_000.0, seed=1))
        found._ends = float("inf")
        assert found._probe()
    assert {PriorEvent.LIFECYCLE, Attack.RENAME} <= set(found.left_out)
    assert not {Writing.CHUNKS, Writing.FORM, Naming.LONGEST, Asking.NO_HOLD, Locking.TO_2107} & set(found.left_out)
    assert not [each for each in found._array() if found.left_out.keys() & each.values]


def test_values_that_fail_alone_leave_the_array(platform: GeneratedPlatform) -> None:
    fails = Fault("unlocks copies", Writing.COPY, lambda asked: "x-amz-copy-source" in asked.headers, unlocks)
    with platform.suite(fails) as suite:
        found = Campaign(suite, Generation(seconds=10_000.0, seed=1))
        found._ends = float("inf")
        assert found._probe()
    assert {Writing.COPY, PriorEvent.COPIED} <= set(found.left_out)
    assert Attack.OVERWRITE_COPY not in found.left_out  # it may have other causes with other values


def test_compliance_is_left_out_unless_the_user_agrees(platform: GeneratedPlatform) -> None:
    with platform.suite() as suite:
        agreed = suite.start

        def start(family: str) -> object:
            case = agreed(family)
            case.may_use_compliance = False  # type: ignore[attr-defined]
            return case

        found = Campaign(replace(suite, start=start), Generation(seconds=0.0, seed=1))  # type: ignore[arg-type]
        found.run(lambda _: None)
    assert {Locking.COMPLIANCE, Locking.COMPLIANCE_SET_LATER} <= set(found.left_out)


def test_the_walk_combines_several_events_and_follows_from_its_seed(platform: GeneratedPlatform) -> None:
    def walk(seed: int) -> list[Combination]:
        with platform.suite() as suite:
            steps: Iterator[Combination] = Campaign(suite, Generation(seconds=1.0, seed=seed))._walk()
            return [next(steps) for _ in range(50)]

    assert walk(1) == walk(1) != walk(2)
    assert all(2 <= len(each.events) <= campaign.EVENTS_MAX for each in walk(1))


def test_compliance_locks_stay_within_what_the_user_agreed_to(platform: GeneratedPlatform) -> None:
    with platform.suite() as suite:
        steps = Campaign(suite, Generation(seconds=1.0, seed=1))._walk()
        assert all(each.events.count(PriorEvent.EXTENDED) <= 1 for each in islice(steps, 3000))
    assert trial.COMPLIANCE_LOCK_SECONDS + events.EXTENSION_SECONDS < COMPLIANCE_SECONDS


def test_every_attack_belongs_to_a_family_of_the_catalogue() -> None:
    families = {family_of(Combination(attack=attack)) for attack in (*Attack, None)}
    assert families | {"GEN-HISTORY", "GEN-LISTING"} == set(generated_families())


def test_time_that_is_over_leaves_a_part_of_the_array(platform: GeneratedPlatform) -> None:
    results: list[CheckResult] = []
    with platform.suite() as suite:
        words = Campaign(suite, Generation(seconds=0.0, seed=7)).run(results.append)
    assert words == "0 generated sequences of seed 7, a part of the array"
    assert not results
