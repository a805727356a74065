"""Archives and a plain model of their rules execute the same steps and agree on votes, listings, contents and counts.

The model is a list and conditions, written from the rules. Meanwhile S3 objects are stored and deleted in the same
segments, and compaction moves sparse segments.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from archiver.values.errors import StoreError
from backends.embedded.core import commits
from backends.embedded.core.changes.archives import DeleteSpace, Event, NewArchive, RegisterSpace, UpdateObject
from backends.embedded.core.changes.objects import CreateBucket, Delete
from backends.embedded.core.files.segments import RecordHeader, SegmentLocation
from backends.embedded.core.rules import policy
from backends.embedded.core.store import Store
from backends.embedded.core.tables.archives import Archive, Space
from backends.embedded.tsm import codes as tsm_codes
from backends.embedded.tsm import incoming as tsm_incoming
from backends.embedded.tsm.incoming import Flow, Incoming
from tests.backends.embedded.core_calls import PLENTY, content_of, put
from tests.support.examples import share_of

START_SECONDS = 2_000_000_000
DAY = 86_400
# RETINIT, RETVER and RETMIN in seconds.
CLASSES = {"NONE": ("creation", 0, 0), "SHORT": ("creation", 10, 0), "EVENT": ("event", 0, 300),
           "LATE": ("event", 100, 10), "NEVER": ("creation", None, 0)}  # fmt: skip
REQUESTS = ("late:retinit=event,retver=100s,retmin=10s", "never:retver=nolimit")

picks = st.lists(st.integers(0, 30), max_size=3)
objects = st.lists(
    st.tuples(st.sampled_from([b"/a", b"/b"]), st.sampled_from(sorted(CLASSES)), st.binary(max_size=8),
              st.sampled_from([0, 1, 30, 200])),
    max_size=4,
)  # fmt: skip


@dataclass(eq=False)
class Made:
    """An archived object in the model; instants are seconds."""

    ll: bytes
    class_name: str
    content: bytes
    archived: int
    event: int | None = None
    held: bool = False
    description: bytes = b""
    id: int = 0  # the number that the store assigned

    @property
    def expires(self) -> int | None:
        retinit, retver, retmin = CLASSES[self.class_name]
        if retver is None or (retinit == "event" and self.event is None):
            return None
        if self.event is None or retinit == "creation":
            return self.archived + retver
        return max(self.archived + retmin, self.event + retver)

    def may_go(self, now: int) -> bool:
        return not self.held and self.expires is not None and now >= self.expires


@dataclass
class Model:
    now: int = START_SECONDS
    has_space: bool = False
    there: list[Made] = field(default_factory=list)  # oldest first

    def refuses(self, new: list[Made], deletes: list[Made], event: Event | None, marked: list[Made]) -> set[int]:
        """Return every reason for a refusal. If there is none, apply the transaction."""
        codes = {20} if new and not self.has_space else set()
        for each in [*deletes, *marked]:
            if each not in self.there:
                codes.add(2)
        if len(set(map(id, deletes))) < len(deletes) or set(map(id, deletes)) & set(map(id, marked)):
            codes.add(2)
        codes |= {248 for each in deletes if not each.may_go(self.now)}
        codes |= {250 for each in marked if event is Event.HOLD and each.held}
        codes |= {47 for each in marked if event is Event.RELEASE and not each.held}
        codes |= {47 for each in marked if event is Event.ACTIVATE and CLASSES[each.class_name][0] != "event"}
        if not codes:
            self.there = [each for each in self.there if each not in deletes] + new
            for each in marked:
                if event is Event.ACTIVATE and each.event is None:
                    each.event = self.now
                elif event is not Event.ACTIVATE:
                    each.held = event is Event.HOLD
        return codes

    def delete_space(self) -> int | str:
        """Return how many objects had to stay."""
        if not self.has_space:
            return "code 20"
        self.there = [each for each in self.there if not each.may_go(self.now)]
        self.has_space = bool(self.there)
        return len(self.there)


class StoreAndModel(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="archiver-model-"))
        self.patches = [
            mock.patch.object(commits, "ROLL_BYTES", 4000),  # so that objects are moved
            mock.patch.object(tsm_incoming, "LARGE_BYTES", 2000),  # and some transactions are large
            mock.patch.object(tsm_incoming, "_SEGMENT_BYTES_MAX", 2500),
            mock.patch.object(tsm_incoming, "_PIECE_BYTES_MIN", 50),
        ]
        for patch in self.patches:
            patch.start()
        self.loop = asyncio.new_event_loop()
        self.model = Model()
        self.made: list[Made] = []
        self.space = Space(0, "N", b"/fs", b"", 0, 0, b"", 0)
        self.s3: dict[str, bytes] = {}
        self._open()
        self._do(self.store.change(CreateBucket("b", object_lock=True)))
        self.register()

    def _open(self) -> None:
        self.store = Store.open(
            self.folder,
            wall_seconds=lambda: self.model.now,
            elapsed_seconds=lambda: self.model.now,
            free_bytes=lambda: PLENTY,
            management_classes=[policy.parse_request(each) for each in REQUESTS],
        )
        self.classes = {each.name: number for number, each in self.store.management_classes.items()}

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        try:
            self.agree()
        finally:
            self.store.close()
            self.loop.close()
            for patch in self.patches:
                patch.stop()
        known = {self.store._segments.path(number) for number in self.store._catalogue.segments}
        active = self.store._writer._active
        assert set((self.folder / "segments").iterdir()) <= known | ({active[1].path} if active else set())
        self.count_bytes_of_segments()
        shutil.rmtree(self.folder)

    def count_bytes_of_segments(self) -> None:
        """Compare the catalogue's counts, which decide about compaction, with the records in the segments."""
        self.store = Store.open(self.folder, free_bytes=lambda: 0)  # Without free space nothing moves.
        catalogue = self.store._catalogue
        for number, use in catalogue.segments.items():
            living = [
                (record, found)
                for record, offset in _records(self.store, number, use.length)
                if (found := catalogue.living(record, SegmentLocation(number, offset)))
            ]
            assert use.live_objects == len(living)
            assert use.live_bytes == sum(found.size for _, found in living)
            assert use.live_record_bytes == sum(record.header_bytes + found.size for record, found in living)
        self.store.close()

    def _do(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Return the core's answer, or the code of its refusal."""
        try:
            return self.loop.run_until_complete(call)
        except StoreError as refusal:
            return f"code {tsm_codes.reason(refusal)}"

    def _picked(self, numbers: list[int]) -> list[Made]:
        """Pick objects: mostly stored ones, sometimes ones that may have been deleted."""
        found = [(self.model.there if number % 4 else self.made, number) for number in numbers]
        return [among[number % len(among)] for among, number in found if among]

    def _rows(self) -> list[Archive]:
        rows = self.store.queries.archives.of_space(self.space.id, (b"", b""), (b"\xff", b""))
        return sorted(rows, key=lambda row: row.id)

    @rule()
    def register(self) -> None:
        self.space, known = self._do(self.store.change(RegisterSpace(self.space._replace(id=0))))
        assert known is self.model.has_space
        self.model.has_space = True

    @rule(new=objects, deletes=picks, event=st.sampled_from(Event), marked=picks, split=st.integers(1, 99),
          votes=st.sampled_from([True, True, True, False]))  # fmt: skip
    def transact(
        self,
        new: list[tuple[bytes, str, bytes, int]],
        deletes: list[int],
        event: Event,
        marked: list[int],
        split: int,
        votes: bool,
    ) -> None:
        made = [Made(ll, name, content * repeat, self.model.now) for ll, name, content, repeat in new]
        gone, chosen = self._picked(deletes), self._picked(marked)

        async def run() -> int:
            incoming = Incoming(self.store, "N", b"", Flow(lambda: None, lambda: None, lambda code: None))
            for each in made:
                number = self.classes[each.class_name]
                incoming.begin(NewArchive(self.space.id, number, 1, 0, b"", 0, b"/d", each.ll, b"", b""))
                for at in range(0, len(each.content), split * 10):
                    incoming.data(memoryview(each.content)[at : at + split * 10])
                incoming.end()
            for each in gone:
                incoming.delete(each.id)
            if chosen:
                incoming.event(event, [each.id for each in chosen])
            if votes:
                return await incoming.commit()
            await incoming.abandon()
            return 0

        code = self._do(run())
        if not votes:
            return
        expected = self.model.refuses(made, gone, event, chosen)
        assert code in (expected or {0})
        if not expected:
            numbers = [row.id for row in self._rows()][-len(made) :] if made else []
            for each, number in zip(made, numbers, strict=True):
                each.id = number
            self.made += made

    @rule(number=st.integers(0, 30), description=st.binary(max_size=5), by_name=st.booleans())
    def describe(self, number: int, description: bytes, by_name: bool) -> None:
        for each in self._picked([number]):
            there = [other for other in self.model.there if (other.ll if by_name else other.id) in (each.ll, each.id)]
            named = (0, b"/d", each.ll) if by_name else (each.id, b"", b"")
            change = UpdateObject("N", b"", self.space.id, *named, None, None, None, description)
            answer = self._do(self.store.change(change))
            assert answer == (None if there else "code 2")
            if there:
                there[-1].description = description

    @rule()
    def delete_space(self) -> None:
        expected = self.model.delete_space()
        assert self._do(self.store.change(DeleteSpace("N", b"", b"/fs"))) == expected

    @rule(key=st.sampled_from("pq"), size=st.integers(0, 900))
    def put_an_s3_object(self, key: str, size: int) -> None:
        self.s3[key] = bytes([size % 256]) * size
        self._do(self.store.put(put(key, self.s3[key])))

    @rule(key=st.sampled_from("pq"))
    def delete_s3_objects(self, key: str) -> None:
        self.s3.pop(key, None)
        bucket = self.store.bucket("b")
        for version in list(self.store.queries.scan(bucket, key, None, chr(ord(key) + 1))):
            version_id = self.store.queries.version_id(version)
            self._do(self.store.change(Delete("b", key, version_id, bypass=False)))

    @rule(passed=st.sampled_from([1, 10, 100, 300, DAY]))
    def time_passes(self, passed: int) -> None:
        self.model.now += passed

    @rule()
    def restart(self) -> None:
        self.store.close()
        self._open()

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "store"):
            return
        assert bool(self.store.spaces) is self.model.has_space
        rows = self._rows() if self.model.has_space else []
        assert [
            (row.id, row.ll, row.archived_ms, row.event_ms, bool(row.held), row.description, row.class_id)
            for row in rows
        ] == [
            (
                each.id, each.ll, each.archived * 1000, None if each.event is None else each.event * 1000, each.held,
                each.description, self.classes[each.class_name],
            )
            for each in self.model.there
        ]  # fmt: skip
        for row, each in zip(rows, self.model.there, strict=True):
            kept_by = self.store.management_classes[row.class_id]
            expires = kept_by.expires_ms(row.archived_ms, row.event_ms)
            assert expires == (None if each.expires is None else each.expires * 1000)
            assert bytes(self._do(self.store.read(row, 0, row.size))) == each.content
        for key, content in self.s3.items():
            assert self._do(content_of(self.store, key)) == content
        versions = list(self.store.queries.scan(self.store.bucket("b"), "", None, None))
        held = self.store.statistics()
        assert held.objects == len(rows) + len(versions)
        assert held.bytes == sum(row.size for row in rows) + sum(each.size for each in versions)


def _records(store: Store, number: int, end: int) -> Iterator[tuple[RecordHeader, int]]:
    """The records of a segment and where their contents begin."""
    at = 0
    while at < end:
        record = store._segments.file(number).header_at(at)
        assert record is not None
        yield record, at + record.header_bytes
        at += record.header_bytes + record.content_bytes


StoreAndModel.TestCase.settings = settings(max_examples=share_of(50), stateful_step_count=30)
TestStoreAndModel = StoreAndModel.TestCase
