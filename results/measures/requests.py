"""Requests that the server counted compared with those the client sent, and the time to first byte on each side.

Two independent counts of the same requests must be equal. If they differ, one of them is wrong, or another client used
the server. The run warns in both cases.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, NamedTuple

from results.measures.statistics import lowest_ns
from results.recorded.database import PhaseTimes
from results.recorded.resources import Timeline
from results.recorded.run import RecordedRun

SHARE_IN_TIME = 0.99  # minimum share of the server's requests within the bound that is shown

# By protocol of the client: the server's name for the request of each attempt at an object,
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
        "event-hold": "PutObjectRetention",
        "event-release": "PutObjectRetention",
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
# and for the request that opens a session, by kind of opening. A TSM client also signs on at other times.
_OPENING_REQUESTS: Mapping[str, Mapping[str, str]] = {
    "s3": {"head-bucket": "HeadBucket", "lock-config": "GetBucketObjectLockConfig"},
}


@dataclass(frozen=True, slots=True)
class RequestCount:
    """One operation over the whole run, under the server's name for it."""

    operation: str
    counted: int  # requests that the server counted
    sent: int | None  # requests that the client sent, successful or not; None: not known exactly
    first_byte_seconds_max: float | None = None  # smallest bound of the server with a share of at least SHARE_IN_TIME
    server_first_byte_share: float | None = (
        None  # share of the server's requests, in the measured times, within this bound
    )
    client_first_byte_share: float | None = None  # the same share of the client's successful objects

    @property
    def difference(self) -> int | None:
        """Requests that the server counted minus requests that the client sent."""
        return None if self.sent is None else self.counted - self.sent

    def document(self) -> dict[str, Any]:
        """Return one entry of ``requests`` in a run's document."""
        return {**asdict(self), "difference": self.difference}


def request_counts(recorded: RecordedRun, timelines: Mapping[str, Timeline]) -> tuple[RequestCount, ...]:
    """Return every operation that the server counted or the client sent, the client's first.

    The result is empty for a resumed run. It is also empty if no source counted from the first phase's start until
    after the last one's end.
    """
    phases = recorded.phase_times
    timeline = _counting(timelines, phases)
    if timeline is None or recorded.resumptions:  # an interrupted phase sent requests that the run did not count
        return ()
    # Count up to the source's last sample, because some sources count a request only after its response. The run did
    # not count the requests of an interrupted phase.
    whole = len(phases) >= recorded.run.phases_planned
    counted = timeline.counted("requests", phases[0].prepared_ns, timeline.end_ns if whole else phases[-1].end_ns)
    ours = _Ours(recorded)
    sent = ours.sent()
    # An object archived in parts is one object to the client, and no PutObject to the server.
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


def request_differences(recorded: RecordedRun) -> list[str]:
    """Return a sentence for each operation whose counts of server and client differ."""
    found = []
    for each in request_counts(recorded, recorded.timelines):
        if not each.difference:
            continue
        more = each.difference > 0
        why = (
            "another client used the platform during the run, and the resource usage includes it"
            if more
            else "another node or a proxy that is not watched answered some of them, or the server does not count "
            "failed requests"
        )
        found.append(
            f"the server counted {each.counted:,} {each.operation}, {abs(each.difference):,} "
            f"{'more' if more else 'fewer'} than the {each.sent:,} that were sent: {why}"
        )
    return found


def _counting(timelines: Mapping[str, Timeline], phases: Sequence[PhaseTimes]) -> Timeline | None:
    """Return the source that counted requests over the whole run and was sampled after the last one.

    Without the final sample, the requests after the previous sample would seem to be missing.
    """
    if not phases:
        return None
    for timeline in timelines.values():
        # A sum of all kinds of requests has no operation name and compares with nothing.
        if timeline.reaches(phases[0].prepared_ns, phases[-1].end_ns) and any(
            timeline.last("requests", timeline.end_ns)
        ):
            return timeline
    return None


class _FirstBytes(NamedTuple):
    """The last three fields of a RequestCount."""

    seconds_max: float | None = None
    server_share: float | None = None
    client_share: float | None = None


def _first_bytes(operation: str, timeline: Timeline, phases: Sequence[PhaseTimes], ours: dict[int, int]) -> _FirstBytes:
    """Compare the times to first byte. ``ours`` maps nanoseconds to the client's number of first bytes."""
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
    """The client's counts, from the run's database."""

    def __init__(self, recorded: RecordedRun) -> None:
        run = recorded.run
        self._recorded = recorded
        self._settings = run.settings
        self._may_retry = bool(run.platform.details.get("retries"))
        protocol = run.platform.protocol
        self._names = _OBJECT_REQUESTS.get(protocol, {})
        self._opening = _OPENING_REQUESTS.get(protocol, {}).get(self._settings.get("session_open", ""))

    def sent(self) -> dict[str, int]:
        """Return requests by the server's names, warm-up and drain included."""
        sent = Counter[str]()
        opened, locked_apart = 0, False
        for row in self._recorded.attempts:
            opened += row.sessions
            if row.operation in self._names:
                sent[self._names[row.operation]] += row.attempts
            if row.lock == "separate":  # a separate request locks each archived object
                sent[self._names["extend"]] += row.attempts
                locked_apart = True
        # Count only sessions that ended without error. For others it is unknown whether the opening was sent. Likewise,
        # separate locks equal objects only if nothing failed and nothing was sent again.
        if locked_apart and (self._recorded.has_errors or self._may_retry):
            del sent[self._names["extend"]]
        exact = self._settings.get("session_kind") == "opened" and not self._recorded.has_errors
        if self._opening and opened and exact:
            sent[self._opening] = opened
        return sent

    def first_bytes(self, name: str) -> dict[int, int]:
        """Return the times to first byte, nanoseconds to count, of a request's good objects in the measured times."""
        found: dict[int, int] = {}
        for operation in (ours for ours, servers in self._names.items() if servers == name):
            for indices, counts in self._recorded.histograms(operation, "first_byte"):
                for index, count in zip(_numbers(indices), _numbers(counts), strict=True):
                    at_ns = lowest_ns(index)
                    found[at_ns] = found.get(at_ns, 0) + count
        return found


def _numbers(blob: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(blob) // 8}q", blob)
