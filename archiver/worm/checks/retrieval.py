"""VER: reading objects back, and what the platform says about them."""

from __future__ import annotations

import secrets
import time
from base64 import b64decode
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import pairwise
from threading import Event
from typing import NamedTuple

from archiver.worm import multipart
from archiver.worm.case import Case, ObjectLock, Version, instant_of, iso, md5_of, same_instant, words_of
from archiver.worm.checks import check
from archiver.worm.listing import ListedVersion, versions
from archiver.worm.requests.checksums import KINDS, checksum_of
from archiver.worm.requests.exchange import Answer, Headers, RecordedExchange
from archiver.worm.verdict import Failed, Inconclusive, NotOffered, NotTried

SIZES = (1, 4096, 131_072, 131_073, 1 << 20)  # around sizes at which platforms change how they store bytes
VERSIONS_OF_ONE_KEY = 5
PAGE_ENTRIES = 7
PAGE_ENTRIES_MAX = 1000  # on a page of a listing
PUTS = 1000
PUTS_SECONDS_MAX = 45.0
PUT_KEYS = 10
PUTS_AT_ONCE = 8
CLOCK_SECONDS = 2.0  # Last-Modified and Date have whole seconds each
CHANGES = 25
READERS = 4
_MODE, _UNTIL = "x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date"
_ASK: Headers = (("x-amz-checksum-mode", "ENABLED"),)


# ---- bytes and checksums


@check("VER-01")
def read_back_every_version(case: Case) -> None:
    key = case.key()
    kept = [_sent(case, case.key(), secrets.token_bytes(size)) for size in SIZES]
    # All have the same length, so that only their bytes differ.
    kept += [_sent(case, key, f"version {secrets.token_hex(8)}".encode()) for _ in range(VERSIONS_OF_ONE_KEY)]
    case.delete_key(case.bucket, key)
    for version in kept:
        answer = case.client.send("GET", version.bucket, version.key, query=(("versionId", version.id),), headers=_ASK)
        where = f"version {version.id} of {len(version.body)} bytes"
        if not answer.ok:
            raise Failed(f"{where} cannot be read: {answer}")
        if answer.body != version.body:
            raise Failed(f"{where} was read with other bytes than were stored ({len(answer.body)} bytes)")
        given = answer.headers.get("x-amz-checksum-sha256")
        if given is not None and given != checksum_of("sha256", version.body):
            raise Failed(f"{where} was read with the SHA-256 {given}, which is not that of its bytes")
        if answer.version_id != version.id:
            case.deviate(f"GET of one version names {answer.version_id or 'no version'} in its answer", answer)
    case.must_survive(*kept)


def _sent(case: Case, key: str, body: bytes) -> Version:
    return case.stored(key, body, lock=case.lock(), headers=(("x-amz-checksum-sha256", checksum_of("sha256", body)),))


@check("VER-02")
def checksums_are_given_back(case: Case) -> None:
    case.try_all(
        *((kind, partial(_checksum_is_given_back, case, kind)) for kind in KINDS),
        ("MD5 as ETag", partial(_etag_is_md5, case)),
    )


def _checksum_is_given_back(case: Case, kind: str) -> None:
    body, header = f"{kind} {secrets.token_hex(8)}".encode(), f"x-amz-checksum-{kind}"
    value = checksum_of(kind, body)
    answer, version = case.put(None, body, lock=case.lock(), headers=((header, value),))
    if not answer.ok:
        raise NotOffered(f"PUT with {header} was answered {answer}")
    for method in ("HEAD", "GET"):
        read = case.client.send(method, version.bucket, version.key, query=(("versionId", version.id),), headers=_ASK)
        if read.headers.get(header) != value:
            raise Failed(f"sent {value}, and {method} returns {read.headers.get(header, 'none')}")


def _etag_is_md5(case: Case) -> None:
    version = case.locked()
    etag = case.state(version).headers.get("etag", "").strip('"')
    if etag != _hex_md5(version.body):
        case.deviate(f"the ETag {etag or '(none)'} is not the MD5 of the bytes; {case.expected('the MD5')}")


def _hex_md5(body: bytes) -> str:
    return b64decode(md5_of(body)).hex()


# ---- ranges and parts


@check("VER-03")
def read_pieces_of_locked_objects(case: Case) -> None:
    pieces = [secrets.token_bytes(multipart.PART_BYTES_MIN), secrets.token_bytes(1000)]

    def in_one() -> None:
        _read_ranges(case, case.stored(None, b"".join(pieces), lock=case.lock()), len(pieces[0]))

    def in_parts() -> None:
        answer, version = multipart.uploaded(case, pieces, lock=case.lock())
        if not answer.ok:
            raise NotOffered(f"a multipart upload with a lock was answered {answer}")
        if not version.id:
            raise Inconclusive("a multipart upload does not return the version's id")
        case.try_all(
            ("ranges", partial(_read_ranges, case, version, len(pieces[0]))),
            ("part numbers", partial(_read_parts, case, version, pieces)),
        )

    case.try_all(("one PUT", in_one), ("multipart", in_parts))


def _read_ranges(case: Case, version: Version, edge: int) -> None:
    body, end = version.body, len(version.body)
    wanted = {
        "0-0": (0, 1),
        f"{edge - 10}-{edge + 9}": (edge - 10, edge + 10),
        f"{edge}-": (edge, end),
        f"{end - 1}-{end + 100}": (end - 1, end),
        "-5": (end - 5, end),
    }
    for words, (first, after) in wanted.items():
        answer = _read(case, version, (), (("Range", f"bytes={words}"),))
        if answer.status == 200 and answer.body == body:
            case.deviate(f"a Range is ignored, and the whole object is returned; {case.expected('206')}")
            continue
        if not answer.ok or answer.body != body[first:after]:
            raise Failed(
                f"bytes={words} of {end} was answered {answer}, {len(answer.body)} bytes, not those stored there"
            )
        content_range = answer.headers.get("content-range")
        if answer.status != 206 or content_range != f"bytes {first}-{after - 1}/{end}":
            case.deviate(f"bytes={words} of {end} was answered {answer} with Content-Range {content_range or 'none'}")
    beyond = _read(case, version, (), (("Range", f"bytes={end}-"),))
    if beyond.status != 416:
        case.deviate(f"a range beyond the end was answered {beyond}; {case.expected('416 InvalidRange')}")


def _read_parts(case: Case, version: Version, pieces: list[bytes]) -> None:
    for number, piece in enumerate(pieces, start=1):
        answer = _read(case, version, (("partNumber", str(number)),))
        if answer.ok and answer.body == version.body:
            raise NotOffered("a part number is ignored, and the whole object is returned")
        if not answer.ok or answer.body != piece:
            raise Failed(
                f"part {number} was answered {answer}, {len(answer.body)} bytes, not the {len(piece)} uploaded"
            )
        parts_count = answer.headers.get("x-amz-mp-parts-count")
        if parts_count != str(len(pieces)):
            case.deviate(f"reading part {number} of {len(pieces)} reports {parts_count or 'no'} parts")


def _read(case: Case, version: Version, query: tuple[tuple[str, str], ...] = (), headers: Headers = ()) -> Answer:
    return case.client.send(
        "GET", version.bucket, version.key, query=(("versionId", version.id), *query), headers=headers
    )


# ---- lists


class _Made(NamedTuple):
    """A version or a delete marker that the list must show."""

    key: str
    id: str
    is_marker: bool
    bytes: int | None


@check("VER-04")
def list_every_version_once(case: Case) -> None:
    case.try_all(
        (f"pages of {PAGE_ENTRIES}", partial(_list_short_pages, case)),
        (f"more than {PAGE_ENTRIES_MAX}", partial(_list_a_full_page, case)),
    )


def _list_short_pages(case: Case) -> None:
    """List keys with special characters, many versions, and markers between them, in short pages."""
    stem, made = case.key("/"), []
    for name in ("a", "a b+c&d%", "b/c", "b/d/e", "z", "ü<記録>"):
        for number in range(4):
            version = case.stored(stem + name, f"{name} {'+' * number}".encode())
            made.append(_Made(version.key, version.id, False, len(version.body)))
            if number == 1 or name == "z":
                answer = case.delete_key(case.bucket, version.key)
                if not answer.ok or not answer.version_id:
                    raise Inconclusive(f"deleting by key was answered {answer}, with no marker's id")
                made.append(_Made(version.key, answer.version_id, True, None))
    for page_entries in (PAGE_ENTRIES, 1, None):  # None: the platform's choice
        pages = versions(case, case.bucket, stem, page_entries=page_entries)
        longest = max(len(page) for page in pages)
        if page_entries is not None and longest > page_entries:
            case.deviate(f"a page of {page_entries} has {longest} entries")
        _judge_list(case, made, pages)


def _list_a_full_page(case: Case) -> None:
    stem, count = case.key("/"), PAGE_ENTRIES_MAX + 1
    unseen, ends = case.unrecorded(), time.monotonic() + PUTS_SECONDS_MAX

    def one(number: int) -> _Made:
        if time.monotonic() > ends:
            raise NotTried(f"{count} versions cannot be created in {PUTS_SECONDS_MAX:.0f} s")
        answer, version = case.put(f"{stem}{number % 100:03d}", f"version {number}".encode(), client=unseen)
        if not answer.ok or not version.id:
            raise Inconclusive(f"PUT {number} was answered {answer}, version {version.id or 'none'}")
        return _Made(version.key, version.id, False, len(version.body))

    with ThreadPoolExecutor(PUTS_AT_ONCE) as pool:
        made = list(pool.map(one, range(count)))
    case.notes.append(f"{count} PUTs for the list are not in the evidence")
    pages = versions(case, case.bucket, stem)
    _judge_list(case, made, pages, is_in_order=False)
    if len(pages) == 1:
        case.deviate(f"one page has {len(pages[0])} entries; {case.expected('at most 1000 entries')}")


def _judge_list(case: Case, made: list[_Made], pages: list[list[ListedVersion]], *, is_in_order: bool = True) -> None:
    """Compare a list with what was created.

    ``is_in_order`` is False if the versions of a key were created at the same time, so that their order is unknown.
    """
    listed = [entry for page in pages for entry in page]
    times = Counter((entry.key, entry.id) for entry in listed)
    wanted = {(each.key, each.id): each for each in made}
    latest = {each.key: each.id for each in made}
    for place, each in wanted.items():
        if times[place] != 1:
            what = "marker" if each.is_marker else "version"
            raise Failed(f"{what} {each.id} of {each.key} is {times[place]} times in a list of {len(pages)} pages")
    for entry in listed:
        if (entry.key, entry.id) not in wanted:
            raise Failed(f"version {entry.id} of {entry.key} is in the list, but was never created")
        each = wanted[entry.key, entry.id]
        has_size = each.is_marker or entry.bytes == each.bytes
        if entry.is_marker != each.is_marker or not has_size or entry.at is None:
            raise Failed(f"a {'marker' if each.is_marker else 'version'} of {each.bytes} bytes is listed as {entry}")
        if is_in_order and entry.is_latest != (latest[entry.key] == entry.id):
            raise Failed(
                f"version {entry.id} of {entry.key} is listed as {'' if entry.is_latest else 'not '}the latest"
            )
    one_each = Counter(entry.key for entry in listed if entry.is_latest)
    if any(one_each[key] != 1 for key in latest):
        raise Failed("a key has more than one latest version in the list, or none")
    newest_first = [(each.key, each.id) for each in made[::-1]]
    newest_first.sort(key=lambda place: place[0].encode())  # stable sort: versions of a key stay newest first
    found = [(entry.key, entry.id) for entry in listed]
    if is_in_order and sorted(found) == sorted(newest_first) and found != newest_first:
        case.deviate("the list of versions is not ordered by key, newest first")


@check("VER-05")
def ids_and_times_of_many_versions(case: Case) -> None:
    unseen = case.unrecorded()
    stem, ends = case.key("/"), time.monotonic() + PUTS_SECONDS_MAX
    ids: dict[str, int] = {}
    kept: list[str] = []
    for number in range(PUTS):
        if time.monotonic() > ends:
            break
        answer, version = case.put(f"{stem}{number % PUT_KEYS}", b"one of many", client=unseen)
        if not answer.ok or not version.id:
            raise Inconclusive(f"PUT {number} was answered {answer}, version {version.id or 'none'}")
        if version.id in ids:
            raise Failed(f"PUT {number} returned version id {version.id}, which PUT {ids[version.id]} had returned")
        ids[version.id] = number
        if number % 10 == 0:
            if not case.delete(version, client=unseen).ok:
                raise Inconclusive("an unlocked version could not be deleted")
        else:
            kept.append(version.id)
    case.notes.append(f"{len(ids)} PUTs one after another, {len(ids) - len(kept)} of the versions were deleted")
    at = {entry.id: entry.at for page in versions(case, case.bucket, stem) for entry in page}
    if unlisted := [each for each in kept if each not in at]:
        read = case.state(Version(case.bucket, f"{stem}{ids[unlisted[0]] % PUT_KEYS}", unlisted[0], b""))
        left = "which can be read by its id" if read.body is not None else "which cannot be read by its id either"
        raise Failed(
            f"of {len(kept)} acknowledged versions {len(unlisted)} are not in the list, such as {unlisted[0]}, {left}",
            "S1" if read.body is None else "S3",
        )
    known = [(each, moment) for each in kept if (moment := at[each]) is not None]
    if len(known) < len(kept):
        raise Inconclusive(f"of {len(kept)} versions {len(kept) - len(known)} have no time in the list")
    for (before, earlier), (after, later) in pairwise(known):
        if later < earlier:
            raise Failed(f"version {after} was created after {before}, but {iso(later)} is before {iso(earlier)}")


# ---- time


@check("VER-06")
def last_modified_is_the_time_of_storing(case: Case) -> None:
    began = case.now()
    answer, version = case.put(lock=case.lock())
    ended = case.now()
    if not answer.ok or not version.id:
        raise Inconclusive(f"PUT was answered {answer}, version {version.id or 'none'}")
    allowed = timedelta(seconds=CLOCK_SECONDS)
    first = _last_modified(case, version)
    if not began - allowed <= first <= ended + allowed:
        raise Failed(f"stored between {iso(began)} and {iso(ended)} by the server's clock, Last-Modified {iso(first)}")
    case.wait_until(ended + allowed + timedelta(seconds=0.5))
    longer = ObjectLock(case.lock().mode, case.lock().until + timedelta(seconds=5))
    case.must_allow(case.set_retention(version, longer), "a longer retention")
    for method in ("HEAD", "GET"):
        then = _last_modified(case, version, method)
        if then != first:
            raise Failed(f"Last-Modified was {iso(first)}, and after a longer retention {method} shows {iso(then)}")
    listed = [entry for page in versions(case, case.bucket, version.key) for entry in page if entry.id == version.id]
    if not listed or not same_instant(listed[0].at, first):
        shown = iso(listed[0].at) if listed and listed[0].at else "nothing"
        raise Failed(f"Last-Modified is {iso(first)} by HEAD, and the list of versions shows {shown}")
    case.notes.append(f"the server's clock is {case.clock_offset_seconds:+.1f} s from this machine's")


def _last_modified(case: Case, version: Version, method: str = "HEAD") -> datetime:
    answer = case.client.send(method, version.bucket, version.key, query=(("versionId", version.id),))
    try:
        return parsedate_to_datetime(answer.headers.get("last-modified", "")).astimezone(UTC)
    except ValueError:
        raise Failed(f"{method} shows no Last-Modified: {answer.headers.get('last-modified', 'none')}") from None


# ---- inventory


@check("VER-07")
def inventory_of_locks(case: Case) -> None:
    stem, locks = case.key("/"), (case.lock(), case.lock(seconds=60))
    made: list[tuple[Version, ObjectLock | None, str | None]] = []
    for name, lock, hold in (
        ("retention", locks[0], None),
        ("hold", None, "ON"),
        ("both", locks[1], "ON"),
        ("neither", None, None),
        ("two versions", locks[0], None),
        ("two versions", locks[1], None),
    ):
        body = f"{name} {secrets.token_hex(8)}".encode()
        checksum = ("x-amz-checksum-sha256", checksum_of("sha256", body))
        made.append((case.stored(stem + name, body, lock=lock, hold=hold, headers=(checksum,)), lock, hold))
    listed = {(entry.key, entry.id): entry for page in versions(case, case.bucket, stem) for entry in page}
    parts = [
        (version.key.removeprefix(stem), partial(_inventory_row, case, listed, version, lock, hold))
        for version, lock, hold in made
    ]
    case.try_all(*parts)
    case.notes.append(f"{len(made)} rows of key, version, size, checksum, mode, date and hold, by list and HEAD")


def _inventory_row(
    case: Case,
    listed: dict[tuple[str, str], ListedVersion],
    version: Version,
    lock: ObjectLock | None,
    hold: str | None,
) -> None:
    entry = listed.get((version.key, version.id))
    if entry is None or entry.bytes != len(version.body):
        raise Failed(f"version {version.id} is not in the list with its size")
    head = case.client.send("HEAD", version.bucket, version.key, query=(("versionId", version.id),), headers=_ASK)
    sums = (head.headers.get("x-amz-checksum-sha256"), head.headers.get("etag", "").strip('"'))
    if sums[0] != checksum_of("sha256", version.body) and sums[1] != _hex_md5(version.body):
        raise Failed(f"HEAD shows no checksum of the bytes: SHA-256 {sums[0] or 'none'}, ETag {sums[1] or 'none'}")
    state = case.state(version)
    is_right = state.mode == lock.mode and same_instant(state.until, lock.until) if lock else state.mode is None
    if not is_right or (state.hold == "ON") != (hold == "ON"):
        requested = f"{lock.mode} until {iso(lock.until)}" if lock else "no retention"
        raise Failed(f"stored with {requested}, hold {hold or 'none'}, and shown with {words_of(state)}")


# ---- reads during writes


@check("VER-09")
def read_while_locks_change(case: Case) -> None:
    lock = case.lock()
    version, latest = case.stored(lock=lock), lock
    is_over = Event()

    def change() -> ObjectLock:
        longer = lock
        try:
            for number in range(1, CHANGES + 1):
                longer = ObjectLock(lock.mode, lock.until + timedelta(seconds=number))
                for what, answer in (
                    ("a hold", case.set_hold(version, "ON")),
                    ("a longer retention", case.set_retention(version, longer)),
                    ("no hold", case.set_hold(version, "OFF")),
                ):
                    if not answer.ok:
                        raise Inconclusive(f"{what} was answered {answer}")
        finally:
            is_over.set()
        return longer

    def read(_: int) -> int:
        own: list[RecordedExchange] = []
        client, reads = case.client.recording(own), 0
        while not is_over.is_set():
            for method in ("GET", "HEAD"):
                own.clear()
                answer = client.send(method, version.bucket, version.key, query=(("versionId", version.id),))
                wrong = _wrong_in(answer, method, version, lock)
                if wrong:
                    case.client.record.extend(own)
                    raise Failed(f"while hold and retention changed, {method} {wrong}")
                reads += 1
        return reads

    with ThreadPoolExecutor(READERS + 1) as pool:
        changing = pool.submit(change)
        reads = sum(pool.map(read, range(READERS)))
        latest = changing.result()
    state = case.state(version)
    if not same_instant(state.until, latest.until) or state.hold == "ON":
        raise Failed(f"after the last change, to {iso(latest.until)} and no hold, the version shows {words_of(state)}")
    case.notes.append(f"{reads} reads during {3 * CHANGES} changes; only wrong ones are in the evidence")


def _wrong_in(answer: Answer, method: str, version: Version, lock: ObjectLock) -> str:
    """Return what is wrong with a read; empty if it is right. A lock that GET never shows fails ING-01."""
    if not answer.ok:
        return f"was answered {answer}"
    if method == "GET":
        return "" if answer.body == version.body else "gave other bytes than were stored"
    until = instant_of(answer.headers.get(_UNTIL, ""))
    if answer.headers.get(_MODE) != lock.mode or until is None or until < lock.until - timedelta(seconds=1):
        return f"showed {answer.headers.get(_MODE, 'no mode')} until {until and iso(until)}: weaker than it was"
    return ""
