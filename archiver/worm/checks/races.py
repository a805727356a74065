"""RAC: two requests at the same time.

One idea: two concurrent requests must leave what one of the two serial orders leaves. A small model computes both
orders. If neither explains the answers and the final version, the platform failed. The final version decides how
badly: it is gone in spite of an acknowledged lock, it lacks that lock, or an acknowledged deletion did nothing.

A platform loses a race in some of many pairs. One such pair is enough for a FAIL, which names the rate with its
interval. A PASS needs so many pairs that the interval excludes RATE_MAX; with fewer the failure is only not shown.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

from archiver.worm import multipart
from archiver.worm.case import (
    BYPASS,
    GOVERNANCE,
    ROOT,
    Case,
    ObjectLock,
    Version,
    VersionState,
    iso,
    lock_configuration,
    md5_of,
    same_instant,
    words_of,
)
from archiver.worm.checks import check
from archiver.worm.checks.batch import batch_answer_of
from archiver.worm.checks.clock import clock_of
from archiver.worm.prepared import Prepared, prepare
from archiver.worm.requests.exchange import Answer
from archiver.worm.verdict import Failed, Inconclusive, NotOffered, NotTried

PAIRS = 2000  # at most; fewer suffice if enough of them overlap
PAIRS_AT_ONCE = 4
PAIRS_SECONDS_MAX = 240.0
RATE_MAX = 0.005  # of failing pairs: a check passes only if the 95% interval of the rate is below
RATE_OF_FEW_MAX = 0.03  # of races with fewer pairs: RAC-03 prepares all of them first, RAC-12 has one at a time
LEADS_SECONDS = (0.0, 0.0005, 0.001, 0.002, 0.004)  # by which one request precedes the other, in turn
RACE_LOCK_SECONDS = 300.0  # longer than the check
SETTLED_SECONDS = 2.0  # after the last pair; then the versions of unexplained pairs are read again
BATCH_FILLERS = 12
EXPIRY_INSTANTS, EXPIRY_PAIRS = 8, 26
EXPIRY_LEAD_SECONDS = 6.0  # time to create all versions of the first instant and of those after it

GONE, OTHER_BYTES = "gone", "other bytes"
EITHER, UNTOLD = "either", "untold"
ORDERS = ((0, 1), (1, 0))
Model = Hashable  # state of a version, as far as a pair may change it
Step = Callable[[Model], Sequence[Model | None]]  # possible effects of a request; None: refused


class EndState(NamedTuple):
    """State that an unexplained pair left, and its severity."""

    severity: str
    words: str


DESTROYED = EndState("S1", "gone though the lock was acknowledged")
ALTERED = EndState("S1", "gone or with other bytes")
UNLOCKED = EndState("S2", "there without the lock that was acknowledged")
MIXED = EndState("S2", "there, but not with the lock that one of the two orders leaves")
NOT_DELETED = EndState("S3", "there and locked though the deletion was acknowledged")
MISREPORTED = EndState("S3", "not as the answers say, and no lock was acknowledged")


class Pair(NamedTuple):
    """Two requests to send at the same time, and functions that read the result."""

    one: Prepared
    other: Prepared
    seen: Callable[[], Model]
    words: Callable[[], str]


class RacedPair(NamedTuple):
    """A pair, and the answers to its two requests."""

    pair: Pair
    answers: tuple[Answer, Answer]


@dataclass(slots=True)
class RaceTally:
    """The results of all pairs of one check."""

    names: tuple[str, str]
    pairs: int = 0
    met: int = 0
    firsts: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    unexplained: list[RacedPair] = field(default_factory=list)


def end_of_locked(end: Model, _: bool) -> EndState:
    """Judge the state that two requests left, neither of which deletes."""
    return ALTERED if end in (GONE, OTHER_BYTES) else MIXED


def end_of_deleted(end: Model, lock_accepted: bool) -> EndState:
    """Judge the state that a deletion and a locking request left."""
    if end == OTHER_BYTES:
        return ALTERED
    if not lock_accepted:
        return MISREPORTED
    return DESTROYED if end == GONE else NOT_DELETED if end == "locked" else UNLOCKED


class Race(NamedTuple):
    """One kind of pair."""

    names: tuple[str, str]
    start: Model
    steps: tuple[Step, Step]
    done: Callable[[int, Answer], bool] = lambda _, answer: answer.ok  # whether request 0 or 1 was accepted
    shown: Callable[[Model], Model] = lambda model: model  # the part of the state that can be read
    judge: Callable[[Model, bool], EndState] = end_of_locked  # the end state, and whether request 1 was accepted


@check("RAC-01")
def delete_and_retention(case: Case) -> None:
    case.control()

    def pair(_: int) -> Pair:
        version, lock = _put(case), _lock(case)
        return Pair(*_delete_and(case, version, _retention(case, version, lock)), *_retained(case, version, lock))

    race = Race(("delete", "retention"), "free", (_delete_unless_locked, _lock_it), judge=end_of_deleted)
    _run(case, race, pair)


@check("RAC-02")
def delete_and_hold(case: Case) -> None:
    case.control()

    def pair(_: int) -> Pair:
        version = _put(case)

        def seen() -> Model:
            state = case.state(version)
            return GONE if state.body is None else "locked" if state.hold == "ON" else "free"

        return Pair(*_delete_and(case, version, _hold(case, version)), seen, _words(case, version))

    race = Race(("delete", "hold"), "free", (_delete_unless_locked, _lock_it), judge=end_of_deleted)
    _run(case, race, pair)


@check("RAC-03")
def delete_and_extend_at_expiry(case: Case) -> None:
    clock = clock_of(case)
    case.control()
    first = datetime.fromtimestamp(int(case.now().timestamp() + EXPIRY_LEAD_SECONDS) + 1, UTC)
    dates = [first + timedelta(seconds=number // EXPIRY_PAIRS) for number in range(EXPIRY_INSTANTS * EXPIRY_PAIRS)]
    with ThreadPoolExecutor(PAIRS_AT_ONCE) as pool:
        versions = list(pool.map(lambda date: _put(case, ObjectLock(GOVERNANCE, date)), dates))

    def pair(number: int) -> Pair:
        version, later = versions[number], _lock(case)
        made = Pair(*_delete_and(case, version, _retention(case, version, later)), *_retained(case, version, later))
        # Around the retain-until date, some before it and some after.
        spread = (number % EXPIRY_PAIRS - EXPIRY_PAIRS // 2) * 0.008
        time.sleep(max(0.0, dates[number].timestamp() - clock.low + spread - time.time()))
        return made

    def delete(model: Model) -> Sequence[Model | None]:
        return (None,) if model in ("locked", GONE) else (GONE, None)

    race = Race(("delete", "extend"), "free", (delete, _lock_it), judge=end_of_deleted)
    _run(case, race, pair, pairs=len(versions) - len(ORDERS), rate_max=RATE_OF_FEW_MAX)


@check("RAC-04")
def batch_delete_and_retention(case: Case) -> None:
    case.control()
    # Versions that no longer exist follow in the batch, to give time between check and delete of its first entry.
    gone = [_put(case) for _ in range(BATCH_FILLERS)]
    case.delete_many(case.bucket, [(each.key, each.id) for each in gone])
    fillers = {each.id for each in gone}

    def pair(_: int) -> Pair:
        version, lock = _put(case), _lock(case)
        entries = "".join(
            f"<Object><Key>{each.key}</Key><VersionId>{each.id}</VersionId></Object>" for each in (version, *gone)
        )
        body = f'<Delete xmlns="{ROOT}">{entries}</Delete>'.encode()
        batch = prepare(
            case.client, "POST", case.bucket,
            query=(("delete", None),), headers=[("Content-MD5", md5_of(body))], body=body,
        )  # fmt: skip
        return Pair(batch, _retention(case, version, lock), *_retained(case, version, lock))

    def done(number: int, answer: Answer) -> bool:
        if number == 1 or not answer.ok:
            return answer.ok
        return any(version_id not in fillers for _, version_id in batch_answer_of(answer).deleted)

    steps = (_delete_unless_locked, _lock_it)
    _run(case, Race(("batch delete", "retention"), "free", steps, done, judge=end_of_deleted), pair)


@check("RAC-05")
def retention_and_hold(case: Case) -> None:
    def pair(_: int) -> Pair:
        version, lock = _put(case), _lock(case)

        def seen() -> Model:
            state = case.state(version)
            return GONE if state.body is None else (_has(state, lock), state.hold == "ON")

        return Pair(_retention(case, version, lock), _hold(case, version), seen, _words(case, version))

    def retain(model: Model) -> Sequence[Model | None]:
        assert isinstance(model, tuple)
        return ((True, model[1]),)

    def hold(model: Model) -> Sequence[Model | None]:
        assert isinstance(model, tuple)
        return ((model[0], True),)

    _run(case, Race(("retention", "hold"), (False, False), (retain, hold)), pair)


@check("RAC-06")
def two_extensions(case: Case) -> None:
    def pair(number: int) -> Pair:
        now = _lock(case)
        near, far = _later(now, 30), _later(now, 60)
        version = _put(case, now)
        return Pair(
            _retention(case, version, near), _retention(case, version, far),
            _dated(case, version, {"start": now, "near": near, "far": far}), _words(case, version),
        )  # fmt: skip

    def near(model: Model) -> Sequence[Model | None]:
        return (None,) if model == "far" else ("near",)

    _run(case, Race(("the nearer date", "the later date"), "start", (near, lambda _: ("far",))), pair)


@check("RAC-07")
def tagging_and_retention(case: Case) -> None:
    probe = case.stored()
    offered = [what for what in ("tagging", "acl") if _is_offered(_annotate(case, probe, what))]
    if not offered:
        raise NotOffered("neither tags nor ACLs of a version can be set")

    def pair(number: int) -> Pair:
        version, lock = _put(case), _lock(case)
        other = _annotate(case, version, offered[number % len(offered)])
        return Pair(other, _retention(case, version, lock), *_retained(case, version, lock))

    case.notes.append(f"with {' and '.join(offered)}")
    _run(case, Race(("tagging", "retention"), "free", (lambda model: (model,), _lock_it)), pair)


@check("RAC-08")
def put_and_retention_of_the_current(case: Case) -> None:
    def pair(_: int) -> Pair:
        older, lock = _put(case), _lock(case)
        body = older.body + b" newer"
        put = prepare(case.client, "PUT", case.bucket, older.key, headers=[("Content-MD5", md5_of(body))], body=body)
        retain = _retention(case, older._replace(id=""), lock)

        def seen() -> Model:
            current = case.client.send("GET", case.bucket, older.key)
            newer = older._replace(id=current.version_id or "")
            locked = case.state(older)
            if locked.body != older.body:
                return GONE
            has_newer = newer.id != older.id
            return (has_newer, _has(locked, lock), has_newer and _has(case.state(newer), lock))

        def words() -> str:
            left = seen()
            if not isinstance(left, tuple):
                return f"the older version of {older.key} is gone"
            newer, *locked = left
            return (
                f"of {older.key} the newer version is {'' if newer else 'not '}there, "
                f"{' and '.join(name for name, has in zip(('older', 'newer'), locked, strict=True) if has) or 'none'} "
                "is locked"
            )

        return Pair(put, retain, seen, words)

    def put_newer(model: Model) -> Sequence[Model | None]:
        assert isinstance(model, tuple)
        return ((True, model[1], False),)

    def lock_current(model: Model) -> Sequence[Model | None]:
        assert isinstance(model, tuple)
        return ((True, model[1], True),) if model[0] else ((False, True, False),)

    names = ("PUT (the lock is on the newer version)", "retention (it is on the older version)")
    _run(case, Race(names, (False, False, False), (put_newer, lock_current)), pair)


@check("RAC-09")
def other_nodes(case: Case) -> None:
    raise NotTried("needs several endpoints of one cluster, and this run has one")


@check("RAC-10")
def shorten_and_extend(case: Case) -> None:
    def pair(_: int) -> Pair:
        now = _lock(case)
        short, far = _later(now, -60), _later(now, 60)
        version = _put(case, now)
        return Pair(
            _retention(case, version, short, bypass=True), _retention(case, version, far),
            _dated(case, version, {"start": now, "short": short, "far": far}), _words(case, version),
        )  # fmt: skip

    race = Race(("the shorter date", "the later date"), "start", (lambda _: ("short",), lambda _: ("far",)))
    _run(case, race, pair)


@check("RAC-11")
def complete_and_abort(case: Case) -> None:
    def pair(_: int) -> Pair:
        lock, body = _lock(case), b"one part"
        answer, upload = multipart.start(case, lock=lock)
        if not answer.ok:
            raise NotOffered(f"starting a multipart upload with a lock was answered {answer}")
        [etag] = multipart.send_parts(case, upload, [body])
        query = (("uploadId", upload.id),)
        parts = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
        xml = f'<CompleteMultipartUpload xmlns="{ROOT}">{parts}</CompleteMultipartUpload>'.encode()
        complete = prepare(case.client, "POST", upload.bucket, upload.key, query=query, body=xml)
        abort = prepare(case.client, "DELETE", upload.bucket, upload.key, query=query)

        def seen() -> Model:
            current = case.client.send("GET", upload.bucket, upload.key)
            if not current.ok:
                return GONE
            state = case.state(Version(upload.bucket, upload.key, current.version_id or "null", body))
            if state.body != body:
                return OTHER_BYTES
            return "locked" if _has(state, lock) else "there, but not locked"

        return Pair(complete, abort, seen, lambda: f"the object: {seen()}")

    def complete(model: Model) -> Sequence[Model | None]:
        return ("locked",) if model == "open" else (None,)

    def abort(model: Model) -> Sequence[Model | None]:
        # Aborting a completed upload does nothing, whether or not the platform accepts it.
        return ("aborted",) if model == "open" else (model, None)

    def shown(model: Model) -> Model:
        return GONE if model in ("open", "aborted") else model

    _run(case, Race(("completion", "abortion"), "open", (complete, abort), _completed, shown), pair)


@check("RAC-12")
def clear_default_and_put(case: Case) -> None:
    bucket = case.new_bucket()
    day = timedelta(days=1)

    def pair(_: int) -> Pair:
        answer = case.set_default(bucket)
        if not answer.ok:
            raise Inconclusive(f"a default retention could not be set: {answer}; see DFT-01")
        key, body, began = case.key(), b"a record", case.now()
        xml = lock_configuration("").encode()
        clear = prepare(
            case.client, "PUT", bucket,
            query=(("object-lock", None),), headers=[("Content-MD5", md5_of(xml))], body=xml,
        )  # fmt: skip
        put = prepare(case.client, "PUT", bucket, key, headers=[("Content-MD5", md5_of(body))], body=body)

        def state() -> VersionState:
            current = case.client.send("GET", bucket, key)
            return (
                case.state(Version(bucket, key, current.version_id or "null", body))
                if current.ok
                else VersionState(None)
            )

        def seen() -> Model:
            shown = state()
            if shown.body != body:
                return GONE if shown.body is None else OTHER_BYTES
            if shown.mode is None and shown.until is None:
                return "free"
            length = shown.until - began if shown.until is not None else timedelta()
            return "locked" if shown.mode == GOVERNANCE and abs(length - day).total_seconds() < 60 else "half"

        return Pair(clear, put, seen, lambda: words_of(state()))

    def clear(model: Model) -> Sequence[Model | None]:
        return ("no default",) if model == "default" else (model,)

    def put(model: Model) -> Sequence[Model | None]:
        return ("locked",) if model == "default" else ("free",)

    _run(
        case,
        Race(("clearing the default", "the PUT"), "default", (clear, put)),
        pair,
        at_once=1,
        rate_max=RATE_OF_FEW_MAX,
    )


# ---- pairs


def _run(
    case: Case,
    race: Race,
    make: Callable[[int], Pair],
    *,
    pairs: int | None = None,
    at_once: int = PAIRS_AT_ONCE,
    rate_max: float | None = None,
) -> None:
    """Create and race pairs until enough overlapped, at most ``pairs`` or PAIRS, unless the time runs out first.

    Raises Failed if one cannot be explained. Raises Inconclusive if none failed, and the rate may be ``rate_max``, or
    RATE_MAX, all the same.
    """
    allowed = RATE_MAX if rate_max is None else max(rate_max, RATE_MAX)
    for number, order in enumerate(ORDERS):
        _control(race, make(number), order)
    tally, end, counting = RaceTally(race.names), time.monotonic() + PAIRS_SECONDS_MAX, threading.Lock()

    def one(number: int) -> None:
        if time.monotonic() < end and rate_interval(0, tally.met)[1] > allowed:
            _race(race, make(number), number, senders, tally, counting)

    with ThreadPoolExecutor(2 * at_once) as senders, ThreadPoolExecutor(at_once) as makers:
        for _ in makers.map(one, range(len(ORDERS), len(ORDERS) + (pairs or PAIRS))):
            pass
    found = _unexplained(race, tally)
    case.notes.append(_summary(tally))
    if found:
        counts = Counter(state for state, _, _ in found)
        counted = ", ".join(f"{counts[state]} {state.words} ({state.severity})" for state in sorted(counts))
        worst, words, raced = min(found, key=lambda each: each[:2])
        raise Failed(
            f"neither order of the two requests explains {len(found)} of {tally.pairs} pairs, "
            f"{_rate_in_words(len(found), tally.pairs)}: {counted}; one of the worst: {words}",
            worst.severity,
            raced.answers,
        )
    for name in race.names:
        if not tally.accepted[name]:
            raise Inconclusive(f"{name} was never accepted, so there was no race")
    words = f"none of {tally.met} overlapping pairs failed, {_rate_in_words(0, tally.met)}"
    if rate_interval(0, tally.met)[1] > allowed:
        raise Inconclusive(f"not shown: {words}; a PASS needs enough pairs for a rate below {allowed:.1%}")
    case.notes.append(words)


def rate_interval(failed: int, tried: int) -> tuple[float, float]:
    """Return the 95% interval of the rate of failing pairs.

    This is the score interval of the binomial distribution (Wilson, J. American Statistical Association 22 (1927)).
    """
    if not tried:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.975)
    share, spread = failed / tried, z * z / tried
    middle = share + spread / 2
    reach = z * sqrt(share * (1 - share) / tried + spread / (4 * tried))
    return max(0.0, (middle - reach) / (1 + spread)), min(1.0, (middle + reach) / (1 + spread))


def _rate_in_words(failed: int, tried: int) -> str:
    low, high = rate_interval(failed, tried)
    return f"a rate of {low:.2%} to {high:.2%} (95%)"


def _control(race: Race, pair: Pair, order: tuple[int, int]) -> None:
    """Check that both requests in series leave what they must. Raises Inconclusive: else a race proves nothing."""
    requests = (pair.one, pair.other)
    came = {number: requests[number].send() for number in order}
    answers = (came[0], came[1])
    if pair.seen() not in _ends(race, answers, order, needs_reason=False):
        raise Inconclusive(
            f"the control failed: {race.names[order[0]]} and then {race.names[order[1]]}, one after the other, were "
            f"answered {came[order[0]]} and {came[order[1]]}, and then: {pair.words()}"
        )


def _race(
    race: Race, pair: Pair, number: int, senders: ThreadPoolExecutor, tally: RaceTally, counting: threading.Lock
) -> None:
    lead = LEADS_SECONDS[number % len(LEADS_SECONDS)]
    waits = (0.0, lead) if number // len(LEADS_SECONDS) % 2 else (lead, 0.0)
    barrier = threading.Barrier(2)

    def sent(request: Prepared, wait: float) -> tuple[Answer, float, float]:
        barrier.wait()
        if wait:
            time.sleep(wait)
        began = time.monotonic()
        return request.send(), began, time.monotonic()

    both = [senders.submit(sent, request, wait) for request, wait in zip((pair.one, pair.other), waits, strict=True)]
    (first, began, ended), (second, other_began, other_ended) = (each.result() for each in both)
    answers = (first, second)
    order = explained(race, answers, pair.seen())
    with counting:
        tally.pairs += 1
        tally.met += began < other_ended and other_began < ended
        tally.accepted.update(name for number, name in enumerate(race.names) if race.done(number, answers[number]))
        tally.answers[" and ".join(str(answer.status) for answer in answers)] += 1
        if order is None:
            tally.unexplained.append(RacedPair(pair, answers))
        else:
            tally.firsts[order] += 1


def _unexplained(race: Race, tally: RaceTally) -> list[tuple[EndState, str, RacedPair]]:
    """Read the versions of unexplained pairs again; return those that remain so, with their state in words."""
    if tally.unexplained:
        time.sleep(SETTLED_SECONDS)
    found = []
    for raced in tally.unexplained:
        pair, answers = raced
        end = pair.seen()
        order = explained(race, answers, end)
        if order is not None:
            tally.firsts[order] += 1
            continue
        words = ", ".join(f"{name} was answered {answer}" for name, answer in zip(race.names, answers, strict=True))
        found.append((race.judge(end, race.done(1, answers[1])), f"{words}, and then: {pair.words()}", raced))
    return found


def explained(race: Race, answers: tuple[Answer, Answer], end: Model) -> str | None:
    """Return which request came first; EITHER if both orders explain answers and state; None if neither does.

    An accepted request had its effect; a refused one had none. After an error of the server (5xx, 429) it is unknown. A
    platform may refuse a request without need during another one; then UNTOLD is returned.
    """
    for needs_reason in (True, False):
        firsts = [race.names[order[0]] for order in ORDERS if end in _ends(race, answers, order, needs_reason)]
        if firsts:
            return UNTOLD if not needs_reason else firsts[0] if len(firsts) == 1 else EITHER
    return None


def _ends(race: Race, answers: tuple[Answer, Answer], order: tuple[int, int], needs_reason: bool) -> set[Model]:
    """Return the possible states after this order; with ``needs_reason`` only a required refusal may happen."""
    models: set[Model] = {race.start}
    for number in order:
        answer = answers[number]
        results = {model: race.steps[number](model) for model in models}
        after = {new for news in results.values() for new in news if new is not None}
        if race.done(number, answer):
            models = after
        elif not answer.ok and not answer.refused:
            models |= after
        elif needs_reason:
            models = {model for model, news in results.items() if None in news}
    return {race.shown(model) for model in models}


def _summary(tally: RaceTally) -> str:
    firsts = ", ".join(f"{name} {count}" for name, count in tally.firsts.most_common())
    answers = ", ".join(f"{statuses} {count} times" for statuses, count in tally.answers.most_common())
    return f"{tally.pairs} pairs, {tally.met} of which overlapped; first: {firsts or 'none'}; answers: {answers}"


def _completed(number: int, answer: Answer) -> bool:
    """Return whether a completion was accepted: its 200 may contain an error."""
    return answer.ok and (number == 1 or not answer.elements("Error"))


# ---- prepared requests


def _put(case: Case, lock: ObjectLock | None = None) -> Version:
    answer, version = case.put(lock=lock)
    if not answer.ok or not version.id:
        raise Inconclusive(f"an object could not be prepared: PUT answered {answer}")
    return version


def _lock(case: Case) -> ObjectLock:
    return case.lock(seconds=RACE_LOCK_SECONDS)


def _later(lock: ObjectLock, seconds: float) -> ObjectLock:
    return ObjectLock(lock.mode, lock.until + timedelta(seconds=seconds))


def _delete_and(case: Case, version: Version, other: Prepared) -> tuple[Prepared, Prepared]:
    query = (("versionId", version.id),)
    return prepare(case.client, "DELETE", version.bucket, version.key, query=query), other


def _retention(case: Case, version: Version, lock: ObjectLock, *, bypass: bool = False) -> Prepared:
    inner = f"<Mode>{lock.mode}</Mode><RetainUntilDate>{iso(lock.until)}</RetainUntilDate>"
    return _xml(case, version, "retention", f'<Retention xmlns="{ROOT}">{inner}</Retention>', bypass=bypass)


def _hold(case: Case, version: Version) -> Prepared:
    return _xml(case, version, "legal-hold", f'<LegalHold xmlns="{ROOT}"><Status>ON</Status></LegalHold>')


def _annotate(case: Case, version: Version, what: str) -> Prepared:
    if what == "tagging":
        tags = "<TagSet><Tag><Key>class</Key><Value>record</Value></Tag></TagSet>"
        return _xml(case, version, what, f'<Tagging xmlns="{ROOT}">{tags}</Tagging>')
    query = ((what, None), ("versionId", version.id))
    return prepare(case.client, "PUT", version.bucket, version.key, query=query, headers=[("x-amz-acl", "private")])


def _is_offered(request: Prepared) -> bool:
    try:
        return request.send().ok
    except NotOffered:
        return False


def _xml(case: Case, version: Version, what: str, xml: str, *, bypass: bool = False) -> Prepared:
    body = xml.encode()
    query = ((what, None), ("versionId", version.id)) if version.id else ((what, None),)
    headers = [("Content-MD5", md5_of(body)), *(BYPASS if bypass else ())]
    return prepare(case.client, "PUT", version.bucket, version.key, query=query, headers=headers, body=body)


# ---- the resulting state


def _has(state: VersionState, lock: ObjectLock) -> bool:
    return state.mode == lock.mode and same_instant(state.until, lock.until)


def _retained(case: Case, version: Version, lock: ObjectLock) -> tuple[Callable[[], Model], Callable[[], str]]:
    """Return functions that read whether the version is gone, has this lock, or does not have it."""

    def seen() -> Model:
        state = case.state(version)
        if state.body is None:
            return GONE
        return OTHER_BYTES if state.body != version.body else "locked" if _has(state, lock) else "free"

    return seen, _words(case, version)


def _dated(case: Case, version: Version, locks: dict[str, ObjectLock]) -> Callable[[], Model]:
    """Return a function that reads which of these locks the version has."""

    def seen() -> Model:
        state = case.state(version)
        if state.body is None:
            return GONE
        return next((name for name, lock in locks.items() if _has(state, lock)), words_of(state))

    return seen


def _words(case: Case, version: Version) -> Callable[[], str]:
    return lambda: f"version {version.id} of {version.key}: {words_of(case.state(version))}"


def _delete_unless_locked(model: Model) -> Sequence[Model | None]:
    return (GONE,) if model == "free" else (None,)


def _lock_it(model: Model) -> Sequence[Model | None]:
    return (None,) if model == GONE else ("locked",)
