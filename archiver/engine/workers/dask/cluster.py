"""Discovery of the workers of a Dask cluster, and checks that they fit a run.

One idea: all checks of other machines come before anything is touched. Each worker must have this version of Archiver
and access to the folders that it needs.
"""

from __future__ import annotations

import logging
import os
import secrets
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster

from archiver.engine.workers.contract import IfLost
from archiver.engine.workers.dask.connection import GONE, Connection
from archiver.engine.workers.dask.workers import DaskWorkers
from archiver.machine import description as machine
from archiver.measure.reports import WorkerPlace
from archiver.values import version
from archiver.values.errors import UsageError

CONNECT_SECONDS_MAX = 15.0
LOCAL = "local"


class DaskCluster:
    """Workers that wait for runs, each a process of its own."""

    def __init__(self, connection: Connection, places: Sequence[WorkerPlace], hosts: Sequence[dict[str, Any]]) -> None:
        self._connection = connection
        self._places = tuple(places)
        self._hosts = tuple(hosts)  # as ``machine.describe`` reports them, each once
        self.is_local = {place.host for place in places} == {machine.describe()["host"]}

    def __len__(self) -> int:
        return len(self._places)

    def workers(self, if_lost: IfLost) -> DaskWorkers:
        """Return the workers, for one run."""
        return DaskWorkers(self._connection, self._places, is_local=self.is_local, if_lost=if_lost)

    def document(self) -> dict[str, Any]:
        """Return the entry in the record of a run."""
        return {
            "scheduler": self._connection.address,
            "workers": [{"address": place.name, "host": place.host} for place in self._places],
            "hosts": list(self._hosts),
        }

    def check_sees(self, folder: Path, what_for: str) -> None:
        """Raise UsageError if a worker cannot access this folder of the coordinator, or the place where it will be.

        Its machine then does not share a file system with the coordinator. The check leaves nothing behind.
        """
        existing = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.is_dir())
        mark = existing / f".seen-{secrets.token_hex(8)}"
        mark.touch()
        try:
            for place in self._places:
                if not self._connection.ask(place.name, os.path.exists, str(mark)):
                    raise UsageError(
                        f"{what_for}: Dask worker {place.name} on {place.host} does not see {folder}; put it on a file "
                        "system that all machines share, under the same path"
                    )
        finally:
            mark.unlink()


@contextmanager
def open_cluster(address: str, count: int | None) -> Iterator[DaskCluster]:
    """Yield the workers behind a scheduler's address, or ``local:N`` new ones; ``count`` of them, or all.

    Raises UsageError if there is no scheduler, if it has too few workers, or if one of them cannot take part.
    """
    with ExitStack() as stack:
        connection = stack.enter_context(_connected(address))
        places, hosts = _look_at_workers(connection, count)
        yield DaskCluster(connection, places, hosts)


@contextmanager
def _connected(address: str) -> Iterator[Connection]:
    kind, _, number = address.partition(":")
    for name in ("distributed", "distributed.client"):  # Archiver reports all failures itself, without a traceback
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        try:
            if kind == LOCAL:
                dask.config.set({"distributed.worker.profile.enabled": False})  # it would disturb the measurement
                cluster = LocalCluster(  # loopback only, without a dashboard: the run shows its own progress
                    n_workers=_local_count(address, number), threads_per_worker=1, processes=True, host="127.0.0.1",
                    dashboard_address="127.0.0.1:0", silence_logs=50,
                )  # fmt: skip
                stack.callback(cluster.close)
                address = cluster.scheduler_address
            client = Client(address, timeout=CONNECT_SECONDS_MAX, set_as_default=False, name="archiver")
        except GONE as error:
            raise UsageError(
                f"--dask {address}: no scheduler answers there ({type(error).__name__}: {error}); start one with: "
                "dask scheduler"
            ) from error
        stack.callback(_closed, client)
        yield Connection(client, address)


def _closed(client: Client) -> None:
    with suppress(*GONE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about a scheduler that ended first
        client.close(timeout=5)


def _local_count(address: str, number: str) -> int:
    if not number.isascii() or not number.isdecimal() or not 1 <= int(number) <= 256:
        raise UsageError(f"--dask {address}: write local:N, where N is the number of workers, 1 to 256")
    return int(number)


def _look_at_workers(connection: Connection, count: int | None) -> tuple[list[WorkerPlace], list[dict[str, Any]]]:
    """Return the places of the workers that a run uses, and their hosts."""
    addresses = sorted(connection.addresses() or ())
    if len(addresses) < (count or 1):
        wanted = f"{count} workers were requested" if count is not None else "a run needs at least one"
        raise UsageError(
            f"--dask {connection.address}: the scheduler has {len(addresses)} workers, and {wanted}; start more with: "
            f"dask worker {connection.address} --nthreads 1"
        )
    addresses = addresses[:count]
    places, hosts = [], {}
    described = connection.client.run(machine.describe, workers=addresses, on_error="return")
    for address in addresses:
        found = described[address]
        if isinstance(found, BaseException):
            raise UsageError(
                f"--dask {connection.address}: worker {address} cannot take part ({type(found).__name__}: {found}); "
                f"install there: pip install 'archiver-worm[dask]=={version.VERSION}'"
            )
        if found["archiver"] != version.VERSION:
            raise UsageError(
                f"--dask {connection.address}: worker {address} has Archiver {found['archiver']}, and this is "
                f"{version.VERSION}; install the same there"
            )
        places.append(WorkerPlace(address, found["host"]))
        hosts[found["host"]] = found
    return places, list(hosts.values())
