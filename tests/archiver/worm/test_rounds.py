"""Test the rounds under load and after a restart: a fault in one round is found in that round only.

The platform is the embedded store behind a server that may lie, and whole runs are carried out on it. A lie counts
only requests of the load's clients as load.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from threading import Lock

import psutil
import pytest

from archiver.engine.plan import new_run_id
from archiver.ledger.ledger import Ledger
from archiver.platforms.opening import EmbeddedStore
from archiver.platforms.servers import Server
from archiver.values.errors import PlatformError
from archiver.worm import rounds
from archiver.worm.case import Version, md5_of, starter
from archiver.worm.catalogue import catalogue
from archiver.worm.checks import CHECKS
from archiver.worm.conduct import WormOptions, conduct
from archiver.worm.listing import versions
from archiver.worm.platforms.s3 import S3UnderTest, reached
from archiver.worm.platforms.under_test import WormRun
from archiver.worm.repeats import load
from archiver.worm.repeats.restart import kill, restart_of
from archiver.worm.requests.exchange import Answer, S3Client
from archiver.worm.requests.limited import Limited
from archiver.worm.suite import CheckResult, Round, Suite, result_of
from archiver.worm.verdict import CheckVerdict, Inconclusive
from backends.embedded import process
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Credentials
from results.recorded.database import RunDatabase
from results.recorded.model import RoundRecord
from tests.support.servers import real
from tests.support.servers.lying_client import BYPASS, GONE, MODE, UNTIL, Asked, Lie, Store, lying
from tests.support.servers.lying_server import LyingServer, lying_server, tell

IDS = ("DEL-02", "LH-01", "VER-01", "VER-08")
EVERYWHERE = {
    ("DEL-02", "alone"), ("LH-01", "alone"), ("VER-01", "alone"),
    ("DEL-02", "under load"), ("LH-01", "under load"), ("VER-01", "under load"),
    ("DEL-02", "after restart"), ("LH-01", "after restart"), ("VER-08", "after restart"),
}  # fmt: skip


class Platform:
    """A store behind a server that may lie, and whole runs on it."""

    def __init__(self, store: process.StoreProcess, server: LyingServer, folder: Path) -> None:
        self.credentials = Credentials(store.access_key, store.secret_key, None)
        self.client = S3Client(store.endpoint, "us-east-1", self.credentials, [])
        self.server = server
        self.folder = folder
        self.open = ExitStack()
        self.ledger = self.open.enter_context(closing(Ledger(folder / "ledger.db")))
        self.runs = itertools.count()
        self.of_the_load = 0  # requests in progress
        self._counting = Lock()

    def lies(self, lie: Lie) -> None:
        def counted(asked: Asked, store: Store) -> Answer:
            of_the_load = asked.key.startswith("load/")
            with self._counting:
                self.of_the_load += of_the_load
            try:
                return lie(asked, store)
            finally:
                with self._counting:
                    self.of_the_load -= of_the_load

        tell(self.server, self.client, counted, "")

    @property
    def owner(self) -> Store:
        """Return the state of the lie, with the owner's access to the store."""
        return self.server.client._store

    def is_busy(self) -> bool:
        return self.of_the_load > 1

    def checked(
        self,
        restart: Callable[[], AbstractContextManager[None]] | None = nullcontext,
        ids: tuple[str, ...] = IDS,
        on_check: Callable[[CheckResult], None] = lambda _: None,
    ) -> RunDatabase:
        """Carry out a whole run and return its database."""
        backend = S3Backend(S3Options((self.server.endpoint,), credentials=self.credentials, region="us-east-1"))
        options = WormOptions(ids, False, self.folder / f"run-{next(self.runs)}", ["archiver", "worm"])
        run = WormRun(new_run_id(), self.ledger, reached(backend, accepts_server_clock=False), None)
        platform = S3UnderTest(run, backend, lambda _: nullcontext(Limited({})), restart, False)
        outcome = conduct(run, [platform], options, on_check)
        assert outcome.left == {"s3": {}}
        return self.open.enter_context(closing(RunDatabase.open(outcome.database)))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[process.StoreProcess]:
    with process.start(tmp_path_factory.mktemp("rounds") / "store") as running:
        yield running


@pytest.fixture
def platform(store: process.StoreProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    monkeypatch.setattr(rounds, "TIMES", 1)
    honest = S3Client(store.endpoint, "us-east-1", Credentials(store.access_key, store.secret_key, None), [])
    with lying_server(honest, "") as server:
        found = Platform(store, server, tmp_path)
        with found.open:
            yield found


def failed(database: RunDatabase) -> set[tuple[str, str]]:
    return {(check.id, check.round) for check in database.checks() if check.verdict == "FAIL"}


def passed(database: RunDatabase) -> set[tuple[str, str]]:
    return {(check.id, check.round) for check in database.checks() if check.verdict in ("PASS", "DEVIATION")}


def of_round(database: RunDatabase, name: str) -> RoundRecord:
    (record,) = (each for each in database.rounds() if each.round == name)
    return record


def reason(database: RunDatabase, identifier: str, round_: str) -> str:
    (found,) = (each.reason for each in database.checks() if (each.id, each.round) == (identifier, round_))
    return found


# ---- a correct platform


def test_passed_checks_are_repeated_under_load_and_after_restart(platform: Platform) -> None:
    database = platform.checked()
    assert passed(database) == EVERYWHERE
    assert [each.round for each in database.rounds()] == ["alone", "under load", "after restart"]
    loaded = of_round(database, "under load")
    assert loaded.objects_archived > 0
    assert loaded.objects_retrieved > 0
    assert loaded.archived_per_second > 0
    assert loaded.retrieved_per_second > 0
    assert loaded.errors == 0
    assert f"{loaded.objects_archived} objects" in reason(database, "VER-01", "under load")
    assert platform.ledger.placements() == []


def test_interrupted_run_keeps_the_results_of_every_round(platform: Platform) -> None:
    def interrupt(result: CheckResult) -> None:
        if result.round is Round.AFTER_RESTART:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        platform.checked(on_check=interrupt)
    (path,) = platform.folder.glob("run-0/*/run.db")
    with closing(RunDatabase.open(path)) as database:
        rounds_of_checks = Counter(check.round for check in database.checks())
        assert rounds_of_checks["alone"] == len(IDS) - 1  # without the check of a restart
        assert rounds_of_checks["under load"] == 3
        assert rounds_of_checks["after restart"] >= 1
        assert database.run().verdict == "interrupted"
    assert platform.ledger.placements() == []  # its buckets were removed


def test_ledger_lists_all_bytes_of_the_load_before_the_first_is_sent(platform: Platform) -> None:
    unknown: list[str] = []

    def lie(asked: Asked, _: Store) -> Answer:
        known = Ledger(platform.folder / "ledger.db")
        promised = {each.bucket: each for each in known.placements()}
        known.close()
        if asked.key.startswith("load/") and asked.is_put:
            placement = promised.get(asked.bucket)
            if placement is None or placement.bytes_max < load.OBJECTS_MAX * load.OBJECT_BYTES:
                unknown.append(asked.key)
        return asked.pass_on()

    platform.lies(lie)
    assert of_round(platform.checked(ids=("DEL-02",)), "under load").objects_archived > 0
    assert unknown == []


def test_later_rounds_repeat_only_short_checks_of_severity_s1_or_s2() -> None:
    again = {each for each in CHECKS if rounds.is_repeated(each)}
    assert {"DEL-02", "DEL-04", "RET-10", "LH-01", "GOV-02", "OVR-04", "BAT-01"} <= again
    assert again & {"BAT-03", "LH-02", "LH-10", "DEL-01", "RET-01", "CLK-02", "RAC-01"} == set()
    assert all(catalogue()[each].severity in ("S1", "S2") for each in again)


def test_check_that_fails_alone_is_not_repeated_in_later_rounds(platform: Platform) -> None:
    def lie(asked: Asked, store: Store) -> Answer:
        answer = asked.pass_on()
        if asked.is_delete and answer.status == 403:
            store.destroy(asked.version)
        return answer

    platform.lies(lie)
    database = platform.checked(ids=("DEL-02", "DEL-05"))
    assert failed(database) == {("DEL-02", "alone")}
    assert passed(database) == {("DEL-05", each) for each in ("alone", "under load", "after restart")}


def test_several_tries_are_reduced_to_the_worst_result() -> None:
    tries = [
        result_of("DEL-02", verdict, f"reason {number}", Round.UNDER_LOAD, 0.0)
        for number, verdict in enumerate(
            (CheckVerdict.PASS, CheckVerdict.FAIL, CheckVerdict.DEVIATION, CheckVerdict.INCONCLUSIVE)
        )
    ]
    worst = rounds._worst(tries)
    assert (worst.verdict, worst.reason) == (CheckVerdict.FAIL, "in 1 of 4 tries: reason 1")


# ---- under load


def test_deletion_of_locked_objects_under_load_is_found_only_in_that_round(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "TIMES", 4)  # the load may pause during one try

    def lie(asked: Asked, store: Store) -> Answer:
        answer = asked.pass_on()
        if asked.is_delete and answer.status == 403 and platform.is_busy():
            store.destroy(asked.version)
            return GONE
        return answer

    platform.lies(lie)
    database = platform.checked()
    assert failed(database) == {("DEL-02", "under load"), ("LH-01", "under load")}
    assert passed(database) == EVERYWHERE - failed(database)
    assert "is gone" in reason(database, "DEL-02", "under load")


def test_locks_dropped_under_load_are_found_only_in_that_round(platform: Platform) -> None:
    puts = itertools.count()

    def lie(asked: Asked, _: Store) -> Answer:
        if asked.is_put and asked.key.startswith("load/") and platform.is_busy() and next(puts) % 50 == 0:
            return asked.without(MODE, UNTIL)
        return asked.pass_on()

    platform.lies(lie)
    database = platform.checked()
    assert failed(database) == {("VER-01", "under load")}
    assert passed(database) == EVERYWHERE - failed(database)
    assert "has no retention, not GOVERNANCE until" in reason(database, "VER-01", "under load")
    (check,) = (each for each in database.checks() if (each.id, each.round) == ("VER-01", "under load"))
    exchanges = database.exchanges(check)
    bad = reason(database, "VER-01", "under load").split("load/")[1][:12]
    assert any(bad in each["target"] for each in exchanges), "the evidence shows the object"


def test_objects_lost_or_damaged_under_load_are_found_only_in_that_round(platform: Platform) -> None:
    puts = itertools.count(1)

    def lie(asked: Asked, store: Store) -> Answer:
        if asked.is_put and asked.key.startswith("load/"):
            number = next(puts)
            if number == 7:
                answer = asked.pass_on()
                store.destroy(asked.version._replace(id=answer.version_id or "", body=b""))
                return answer
            if number == 8:
                spoilt = asked.body[:-1] + bytes([asked.body[-1] ^ 1])
                headers = [*((name, asked.headers[name]) for name in (MODE, UNTIL)), ("Content-MD5", md5_of(spoilt))]
                return asked.client.honest.send("PUT", asked.bucket, asked.key, headers=headers, body=spoilt)
        return asked.pass_on()

    platform.lies(lie)
    database = platform.checked(ids=("DEL-02", "VER-01", "VER-08"))
    assert failed(database) == {("VER-01", "under load")}
    assert "is gone" in reason(database, "VER-01", "under load")
    assert "has other bytes" in reason(database, "VER-01", "under load")


def test_checks_under_load_do_not_pass_if_the_load_did_not_run(platform: Platform) -> None:
    def lie(asked: Asked, _: Store) -> Answer:
        opens = asked.method == "HEAD" and not asked.key  # sent by sessions of the load, but by none of these checks
        return Answer(503, {}, b"") if opens else asked.pass_on()

    platform.lies(lie)
    database = platform.checked()
    loaded = [each for each in database.checks() if each.round == "under load"]
    assert {(each.id, each.verdict) for each in loaded} == {
        ("DEL-02", "NOT TRIED"), ("LH-01", "NOT TRIED"), ("VER-01", "INCONCLUSIVE")
    }  # fmt: skip
    assert "the load did not run: open: 503" in reason(database, "DEL-02", "under load")
    assert of_round(database, "under load").errors > 0
    assert ("VER-08", "after restart") in passed(database)


# ---- after a restart


def records_of_the_load(platform: Platform) -> list[Version]:
    """Return the versions that the latest load archived."""
    case = platform.owner.owner
    found = [
        Version(each.bucket, entry.key, entry.id, b"")
        for each in platform.ledger.placements()
        for page in versions(case, each.bucket, "load/")
        for entry in page
    ]
    assert found
    return found


def test_locks_and_records_lost_at_restart_are_found_only_after_it(platform: Platform) -> None:
    @contextmanager
    def restart() -> Iterator[None]:
        first, *_, last = sorted(records_of_the_load(platform))
        platform.owner.unlock(first)
        platform.owner.destroy(last)
        yield

    database = platform.checked(restart)
    assert failed(database) == {("VER-08", "after restart")}
    assert passed(database) == EVERYWHERE - failed(database)
    said = reason(database, "VER-08", "after restart")
    assert "objects archived under load: 2 of" in said
    assert "has no retention" in said
    assert "is gone" in said


def test_locks_shown_but_not_enforced_after_restart_are_found(platform: Platform) -> None:
    stored: set[str] = set()
    before: set[str] = set()

    def lie(asked: Asked, store: Store) -> Answer:
        answer = asked.pass_on()
        if asked.is_put:
            stored.add(answer.version_id or "")
        if asked.is_delete and answer.status == 403 and asked.version.id in before:
            store.destroy(asked.version)
            return GONE
        return answer

    @contextmanager
    def restart() -> Iterator[None]:
        before.update(stored)
        yield

    platform.lies(lie)
    database = platform.checked(restart)
    assert failed(database) == {("VER-08", "after restart")}
    assert passed(database) == EVERYWHERE - failed(database)
    for part in ("GOVERNANCE", "a legal hold"):
        assert part in reason(database, "VER-08", "after restart")


def test_compliance_lock_lost_at_restart_is_found(platform: Platform) -> None:
    restarted = False

    def lie(asked: Asked, store: Store) -> Answer:
        answer = asked.pass_on()
        if restarted and asked.is_delete and BYPASS in asked.headers and answer.status == 403:
            store.hidden.add(store.current(asked))
            return GONE
        return answer

    @contextmanager
    def restart() -> Iterator[None]:
        nonlocal restarted
        restarted = True
        yield

    assert platform.client.send("PUT", "compliance", headers=[("x-amz-bucket-object-lock-enabled", "true")]).ok
    start = starter(lying(platform.client, lie, ""), "compliance", True, {}, lambda *_: "", 0.0)
    results: list[CheckResult] = []
    with ExitStack() as servers:
        rounds.Rounds(Suite(start, restart=restart), ["VER-08"], results.append).after_restart(servers)
    (result,) = results
    assert result.verdict is CheckVerdict.FAIL
    assert "COMPLIANCE: after a restart, deleting with the bypass header" in result.reason
    assert "GOVERNANCE:" not in result.reason


def test_server_that_does_not_restart_fails_and_gets_no_further_checks(platform: Platform) -> None:
    def restart() -> AbstractContextManager[None]:
        raise PlatformError("it did not start: its catalogue is damaged")

    database = platform.checked(restart, ids=("DEL-02", "VER-08"))
    after = {(check.id, check.verdict) for check in database.checks() if check.round == "after restart"}
    assert after == {("VER-08", "FAIL")}
    assert "its catalogue is damaged" in reason(database, "VER-08", "after restart")
    assert "did not start again" in of_round(database, "after restart").note


def test_server_not_started_by_archiver_is_not_killed(platform: Platform) -> None:
    database = platform.checked(None, ids=("DEL-02", "VER-08"))
    after = {(check.id, check.verdict) for check in database.checks() if check.round == "after restart"}
    assert after == {("VER-08", "NOT TRIED")}
    assert "--platform" in of_round(database, "after restart").note


def test_run_with_only_first_round_checks_has_one_round(platform: Platform) -> None:
    database = platform.checked(ids=("DEL-01",))
    assert [each.round for each in database.rounds()] == ["alone"]


# ---- real restarts


def test_embedded_store_keeps_acknowledged_objects_after_a_kill(tmp_path: Path) -> None:
    with process.start(tmp_path / "store") as store:
        restarted_keeps_what_it_acknowledged(EmbeddedStore(store), store.access_key, store.secret_key)


@pytest.mark.platforms
@pytest.mark.parametrize("name", real.STORES)
def test_real_servers_keep_acknowledged_objects_after_a_kill(name: str, tmp_path: Path) -> None:
    with real.real_server(name, tmp_path) as server:
        restarted_keeps_what_it_acknowledged(server, server.access.access_key, server.access.secret_key)


def restarted_keeps_what_it_acknowledged(hosted: EmbeddedStore | Server, access_key: str, secret_key: str) -> None:
    restart = restart_of(hosted)
    assert restart is not None
    client = S3Client(hosted.endpoint, "us-east-1", Credentials(access_key, secret_key, None), [])
    assert client.send("PUT", "bucket").ok
    assert client.send("PUT", "bucket", "key", body=b"acknowledged").ok
    with restart():
        status = Path(f"/proc/{hosted.pid}/status")
        assert not status.exists() or "zombie" in status.read_text()
        assert client.send("GET", "bucket", "key").body == b"acknowledged"
    with pytest.raises(Inconclusive, match="no answer"):
        client.send("GET", "bucket", "key")


_PARENT_AND_CHILD = """
import subprocess, sys
with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE) as child:
    child.wait()
"""


def test_killing_a_server_kills_its_child_processes() -> None:
    command = [sys.executable, "-c", _PARENT_AND_CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()  # the child process runs
        (child,) = psutil.Process(server.pid).children()
        kill(server.pid)
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
        assert server.wait() == -signal.SIGKILL


def test_server_not_started_by_archiver_has_no_restart() -> None:
    assert restart_of(None) is None
