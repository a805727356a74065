"""BAT: many deletes in one request.

One idea: the status of a DeleteObjects answer is 200 whatever happened to its entries. So a check reads each version
again, and judges what the answer says of an entry separately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from archiver.worm import listing
from archiver.worm.case import BYPASS, COMPLIANCE, Case, Version, md5_of
from archiver.worm.checks import check
from archiver.worm.checks.ingest import NULL
from archiver.worm.requests.exchange import Answer, Headers, S3Client
from archiver.worm.verdict import Failed, Inconclusive, NotOffered

ENTRIES_MAX = 1000  # of one request
VERSIONS = 20
PUTS_AT_ONCE = 8


class BatchAnswer(NamedTuple):
    """The entries in the answer of DeleteObjects: (key, version id) deleted, and the code of each error."""

    deleted: tuple[tuple[str, str], ...]
    errors: dict[tuple[str, str], str]

    def error_of(self, version: Version) -> str | None:
        """Return the code of the version's error, also if the error names only the key; None if there is none."""
        return self.errors.get((version.key, version.id), self.errors.get((version.key, "")))


@check("BAT-01")
def half_locked(case: Case) -> None:
    locked, unlocked = _alternating(case)
    listed = _must_delete_exactly(case, locked, unlocked)
    _compare(case, listed, locked, unlocked)


@check("BAT-02")
def half_locked_quiet(case: Case) -> None:
    locked, unlocked = _alternating(case)
    listed = _must_delete_exactly(case, locked, unlocked, quiet=True)
    missing = [version for version in locked if listed.error_of(version) is None]
    if missing:
        raise Failed(
            f"in Quiet mode {len(missing)} of {len(locked)} refused entries are not listed as errors: "
            f"a client would take version {missing[0].id} of {missing[0].key} for deleted"
        )
    _compare(case, listed, locked, [])
    if listed.deleted:
        case.deviate(f"in Quiet mode {len(listed.deleted)} deleted entries are listed; {case.expected('errors only')}")


@check("BAT-03")
def locked_at_the_ends(case: Case) -> None:
    def locked_among(entries: int, position: int) -> Callable[[], None]:
        def attempt() -> None:
            prefix = case.key("/")
            locked = case.stored(f"{prefix}locked", lock=case.lock())
            others = _stored_unlocked(case, prefix, entries - 1)
            order = [*others[:position], locked, *others[position:]]
            answer = _delete(case, order)
            case.must_survive(locked)
            case.must_allow(answer, f"deleting {entries} versions")
            left = [entry for page in listing.versions(case, case.bucket, prefix) for entry in page]
            kept = [entry for entry in left if entry.id != locked.id]
            if kept:
                raise Failed(f"{len(kept)} of {len(others)} unlocked versions are still there, such as {kept[0].key}")
            _compare(case, batch_answer_of(answer), [locked], others)

        return attempt

    case.control()
    case.try_all(
        ("the only of 1", locked_among(1, 0)),
        ("the first of 999", locked_among(999, 0)),
        ("the last of 1000", locked_among(ENTRIES_MAX, ENTRIES_MAX - 1)),
    )


@check("BAT-04")
def too_many(case: Case) -> None:
    locked = case.locked()
    first, middle, last = (case.stored() for _ in range(3))
    # Entries that name no object fill the request: the platform has nothing to do for them.
    nothing = [Version(case.bucket, case.key(), "", b"") for _ in range(ENTRIES_MAX + 1 - 4)]
    order = [first, locked, *nothing[:500], middle, *nothing[500:], last]
    answer = _delete(case, order)
    case.must_survive(locked)
    gone = [version for version in (first, middle, last) if case.state(version).body is None]
    if gone:
        raise Failed(
            f"{len(order)} entries were answered {answer.status}, and {len(gone)} of 3 versions among them are gone",
            None,
            [answer],
        )
    case.must_refuse(answer, f"deleting {len(order)} entries", "400 MalformedXML", locked)


@check("BAT-05")
def the_same_twice(case: Case) -> None:
    def locked_twice() -> None:
        version = case.locked()
        _delete(case, [version, version])
        case.must_survive(version)

    def locked_and_by_key() -> None:
        version = case.locked()
        _delete(case, [version._replace(id=""), version, version._replace(id="")])
        case.must_survive(version)

    def locked_and_marker(marker_first: bool) -> Callable[[], None]:
        def attempt() -> None:
            version = case.locked()
            answer = case.delete_key(version.bucket, version.key)
            if not answer.ok or answer.version_id is None:
                raise Inconclusive(f"no delete marker was created: deleting by key was answered {answer}; see DEL-05")
            marker = version._replace(id=answer.version_id)
            order = [marker, version] if marker_first else [version, marker]
            answer = _delete(case, order)
            case.must_survive(version)
            case.must_allow(answer, "deleting a marker together with a locked version")
            if not case.client.send("GET", version.bucket, version.key).ok:
                raise Failed("a marker that was listed together with a locked version is still there")

        return attempt

    def unlocked_twice() -> None:
        version = case.stored()
        case.must_allow(_delete(case, [version, version]), "deleting an unlocked version that is listed twice")
        case.must_be_gone(version, "deleting an unlocked version that is listed twice")

    case.control()
    case.try_all(
        ("a locked version twice", locked_twice),
        ("a locked version and its key", locked_and_by_key),
        ("a marker, then the locked version", locked_and_marker(True)),
        ("a locked version, then its marker", locked_and_marker(False)),
        ("an unlocked version twice", unlocked_twice),
    )


@check("BAT-06")
def keys_without_versions(case: Case) -> None:
    def by_key(ending: str) -> Callable[[], None]:
        def attempt() -> None:
            version = _locked_with_ending(case, ending)
            answer = _delete(case, [version._replace(id="")])
            if case.state(version).body is None:
                raise Failed(f"a batch that names {version.key} without a version destroyed its locked version")
            case.must_survive(version)
            if not answer.ok or batch_answer_of(answer).errors:
                refusal = _codes(batch_answer_of(answer)) if answer.ok else str(answer)
                raise Failed(f"deleting a key without a version must be allowed: {refusal}", "S3")
            if case.client.send("GET", version.bucket, version.key).ok:
                raise Failed("the key was deleted, but its object is still current", "S3")

        return attempt

    def all_in_one() -> None:
        locked = [_locked_with_ending(case, ending) for ending in ("", ".txt")] + [
            case.locked() for _ in range(VERSIONS // 2)
        ]
        _delete(case, [version._replace(id="") for version in locked])
        case.must_survive(*locked)

    case.try_all(
        ("a plain key", by_key("")),
        ("a key that ends in /", by_key("/")),
        ("a key with a key below it", lambda: _below(case)),
        ("a non-ASCII key with special characters of XML", by_key(" é<&>'")),
        ("several keys", all_in_one),
    )


@check("BAT-07")
def bypass_of_all_kinds(case: Case) -> None:
    compliance = case.locked(COMPLIANCE)
    held = case.stored(hold="ON")
    both = case.locked(hold="ON")
    governance, unlocked = case.locked(), case.stored()
    answer = _delete(case, [governance, compliance, held, unlocked, both], headers=BYPASS)
    for kind, version in (("COMPLIANCE", compliance), ("legal hold", held), ("GOVERNANCE and legal hold", both)):
        if case.state(version).body is None:
            raise Failed(f"a batch with the bypass header deleted version {version.id} under {kind}")
    case.must_survive(compliance, held, both)
    case.must_allow(answer, "a batch with the bypass header")
    case.must_be_gone(unlocked, "a batch with the bypass header, with an unlocked version,")
    case.must_be_gone(governance, "a batch with the bypass header, with a version under GOVERNANCE,")
    _compare(case, batch_answer_of(answer), [compliance, held, both], [governance, unlocked])


@check("BAT-08")
def bypass_without_right(case: Case) -> None:
    client = case.without_right("bypass")
    locked, held = case.locked(), case.stored(hold="ON")
    unlocked = case.stored()
    answer = _delete(case, [locked, unlocked, held], headers=BYPASS, client=client)
    case.must_survive(locked, held)
    if case.state(unlocked).body is not None:
        # A platform may refuse the whole entry if the header is sent without the right to bypass.
        case.notes.append("this credential's batch with the bypass header deletes no unlocked version either")
        case.control(client)
    if answer.ok:
        _compare(case, batch_answer_of(answer), [locked, held], [])
    else:
        case.must_refuse(answer, "a batch with the bypass header and without the right to it", "200", locked, held)


def _alternating(case: Case) -> tuple[list[Version], list[Version]]:
    """Store locked and unlocked versions under keys that alternate in order."""
    made = [case.locked() if number % 2 else case.stored() for number in range(VERSIONS)]
    return made[1::2], made[::2]


def _must_delete_exactly(
    case: Case, locked: list[Version], unlocked: list[Version], *, quiet: bool = False
) -> BatchAnswer:
    order = [version for pair in zip(unlocked, locked, strict=True) for version in pair]
    answer = _delete(case, order, quiet=quiet)
    case.must_survive(*locked)
    case.must_allow(answer, f"deleting {len(order)} versions, half of them locked,")
    for version in unlocked:
        case.must_be_gone(version, "a batch with an unlocked version")
    return batch_answer_of(answer)


def _delete(
    case: Case,
    versions: Sequence[Version],
    *,
    quiet: bool = False,
    headers: Headers = (),
    client: S3Client | None = None,
) -> Answer:
    return case.delete_many(
        versions[0].bucket, [(version.key, version.id or None) for version in versions],
        quiet=quiet, headers=headers, client=client,
    )  # fmt: skip


def batch_answer_of(answer: Answer) -> BatchAnswer:
    """Parse the answer of DeleteObjects."""

    def name_of(entry: object, part: str) -> str:
        return next((each.text or "" for each in entry if each.tag.rpartition("}")[2] == part), "")  # type: ignore[attr-defined]

    return BatchAnswer(
        tuple((name_of(entry, "Key"), name_of(entry, "VersionId")) for entry in answer.elements("Deleted")),
        {
            (name_of(entry, "Key"), name_of(entry, "VersionId")): name_of(entry, "Code")
            for entry in answer.elements("Error")
        },
    )


def _compare(case: Case, listed: BatchAnswer, kept: Sequence[Version], deleted: Sequence[Version]) -> None:
    """Note deviations of the answer from what happened to the versions, which is right."""
    for version in kept:
        if (version.key, version.id) in listed.deleted:
            case.deviate("a refused entry is listed as deleted, though its version is still there")
        code = listed.error_of(version)
        if code is None:
            case.deviate("a refused entry is not listed as an error")
        elif (version.key, version.id) not in listed.errors:
            case.deviate("a refused entry is listed as an error of its key, without its version id")
        elif code != "AccessDenied":
            case.deviate(f"a refused entry has the code {code}; {case.expected('AccessDenied')}")
    missing = {(version.key, version.id) for version in deleted} - set(listed.deleted)
    if missing:
        case.deviate(f"{len(missing)} of {len(deleted)} deleted entries are not listed as deleted")


def _codes(listed: BatchAnswer) -> str:
    return ", ".join(sorted(set(listed.errors.values()))) or "no error"


def _stored_unlocked(case: Case, prefix: str, count: int) -> list[Version]:
    with ThreadPoolExecutor(PUTS_AT_ONCE) as pool:
        made = list(pool.map(lambda number: case.put(f"{prefix}{number:04d}"), range(count)))
    bad = [answer for answer, version in made if not answer.ok or not version.id]
    if bad:
        raise Inconclusive(f"an object could not be prepared: PUT answered {bad[0]}")
    return [version for _, version in made]


def _locked_with_ending(case: Case, ending: str) -> Version:
    """Store a locked version whose key has this ending, without bytes if the platform keeps none under such a key."""
    lock = case.lock()
    answer, version = case.put(case.key(ending), lock=lock)
    version = version._replace(id=version.id or NULL)
    if not answer.ok or case.state(version).body != version.body:
        case.notes.append(
            f"a key that ends in {ending!r} is not shown with its bytes (PUT answered {answer}); see ING-14"
        )
        key, headers = case.key(ending), [("Content-MD5", md5_of(b"")), *lock.headers]
        answer = case.client.send("PUT", case.bucket, key, headers=headers)
        version = Version(case.bucket, key, answer.version_id or NULL, b"")
    if not answer.ok:
        raise NotOffered(f"a key that ends in {ending!r} is not stored: PUT answered {answer}")
    state = case.state(version)
    if state.body != version.body or state.mode is None:
        raise NotOffered(f"a key that ends in {ending!r} is not shown with its bytes and its lock; see ING-14")
    return version


def _below(case: Case) -> None:
    """Delete the key that is the folder of a locked one: nothing may happen to the locked one."""
    folder = case.key()
    version = case.stored(f"{folder}/below", lock=case.lock())
    for key in (folder, f"{folder}/"):
        case.delete_many(case.bucket, [(key, None)])
        case.must_survive(version)
