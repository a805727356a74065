"""Test the TSM checks on the real store and library: a correct store passes, and each lie is found.

The store has a simulated clock. A check that waits moves it, so checks run one after another. A lie replaces one
rule of the store or one function of the library.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from archiver.worm import checks
from archiver.worm.catalogue import catalogue
from archiver.worm.checks import CHECKS
from archiver.worm.platforms.tsm import plain_stanza
from archiver.worm.suite import CheckResult, Suite
from archiver.worm.tsm.calls import ApiCall, TsmClient
from archiver.worm.tsm.case import ArchiveClass, TsmCase
from archiver.worm.verdict import CheckVerdict
from backends.embedded.core.changes import archives as archive_changes
from backends.embedded.core.changes.archives import ArchiveTransaction, Event
from backends.embedded.core.rules import policy
from backends.embedded.core.rules.refusals import ArchiveRetained, Locked
from backends.embedded.core.tables.archives import find_space
from backends.embedded.tsm import frames, server, streams
from backends.tsm.library import api
from backends.tsm.library import structures as abi
from backends.tsm.library.api import Library, default_library_path
from backends.tsm.library.configuration import private_configuration
from tests.backends.embedded.running_server import Clock, RunningTsmServer

pytestmark = pytest.mark.skipif(not api.OWN_LIBRARY.exists(), reason="our TSM library was not built: no C compiler")

checks.load()

IDS = [each for each in catalogue() if each.startswith("TSM-")]
ADMINISTRATORS = {"TSM-19", "TSM-20", "TSM-24"}
CLASSES = ("BRIEF:retver=4s", "CASE:retver=3s,retinit=event,retmin=2s", "LATER:retver=20s,retinit=event")

Results = dict[str, CheckResult]


class Functions:
    """The functions of a library, some of them replaced by lies."""

    def __init__(self, real: Any, **lies: Callable[..., int]) -> None:
        self._real = real
        self._lies = lies

    def __getattr__(self, name: str) -> Any:
        return self._lies.get(name) or getattr(self._real, name)


class Platform:
    """A TSM store, and the library, nodes and classes to reach it."""

    def __init__(self, server: RunningTsmServer, configuration: Path) -> None:
        self.store = server
        self.plain_options: str | None = plain_stanza(configuration)
        self.library = Library(str(default_library_path()))
        self.library.set_up(configuration)
        self.node = TsmClient(self.library, "ARCHIVER", server.password())
        self.other: TsmClient | None = TsmClient(self.library, "OTHER", server.password("OTHER"))
        self.classes = [
            ArchiveClass(each.name, each.retver_seconds, each.retinit == "event", each.retmin_seconds)
            for each in server.store.management_classes.values()
            if each.retver_seconds is not None
        ]
        self.space = self.new_space()
        self.heard: list[str] = []

    def new_space(self) -> str:
        name = f"/worm-{secrets.token_hex(4)}"
        _, session = self.node.sign_on()
        assert session.register_space(name).ok
        session.terminate()
        return name

    def wait(self, seconds: float) -> None:
        self.store.clock.seconds += seconds

    def case(self, identifier: str) -> TsmCase:
        return TsmCase(
            identifier, self.node.recording([]), self.space, self.classes, self.new_space, self.other,
            self.plain_options, self.wait,
        )  # fmt: skip

    def results(self, ids: Sequence[str] = IDS) -> Results:
        def hear(result: CheckResult) -> None:
            self.heard.append(result.id)

        found = Suite(self.case, checks_at_once=1).run(ids, hear)
        assert self.heard == list(ids)
        return {each.id: each for each in found}


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    with (
        RunningTsmServer(tmp_path / "store", clock=Clock(), nodes=("OTHER",), classes=CLASSES) as server,
        private_configuration(server.host, server.port) as configuration,
    ):
        yield Platform(server, configuration)


def of(verdict: CheckVerdict, results: Results) -> set[str]:
    return {each.id for each in results.values() if each.verdict is verdict}


def reasons(results: Results) -> str:
    return "\n".join(f"{each.id} {each.verdict}: {each.reason}" for each in results.values())


# A correct store


def test_embedded_store_passes_every_tsm_check(platform: Platform) -> None:
    results = platform.results()
    assert of(CheckVerdict.NOT_TRIED, results) == ADMINISTRATORS, reasons(results)
    assert of(CheckVerdict.PASS, results) == set(IDS) - ADMINISTRATORS, reasons(results)
    assert set(CHECKS) & set(IDS) == set(IDS) - ADMINISTRATORS


def test_concurrent_checks_do_not_affect_each_other(platform: Platform) -> None:
    ids = ["TSM-03", "TSM-04", "TSM-05", "TSM-06", "TSM-07", "TSM-08", "TSM-10", "TSM-12", "TSM-17", "TSM-21"]
    found = Suite(platform.case).run(ids, lambda _: None)  # none of these checks waits
    assert [(each.id, each.verdict) for each in found] == [(each, CheckVerdict.PASS) for each in ids]


def test_objects_of_checks_can_all_be_removed_after_expiry(platform: Platform) -> None:
    platform.results(["TSM-09", "TSM-13", "TSM-16", "TSM-18"])
    platform.wait(301)
    _, session = platform.node.sign_on()
    assert session.delete_space(platform.space).ok
    assert not session.has_space(platform.space)
    session.terminate()


def test_every_api_call_is_recorded_with_its_codes_and_no_secret(platform: Platform) -> None:
    (result,) = platform.results(["TSM-04"]).values()
    calls = [call for call in result.exchanges if isinstance(call, ApiCall)]
    assert len(calls) == len(result.exchanges)
    functions = [call.function for call in calls]
    at = functions.index("dsmDeleteObj")
    assert (calls[at].code, calls[at].reason) == (0, 0)
    vote = calls[at + 1]
    assert (vote.function, vote.code, vote.reason) == ("dsmEndTxn", 2302, 248)
    shown = next(call.answer for call in calls if call.function == "dsmGetNextQObj" and call.answer)
    assert (shown["id"], shown["management_class"], shown["held"]) == (calls[at].arguments["id"], "STANDARD", 1)
    assert functions[0] == "dsmInitEx"
    assert functions[-1] == "dsmTerminate"
    password = platform.node.password
    assert password is not None
    assert password not in repr((result, platform.node))


def test_result_names_objects_that_the_clean_up_could_not_release(platform: Platform) -> None:
    real = platform.library.functions

    def refuses_releases(given: Any, out: Any) -> int:
        return 36 if given._obj.eventType == abi.eventReleaseObj else int(real.dsmRetentionEvent(given, out))

    platform.library.functions = Functions(real, dsmRetentionEvent=refuses_releases)
    (result,) = platform.results(["TSM-10"]).values()
    assert result.verdict is CheckVerdict.PASS
    assert "stays permanently: release was answered dsmRetentionEvent: 36" in result.reason


# Features that a server lacks


def test_checks_that_need_an_expiry_are_not_tried_with_classes_of_days(platform: Platform) -> None:
    platform.classes = [ArchiveClass("STANDARD", 86_400)]
    results = platform.results()
    not_tried = {"TSM-05", "TSM-13", "TSM-14", "TSM-16", "TSM-22"}
    assert of(CheckVerdict.NOT_TRIED, results) == ADMINISTRATORS | not_tried, reasons(results)
    assert of(CheckVerdict.FAIL, results) == set(), reasons(results)
    assert results["TSM-22"].reason == "needs a management class with a RETVER of seconds, which this server lacks"
    assert results["TSM-04"].reason == "no control: no class lets an object expire in seconds"
    assert "not tried after expiry" in results["TSM-09"].reason


def test_protection_option_check_is_not_tried_without_a_plain_stanza(platform: Platform) -> None:
    platform.plain_options = None
    (result,) = platform.results(["TSM-02"]).values()
    assert result.verdict is CheckVerdict.NOT_TRIED
    assert "dsm.sys overrides a session" in result.reason


def test_without_another_node_the_check_uses_another_owner(platform: Platform) -> None:
    platform.other = None
    (result,) = platform.results(["TSM-18"]).values()
    assert result.verdict is CheckVerdict.PASS
    assert "another node was not tried" in result.reason


def test_hold_checks_are_not_offered_without_a_licence(platform: Platform) -> None:
    platform.library.functions = Functions(platform.library.functions, dsmRetentionEvent=lambda *_: 30)
    results = platform.results()
    assert of(CheckVerdict.FAIL, results) == set(), reasons(results)
    assert {"TSM-09", "TSM-10", "TSM-11", "TSM-12", "TSM-17", "TSM-21", "TSM-23"} <= of(
        CheckVerdict.NOT_OFFERED, results
    )
    assert "30 ABORT_LICENSE_VIOLATION" in results["TSM-23"].reason


@pytest.mark.parametrize("code", [-50, 1, 11, 51, 136])
def test_api_errors_other_than_refusals_are_inconclusive(platform: Platform, code: int) -> None:
    platform.library.functions = Functions(platform.library.functions, dsmDeleteObj=lambda *_: code)
    results = platform.results(["TSM-04", "TSM-05", "TSM-09", "TSM-22"])
    assert of(CheckVerdict.INCONCLUSIVE, results) == set(results), reasons(results)


def test_a_refusal_proves_nothing_where_nothing_can_be_deleted(platform: Platform) -> None:
    platform.library.functions = Functions(platform.library.functions, dsmDeleteObj=lambda *_: 36)
    results = platform.results(["TSM-04", "TSM-09", "TSM-18"])
    assert of(CheckVerdict.INCONCLUSIVE, results) == set(results), reasons(results)
    assert "the control failed" in results["TSM-04"].reason


# Lies. Each gets monkeypatch and the platform.

_check_delete = policy.check_delete
_expires_ms = policy.ManagementClass.expires_ms
_after_event = ArchiveTransaction._after_event
_apply = ArchiveTransaction.apply


def says_it_is_unprotected(patch: pytest.MonkeyPatch, _: Platform) -> None:
    welcome = server.TsmServer.welcome
    patch.setattr(
        server.TsmServer,
        "welcome",
        lambda *args, **kept: dataclasses.replace(welcome(*args, **kept), is_protected=False),
    )


def lets_everybody_in(patch: pytest.MonkeyPatch, _: Platform) -> None:
    parse = frames.parse_hello
    patch.setattr(frames, "parse_hello", lambda body: dataclasses.replace(parse(body), enables_protection=True))


def takes_backups(_: pytest.MonkeyPatch, platform: Platform) -> None:
    real = platform.library.functions
    backup = False

    def send(handle: Any, send_type: int, *given: Any) -> int:
        nonlocal backup
        backup = send_type == 0
        return 0 if backup else int(real.dsmSendObj(handle, send_type, *given))

    platform.library.functions = Functions(
        real, dsmSendObj=send, dsmEndSendObj=lambda handle: 0 if backup else real.dsmEndSendObj(handle)
    )


def deletes_before_expiry(patch: pytest.MonkeyPatch, _: Platform) -> None:
    def check(kept_by: policy.ManagementClass, archived: int, event: int | None, held: bool, now: int) -> None:
        if held or kept_by.retinit == "event":
            _check_delete(kept_by, archived, event, held, now)

    patch.setattr(policy, "check_delete", check)


def commits_half_a_transaction(patch: pytest.MonkeyPatch, _: Platform) -> None:
    def apply(self: ArchiveTransaction, group: Any) -> None:
        try:
            _apply(self, group)
        except Locked:
            for number in self.deletes:
                try:
                    _apply(ArchiveTransaction(self.node, self.owner, deletes=[number]), group)
                except Locked:
                    pass
            if len(self.deletes) == 1:
                raise

    patch.setattr(ArchiveTransaction, "apply", apply)


def deletes_spaces_with_all_that_is_in_them(patch: pytest.MonkeyPatch, _: Platform) -> None:
    def apply(self: archive_changes.DeleteSpace, group: Any) -> int:
        archives = group.catalogue.archives
        space = find_space(archives.spaces.values(), self.node, self.name)
        assert space is not None
        for row in list(archives.of_space(space.id, (b"", b""), (b"\xff" * 2000, b""))):
            archives.remove(row)
        archives.remove_space(space)
        return 0

    patch.setattr(archive_changes.DeleteSpace, "apply", apply)


def replaces_what_has_the_same_name(patch: pytest.MonkeyPatch, _: Platform) -> None:
    def apply(self: ArchiveTransaction, group: Any) -> None:
        for new in self.archives:
            known = group.catalogue.archives.newest(new.space, new.hl, new.ll)
            if known is not None:
                group.catalogue.archives.remove(known)
        _apply(self, group)

    patch.setattr(ArchiveTransaction, "apply", apply)


def forgets_holds_after_expiry(patch: pytest.MonkeyPatch, _: Platform) -> None:
    def check(kept_by: policy.ManagementClass, archived: int, event: int | None, held: bool, now: int) -> None:
        expires = kept_by.expires_ms(archived, event)
        _check_delete(kept_by, archived, event, held and (expires is None or now < expires), now)

    patch.setattr(policy, "check_delete", check)


def _events(patch: pytest.MonkeyPatch, lie: Callable[[Event | None, Any, int], Any]) -> None:
    """Replace the effect of an event on a row. ``lie`` returns None for the correct effect."""

    def after(self: ArchiveTransaction, archives: Any, row: Any, now_ms: int) -> Any:
        lied = lie(self.event, row, now_ms)
        return lied if lied is not None else _after_event(self, archives, row, now_ms)

    patch.setattr(ArchiveTransaction, "_after_event", after)


def ignores_holds(patch: pytest.MonkeyPatch, _: Platform) -> None:
    _events(patch, lambda event, row, now: row if event is Event.HOLD else None)


def holds_again_and_again(patch: pytest.MonkeyPatch, _: Platform) -> None:
    _events(patch, lambda event, row, now: row if event is Event.HOLD and row.held else None)


def unholds_with_a_second_hold(patch: pytest.MonkeyPatch, _: Platform) -> None:
    _events(patch, lambda event, row, now: row._replace(held=0) if event is Event.HOLD and row.held else None)


def _counts_from_events(patch: pytest.MonkeyPatch) -> None:
    """Make classes that count from creation count from an event once there was one."""

    def expires(self: policy.ManagementClass, archived: int, event: int | None) -> int | None:
        return _expires_ms(self, archived if event is None else event, event)

    patch.setattr(policy.ManagementClass, "expires_ms", expires)


def begins_anew_when_released(patch: pytest.MonkeyPatch, platform: Platform) -> None:
    _counts_from_events(patch)
    of_class = platform.store.store.management_classes

    def lie(event: Event | None, row: Any, now: int) -> Any:
        by_creation = of_class[row.class_id].retinit == "creation"
        return row._replace(held=0, event_ms=now) if event is Event.RELEASE and row.held and by_creation else None

    _events(patch, lie)


def lets_go_when_released(patch: pytest.MonkeyPatch, platform: Platform) -> None:
    _counts_from_events(patch)
    of_class = platform.store.store.management_classes

    def lie(event: Event | None, row: Any, now: int) -> Any:
        by_creation = of_class[row.class_id].retinit == "creation"
        return row._replace(held=0, event_ms=0) if event is Event.RELEASE and row.held and by_creation else None

    _events(patch, lie)


def releases_what_is_not_held(patch: pytest.MonkeyPatch, _: Platform) -> None:
    _events(patch, lambda event, row, now: row if event is Event.RELEASE and not row.held else None)


def lets_age_be_the_event(patch: pytest.MonkeyPatch, _: Platform) -> None:
    def check(kept_by: policy.ManagementClass, archived: int, event: int | None, held: bool, now: int) -> None:
        if kept_by.retinit == "event" and event is None:
            event = archived
        _check_delete(kept_by, archived, event, held, now)

    patch.setattr(policy, "check_delete", check)


def forgets_the_minimum(patch: pytest.MonkeyPatch, _: Platform) -> None:
    def expires(self: policy.ManagementClass, archived: int, event: int | None) -> int | None:
        return _expires_ms(dataclasses.replace(self, retmin_seconds=0), archived, event)

    patch.setattr(policy.ManagementClass, "expires_ms", expires)


def shortens_with_a_second_event(patch: pytest.MonkeyPatch, _: Platform) -> None:
    def lie(event: Event | None, row: Any, now: int) -> Any:
        is_second = event is Event.ACTIVATE and row.event_ms is not None
        return row._replace(event_ms=row.event_ms - 5000) if is_second else None

    _events(patch, lie)


def shortens_classes_without_event(patch: pytest.MonkeyPatch, platform: Platform) -> None:
    _counts_from_events(patch)
    of_class = platform.store.store.management_classes

    def lie(event: Event | None, row: Any, now: int) -> Any:
        is_wrong = event is Event.ACTIVATE and of_class[row.class_id].retinit == "creation"
        return row._replace(event_ms=0) if is_wrong else None

    _events(patch, lie)


def takes_a_release_for_the_event(patch: pytest.MonkeyPatch, platform: Platform) -> None:
    classes = platform.store.store.management_classes

    def lie(event: Event | None, row: Any, now: int) -> Any:
        waits = classes[row.class_id].retinit == "event" and row.event_ms is None
        return row._replace(held=0, event_ms=now) if event is Event.RELEASE and row.held and waits else None

    _events(patch, lie)


def takes_any_number_of_objects(_: pytest.MonkeyPatch, platform: Platform) -> None:
    real = platform.library.functions

    def event(given: Any, out: Any) -> int:
        return 0 if given._obj.objList.numObjId > 4096 else int(real.dsmRetentionEvent(given, out))

    platform.library.functions = Functions(real, dsmRetentionEvent=event)


def renames(_: pytest.MonkeyPatch, platform: Platform) -> None:
    platform.library.functions = Functions(platform.library.functions, dsmRenameObj=lambda *_: 0)


def knows_no_owners(patch: pytest.MonkeyPatch, _: Platform) -> None:
    def mine(self: ArchiveTransaction, archives: Any, ids: Sequence[int]) -> Iterator[Any]:
        found = archives.find(ids) if ids else {}
        for number in ids:
            yield found[number]

    patch.setattr(ArchiveTransaction, "_own_rows", mine)


def damages_large_objects_that_are_held(patch: pytest.MonkeyPatch, _: Platform) -> None:
    large = streams._large

    async def damaged(store: Any, index: int, entry: Any, archive: Any, length: int, served: Any) -> Any:
        async for piece in large(store, index, entry, archive, length, served):
            yield bytes(len(piece)) if archive.held and len(piece) > 1000 else piece

    patch.setattr(streams, "_large", damaged)


def keeps_for_good(patch: pytest.MonkeyPatch, _: Platform) -> None:
    def check(*_: Any) -> None:
        raise ArchiveRetained(None)

    patch.setattr(policy, "check_delete", check)


Lie = Callable[[pytest.MonkeyPatch, Platform], None]


@pytest.mark.parametrize(
    ("lie", "caught"),
    [
        (says_it_is_unprotected, {"TSM-01"}),
        (lets_everybody_in, {"TSM-02"}),
        (takes_backups, {"TSM-03"}),
        # Each of these checks loses a record, because its early deletion succeeds.
        (deletes_before_expiry, {"TSM-04", "TSM-05", "TSM-11", "TSM-15"}),
        (commits_half_a_transaction, {"TSM-05"}),
        (deletes_spaces_with_all_that_is_in_them, {"TSM-06"}),
        (replaces_what_has_the_same_name, {"TSM-08"}),
        (ignores_holds, {"TSM-09"}),
        # TSM-09 deletes after the retention period, TSM-16 after the event and the period.
        (forgets_holds_after_expiry, {"TSM-09", "TSM-16"}),
        (unholds_with_a_second_hold, {"TSM-10"}),
        (begins_anew_when_released, {"TSM-11"}),
        (lets_go_when_released, {"TSM-11"}),
        (lets_age_be_the_event, {"TSM-13"}),
        (forgets_the_minimum, {"TSM-14"}),
        (shortens_with_a_second_event, {"TSM-15"}),
        (shortens_classes_without_event, {"TSM-15"}),
        (takes_a_release_for_the_event, {"TSM-16"}),
        (knows_no_owners, {"TSM-18"}),
        (damages_large_objects_that_are_held, {"TSM-21"}),
        (keeps_for_good, {"TSM-22"}),
    ],
)
def test_faulty_store_fails_exactly_the_expected_checks(
    lie: Lie, caught: set[str], platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie(monkeypatch, platform)
    results = platform.results()
    assert of(CheckVerdict.FAIL, results) == caught, reasons(results)


@pytest.mark.parametrize(
    ("lie", "seen"),
    [
        (renames, "TSM-07"),
        (holds_again_and_again, "TSM-10"),
        (releases_what_is_not_held, "TSM-12"),
        (takes_any_number_of_objects, "TSM-17"),
    ],
)
def test_wrongly_accepted_calls_without_effect_are_deviations(
    lie: Lie, seen: str, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie(monkeypatch, platform)
    results = platform.results()
    assert of(CheckVerdict.FAIL, results) == set(), reasons(results)
    assert of(CheckVerdict.DEVIATION, results) == {seen}, reasons(results)
