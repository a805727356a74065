"""Many objects in one bucket of the embedded store: what gets slower, and what needs more memory.

One idea: a ratio is of a store to the smallest, so what does not depend on the number of objects stays near 1. Each
store is filled by its own core, a thousand objects at a time, so that many share one sync.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import psutil

from archiver.values.content import Content
from backends.base import Location
from backends.embedded import process
from backends.embedded.core.changes.objects import CreateBucket, PutVersion
from backends.embedded.core.files.digests import Digests
from backends.embedded.core.store import Store
from backends.embedded.process import StoreProcess
from backends.s3 import null_responder
from benchmarks.benchmark import Benchmark, Contenders, Experiment, Goal, Ratio
from benchmarks.embedded_load import P50, P99, carry_out_on, target_of
from benchmarks.own_worker import Load, s3_backend, s3_way
from benchmarks.peers.base import RATE, boto3_client
from benchmarks.processes import memory_of
from benchmarks.values import Figures, Results
from scenarios.work.mix import OperationName

OBJECT_BYTES = 1024
PAGES = 10
NUMBERS = 20_000  # of a load: more than it does
OPERATIONS: tuple[OperationName, ...] = ("archive", "retrieve", "head")
_PREFIX = "b/"
_IN_FLIGHT = 1000
REMOVE = f"remove, {RATE}"


class Filled:
    """A store with so many objects in one bucket."""

    def __init__(self, folder: Path, count: int, stack: ExitStack) -> None:
        self.once: dict[str, float] = {}  # figures that are measured once
        self._folder = folder / str(count)
        self._count = count
        self._bucket = f"objects-{count}"
        self._random = random.Random(count)
        self._next_new = count
        self._stack = stack
        self.once["fill, objects/s"] = count / asyncio.run(_fill(self._folder, self._bucket, count))
        self._store = self._start("start, s")
        self.once["store after start, MB"] = memory_of(self._store.pid).resident / 1e6

    def _start(self, name: str) -> StoreProcess:
        began = time.perf_counter()
        store = self._stack.enter_context(process.start(self._folder, ready_seconds_max=600))
        self.once[name] = time.perf_counter() - began
        return store

    def measure(self, seconds: float) -> Figures:
        """Carry out each operation for so many seconds by one client, and list some pages."""
        new = np.arange(self._next_new, self._next_new + NUMBERS)
        self._next_new += NUMBERS
        old = np.array(self._random.choices(range(self._count), k=NUMBERS), dtype=np.int64)
        way = s3_way(target_of(self._store), self._bucket, _PREFIX)
        found: dict[str, float | str] = {}
        for operation in OPERATIONS:
            load = Load(operation, OBJECT_BYTES, 1, 20, seconds)
            figures = carry_out_on(self._store, way, load, new if operation == "archive" else old)
            found |= {f"{operation}, {name}": figures[name] for name in (RATE, P50, P99)}
        return {**found, **self._listings()}

    def _listings(self) -> Figures:
        """Return the median milliseconds for 1,000 keys and for 1,000 versions, from random places."""
        client = boto3_client(target_of(self._store))
        keys, versions = [], []
        page_keys = min(self._count, 1000) // 2  # so that a page is full, wherever it begins
        for _ in range(PAGES):
            after = f"{_PREFIX}{self._random.randrange(self._count - page_keys):012d}"
            began = time.perf_counter()
            page = client.list_objects_v2(Bucket=self._bucket, Prefix=_PREFIX, StartAfter=after, MaxKeys=page_keys)
            keys.append(time.perf_counter() - began)
            assert page["KeyCount"] == page_keys
            began = time.perf_counter()
            client.list_object_versions(Bucket=self._bucket, Prefix=_PREFIX, KeyMarker=after, MaxKeys=page_keys)
            versions.append(time.perf_counter() - began)
        client.close()
        per_thousand = 1e6 / page_keys
        return {
            "list 1,000, ms": per_thousand * statistics.median(keys),
            "list 1,000 versions, ms": per_thousand * statistics.median(versions),
        }

    def restart_and_remove(self) -> Figures:
        """Kill the store, start it again, and clean the bucket up; return all figures that are measured once."""
        self._store.kill()
        self._store = self._start("start after a kill, s")
        before, began = psutil.Process().memory_info().rss, time.perf_counter()
        location = Location(self._store.endpoint, "us-east-1", self._bucket, True, _PREFIX)
        report = s3_backend(target_of(self._store)).remove(location, None, bypass_governance=True, release_holds=False)
        assert report.bucket_removed, report
        self.once[REMOVE] = report.objects_removed / (time.perf_counter() - began)
        self.once["client of the removal grew by, MB"] = (psutil.Process().memory_info().rss - before) / 1e6
        self.once["store, peak MB"] = memory_of(self._store.pid).resident_max / 1e6
        return self.once


async def _fill(folder: Path, bucket: str, count: int) -> float:
    """Put objects into a new store, by its core; return the seconds that took."""
    store = Store.open(folder)
    try:
        await store.change(CreateBucket(bucket, object_lock=True))
        content = Content(null_responder.RUN_ID, null_responder.CONTENT_SEED, OBJECT_BYTES)
        began = time.perf_counter()
        for first in range(0, count, _IN_FLIGHT):
            numbers = range(first, min(count, first + _IN_FLIGHT))
            await asyncio.gather(*(store.put(_put(bucket, content, number)) for number in numbers))
        return time.perf_counter() - began
    finally:
        store.close()


def _put(bucket: str, content: Content, number: int) -> PutVersion:
    body = content.whole(number, OBJECT_BYTES)
    digests = Digests()
    digests.update(body)
    key = f"{_PREFIX}{number:012d}"
    return PutVersion(bucket, key, [body], OBJECT_BYTES, digests.block_crcs(), digests.md5().hex())


def _experiments(small: bool) -> list[Experiment]:
    counts, seconds = ((100, 1_000), 0.3) if small else ((1_000, 100_000, 1_000_000), 2.0)
    rows, fewest = [f"{count:,}" for count in counts], f"{counts[0]:,}"
    filled: dict[str, Filled] = {}
    stack = ExitStack()

    @contextmanager
    def fill() -> Iterator[Contenders]:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="archiver-benchmark-")))
        for row, count in zip(rows, counts, strict=True):
            filled[row] = Filled(folder, count, stack)
        yield {(row,): partial(each.measure, seconds) for row, each in filled.items()}

    @contextmanager
    def remove() -> Iterator[Contenders]:
        with stack:
            yield {(row,): each.restart_and_remove for row, each in filled.items()}

    rates = [f"{operation}, {RATE}" for operation in OPERATIONS]
    return [
        Experiment(
            "many-objects",
            f"Embedded store, objects of {OBJECT_BYTES:,} bytes in one bucket, one client",
            ("objects",),
            [fill()],
            rounds=1 if small else 5,
            ratios=tuple(Ratio(f"{rate}, to {fewest}", rate, None, fewest) for rate in rates),
        ),
        Experiment(
            "many-objects-store",
            "Filling, starting and cleaning up",
            ("objects",),
            [remove()],
            ratios=(Ratio(f"{REMOVE}, to {fewest}", REMOVE, None, fewest),),
        ),
    ]


def _rates(results: Results) -> list[float]:
    """Return each rate with the most objects in proportion to that with the fewest."""
    many = results["many-objects"]
    few_row, *_, many_row = many.rows
    names = [f"{operation}, {RATE}" for operation in OPERATIONS]
    found = [many.median(many_row, name) / many.median(few_row, name) for name in names]
    return found + results["many-objects-store"].ratios(many_row, few_row, REMOVE)


MANY_OBJECTS = Benchmark(
    name="many-objects",
    question="1,000 to 1,000,000 objects in one bucket of the embedded store.",
    experiments=_experiments,
    goals=(Goal("every rate, most / fewest objects", _rates, "at least", 0.5),),
    is_on_page=False,
)
