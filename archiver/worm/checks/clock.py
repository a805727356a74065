"""CLK: when a retention ends, to the second, and the date formats that say so.

One idea: the server's clock is known only within bounds, because a Date header has whole seconds and some servers renew
it once a second. Only what is certain within the bounds, or what two versions show side by side, is a failure.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

from archiver.worm import listing
from archiver.worm.case import ANY_REFUSAL, GOVERNANCE, ROOT, Case, ObjectLock, Version, iso, same_instant, words_of
from archiver.worm.checks import check
from archiver.worm.checks.batch import batch_answer_of
from archiver.worm.prepared import prepare
from archiver.worm.requests.exchange import Answer
from archiver.worm.verdict import Failed, Inconclusive, NotOffered, NotTried

SHORT_SECONDS = 4.0  # of locks whose end a check waits for
LOOPBACK = ("localhost", "127.0.0.1", "::1")
GRACE_LOCAL_SECONDS = 1.0
GRACE_SECONDS = 5.0
DATE_STEP_SECONDS = 1.0  # a Date has whole seconds
DATE_AGE_SECONDS_MAX = 1.0  # some servers renew it once a second
CLOCK_SECONDS_MAX = 2.0  # beyond it, we cannot tell whose clock is wrong
SAMPLES = 3
FLIP_SECONDS = 1.2  # in this time the second of a Date changes once
POLL_SECONDS = 0.1
EARLY_SECONDS = (2.0, 0.5)  # first attempts, before the date
WATCH_SECONDS = 3.0  # last attempt, after the date
FRACTION_SECONDS = 0.9
EARLY_SECONDS_MIN = 1.0  # a deletion this much too early loses a record inside its period
FRACTION_TOLERANCE_SECONDS = 0.25
SKEW_SECONDS = 16 * 60.0
READ_BYTES = 4 << 20
READERS = 3
BATCHES, BATCH_ENTRIES, BATCH_SPACING_SECONDS = 8, 20, 0.25
LEAP_DAY = datetime(2032, 2, 29, 12, tzinfo=UTC)
BEYOND_32_BITS = datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC)
NO_LEAP_YEAR = datetime(2100, 3, 1, tzinfo=UTC)
FAR_HOURS = 15  # in the future in every time zone


class ServerClock(NamedTuple):
    """Bounds of the server's clock minus ours, in seconds."""

    low: float
    high: float


class Release(NamedTuple):
    """When the first successful delete was sent and answered, by our clock; None if none succeeded."""

    sent_at: float | None
    answered_at: float | None


def clock_of(case: Case) -> ServerClock:
    """Compute the bounds from many Date headers. Raises Inconclusive if the headers contradict each other."""
    began, samples = time.time(), []
    while time.time() - began < FLIP_SECONDS:
        samples.append(_bounds(case))
        time.sleep(0.02)
    low, high = max(sample.low for sample in samples), min(sample.high for sample in samples)
    if low > high:
        raise Inconclusive("the Date headers of this platform contradict each other; see CLK-05")
    is_ours = urlsplit(case.client.endpoint).hostname in LOOPBACK and low <= 0.0 <= high
    return ServerClock(0.0, 0.0) if is_ours else ServerClock(low, high)


@check("CLK-01")
def not_before_the_date(case: Case) -> None:
    clock = clock_of(case)
    case.control()
    whole = datetime.fromtimestamp(int(case.now().timestamp() + SHORT_SECONDS) + 1, UTC)
    fraction = whole + timedelta(seconds=FRACTION_SECONDS)
    versions = [(date, case.stored(lock=ObjectLock(GOVERNANCE, date))) for date in (whole, fraction)]
    with ThreadPoolExecutor(len(versions)) as pool:
        watched = [pool.submit(_first_delete, case, clock, date, version) for date, version in versions]
        at_whole, at_fraction = (each.result() for each in watched)
    for date, release in ((whole, at_whole), (fraction, at_fraction)):
        if release.answered_at is None:
            case.notes.append(f"a lock until {iso(date)} was still in force {WATCH_SECONDS:.0f} s later; see CLK-02")
            continue
        # The answer comes after the deletion, so both bounds favour the platform.
        surely = release.answered_at + clock.high - date.timestamp()
        if surely < 0:
            words = f"a version locked until {iso(date)} was deleted at least {-surely:.2f} s before"
            raise Failed(words, "S1" if surely <= -EARLY_SECONDS_MIN else "S2")
        case.notes.append(f"a lock until {iso(date)} ended {release.answered_at + clock.low - date.timestamp():+.2f} s")
    if at_whole.sent_at is None or at_fraction.answered_at is None:
        return
    between = at_fraction.answered_at - at_whole.sent_at
    early = fraction.timestamp() - (at_fraction.answered_at + clock.low)
    if early > FRACTION_TOLERANCE_SECONDS and between < FRACTION_SECONDS - FRACTION_TOLERANCE_SECONDS:
        raise Failed(
            f"the fraction of a date is cut off: locks until {iso(whole)} and {iso(fraction)} "
            f"ended {between:.2f} s apart"
        )


@check("CLK-02")
def after_the_date(case: Case) -> None:
    version, until = _short(case)
    grace = GRACE_LOCAL_SECONDS if urlsplit(case.client.endpoint).hostname in LOOPBACK else GRACE_SECONDS
    # Our estimate of the server's clock is off by up to half a second.
    case.wait_until(until + timedelta(seconds=grace + DATE_STEP_SECONDS / 2))
    answer = case.delete(version)
    case.must_allow(answer, f"deleting a version {grace:.0f} s after its retention", "204")
    case.must_be_gone(version, "deleting a version after its retention")


@check("CLK-03")
def expiry_during_use(case: Case) -> None:
    lock = case.lock(seconds=SHORT_SECONDS + 3.0)
    read = case.stored(body=secrets.token_bytes(READ_BYTES), lock=lock)
    with ThreadPoolExecutor(READERS) as pool:
        made = list(pool.map(lambda _: case.put(lock=lock), range(BATCHES * BATCH_ENTRIES)))
    if any(not answer.ok or not version.id for answer, version in made):
        raise Inconclusive("versions could not be prepared before their retention ended")
    versions = [version for _, version in made]
    begin, end = lock.until - timedelta(seconds=1), lock.until + timedelta(seconds=1)

    def read_on(ranged: bool) -> int:
        case.wait_until(begin)
        reads = 0
        while case.now() < end:
            _read(case, read, lock, ranged)
            reads += 1
        return reads

    def delete_on() -> None:
        for number in range(BATCHES):
            case.wait_until(begin + timedelta(seconds=number * BATCH_SPACING_SECONDS))
            _delete_and_compare(case, versions[number * BATCH_ENTRIES : (number + 1) * BATCH_ENTRIES])

    with ThreadPoolExecutor(READERS + 1) as pool:
        deleting = pool.submit(delete_on)
        reading = [pool.submit(read_on, number > 0) for number in range(READERS)]
        counts = [each.result() for each in reading]
        deleting.result()
    case.notes.append(
        f"from 1 s before to 1 s after: {counts[0]} whole reads, {sum(counts[1:])} of ranges, "
        f"{BATCHES} batches of {BATCH_ENTRIES}"
    )


@check("CLK-04")
def expiry_during_cleanup(case: Case) -> None:
    prefix = case.key("/")
    dates = [case.lock(seconds=SHORT_SECONDS + number).until for number in range(3)]
    versions = [case.stored(f"{prefix}{n}", lock=ObjectLock(GOVERNANCE, date)) for n, date in enumerate(dates)]

    def pass_over() -> list[listing.ListedVersion]:
        left = [entry for page in listing.versions(case, case.bucket, prefix) for entry in page]
        answer = case.delete_many(case.bucket, [(entry.key, entry.id) for entry in left])
        case.must_allow(answer, "a batch of versions whose retention ends one after the other")
        return left

    if len(pass_over()) != len(versions):
        raise Failed("a list of versions does not show every locked version")
    for version in versions:
        if case.state(version).body is None and case.now() < dates[0] - timedelta(seconds=1):
            raise Inconclusive("a batch deleted a version before its date; see BAT-01 and CLK-01")
    case.wait_until(dates[1])
    pass_over()
    case.wait_until(dates[-1] + timedelta(seconds=GRACE_SECONDS))
    pass_over()
    left = [entry for page in listing.versions(case, case.bucket, prefix) for entry in page]
    if left:
        raise Failed(f"{len(left)} of {len(versions)} versions remain {GRACE_SECONDS:.0f} s after the last date")


@check("CLK-05")
def server_clock(case: Case) -> None:
    samples = []
    for _ in range(SAMPLES):
        samples.append(_bounds(case))
        time.sleep(0.4)
    low, high = max(sample.low for sample in samples), min(sample.high for sample in samples)
    if low > high:
        raise Failed(f"{SAMPLES} answers within seconds report times that are {low - high:.1f} s or more apart")
    if low > CLOCK_SECONDS_MAX or high < -CLOCK_SECONDS_MAX:
        raise Inconclusive(
            f"the server's clock and ours are {(low + high) / 2:.0f} s apart: "
            "nothing that depends on time can be judged before they agree"
        )
    case.notes.append(f"the server's clock minus ours is between {low:+.2f} and {high:+.2f} s")


@check("CLK-06")
def dates_in_other_forms(case: Case) -> None:
    near = (case.now() + timedelta(seconds=90)).replace(microsecond=0)
    offsets = {
        "an offset of +02:00": near.astimezone(timezone(timedelta(hours=2))).isoformat(),
        "an offset of -05:30": near.astimezone(timezone(-timedelta(hours=5, minutes=30))).isoformat(),
    }
    far = {"a leap day": LEAP_DAY, "a date beyond 32 bits": BEYOND_32_BITS, "the year 2100": NO_LEAP_YEAR}
    # Nothing may stay locked for years: first check that this credential can remove such a lock.
    preflight = case.locked()
    case.delete(preflight, bypass=True)
    can_undo = case.state(preflight).body is None

    def in_form(text: str, date: datetime, ask: Callable[[Case, str], tuple[Answer, Version]]) -> None:
        if date > near and not can_undo:
            raise NotTried("this credential could not remove the lock: the bypass header has no effect")
        answer, version = ask(case, text)
        state = case.state(version) if version.id else None
        if date > near and version.id:
            case.delete(version, bypass=True)
            if case.state(version).body is not None:
                case.notes.append(f"version {version.id} of {version.key} stays locked until {iso(date)}")
        if not answer.ok and date > near:
            raise Failed(f"a lock until {text} must be allowed, and was answered {answer}")
        if not answer.ok:
            case.deviate(f"a lock until {text} was answered {answer}, though it is a valid ISO 8601 date")
        elif state is None or state.mode is None:
            raise Failed(f"a lock until {text} was accepted, but the version has none")
        elif not same_instant(state.until, date):
            raise Failed(f"a lock until {text} became {words_of(state)}")

    forms = [
        *((name, text, near) for name, text in offsets.items()),
        ("no fraction", near.strftime("%Y-%m-%dT%H:%M:%SZ"), near),
        *((name, date.strftime("%Y-%m-%dT%H:%M:%SZ"), date) for name, date in far.items()),
    ]
    case.try_all(
        *(
            (f"{name} in {where}", partial(in_form, text, date, ask))
            for name, text, date in forms
            for where, ask in (("a header", _ask_by_header), ("XML", _ask_by_xml))
        )
    )


@check("CLK-07")
def dates_that_are_none(case: Case) -> None:
    later = case.now() + timedelta(hours=FAR_HOURS)
    without_zone = later.strftime("%Y-%m-%dT%H:%M:%S")
    forms = {
        "no zone": without_zone,
        "a date only": (later + timedelta(days=1)).strftime("%Y-%m-%d"),
        "an epoch number": str(int(later.timestamp())),
    }

    def is_utc(version: Version, answer: Answer, what: str) -> bool:
        """Return whether the platform read the date as UTC and kept it, which does no harm."""
        if not answer.ok or not same_instant(case.state(version).until, later):
            return False
        case.notes.append(f"{what} is taken for UTC")
        return True

    def in_header(text: str) -> None:
        answer, version = case.put(headers=_lock_headers(text))
        what = f"a PUT locked until {text!r}"
        if text == without_zone and is_utc(version, answer, what):
            return
        aws = ANY_REFUSAL if text == without_zone else "400 InvalidArgument"
        listing.must_store_nothing(case, answer, what, aws, version.bucket, version.key)

    def in_xml(text: str) -> None:
        version = case.stored()
        answer = case.put_xml(version, "retention", _retention(text))
        if text == without_zone and is_utc(version, answer, f"a retention until {text!r}"):
            return
        state = case.state(version)
        if state.mode is not None:
            raise Failed(f"a retention until {text!r} was answered {answer} and became {words_of(state)}")
        case.must_survive(version, unlocked=True)
        aws = ANY_REFUSAL if text == without_zone else "400 MalformedXML InvalidArgument"
        case.must_refuse(answer, f"a retention until {text!r}", aws)

    case.try_all(
        *((f"{name} in a header", partial(in_header, text)) for name, text in forms.items()),
        *((f"{name} in XML", partial(in_xml, text)) for name, text in forms.items()),
    )


@check("CLK-08")
def skewed_request(case: Case) -> None:
    def dated(shift_seconds: float) -> Callable[[], None]:
        def attempt() -> None:
            version = case.stored()
            answer = _delete_dated(case, version, shift_seconds)
            if case.state(version).body is None:
                raise Failed(f"a delete signed {shift_seconds / 60:+.0f} minutes off the clock was carried out")
            case.must_refuse(answer, "a request that is dated 16 minutes off", "403 RequestTimeTooSkewed")

        return attempt

    control = case.stored()
    answer = _delete_dated(case, control, 0.0)
    if case.state(control).body is not None:
        raise Inconclusive(f"the control failed: the same request with the right date was answered {answer}")
    case.try_all(("in the past", dated(-SKEW_SECONDS)), ("in the future", dated(SKEW_SECONDS)))


@check("CLK-10")
def expired_lock_is_shown(case: Case) -> None:
    version, until = _short(case)
    case.wait_until(until + timedelta(seconds=GRACE_LOCAL_SECONDS))
    state = case.state(version)
    if state.body is None:
        raise Failed("a version was gone after its retention, though no request deleted it")
    if state.mode is None:
        case.deviate("a lock that has ended is no longer shown; expected with its date")
    elif not same_instant(state.until, until):
        raise Failed(f"a lock that ended at {iso(until)} is shown as {words_of(state)}")


def _short(case: Case) -> tuple[Version, datetime]:
    """Store a version whose retention ends soon."""
    lock = case.lock(seconds=SHORT_SECONDS)
    return case.stored(lock=lock), lock.until


def _bounds(case: Case) -> ServerClock:
    """Return the bounds that one answer gives. Raises NotOffered if it has no Date."""
    before = time.time()
    answer = case.client.send("HEAD", case.bucket)
    after = time.time()
    if "date" not in answer.headers:
        raise NotOffered("its answers have no Date header")
    date_seconds = parsedate_to_datetime(answer.headers["date"]).timestamp()
    return ServerClock(date_seconds - after, date_seconds + DATE_STEP_SECONDS + DATE_AGE_SECONDS_MAX - before)


def _first_delete(case: Case, clock: ServerClock, date: datetime, version: Version) -> Release:
    """Delete the version repeatedly around its date."""
    end = date.timestamp() - clock.low  # by our clock; later if the bounds differ
    polls = int((EARLY_SECONDS[-1] + WATCH_SECONDS) / POLL_SECONDS)
    for at in (-EARLY_SECONDS[0], *(number * POLL_SECONDS - EARLY_SECONDS[-1] for number in range(polls))):
        time.sleep(max(0.0, end + at - time.time()))
        sent = time.time()
        answer = case.delete(version)
        answered = time.time()
        if answer.ok and case.state(version).body is None:
            return Release(sent, answered)
        if case.state(version).body is None:
            raise Failed(f"deleting a version under GOVERNANCE was answered {answer}, and it is gone")
    return Release(None, None)


def _read(case: Case, version: Version, lock: ObjectLock, ranged: bool) -> None:
    first = secrets.randbelow(READ_BYTES // 2) if ranged else 0
    last = first + READ_BYTES // 2 - 1 if ranged else READ_BYTES - 1
    headers = [("Range", f"bytes={first}-{last}")] if ranged else []
    answer = case.client.send("GET", version.bucket, version.key, query=(("versionId", version.id),), headers=headers)
    if not answer.ok or answer.body != version.body[first : last + 1]:
        late = (case.now() - lock.until).total_seconds()
        came = f"was answered {answer}" if not answer.ok else "gave other bytes"
        raise Failed(f"a read that ended {late:+.2f} s from the end of the retention {came}")


def _delete_and_compare(case: Case, versions: list[Version]) -> None:
    """Delete versions in a batch around their date, and check that its answer lists what happened to each."""
    answer = case.delete_many(versions[0].bucket, [(version.key, version.id) for version in versions])
    case.must_allow(answer, "a batch while retention ends")
    listed = batch_answer_of(answer)
    for version in versions:
        gone = case.state(version).body is None
        if gone and (version.key, version.id) in listed.errors:
            raise Failed(f"version {version.id} is gone, though its entry was refused while its retention ended")
        if not gone and (version.key, version.id) in listed.deleted:
            raise Failed(f"version {version.id} is still there, though it was listed as deleted")


def _lock_headers(date: str) -> tuple[tuple[str, str], ...]:
    return (("x-amz-object-lock-mode", GOVERNANCE), ("x-amz-object-lock-retain-until-date", date))


def _retention(date: str) -> str:
    return f'<Retention xmlns="{ROOT}"><Mode>{GOVERNANCE}</Mode><RetainUntilDate>{date}</RetainUntilDate></Retention>'


def _ask_by_header(case: Case, date: str) -> tuple[Answer, Version]:
    return case.put(headers=_lock_headers(date))


def _ask_by_xml(case: Case, date: str) -> tuple[Answer, Version]:
    version = case.stored()
    return case.put_xml(version, "retention", _retention(date)), version


def _delete_dated(case: Case, version: Version, shift_seconds: float) -> Answer:
    request = prepare(
        case.client, "DELETE", version.bucket, version.key,
        query=(("versionId", version.id),), shift_seconds=case.clock_offset_seconds + shift_seconds,
    )  # fmt: skip
    return request.send()
