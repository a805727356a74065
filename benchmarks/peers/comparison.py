"""Client CPU and rate of Archiver compared with other load generators: warp, minio-go and wrk.

warp runs on MinIO with its default options, 8 KiB objects and 16 connections. It signs the content, and sends neither
checksum nor lock. It does not run on the null responder, which lacks some of its requests. minio-go is the library that
warp calls for every object. A small program calls it in a loop, on both servers, without warp's own overhead. One
contender uses warp's default options, another those of Archiver. wrk sends unsigned requests: one static request, or
requests that a script formats one by one. wrk does not run on MinIO, which requires signatures.

The client has one core and the server another. The contenders take turns within each round; ratios are taken within a
round. CPU is user and system time from getrusage, for Archiver and minio-go without their start. Their rates are those
of a fixed number of objects, with the time to connect. Those of warp and wrk are their own figures, over some seconds.
Each row states what the client signs, its checksum, and its lock. `make peers` installs wrk, warp, minio-go and MinIO.
The page leaves out a program that is not installed.

The agreement: `archiver run` and minio-go archive objects of one size, with the same options, to one MinIO in turns.
The page compares Archiver's rate with that of minio-go's program by the 95% intervals over the rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from archiver.values.sizes import format_size
from benchmarks.affinity import pinned, usable_cores
from benchmarks.own_worker import archiver_run
from benchmarks.peers import agreement, minio_go, warp, wrk
from benchmarks.peers.base import Cost, Job, Options, Target
from benchmarks.peers.servers import has_minio, minio_server, null_server
from benchmarks.rounds import paired_ratios
from benchmarks.tables import Cell, Table, labelled, plain, spread, verdict
from scenarios.work.mix import OperationName

TITLE = "Archiver next to other clients"
ROUNDS = 3
OBJECTS_SMALL = 64
WRK_SECONDS = 1
FILLED = "filled/"  # prefix of the objects that are retrieved from MinIO


@dataclass(frozen=True, slots=True)
class Case:
    """One operation at one size. ``objects`` are those of a round on the null responder, and on MinIO.

    ``goals``: contender -> Archiver's CPU in proportion to its CPU, at most, on the null responder.
    """

    operation: OperationName
    object_bytes: int
    objects: tuple[int, int]  # multiples of four sessions of every connection
    connections: int = 16
    with_tls: bool = False
    goals: dict[str, float] = field(default_factory=dict)

    @property
    def is_archive(self) -> bool:
        return self.operation == "archive"


def _archivers_options(case: Case) -> Options:
    if case.is_archive:
        return Options("head", "CRC32C", "governance")
    return Options("head", "every byte checked", "none")


def _warps_options(case: Case) -> Options:
    return Options("head and content" if case.is_archive and not case.with_tls else "head", "none", "none")


def _wrks_options(case: Case) -> Options:
    return Options("nothing", "none", "none")


@dataclass(frozen=True, slots=True)
class Contender:
    """A client. ``takes``: whether it runs a case on a server.

    ``objects_share``: its part of the objects of a round on the null responder, where it is slower.
    """

    name: str
    run: Callable[[Job], Cost]
    is_installed: Callable[[], bool]
    options: Callable[[Case], Options]
    takes: Callable[[str, Case], bool] = lambda server, case: True
    objects_share: float = 1.0


def _is_on_null(server: str, case: Case) -> bool:
    return server == NULL


def _is_archive(server: str, case: Case) -> bool:
    return case.is_archive


def _is_small_on_minio(server: str, case: Case) -> bool:
    return server == MINIO and case.object_bytes == SMALL_BYTES and case.connections > 1


ARCHIVER, WARP, MINIO_GO, WRK = "archiver", "warp", "minio-go", "wrk"
NULL, MINIO = "null responder", "MinIO"
SMALL_BYTES, LARGE_BYTES = 8 << 10, 1 << 20
CONTENDERS = (
    Contender(ARCHIVER, archiver_run, lambda: True, _archivers_options),
    Contender(WARP, warp.run, warp.PROGRAM.is_installed, _warps_options, takes=_is_small_on_minio),
    Contender(MINIO_GO, minio_go.run, minio_go.PROGRAM.is_installed, _warps_options, objects_share=0.5),
    Contender(
        f"{MINIO_GO}, Archiver's options", partial(minio_go.run, as_archiver=True), minio_go.PROGRAM.is_installed,
        _archivers_options, takes=_is_archive, objects_share=0.5,
    ),
    Contender(WRK, partial(wrk.run, seconds=WRK_SECONDS), wrk.is_installed, _wrks_options, takes=_is_on_null),
    Contender(
        f"{WRK}, formatted", partial(wrk.run, seconds=WRK_SECONDS, formatted=True), wrk.is_installed, _wrks_options,
        takes=_is_on_null,
    ),
)  # fmt: skip
CASES = (
    Case("archive", SMALL_BYTES, (16_384, 1_024), goals={WRK: 2.0, MINIO_GO: 0.20}),
    Case("retrieve", SMALL_BYTES, (16_384, 4_096), goals={MINIO_GO: 0.25}),
    Case("archive", LARGE_BYTES, (768, 128)),
    Case("retrieve", LARGE_BYTES, (768, 256)),
    Case("archive", SMALL_BYTES, (4_096, 256), connections=1),
    Case("archive", SMALL_BYTES, (8_192, 1_024), with_tls=True, goals={MINIO_GO: 0.5}),
    Case("retrieve", SMALL_BYTES, (8_192, 4_096), with_tls=True, goals={MINIO_GO: 0.5}),
    Case("archive", LARGE_BYTES, (512, 128), with_tls=True, goals={MINIO_GO: 0.7}),
    Case("retrieve", LARGE_BYTES, (512, 256), with_tls=True, goals={MINIO_GO: 0.7}),
)
CASES_SMALL = (CASES[0], CASES[6])


def measure(*, small: bool) -> dict[str, Any]:
    """Every case on every server, and the agreement."""
    rounds = 1 if small else ROUNDS
    *_, client_core = cores = usable_cores()
    missing = [name for name, found in programs_found().items() if not found]
    with pinned([client_core]):
        return {
            "rounds": rounds,
            "missing": missing,
            "servers": {
                name: [_case(name, case, rounds, small, cores[:1]) for case in (CASES_SMALL if small else CASES)]
                for name in (NULL, MINIO)
                if name not in missing
            },
            "agreement": None if {MINIO_GO, MINIO} & {*missing} else agreement.measure(cores[:1], small=small),
        }


def programs_found() -> dict[str, bool]:
    """Return whether each program is installed."""
    return {
        WARP: warp.PROGRAM.is_installed(),
        MINIO_GO: minio_go.PROGRAM.is_installed(),
        WRK: wrk.is_installed(),
        MINIO: has_minio(),
    }


def _case(server: str, case: Case, rounds: int, small: bool, server_cores: Sequence[int]) -> dict[str, Any]:
    on_minio = server == MINIO
    contenders = [each for each in CONTENDERS if each.is_installed() and each.takes(server, case)]
    objects = OBJECTS_SMALL if small else case.objects[on_minio]
    costs: dict[str, list[Cost]] = {each.name: [] for each in contenders}
    with _server(on_minio, case, server_cores) as target:
        job = Job(target, case.operation, case.object_bytes, case.connections, objects, FILLED)
        if on_minio and not case.is_archive:
            archiver_run(replace(job, operation="archive"))
        for round_ in range(rounds):
            for number, each in enumerate(contenders):
                share = 1.0 if on_minio else each.objects_share
                own = replace(job, objects=int(objects * share))
                if case.is_archive:  # each object is new
                    own = replace(own, prefix=f"{number}/{round_}/")
                costs[each.name].append(each.run(own))
    return {
        "operation": case.operation,
        "object_bytes": case.object_bytes,
        "connections": case.connections,
        "with_tls": case.with_tls,
        "objects": objects,
        "contenders": {
            each.name: {
                **each.options(case)._asdict(),
                "cpu_microseconds_per_object": [cost.cpu_microseconds for cost in costs[each.name]],
                "objects_per_second": [cost.objects_per_second for cost in costs[each.name]],
            }
            for each in contenders
        },
        "goals": {} if on_minio else {name: goal for name, goal in case.goals.items() if name in costs},
    }


def _server(on_minio: bool, case: Case, cores: Sequence[int]) -> AbstractContextManager[Target]:
    if on_minio:
        return minio_server(cores, with_tls=case.with_tls)
    return null_server(case.object_bytes, cores, with_tls=case.with_tls)


def tables(document: dict[str, Any]) -> list[Table]:
    """CPU and rate of every client on every server, and the agreement."""
    found = [
        Table(
            f"peers-{server.lower().replace(' ', '-')}",
            f"On {'the ' * (server == NULL)}{server}",
            labelled(
                ("", "client"), *Options._fields, "client CPU per object, µs", "objects/s", "archiver's CPU / its CPU"
            ),
            tuple(row for case in cases for row in _rows(case)),
        )
        for server, cases in document["servers"].items()
    ]
    return [*found, agreement.table(document["agreement"])] if document["agreement"] else found


def notes(document: dict[str, Any]) -> list[str]:
    lines = [f"{name} is not installed (`make peers`): not measured" for name in document["missing"]]
    for case in document["servers"][NULL]:
        for name, goal in case["goals"].items():
            ratio = statistics.median(_ratios(case, name))
            lines.append(f"{_label(case)}: goal: at most {goal} x {name}: {ratio:.2f}: {verdict(ratio <= goal)}")
    return [*lines, agreement.note(document["agreement"])] if document["agreement"] else lines


def _rows(case: dict[str, Any]) -> Iterator[tuple[Cell, ...]]:
    for name, client in case["contenders"].items():
        yield (
            *plain(_label(case), name, *(client[option] for option in Options._fields)),
            spread(client["cpu_microseconds_per_object"], 1),
            spread(client["objects_per_second"], 0),
            Cell("–") if name == ARCHIVER else spread(_ratios(case, name), 2),
        )


def _ratios(case: dict[str, Any], name: str) -> list[float]:
    """Return Archiver's CPU in proportion to a contender's, round by round."""
    ours, theirs = (case["contenders"][each]["cpu_microseconds_per_object"] for each in (ARCHIVER, name))
    return paired_ratios(ours, theirs)


def _label(case: dict[str, Any]) -> str:
    connections = "1 connection" if case["connections"] == 1 else f"{case['connections']} connections"
    return f"{case['operation']} {format_size(case['object_bytes'])}, {connections}{', TLS' * case['with_tls']}"
