"""TSM sessions over a faulty connection: the recorded reasons, the counts, and the objects that the server has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from archiver.values.record import Operation, Recorder, Status
from backends.embedded import process
from backends.embedded.tsm.frames import FrameKind
from backends.tsm.library.configuration import private_configuration
from backends.tsm.setting import TsmWorkerSetting
from tests.backends.tsm.tsm_sessions import SIZE, Server, batch, data_plane, reached, record_of_sessions, rows_of
from tests.support.servers import fault_proxy as wire
from tests.support.servers.fault_proxy import Fault, FaultProxy, Message, Nth, half_the_body, half_the_head, nothing_of

OBJECTS = 6
LATE = 3  # seconds; COMMTimeout takes whole seconds
PATIENT = 60
ARCHIVE, RETRIEVE, HEAD = Operation.ARCHIVE, Operation.RETRIEVE, Operation.HEAD
# The frame that carries an operation's answer.
ANSWER = {ARCHIVE: FrameKind.VOTE, RETRIEVE: FrameKind.OBJECT_HEAD, HEAD: FrameKind.ARCHIVES}
LOST, TIMED_OUT, ODD = "-50 TCPIP_FAILURE", "-51 CONN_TIMEDOUT", "136 COMM_PROTOCOL_ERROR"


def its_type(message: Message) -> int:
    return 4


def its_zero(message: Message) -> int:
    return 6


FAULTS: dict[str, tuple[Fault, dict[Operation, str], bool]] = {
    "reset instead of an answer": (wire.reset(nothing_of), dict.fromkeys(ANSWER, LOST), False),
    "reset in the body": (wire.reset(half_the_body), dict.fromkeys(ANSWER, LOST), False),
    "end instead of an answer": (wire.truncate(nothing_of), dict.fromkeys(ANSWER, LOST), False),
    "end in the head": (wire.truncate(half_the_head), dict.fromkeys(ANSWER, LOST), False),
    "end in the body": (wire.truncate(half_the_body), dict.fromkeys(ANSWER, LOST), False),
    "silence": (wire.silence(nothing_of), dict.fromkeys(ANSWER, TIMED_OUT), True),
    "silence in the body": (wire.silence(half_the_body), dict.fromkeys(ANSWER, TIMED_OUT), True),
    "a dripping body": (wire.drip(half_the_head, 0.2), dict.fromkeys((RETRIEVE, HEAD), TIMED_OUT), True),
    "a dripping vote": (wire.drip(nothing_of, 1.0), {ARCHIVE: TIMED_OUT}, True),
    "wrong bytes": (wire.flip(half_the_body), {RETRIEVE: "damaged"}, False),
    "another frame": (wire.flip(its_type, 8), dict.fromkeys(ANSWER, ODD), False),
    "garbage": (wire.changed(lambda _: bytes(range(200, 255))), dict.fromkeys(ANSWER, ODD), False),
    "bytes where there are none": (wire.flip(its_zero), dict.fromkeys(ANSWER, ODD), False),
    "an answer twice": (wire.twice_at_once(), {ARCHIVE: ODD}, False),
}
CASES = [(name, operation) for name, (_, reasons, _) in FAULTS.items() for operation in reasons]
# The quick tests play every fault once, and only one of each kind that waits for a timeout.
_IN_TURN = {(name, list(reasons)[at % len(reasons)]) for at, (name, (_, reasons, _)) in enumerate(FAULTS.items())}
QUICK = {("silence", ARCHIVE), ("a dripping body", RETRIEVE)} | {case for case in _IN_TURN if not FAULTS[case[0]][2]}


@dataclass(frozen=True, slots=True)
class Place:
    """A file space of the server."""

    server: Server
    setting: TsmWorkerSetting

    def play(self, fault: Nth, seconds: int, operation: Operation) -> Recorder:
        """Run one session whose connection goes through the proxy."""
        known = data_plane(self.setting, reads=(0,) if operation is RETRIEVE else ())._index
        with (
            FaultProxy(self.server.store.tsm_port, frames=fault) as proxy,
            private_configuration("127.0.0.1", proxy.port) as configuration,
        ):
            with (configuration / "dsm.sys").open("a") as options:
                options.write(f"  COMMTimeout {seconds}\n")
            plane = data_plane(replace(self.setting, configuration=configuration))
            plane._index.update(known)
            return record_of_sessions(plane, batch(operation, *range(OBJECTS)))

    def held(self) -> int:
        """Return how many objects the server has."""
        with self.server.backend()._session("look") as session:
            return sum(1 for _ in session.archives(self.setting.space, f"/{self.setting.prefix}/*"))


@pytest.fixture(scope="module")
def server(shim: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with process.start(tmp_path_factory.mktemp("tsm") / "store") as store, reached(store, shim) as server:
        yield server


_numbers = itertools.count()


@pytest.fixture
def place(server: Server) -> Place:
    """A file space for one test."""
    return Place(server, server.prepared(f"faults-{next(_numbers)}", objects_per_transaction=2)[0].worker_setting())


@pytest.fixture(scope="module")
def filled(server: Server) -> Place:
    """A file space with all objects, which tests only read."""
    found = Place(server, server.prepared("faults-read", objects_per_transaction=2)[0].worker_setting())
    assert record_of_sessions(data_plane(found.setting), batch(ARCHIVE, *range(OBJECTS))).errors == {}
    return found


@pytest.mark.parametrize(
    ("fault", "operation"),
    [
        pytest.param(
            name,
            operation,
            id=f"{name}-{operation.label}",
            marks=[] if (name, operation) in QUICK else [pytest.mark.long],
        )
        for name, operation in CASES
    ],
)
def test_answer_fault_is_counted_by_reason_and_excluded_from_throughput(
    place: Place, filled: Place, fault: str, operation: Operation
) -> None:
    what, reasons, waits = FAULTS[fault]
    used = place if operation is ARCHIVE else filled
    chosen = Nth(what, lambda frame: frame.kind == ANSWER[operation], first=1 if fault == "an answer twice" else 2)
    record = used.play(chosen, LATE if waits else PATIENT, operation)
    assert chosen.played == 1
    rows = [row for row in rows_of(record) if row.operation == operation]
    good = [row.bytes for row in rows if row.status == Status.OK]
    bad = [row.bytes for row in rows if row.status != Status.OK]
    (error,) = (error for error in record.errors.values() if error.operation == operation.label)
    assert (error.reason, error.count) == (reasons[operation], len(bad))
    assert error.message
    if operation is ARCHIVE:
        assert (good, bad) == ([SIZE] * 2, [0] * 2)
        assert error.outcomes_unknown == 2  # The vote was sent.
        # A server may abort a commit if its client leaves meanwhile. All other faults follow the commit.
        assert place.held() in ((2, 4) if fault == "an answer twice" else (4,))
    else:
        assert good == ([0] if operation is HEAD else [SIZE]) * (OBJECTS - 1 if reasons[operation] == "damaged" else 1)
        assert bad == [0]


@pytest.mark.parametrize(
    ("fault", "seconds", "reason"),
    [
        pytest.param(wire.reset(nothing_of), PATIENT, LOST, id="reset"),
        pytest.param(wire.silence(nothing_of), LATE, TIMED_OUT, id="silence", marks=pytest.mark.long),
        pytest.param(wire.flip(its_type, 8), PATIENT, ODD, id="another frame"),
    ],
)
def test_sign_on_without_valid_answer_fails_session_open(place: Place, fault: Fault, seconds: int, reason: str) -> None:
    record = place.play(Nth(fault, lambda frame: frame.kind == FrameKind.WELCOME), seconds, ARCHIVE)
    assert [row.operation for row in rows_of(record)] == [Operation.OPEN]
    ((operation, found),) = [(error.operation, error.reason) for error in record.errors.values()]
    assert (operation, found) == ("open", reason)
    assert place.held() == 0


def test_late_answers_are_accepted(filled: Place) -> None:
    late = Nth(wire.delay(0.05), lambda frame: True, every=2)
    assert filled.play(late, PATIENT, RETRIEVE).errors == {}
    assert late.played > 2
