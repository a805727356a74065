"""How many requests the server counted beside how many the client sent, and how soon each side saw the first byte.

One idea: two that count the same thing apart must agree to the last one. Where they do not, one of them is wrong, or
somebody else was there; either way a reader has to know.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, NamedTuple

from results.database import PhaseTimes, RunDatabase
from results.resources import Timeline

SHARE_IN_TIME = 0.99  # of the server's requests: what the bound that is shown holds at least

# By the protocol that the client speaks, what a server calls the request of each attempt at an object,
_OBJECT_REQUESTS: Mapping[str, Mapping[str, str]] = {
    "s3": {
        "archive": "PutObject",
        "new-version": "PutObject",
        "copy": "CopyObject",
        "retrieve": "GetObject",
        "range-retrieve": "GetObject",
        "audit": "GetObject",
        "query": "GetObjectRetention",
        "extend": "PutObjectRetention",
        "hold": "PutObjectLegalHold",
        "release": "PutObjectLegalHold",
        "refused-delete": "DeleteObject",
        "delete": "DeleteObject",
        "delete-marker": "DeleteObject",
    },
    "tsm": {
        "archive": "TSM OBJECT",
        "new-version": "TSM OBJECT",
        "retrieve": "TSM GET",
        "range-retrieve": "TSM GET",
    },
}
_PUT, _COMPLETED = "PutObject", "CompleteMultipartUpload"
# and that of opening a session, by what opening asks. A TSM client signs on at other times, too.
_OPENING_REQUESTS: Mapping[str, Mapping[str, str]] = {
    "s3": {"head-bucket": "HeadBucket", "lock-config": "GetBucketObjectLockConfig"},
}


@dataclass(frozen=True, slots=True)
class RequestCount:
    """One operation over the whole run, by the server's name for it."""

    operation: str
    counted: int  # by the server
    sent: int | None  # by the client, whatever became of it; None: not known exactly
    first_byte_seconds_max: float | None = None  # the least of the server's bounds that SHARE_IN_TIME of them kept
    server_first_byte_share: float | None = None  # of what it counted in the measured times: within this bound
    client_first_byte_share: float | None = None  # of the client's good objects in the measured times, likewise

    @property
    def difference(self) -> int | None:
        """What the server counted beyond what was sent."""
        return None if self.sent is None else self.counted - self.sent

    def document(self) -> dict[str, Any]:
        """One entry of ``requests`` in a run's document."""
        return {**asdict(self), "difference": self.difference}


def request_counts(database: RunDatabase, timelines: Mapping[str, Timeline]) -> tuple[RequestCount, ...]:
    """Every operation that the server counted or the client sent, the client's first; empty where no source counted
    from the first phase's start to after the last one's end, and for a run that was resumed."""
    phases = database.phases()
    timeline = _counting(timelines, phases)
    if timeline is None or database.resumptions():  # what a phase asked that broke off is in nobody's numbers
        return ()
    # To the source's last word, as some count a request only after it was answered; but what a phase asked that was
    # cut short is in nobody's numbers.
    whole = len(phases) >= database.run().phases_planned
    counted = timeline.counted("requests", phases[0].prepared_ns, timeline.end_ns if whole else phases[-1].end_ns)
    ours = _Ours(database)
    sent = ours.sent()
    # What is archived in parts is one object to us, and no PutObject to the server.
    in_parts = round(counted.get(_COMPLETED, 0.0))
    if in_parts and sent.get(_PUT):
        sent[_PUT] -= in_parts
    found = []
    for operation in [*sent, *sorted(counted.keys() - sent.keys())]:
        count = round(counted.get(operation, 0.0))
        if count or sent.get(operation):
            first_bytes = _first_bytes(operation, timeline, phases, ours.first_bytes(operation))
            found.append(RequestCount(operation, count, sent.get(operation), *first_bytes))
    return tuple(found)


def request_differences(database: RunDatabase) -> list[str]:
    """A sentence for each operation that the server counted otherwise than the client sent it."""
    found = []
    for each in request_counts(database, database.timelines()):
        if not each.difference:
            continue
        more = each.difference > 0
        why = (
            "somebody else used the platform meanwhile, and its resources are shown with theirs"
            if more
            else "some were answered by another node or something in between that is not watched, or the server "
            "does not count what failed"
        )
        found.append(
            f"the server counted {each.counted:,} {each.operation}, {abs(each.difference):,} "
            f"{'more' if more else 'fewer'} than the {each.sent:,} that were sent: {why}"
        )
    return found


def _counting(timelines: Mapping[str, Timeline], phases: list[PhaseTimes]) -> Timeline | None:
    """The source that counted requests over the whole run, and was asked again after the last one: else the requests
    that it was not asked for would seem to be missing."""
    if not phases:
        return None
    for timeline in timelines.values():
        # A sum of all kinds of requests, under no name, compares with nothing.
        if timeline.reaches(phases[0].prepared_ns, phases[-1].end_ns) and any(
            timeline.last("requests", timeline.end_ns)
        ):
            return timeline
    return None


class _FirstBytes(NamedTuple):
    """The three last fields of a RequestCount."""

    seconds_max: float | None = None
    server_share: float | None = None
    client_share: float | None = None


def _first_bytes(operation: str, timeline: Timeline, phases: list[PhaseTimes], ours: dict[int, int]) -> _FirstBytes:
    """``ours``: how many first bytes came after so many nanoseconds."""
    within: dict[float, float] = {}
    for phase in phases:
        used = timeline.used("first_byte_requests", phase.measured_from_ns, phase.measured_to_ns)
        for item, count in used.items():
            name, _, bound = item.rpartition(" ")
            if name == operation:
                within[float(bound)] = within.get(float(bound), 0.0) + count
    all_theirs, all_ours = max(within.values(), default=0.0), sum(ours.values())
    for seconds, count in sorted(within.items()):
        if all_theirs and count >= SHARE_IN_TIME * all_theirs and seconds < inf:
            in_time = sum(number for after_ns, number in ours.items() if after_ns <= seconds * 1e9)
            return _FirstBytes(seconds, count / all_theirs, in_time / all_ours if all_ours else None)
    return _FirstBytes()


class _Ours:
    """What the client counted, from the run's database."""

    def __init__(self, database: RunDatabase) -> None:
        run = database.run()
        self._database = database
        self._settings = run.settings
        self._may_retry = bool(run.platform.details.get("retries"))
        protocol = run.platform.protocol
        self._names = _OBJECT_REQUESTS.get(protocol, {})
        self._opening = _OPENING_REQUESTS.get(protocol, {}).get(self._settings.get("session_open", ""))

    def sent(self) -> dict[str, int]:
        """Requests by the server's names, warm-up and drain included."""
        sent = Counter[str]()
        opened, locked_apart = 0, False
        for row in self._database.attempts():
            opened += row.sessions
            if row.operation in self._names:
                sent[self._names[row.operation]] += row.attempts
            if row.lock == "separate":  # each object archived is locked by a request of its own
                sent[self._names["extend"]] += row.attempts
                locked_apart = True
        # A session counts when it ended well: where one did not, it is not known whether its opening had been sent.
        # Likewise a lock of its own is sent as often as its object only where nothing failed or was sent again.
        if locked_apart and (self._database.has_errors() or self._may_retry):
            del sent[self._names["extend"]]
        exact = self._settings.get("session_kind") == "opened" and not self._database.has_errors()
        if self._opening and opened and exact:
            sent[self._opening] = opened
        return sent

    def first_bytes(self, name: str) -> dict[int, int]:
        """How many good objects of a request had their first byte after so many nanoseconds, in the measured times."""
        found: dict[int, int] = {}
        for operation in (ours for ours, servers in self._names.items() if servers == name):
            for indices, counts in self._database.histograms(operation, "first_byte"):
                for index, count in zip(_numbers(indices), _numbers(counts), strict=True):
                    at_ns = _value_of(index)
                    found[at_ns] = found.get(at_ns, 0) + count
        return found


def _numbers(blob: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(blob) // 8}q", blob)


def _value_of(index: int) -> int:
    """The least value with this index among HdrHistogram's counts: 2048 sub-buckets, of which the upper half is new
    in every further bucket."""
    bucket, place = (index >> 10) - 1, (index & 1023) + 1024
    return place - 1024 if bucket < 0 else place << bucket
