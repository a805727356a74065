"""Generated sequences on the embedded store, honest or behind a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from functools import cache
from threading import Lock
from typing import Any
from urllib.parse import unquote_plus

from archiver.worm.case import Case, Version, iso, starter
from archiver.worm.generated.array import covering_array
from archiver.worm.generated.dimensions import DIMENSIONS, Combination, combination_of
from archiver.worm.generated.rules import is_sensible
from archiver.worm.generated.trial import Bench, Trial
from archiver.worm.requests.exchange import Answer, S3Client
from archiver.worm.requests.limited import limited_clients
from archiver.worm.suite import Suite
from tests.archiver.worm.checked_platform import CheckedPlatform
from tests.support.servers.lying_client import Asked, Lie, LyingClient, Store, shown_with


class FaultyClient(LyingClient):
    """A lying client whose copies and uploads are those of the store."""

    def recording(self, record: list[Any]) -> FaultyClient:
        client = S3Client(self.endpoint, self.region, self.credentials, record)
        return FaultyClient(client, self._lie, self._store)

    def _copied(self, asked: Asked) -> Answer | None:
        return None

    def _in_parts(self, asked: Asked) -> Answer | None:
        return None


class GeneratedPlatform(CheckedPlatform):
    """A correct store, and trials of it behind a fault or without one."""

    def client_of(self, fault: Lie | None) -> S3Client:
        if fault is None:
            return self.client
        owner = Case("DEL-02", self.client, self.bucket, True, {}, self.make_bucket, 0.0)
        return FaultyClient(self.client, fault, Store(owner))

    @contextmanager
    def suite(self, fault: Lie | None = None) -> Iterator[Suite]:
        """Yield the suite of the store behind this fault."""
        client = self.client_of(fault)
        with limited_clients("", client, given=self.limited) as fewer:
            yield Suite(starter(client, self.bucket, True, fewer.clients, self.make_bucket, 0.0), 2)

    @contextmanager
    def trials(self, fault: Lie | None = None) -> Iterator[Callable[[Combination], Trial]]:
        """Yield a function that carries out a combination behind this fault, in buckets of its own."""
        with self.suite(fault) as suite:

            def start(family: str) -> Case:
                case = suite.start(family)
                assert isinstance(case, Case)
                return case

            yield lambda combination: Trial(Bench(start), combination).run()


@cache
def array(seed: int) -> Sequence[Combination]:
    """Return the whole array of a seed, with every value."""
    rows = covering_array([list(dimension) for dimension in DIMENSIONS], is_sensible, seed)
    return [combination_of(row) for row in rows]


def rows_with(value: Enum, seed: int) -> list[Combination]:
    """Return the rows of the array that contain a value."""
    return [
        each
        for each in array(seed)
        if value in (each.writing, each.locking, each.naming, *each.events, each.asking, each.attack, each.timing)
    ]


# ---- faults

Trigger = Callable[[Asked], bool]
Effect = Callable[[Asked, Store], None]


@dataclass
class Fault:
    """One fault of a store."""

    name: str
    value: Enum  # of the dimension that shows it
    triggered_by: Trigger
    effect: Effect
    times: int = 1  # the request that triggers it, counted
    at_once: int = 1  # requests at the same time that it takes
    _seen: int = 0
    _in_flight: int = 0
    _lock: Lock = field(default_factory=Lock)

    def __call__(self, asked: Asked, store: Store) -> Answer:
        with self._lock:
            self._in_flight += 1
        answer = asked.pass_on()
        with self._lock:
            if self.triggered_by(asked) and self._in_flight >= self.at_once:
                self._seen += 1
                if self._seen >= self.times:
                    self.effect(asked, store)
            self._in_flight -= 1
        return told_otherwise(asked, store, answer)


def told_otherwise(asked: Asked, store: Store, answer: Answer) -> Answer:
    """Return the answer to a read with the lock or the bytes that the fault pretends."""
    if asked.is_read and answer.ok and asked.bucket:
        told = store.told.get(Version(asked.bucket, asked.key, "", b""))
        if isinstance(told, bytes):
            return replace(answer, body=told)
        if isinstance(told, dict):
            return shown_with(answer, **told)
    return answer


# ---- effects: what becomes of the locked versions


def locked_versions(asked: Asked, store: Store) -> list[Version]:
    """Return the locked versions of the bucket. A test makes a new bucket for each sequence."""
    query = (("versions", None), ("encoding-type", "url"))
    listed = store.owner.client.send("GET", asked.bucket, query=query)
    fields = [{each.tag.rpartition("}")[2]: each.text or "" for each in entry} for entry in listed.elements("Version")]
    found = [Version(asked.bucket, unquote_plus(each["Key"]), each["VersionId"], b"") for each in fields]
    return [version for version in found if store.is_locked(version)]


def destroys(asked: Asked, store: Store) -> None:
    for version in locked_versions(asked, store):
        store.destroy(version)


def unlocks(asked: Asked, store: Store) -> None:
    for version in locked_versions(asked, store):
        store.unlock(version)


def alters(asked: Asked, store: Store) -> None:
    for version in locked_versions(asked, store):
        store.told[version._replace(id="")] = b"other bytes"


def shows(**lock: str | None) -> Effect:
    """Return the effect that reads show another lock."""

    def effect(asked: Asked, store: Store) -> None:
        for version in locked_versions(asked, store):
            store.told[version._replace(id="")] = lock

    return effect


def shortens(asked: Asked, store: Store) -> None:
    for version in locked_versions(asked, store):
        until = store.owner.state(version).until
        if until is not None:
            store.told[version._replace(id="")] = {"until": iso(until - timedelta(seconds=5))}
