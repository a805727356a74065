"""Many objects in one bucket of the embedded store: what gets slower, and what needs more memory, as they become many.

Three stores with 1,000, 100,000 and 1,000,000 tiny objects, each filled by the store's own core a thousand at a time,
so that one sync is shared by many. Then, through the S3 server: archive, retrieve and HEAD by one client over one
connection, pages of listings from anywhere, in rounds that take the stores in turn; the store's start, its start after
it was killed, and the clean-up of the bucket, as ``archiver cleanup`` does it. A ratio is of a store to the smallest:
what does not depend on the number of objects stays near 1.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from archiver.engine.worker.assignment import ClientAssignment
from archiver.measure.histogram import percentiles
from archiver.values.content import Content
from backends.base import Location
from backends.embedded import process
from backends.embedded.core.changes.objects import CreateBucket, PutVersion
from backends.embedded.core.files.digests import Digests
from backends.embedded.core.store import Store
from backends.embedded.process import StoreProcess
from backends.s3 import null_responder
from benchmarks.embedded_load import target_of
from benchmarks.own_worker import assignment, carried_out, s3_backend, s3_setting
from benchmarks.peers.base import boto3_client
from benchmarks.process_memory import memory_of
from benchmarks.tables import Table, labelled, plain, verdict
from scenarios.model import Workload
from scenarios.work.mix import OperationName
from scenarios.work.sessions import Sessions, UntilPrecise

TITLE = "Many objects in one bucket"
COUNTS = (1_000, 100_000, 1_000_000)
COUNTS_SMALL = (100, 1_000)
OBJECT_BYTES = 1024
PAGES = 10
_PREFIX = "b/"
_IN_FLIGHT = 1000
_PER_SESSION = 20

RATES = ("archive", "retrieve", "head", "remove")  # objects/s each; how fast a store is filled is not interleaved
GOAL_RATE_RATIO = 0.5  # of a rate with the most objects, to that with the fewest


def measure(*, small: bool) -> dict[str, Any]:
    """Rates, latencies, seconds and resident bytes of every size; their ratios to the smallest."""
    counts, rounds, seconds = (COUNTS_SMALL, 1, 0.3) if small else (COUNTS, 5, 2.0)
    found: dict[str, dict[str, float]] = {str(count): {} for count in counts}
    with tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as folder, ExitStack() as stores:
        held = [Held(Path(folder) / str(count), count, found[str(count)]) for count in counts]
        for each in held:
            each.fill()
            each.start("start_seconds", stores)
            each.values["store_after_start_MB"] = memory_of(each.store.pid).resident / 1e6
        asked = [each.round(seconds) for _ in range(rounds) for each in held]
        for each in held:
            of_each = [values for values, whose in zip(asked, held * rounds, strict=True) if whose is each]
            each.values.update({name: statistics.median(one[name] for one in of_each) for name in of_each[0]})
        for each in held:
            each.store.kill()
            each.start("start_after_kill_seconds", stores)
            each.remove()
    few, many = found[str(counts[0])], found[str(counts[-1])]
    slowest = min(many[f"{name}_per_second"] / few[f"{name}_per_second"] for name in RATES)
    return {
        "object_bytes": OBJECT_BYTES,
        "rounds": rounds,
        "sizes": found,
        "ratios": {name: {each: values[each] / few[each] for each in values} for name, values in found.items()},
        "goals": {"rate_ratio_min": GOAL_RATE_RATIO},
        "goals_met": slowest >= GOAL_RATE_RATIO,
    }


def tables(document: dict[str, Any]) -> list[Table]:
    """Every value for each number of objects, with its ratio to that for the fewest."""
    sizes, ratios = document["sizes"], document["ratios"]
    rows = []
    for each in next(iter(sizes.values())):
        cells = [(f"{sizes[name][each]:,.2f}", f"{ratios[name][each]:.2f}") for name in sizes]
        rows.append(plain(each.replace("_", " "), *itertools.chain.from_iterable(cells)))
    title = (
        f"Embedded store, objects of {document['object_bytes']:,} bytes in one bucket, medians of {document['rounds']}"
        " interleaved rounds"
    )
    headings = itertools.chain.from_iterable((f"{int(name):,}", "ratio") for name in sizes)
    return [
        Table(
            "many-objects", title, labelled(("objects",), *headings), tuple(rows), "Ratios are to the fewest objects."
        )
    ]


def notes(document: dict[str, Any]) -> list[str]:
    return [
        f"goal: every rate with the most objects at least {GOAL_RATE_RATIO} of that with the fewest:"
        f" {verdict(document['goals_met'])}"
    ]


class Held:
    """A store with so many objects in one bucket, and what was found out about it."""

    def __init__(self, folder: Path, count: int, values: dict[str, float]) -> None:
        self.values = values
        self.store: StoreProcess
        self._folder = folder
        self._count = count
        self._bucket = f"objects-{count}"
        self._chance = random.Random(count)
        self._next_new = count

    def fill(self) -> None:
        self.values["fill_per_second"] = self._count / asyncio.run(_fill(self._folder, self._bucket, self._count))

    def start(self, name: str, stores: ExitStack) -> None:
        began = time.perf_counter()
        self.store = stores.enter_context(process.start(self._folder, ready_seconds_max=600))
        self.values[name] = time.perf_counter() - began

    def round(self, seconds: float) -> dict[str, float]:
        """Each operation for so many seconds, and some pages of listings."""
        some = np.array(self._chance.choices(range(self._count), k=20_000), dtype=np.int64)
        new = self._next_new, self._next_new + 20_000
        self._next_new = new[1]
        return {
            **self._load("archive", seconds, new),
            **self._load("retrieve", seconds, some),
            **self._load("head", seconds, some),
            **self._listings(),
        }

    def remove(self) -> None:
        """Clean the bucket up, in whole."""
        before = psutil.Process().memory_info().rss
        began = time.perf_counter()
        location = Location(self.store.endpoint, "us-east-1", self._bucket, True, _PREFIX)
        report = s3_backend(target_of(self.store)).remove(location, None, bypass_governance=True, release_holds=False)
        seconds = time.perf_counter() - began
        assert report.bucket_removed, report
        self.values["remove_per_second"] = report.objects_removed / seconds
        self.values["remove_client_more_MB"] = max(1.0, (psutil.Process().memory_info().rss - before) / 1e6)
        self.values["store_peak_MB"] = memory_of(self.store.pid).resident_max / 1e6

    def _load(
        self, operation: OperationName, seconds: float, numbers: tuple[int, int] | NDArray[np.int64]
    ) -> dict[str, float]:
        """One client does one thing; its rate, and what an object takes."""
        stop = UntilPrecise(seconds, seconds, bytes_max=1 << 60, precision=0.0)
        workload = Workload(operation, Sessions(operation, OBJECT_BYTES, stop), 1, _PER_SESSION)
        setting = s3_setting(target_of(self.store), self._bucket, _PREFIX)
        counter, _ = carried_out(assignment(workload, "s3", setting, [ClientAssignment(0, 0, numbers)]))
        p50, p99 = percentiles([counter.service.part()], (50.0, 99.0))
        rate = counter.objects / counter.seconds
        return {f"{operation}_per_second": rate, f"{operation}_p50_ms": p50, f"{operation}_p99_ms": p99}

    def _listings(self) -> dict[str, float]:
        """Milliseconds for 1,000 keys and for as many versions, from anywhere: medians."""
        client = boto3_client(target_of(self.store))
        keys, versions = [], []
        page_keys = min(self._count, 1000) // 2  # so that a page is full, wherever it begins
        for _ in range(PAGES):
            after = f"{_PREFIX}{self._chance.randrange(self._count - page_keys):012d}"
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
            "list_ms_per_1000": per_thousand * statistics.median(keys),
            "list_versions_ms_per_1000": per_thousand * statistics.median(versions),
        }


async def _fill(folder: Path, bucket: str, count: int) -> float:
    """Put objects into a new store, by its core; how many seconds that took."""
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
