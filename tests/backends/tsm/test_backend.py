"""TsmBackend against a real store: its profile, its retention, the lock that it reads back, and cleanup."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from ctypes import POINTER, byref, c_uint16, cast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import backends
from archiver.values.errors import PlatformError, SafetyRefused, UsageError
from archiver.values.record import Operation
from archiver.values.retention import Retention, RetentionMode, RetentionWish
from backends.base import Location, RunPlan
from backends.embedded import process
from backends.tsm import TsmBackend
from backends.tsm.index import firsts
from backends.tsm.library import structures as abi
from backends.tsm.library.api import ApiSession, TsmError, halves
from backends.tsm.library.codes import Code
from backends.tsm.removal import remove as remove_from
from tests.backends.tsm.tsm_sessions import SIZE, Server, archived, reached

DAY_SECONDS = 86_400
NUMBERS = range(2000)  # of every run


@pytest.fixture(scope="module")
def server(shim: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    classes = ["LONG:retver=30d", "EVER:retver=nolimit"]
    folder = tmp_path_factory.mktemp("tsm") / "store"
    with process.start(folder, management_classes=classes) as store, reached(store, shim) as server:
        yield server


def remove(server: Server, location: Location, *, release_holds: bool = False) -> tuple[int, int, bool]:
    """Remove with a new backend. Returns objects removed, objects left, and whether the file space was deleted."""
    report = server.backend().remove(location, NUMBERS, bypass_governance=True, release_holds=release_holds)
    return report.objects_removed, report.objects_left, report.bucket_removed


def ids_in(session: ApiSession, space: str) -> list[int]:
    return [one.id for one in session.archives(space, "*")]


def test_tsm_backend_is_loaded_by_name() -> None:
    assert backends.load("tsm") is TsmBackend


def test_profile_reports_server_properties(server: Server) -> None:
    backend = server.backend()
    profile = backend.profile()
    store = server.store
    assert (profile.name, profile.backend) == ("ARCHIVER", "tsm")
    assert profile.endpoints == (f"tsm://{store.node}@{store.tsm_host}:{store.tsm_port}",)
    assert profile.shares_host
    assert profile.durability == "the answer to a transaction's vote"
    assert (profile.session_kind, profile.session_open, profile.checksum) == ("opened", "sign-on", "none")
    assert profile.objects_per_transaction_max == 4096
    assert profile.server_clock_offset_seconds is not None
    assert abs(profile.server_clock_offset_seconds) < 10
    assert abs(backend.server_now - time.time()) < 10
    assert profile.details["retention_protected"] is True
    assert profile.details["default_class"] == "STANDARD"
    assert profile.details["library"] == str(server.library)
    assert profile.details["library_version"] == "8.2.1.0"
    assert {one["name"] for one in profile.details["classes"]} >= {"STANDARD", "LONG", "EVER", "EVENT"}
    assert str(store.node_password) not in repr(profile)


@pytest.mark.parametrize(("asked", "limit"), [(None, 4096), (1, 1), (4096, 4096)])
def test_objects_per_transaction_is_option_or_server_limit(server: Server, asked: int | None, limit: int) -> None:
    assert server.backend(objects_per_transaction=asked).profile().objects_per_transaction_max == limit


def test_objects_per_transaction_above_server_limit_is_refused(server: Server) -> None:
    with pytest.raises(UsageError, match="--objects-per-transaction 4097: the server takes at most 4096"):
        server.backend(objects_per_transaction=4097).profile()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"password": "wrong"}, "137 AUTH_FAILURE.*check --tsm-node and --tsm-password-file"),
        ({"node": "NOBODY"}, "53 REJECT_ID_UNKNOWN.*check --tsm-node"),
    ],
)
def test_failed_sign_on_names_options_to_check(server: Server, change: dict[str, str], words: str) -> None:
    with pytest.raises(PlatformError, match=words):
        server.backend(**change).profile()


def test_a_server_that_does_not_answer_is_named(shim: Path, tmp_path: Path) -> None:
    with process.start(tmp_path / "store") as store, reached(store, shim) as server:
        store.stop()
        with pytest.raises(PlatformError, match=rf"tsm://127.0.0.1:{store.tsm_port}: .*check --tsm-server"):
            server.backend().profile()


@pytest.mark.parametrize("change", [{"node": None}, {"password": None}])
def test_an_address_needs_node_and_password(server: Server, change: dict[str, None]) -> None:
    with pytest.raises(UsageError, match="--tsm-node and --tsm-password-file are needed"):
        server.backend(**change)


@pytest.mark.parametrize("name", ["space", "", "/", "/with*", "/wh?t", "/" + "x" * 1024])
def test_a_file_space_needs_a_proper_name(server: Server, name: str) -> None:
    with pytest.raises(UsageError, match="--filespace"):
        server.backend(space=name)


# Retention.


@pytest.mark.parametrize(
    ("management_class", "exact", "retention"),
    [
        (None, True, Retention(RetentionMode.CLASS, 300.0, management_class="STANDARD")),
        ("SHORT", True, Retention(RetentionMode.CLASS, 10.0, management_class="SHORT")),
        ("short", True, Retention(RetentionMode.CLASS, 10.0, management_class="SHORT")),
        ("NONE", True, Retention(RetentionMode.CLASS, 0.0, management_class="NONE")),
        ("LONG", True, Retention(RetentionMode.CLASS, 30.0 * DAY_SECONDS, management_class="LONG")),
        # Another server reports whole days only. A change of summer time can add an hour.
        (None, False, Retention(RetentionMode.CLASS, 1.0 * DAY_SECONDS, None, False, "STANDARD", 3600.0)),
        ("LONG", False, Retention(RetentionMode.CLASS, 30.0 * DAY_SECONDS, None, False, "LONG", 3600.0)),
    ],
)
def test_management_class_determines_the_retention_period(
    server: Server, management_class: str | None, exact: bool, retention: Retention
) -> None:
    backend = server.backend(management_class=management_class)
    backend.profile()
    if not exact:
        count_in_days(backend)
    assert backend.retention_for(RetentionWish()) == retention
    assert backend.retention_for(RetentionWish(RetentionMode.CLASS)) == retention


@pytest.mark.parametrize("name", ["EVER", "EVENT"])
def test_a_class_that_locks_without_end_is_refused(server: Server, name: str) -> None:
    backend = server.backend(management_class=name)
    backend.profile()
    with pytest.raises(SafetyRefused, match=f"{name} would lock objects until .*--management-class"):
        backend.retention_for(RetentionWish())


def test_unknown_management_class_is_refused_with_known_ones(server: Server) -> None:
    backend = server.backend(management_class="NOSUCH")
    backend.profile()
    with pytest.raises(UsageError, match=r"NOSUCH: is not in the node's policy; there are: .*STANDARD"):
        backend.retention_for(RetentionWish())


@pytest.mark.parametrize(
    "wish",
    [
        RetentionWish(RetentionMode.GOVERNANCE),
        RetentionWish(RetentionMode.COMPLIANCE),
        RetentionWish(RetentionMode.NONE),
        RetentionWish(retain_for_seconds=60.0),
        RetentionWish(retain_until=4e9),
    ],
)
def test_requested_retention_other_than_the_class_is_refused(server: Server, wish: RetentionWish) -> None:
    backend = server.backend()
    backend.profile()
    with pytest.raises(UsageError, match="--management-class"):
        backend.retention_for(wish)


# The lock, read back.


def test_lock_matching_its_class_has_no_problem(server: Server) -> None:
    backend, _ = server.prepared("run-lock")
    before = backend.server_now
    archived(backend, 1)
    assert backend.read_lock(1, server.retention(backend), before + 298, before + 400).problem is None


@pytest.mark.parametrize(("earliest", "latest", "words"), [(400, 500, "earlier than"), (-100, 200, "later than")])
def test_lock_outside_expected_dates_is_reported(server: Server, earliest: float, latest: float, words: str) -> None:
    backend, _ = server.prepared(f"run-length-{earliest}")
    now = backend.server_now
    archived(backend, 1)
    assert words in str(backend.read_lock(1, server.retention(backend), now + earliest, now + latest).problem)


def count_in_days(backend: TsmBackend) -> None:
    """Let the policy give lengths in whole days only, as other servers do."""
    backend._classes = {name: replace(each, description="") for name, each in backend._classes.items()}


def test_class_known_only_in_days_is_checked_to_the_hour(server: Server) -> None:
    backend, _ = server.prepared("run-days", management_class="LONG")
    count_in_days(backend)
    now = backend.server_now
    archived(backend, 1)
    asked, length = server.retention(backend), 30 * DAY_SECONDS
    assert backend.read_lock(1, asked, now + length + 3500, now + length + 3600).problem is None
    assert "earlier than" in str(backend.read_lock(1, asked, now + length + 3700, now + length + 3800).problem)


def test_object_of_wrong_class_is_reported(server: Server) -> None:
    backend, location = server.prepared("run-class", management_class="LONG")
    archived(backend, 1)
    other = server.backend()
    other.profile()
    other.locate(RunPlan("run-class", Retention(RetentionMode.CLASS, 300.0, management_class="STANDARD")))
    problem = other.read_lock(1, server.retention(other), None, None).problem
    assert problem is not None
    assert problem.startswith(f"{location.bucket}/run-class/000000/000000000001 was archived")
    assert "its class is LONG, not STANDARD" in problem


def test_missing_object_is_reported(server: Server) -> None:
    backend, _ = server.prepared("run-missing")
    assert "the server does not have it" in str(backend.read_lock(1, server.retention(backend), None, None).problem)


def test_unrequested_hold_is_reported(server: Server) -> None:
    backend, location = server.prepared("run-held-lock")
    archived(backend, 1)
    hold_all(server, location)
    assert "under a hold" in str(backend.read_lock(1, server.retention(backend), None, None).problem)


def hold_all(server: Server, location: Location) -> None:
    with server.backend()._session("hold") as session:
        hold(session, ids_in(session, location.bucket))


def hold(session: ApiSession, ids: list[int]) -> None:
    """Place a hold on these objects."""
    functions = session._functions
    assert functions.dsmBeginTxn(session.handle) == 0
    array = (abi.ObjID * len(ids))(*map(halves, ids))
    objects = abi.dsmObjList_t(abi.dsmObjlistVersion, len(ids), cast(array, POINTER(abi.ObjID)))
    asked = abi.dsmRetentionEventIn_t(abi.dsmRetentionEventInVersion, session.handle, abi.eventHoldObj, objects)
    out = abi.dsmRetentionEventOut_t(abi.dsmRetentionEventOutVersion)
    assert functions.dsmRetentionEvent(byref(asked), byref(out)) == 0
    reason = c_uint16()
    assert functions.dsmEndTxn(session.handle, abi.DSM_VOTE_COMMIT, byref(reason)) == 0


# The location of a run.


def test_location_is_known_before_its_file_space_is_registered(server: Server) -> None:
    backend = server.backend()
    backend.profile()
    location = backend.locate(RunPlan("run-place", backend.retention_for(RetentionWish())))
    assert location == Location(backend._endpoint, "", "/archiver-run-place", True, "run-place")
    with backend._session("look") as session:
        assert not session.has_space("/archiver-run-place")
        backend.prepare()
        assert session.has_space("/archiver-run-place")


def test_file_space_named_by_the_user_does_not_belong_to_the_run(server: Server) -> None:
    _, first = server.prepared("run-first", space="/shared")  # which registers it
    _, second = server.prepared("run-second", space="/shared")
    assert (first.bucket_created, second.bucket_created) == (False, False)
    assert server.prepared("run-own")[1].bucket_created


def test_worker_setting_can_be_pickled_and_hides_its_password(server: Server) -> None:
    backend, _ = server.prepared("run-setting")
    setting = backend.worker_setting()
    assert pickle.loads(pickle.dumps(setting)) == setting
    assert (setting.management_class, setting.objects_per_transaction) == ("STANDARD", 4096)
    assert str(setting.password) not in repr(setting)


def test_attached_run_continues_at_earlier_location(server: Server) -> None:
    earlier, location = server.prepared("run-earlier")
    archived(earlier, 1, 2)
    backend = server.backend()
    backend.profile()
    backend.attach(location, server.retention(backend))
    assert backend.worker_setting() == earlier.worker_setting()
    assert backend.read_lock(2, server.retention(backend), None, None).problem is None
    archived(backend, 3)
    assert earlier.read_lock(3, server.retention(backend), None, None).problem is None


@pytest.mark.parametrize(
    ("change", "management_class", "words"),
    [
        ({"bucket": "/archiver-nowhere"}, "STANDARD", "has no file space /archiver-nowhere"),
        ({"endpoint": "tsm://SOMEBODY@127.0.0.1:1500"}, "STANDARD", "belong to node SOMEBODY.*--tsm-node"),
        ({}, "GONE", "no longer archives under class GONE"),
    ],
)
def test_attach_is_refused_if_file_space_node_or_class_is_missing(
    server: Server, change: dict[str, Any], management_class: str, words: str
) -> None:
    _, location = server.prepared("run-not-kept")
    backend = server.backend()
    backend.profile()
    asked = Retention(RetentionMode.CLASS, 300.0, management_class=management_class)
    with pytest.raises(PlatformError, match=words):
        backend.attach(replace(location, **change), asked)


def test_attach_accepts_an_unknown_management_class(server: Server) -> None:
    _, location = server.prepared("run-class-unknown")
    backend = server.backend()
    backend.profile()
    backend.attach(location, Retention(RetentionMode.CLASS))
    assert backend.worker_setting().management_class is None


def test_default_lock_on_file_space_is_refused(server: Server) -> None:
    backend, _ = server.prepared("run-rule")
    assert backend.capabilities.locks == ()
    assert Operation.EXTEND not in backend.capabilities.operations
    with pytest.raises(UsageError, match="--management-class decides"):
        backend.set_default_lock(server.retention(backend))


# Cleanup.


def test_nothing_is_removed_before_its_expiry(server: Server) -> None:
    backend, location = server.prepared("run-unexpired")
    now = backend.server_now
    archived(backend, *range(10))
    report = server.backend().remove(location, NUMBERS, bypass_governance=True, release_holds=True)
    assert (report.objects_removed, report.objects_left, report.bucket_removed) == (0, 10, False)
    assert report.locked_until == pytest.approx(now + 300, abs=10)
    assert not report.on_hold
    assert report.refusals == []  # No deletion was tried that could not succeed.


def test_expired_objects_are_removed_with_file_space_of_run(server: Server) -> None:
    backend, location = server.prepared("run-expired", management_class="NONE")
    archived(backend, *range(1500))
    report = server.backend().remove(location, NUMBERS, bypass_governance=False, release_holds=False)
    assert (report.objects_removed, report.objects_left, report.bucket_removed) == (1500, 0, True)
    assert report.bytes_removed == 1500 * SIZE
    again = server.backend().remove(location, NUMBERS, bypass_governance=False, release_holds=False)
    assert again.bucket_missing


def test_removal_keeps_other_runs_objects_and_their_file_space(server: Server) -> None:
    mine, location = server.prepared("run-mine", space="/both", management_class="NONE")
    other, _ = server.prepared("run-other", space="/both", management_class="NONE")
    archived(mine, 1, 2)
    archived(other, 3)
    assert remove(server, replace(location, bucket_created=True)) == (2, 0, False)
    with server.backend()._session("look") as session:
        assert len(ids_in(session, "/both")) == 1


def test_removal_skips_run_whose_id_has_this_id_as_prefix(server: Server) -> None:
    short, location = server.prepared("run-1", space="/prefixes", management_class="NONE")
    longer, _ = server.prepared("run-10", space="/prefixes", management_class="NONE")
    archived(short, 1)
    archived(longer, 1)
    assert remove(server, location) == (1, 0, False)


def test_held_objects_stay_until_their_holds_are_released(server: Server) -> None:
    backend, location = server.prepared("run-hold", management_class="NONE")
    archived(backend, 1, 2, 3)
    hold_all(server, location)
    report = server.backend().remove(location, NUMBERS, bypass_governance=True, release_holds=False)
    assert (report.objects_removed, report.objects_left, report.on_hold) == (0, 3, True)
    assert remove(server, location, release_holds=True) == (3, 0, True)


def test_removal_deletes_expired_objects_and_then_released_ones(server: Server) -> None:
    expired, location = server.prepared("run-mixed", management_class="NONE")
    locked, _ = server.prepared("run-mixed")
    archived(expired, *range(6))
    hold_all(server, location)
    archived(expired, 6, 7)
    archived(locked, 8)
    report = server.backend().remove(location, NUMBERS, bypass_governance=False, release_holds=False)
    assert (report.objects_removed, report.objects_left, report.bucket_removed) == (2, 7, False)
    assert report.bytes_removed == 2 * SIZE
    assert (report.on_hold, report.refusals) == (True, [])
    report = server.backend().remove(location, NUMBERS, bypass_governance=False, release_holds=True)
    assert (report.objects_removed, report.objects_left, report.bucket_removed) == (6, 1, False)
    assert (report.on_hold, report.refusals) == (False, [])  # The last one has not expired, and no deletion was tried.
    assert report.locked_until is not None


def test_expired_objects_are_removed_even_if_hold_release_fails(server: Server) -> None:
    backend, location = server.prepared("run-unreleased", management_class="NONE")
    archived(backend, 1, 2)
    hold_all(server, location)
    archived(backend, 3)
    other = server.backend()
    with other._session("remove") as session:

        def lost(ids: Sequence[int]) -> None:
            raise TsmError("dsmRetentionEvent", Code.TCPIP_FAILURE, "the connection is lost")

        session.release = lost  # type: ignore[method-assign]
        with pytest.raises(TsmError, match="-50"):
            remove_from(session, session.information(), location, NUMBERS, 0, release_holds=True)
    assert remove(server, location) == (0, 2, False)


def test_unknown_file_space_is_reported_missing(server: Server) -> None:
    _, location = server.prepared("run-elsewhere")
    report = server.backend().remove(
        replace(location, bucket="/archiver-nowhere"), NUMBERS, bypass_governance=False, release_holds=False
    )
    assert report.bucket_missing
    assert (report.objects_removed, report.objects_left) == (0, 0)


def test_absent_file_space_without_matches_is_reported_missing(server: Server) -> None:
    """A library may answer a query in an unknown file space with nothing instead of an error."""
    _, location = server.prepared("run-nothing")
    elsewhere = replace(location, bucket="/archiver-nowhere")
    backend = server.backend()
    with backend._session("remove") as session:
        session.archives = lambda *_: iter(())  # type: ignore[method-assign]
        report = remove_from(session, session.information(), elsewhere, NUMBERS, 0, release_holds=False)
        assert (report.bucket_missing, report.bucket_removed) == (True, False)
        report = remove_from(session, session.information(), location, NUMBERS, 0, release_holds=False)
        assert (report.bucket_missing, report.bucket_removed) == (False, True)


def test_only_objects_of_the_runs_names_and_numbers_are_removed(server: Server) -> None:
    backend, location = server.prepared("run-some", management_class="NONE")
    archived(backend, 0, 1, 2)
    report = server.backend().remove(location, range(2), bypass_governance=True, release_holds=True)
    assert (report.objects_removed, report.objects_left, report.names_of_others) == (2, 0, 1)
    assert (report.bucket_removed, report.bucket_kept) == (False, "it has content that the run did not put there")
    assert list(backend.present(0, 9)) == [2]
    whole = replace(location, prefix="")
    report = server.backend().remove(whole, None, bypass_governance=True, release_holds=True)
    assert (report.objects_removed, report.bucket_removed) == (1, True)


@pytest.mark.parametrize("has_space", [True, False])
def test_query_that_returns_objects_of_others_ends_removal_before_it_begins(server: Server, has_space: bool) -> None:
    backend, location = server.prepared(f"run-query-{int(has_space)}", management_class="NONE")
    archived(backend, 0, 1)
    with server.backend()._session("remove") as session:
        first, second = session.archives(location.bucket, "*")
        false = replace(second, high_level=b"/others") if has_space else replace(second, space=b"/others")
        session.archives = lambda *_: iter((first, false))  # type: ignore[method-assign]
        with pytest.raises(PlatformError, match=r"/others.*cannot be trusted, so nothing is removed"):
            remove_from(session, session.information(), location, NUMBERS, 0, release_holds=True)
        assert firsts([first, false], location.bucket, location.prefix) == {(0, 1): first}
    assert remove(server, location) == (2, 0, True)


def test_removal_of_another_nodes_objects_is_refused(server: Server) -> None:
    _, location = server.prepared("run-of-another")
    others = replace(location, endpoint="tsm://SOMEBODY@127.0.0.1:1500")
    with pytest.raises(PlatformError, match=r"signed on as node ARCHIVER, but .* belong to node SOMEBODY.*--tsm-node"):
        server.backend().remove(others, NUMBERS, bypass_governance=False, release_holds=False)
    assert remove(server, location) == (0, 0, True)  # it was still there
