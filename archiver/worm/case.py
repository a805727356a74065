"""What an S3 check works with: a bucket, its own keys, the lock calls of S3, and ways to judge an answer.

One idea: the state after a request decides, not the answer. A check reads the version again after every attempt.
An unchanged version proves that the platform refused; a changed one proves a violation, whatever the status was.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

from archiver.worm.catalogue import expectation, severity_rank
from archiver.worm.check_run import CheckRun
from archiver.worm.requests.exchange import Answer, Headers, RecordedExchange, S3Client
from archiver.worm.requests.limited import described
from archiver.worm.verdict import CheckEnded, Failed, Inconclusive, NotOffered, NotTried

GOVERNANCE, COMPLIANCE = "GOVERNANCE", "COMPLIANCE"
LOCK_SECONDS = 90.0  # of locks that only have to outlast their check; the clean-up bypasses them
COMPLIANCE_SECONDS = 25.0  # no client can bypass these locks: the clean-up waits for them
WAIT_SECONDS_MAX = 60.0
FARTHEST_SECONDS = 101 * 366 * 86_400.0  # more than the 100 years of the longest default rule
LOCKING_FAR = ("CLK-06", "ING-04")  # checks that briefly set such a lock in the shared bucket
DELETION = "DEL-02"  # its source says how Amazon refuses the deletion of a locked version
ANY_REFUSAL = "any refusal"  # the expected answer if no code is documented
_BYPASS_NAME = "x-amz-bypass-governance-retention"
BYPASS: Headers = ((_BYPASS_NAME, "true"),)
ROOT = "http://s3.amazonaws.com/doc/2006-03-01/"
# Creates a bucket with Object Lock or without, by requests of this client, and enters it into the ledger first.
MakeBucket = Callable[[S3Client, bool], str]


class ObjectLock(NamedTuple):
    """A retention: its mode and its retain-until date."""

    mode: str
    until: datetime  # with a time zone, whole milliseconds

    @property
    def headers(self) -> Headers:
        """Headers of PUT, CopyObject and CreateMultipartUpload that set this retention."""
        return (
            ("x-amz-object-lock-mode", self.mode),
            ("x-amz-object-lock-retain-until-date", iso(self.until)),
        )


class Version(NamedTuple):
    """One object version that a check created."""

    bucket: str
    key: str
    id: str
    body: bytes


@dataclass(frozen=True, slots=True)
class VersionState:
    """A version as the platform shows it. A lock field is None if the platform shows none."""

    body: bytes | None  # None: the version is gone or cannot be read
    mode: str | None = None
    until: datetime | None = None
    hold: str | None = None  # ON, OFF
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def lock(self) -> ObjectLock | None:
        return ObjectLock(self.mode, self.until) if self.mode is not None and self.until is not None else None


@dataclass(slots=True)
class Case(CheckRun):
    """One run of one check over S3.

    ``bucket`` has Object Lock and is shared with other checks: a check may use only keys of ``key()`` in it. A check
    that changes a bucket's configuration creates its own bucket with ``new_bucket``. ``limited`` has one client of the
    same platform for each right that the client lacks: bypass, retention, hold, delete. Without ``trusts_limited`` the
    user named these credentials, and a check uses one only after the platform refused it a request of that right.
    """

    client: S3Client
    bucket: str
    may_use_compliance: bool
    limited: Mapping[str, S3Client]
    make_bucket: MakeBucket
    clock_offset_seconds: float  # server minus client
    trusts_limited: bool = True
    _known: dict[tuple[str, str], VersionState] = field(default_factory=dict)  # as stored
    _prepared: dict[tuple[str, str], Version] = field(default_factory=dict)
    _keys: int = 0
    _controlled: set[int] = field(default_factory=set)

    @property
    def record(self) -> list[RecordedExchange]:
        return self.client.record

    # ---- names, clock, clients

    def key(self, ending: str = "") -> str:
        """Return a new key that no other check uses."""
        self._keys += 1
        return f"worm/{self.check_id}/{self._keys:03d}-{secrets.token_hex(4)}{ending}"

    def now(self) -> datetime:
        """Return the time of the server's clock, computed from its Date header."""
        return datetime.fromtimestamp(time.time() + self.clock_offset_seconds, UTC)

    def lock(self, mode: str = GOVERNANCE, seconds: float | None = None) -> ObjectLock:
        """Return a retention that starts now. Raises NotTried for COMPLIANCE unless the user agreed to it."""
        if mode == COMPLIANCE:
            self.need_compliance()
        length = seconds if seconds is not None else COMPLIANCE_SECONDS if mode == COMPLIANCE else LOCK_SECONDS
        until = self.now() + timedelta(seconds=length)
        return ObjectLock(mode, until.replace(microsecond=until.microsecond // 1000 * 1000))

    def need_compliance(self) -> None:
        if not self.may_use_compliance:
            raise NotTried("needs COMPLIANCE mode, which no credential can undo: agree to it with --compliance")

    def without_right(self, right: str) -> S3Client:
        """Return a client whose credential lacks a right: bypass, retention, hold, delete. Raises NotTried."""
        if right not in self.limited:
            raise NotTried(f"needs a credential without the right to {right}; name one with --limited-profile")
        client = self.limited[right].recording(self.client.record)
        client.sender = described(right)
        if not self.trusts_limited and not self._is_refused(right, client):
            raise NotTried(
                f"no request was refused to this credential only for want of the right to {right}: it has the right, it"
                " lacks others too, or the platform does not know the right"
            )
        return client

    def _is_refused(self, right: str, client: S3Client) -> bool:
        """Return whether the platform refuses this client a request only for want of the right.

        The client may send a similar request that does not need the right.
        """

        def put() -> Answer:
            return self.put(client=client)[0]

        def lengthen() -> Answer:
            return self.set_retention(self.locked(), self.lock(seconds=2 * LOCK_SECONDS), client=client)

        # of each right: a similar request that does not need it, and one that does
        pairs: Mapping[str, tuple[tuple[Callable[[], Answer], Callable[[], Answer]], ...]] = {
            "bypass": (
                (
                    lambda: self.delete(self.stored(), client=client),
                    lambda: self.delete(self.locked(), bypass=True, client=client),
                ),
                (lengthen, lambda: self.set_retention(self.locked(), None, bypass=True, client=client)),
            ),
            "retention": (
                (put, lambda: self.set_retention(self.stored(), self.lock(), client=client)),
                (put, lambda: self.put(lock=self.lock(), client=client)[0]),
            ),
            "hold": (
                (put, lambda: self.set_hold(self.stored(), "ON", client=client)),
                (put, lambda: self.set_hold(self.stored(hold="ON"), "OFF", client=client)),
                (put, lambda: self.put(hold="ON", client=client)[0]),
            ),
            "delete": ((put, lambda: self.delete(self.stored(), client=client)),),
        }
        return any(similar().ok and needing().refused for similar, needing in pairs[right])

    def unrecorded(self) -> S3Client:
        """Return a client for so many requests that the evidence leaves them out. No script can show what they do."""
        self.has_all = False
        return self.client.recording([])

    def anonymous(self) -> S3Client:
        """Return a client that does not sign its requests."""
        client = self.client.recording(self.client.record)
        client.credentials = None
        client.sender = "without a credential"
        return client

    def wait_until(self, instant: datetime) -> None:
        """Wait until the server's clock has passed ``instant``. Raises NotTried for more than WAIT_SECONDS_MAX."""
        seconds = (instant - self.now()).total_seconds()
        if seconds > WAIT_SECONDS_MAX:
            raise NotTried(f"would have to wait for {seconds:.0f} s")
        if seconds > 0:
            time.sleep(seconds)

    def new_bucket(self, *, lock: bool = True) -> str:
        """Create an empty bucket that only this check uses."""
        return self.make_bucket(self.client, lock)

    # ---- calls

    def put(
        self,
        key: str | None = None,
        body: bytes = b"",
        *,
        lock: ObjectLock | None = None,
        hold: str | None = None,
        headers: Headers = (),
        bucket: str | None = None,
        client: S3Client | None = None,
        query: Sequence[tuple[str, str | None]] = (),
    ) -> tuple[Answer, Version]:
        """PUT an object with Content-MD5. The version's id is empty if the platform returned none."""
        bucket, key = bucket or self.bucket, key or self.key()
        body = body or f"{self.check_id} {secrets.token_hex(8)}".encode()
        wanted = [("Content-MD5", md5_of(body)), *headers, *lock_headers(lock, hold)]
        answer = (client or self.client).send("PUT", bucket, key, headers=wanted, body=body, query=query)
        return answer, Version(bucket, key, answer.version_id or "", body)

    def stored(self, key: str | None = None, body: bytes = b"", **how: object) -> Version:
        """Store a version with the lock and hold requested, and check that the platform shows them.

        Arguments are those of ``put``. Raises Inconclusive.
        """
        answer, version = self.put(key, body, **how)  # type: ignore[arg-type]
        if not answer.ok or not version.id:
            raise Inconclusive(
                f"an object could not be prepared: PUT answered {answer}, version {version.id or 'none'}"
            )
        state, lock = self.state(version), how.get("lock")
        if isinstance(lock, ObjectLock) and (state.mode != lock.mode or not same_instant(state.until, lock.until)):
            raise Inconclusive(f"an object could not be prepared: it was stored with {words_of(state)}; see ING-01")
        if how.get("hold") == "ON" and state.hold != "ON":
            raise Inconclusive("an object could not be prepared: it was stored without its hold; see ING-02")
        self._known[version.key, version.id] = state
        self._prepared[version.key, version.id] = version
        return version

    def locked(self, mode: str = GOVERNANCE, seconds: float | None = None, *, hold: str | None = None) -> Version:
        """Store a version under retention and check that it is there. Raises Inconclusive."""
        return self.stored(lock=self.lock(mode, seconds), hold=hold)

    def state(self, version: Version) -> VersionState:
        """Read the version again with all rights: its bytes by GET, its lock by HEAD."""
        query = (("versionId", version.id),)
        answer = self.client.send("GET", version.bucket, version.key, query=query)
        if not answer.ok:
            return VersionState(None)
        shown = self.client.send("HEAD", version.bucket, version.key, query=query)
        until = shown.headers.get("x-amz-object-lock-retain-until-date")
        state = VersionState(
            answer.body,
            shown.headers.get("x-amz-object-lock-mode"),
            instant_of(until) if until else None,
            shown.headers.get("x-amz-object-lock-legal-hold"),
            shown.headers,
        )
        return state if state.mode is not None or state.hold is not None else self._with_lock(version, state)

    def _with_lock(self, version: Version, state: VersionState) -> VersionState:
        """Read the lock with its own requests: some platforms do not show it in HEAD of older versions."""
        answers = []
        for what in ("retention", "legal-hold"):
            query = ((what, None), ("versionId", version.id))
            try:
                answer = self.client.send("GET", version.bucket, version.key, query=query, unsure=True)
            except NotOffered:
                return state
            answers.append(answer if answer.ok else Answer(answer.status, {}, b""))
        mode, until = answers[0].text_of("Mode") or None, instant_of(answers[0].text_of("RetainUntilDate"))
        hold = answers[1].text_of("Status") or None
        if mode is None and hold != "ON":
            return state
        self.deviate("HEAD of a version shows no lock, though GetObjectRetention or GetObjectLegalHold does")
        return replace(state, mode=mode, until=until, hold=hold)

    def delete(
        self, version: Version, *, bypass: bool = False, headers: Headers = (), client: S3Client | None = None
    ) -> Answer:
        """DELETE this version."""
        wanted = [*(BYPASS if bypass else ()), *headers]
        return (client or self.client).send(
            "DELETE", version.bucket, version.key, query=(("versionId", version.id),), headers=wanted
        )

    def delete_key(self, bucket: str, key: str, *, client: S3Client | None = None) -> Answer:
        """DELETE without a version id, which creates a delete marker."""
        return (client or self.client).send("DELETE", bucket, key)

    def set_retention(
        self, version: Version, lock: ObjectLock | None, *, bypass: bool = False, client: S3Client | None = None
    ) -> Answer:
        """PutObjectRetention; a lock of None sends an empty Retention, which removes the lock."""
        inner = f"<Mode>{lock.mode}</Mode><RetainUntilDate>{iso(lock.until)}</RetainUntilDate>" if lock else ""
        return self.put_xml(
            version,
            "retention",
            f'<Retention xmlns="{ROOT}">{inner}</Retention>',
            BYPASS if bypass else (),
            client=client,
        )

    def set_hold(self, version: Version, status: str, *, client: S3Client | None = None) -> Answer:
        """PutObjectLegalHold with ON or OFF."""
        return self.put_xml(
            version,
            "legal-hold",
            f'<LegalHold xmlns="{ROOT}"><Status>{escape(status)}</Status></LegalHold>',
            client=client,
        )

    def put_xml(
        self, version: Version, what: str, xml: str, headers: Headers = (), *, client: S3Client | None = None
    ) -> Answer:
        """PUT ?retention or ?legal-hold of this version with any body and its Content-MD5."""
        query = ((what, None), ("versionId", version.id)) if version.id else ((what, None),)
        answer = (client or self.client).send(
            "PUT", version.bucket, version.key, query=query, body=xml.encode(),
            headers=[("Content-MD5", md5_of(xml.encode())), *headers],
        )  # fmt: skip
        if answer.ok:  # the check has changed the lock
            self._known.pop((version.key, version.id), None)
        return answer

    def configure(self, bucket: str, what: str, xml: str) -> Answer:
        """PUT a bucket's configuration: object-lock, versioning, lifecycle."""
        body = xml.encode()
        return self.client.send(
            "PUT", bucket, query=((what, None),), body=body, headers=[("Content-MD5", md5_of(body))]
        )

    def set_default(self, bucket: str, mode: str = GOVERNANCE, days: int | None = 1) -> Answer:
        """Set the bucket's default retention; ``days`` None clears it."""
        rule = f"<Rule><DefaultRetention><Mode>{mode}</Mode><Days>{days}</Days></DefaultRetention></Rule>"
        return self.configure(bucket, "object-lock", lock_configuration(rule if days is not None else ""))

    def delete_many(
        self,
        bucket: str,
        entries: Sequence[tuple[str, str | None]],
        *,
        quiet: bool = False,
        headers: Headers = (),
        client: S3Client | None = None,
    ) -> Answer:
        """DeleteObjects of (key, version id or None)."""
        objects = "".join(
            f"<Object><Key>{escape(key)}</Key>{f'<VersionId>{escape(v)}</VersionId>' if v else ''}</Object>"
            for key, v in entries
        )
        body = f'<Delete xmlns="{ROOT}">{"<Quiet>true</Quiet>" if quiet else ""}{objects}</Delete>'.encode()
        return (client or self.client).send(
            "POST", bucket, query=(("delete", None),), body=body, headers=[("Content-MD5", md5_of(body)), *headers]
        )

    def copy(
        self,
        source: Version,
        key: str | None = None,
        *,
        lock: ObjectLock | None = None,
        hold: str | None = None,
        headers: Headers = (),
        bucket: str | None = None,
        client: S3Client | None = None,
        query: Sequence[tuple[str, str | None]] = (),
    ) -> tuple[Answer, Version]:
        """CopyObject of this version; other arguments are those of ``put``.

        Raises Inconclusive for an error inside a 200, as Amazon may send.
        """
        bucket, key = bucket or self.bucket, key or self.key()
        place = f"/{source.bucket}/{quote(source.key, safe='/~')}?versionId={source.id}"
        wanted = [("x-amz-copy-source", place), *headers, *lock_headers(lock, hold)]
        answer = (client or self.client).send("PUT", bucket, key, headers=wanted, query=query)
        if answer.ok and answer.elements("Error"):
            raise Inconclusive(f"a copy was answered 200 with an error inside: {answer.code}")
        return answer, Version(bucket, key, answer.version_id or "", source.body)

    def retention_of(self, version: Version) -> ObjectLock | None:
        """Return the lock that GetObjectRetention shows, or None. Its date may be more exact than that of HEAD."""
        query = (("retention", None), ("versionId", version.id))
        answer = self.client.send("GET", version.bucket, version.key, query=query)
        mode, until = answer.text_of("Mode"), instant_of(answer.text_of("RetainUntilDate"))
        return ObjectLock(mode, until) if answer.ok and mode and until else None

    # ---- judging

    def must_survive(self, *versions: Version, unlocked: bool = False) -> None:
        """Fail unless each version has its bytes and, unless ``unlocked``, a lock or a hold.

        A locked record that is gone or altered is S1, a weaker lock at least S2, in every check.
        """
        for version in versions:
            state, known = self.state(version), self._known.get((version.key, version.id))
            was_locked = not unlocked or (known is not None and is_protected(known, self.now()))
            lost = "S1" if was_locked else None
            if state.body is None:
                raise Failed(f"version {version.id} of {version.key} is gone", lost)
            if state.body != version.body:
                raise Failed(f"version {version.id} of {version.key} has other bytes than were stored", lost)
            if not unlocked and state.mode is None and state.hold != "ON":
                raise Failed(f"version {version.id} of {version.key} is there, but no longer locked", self._at_least_s2)
            if known is not None and weaker(known, state, self.now()):
                words = f"version {version.id} of {version.key}: {words_of(known)} became {words_of(state)}"
                raise Failed(words, self._at_least_s2)

    def must_have_lost_nothing(self) -> None:
        """Fail if a protected version is lost or weakened, unless a request with all rights may have unlocked it."""
        now = self.now()
        for place, known in list(self._known.items()):
            if is_protected(known, now) and not self._may_be_weaker(place, known):
                self.must_survive(self._prepared[place], unlocked=True)

    def _may_be_weaker(self, place: tuple[str, str], known: VersionState) -> bool:
        """Return whether a request with all rights may have removed or reduced the lock."""
        for exchange in list(self.record):
            target = unquote(exchange.target)
            if exchange.sender or not (place[0] in target or "?delete" in target):
                continue
            if "legal-hold" in target and b"OFF" in exchange.request_body:
                return True
            bypasses = _BYPASS_NAME in target or any(
                name.lower() == _BYPASS_NAME for name, _ in exchange.request_headers
            )
            if bypasses and known.hold != "ON" and known.mode != COMPLIANCE:
                return True
        return False

    def must_survive_answer(self, answer: Answer, what: str, *versions: Version) -> None:
        """Fail with this answer if a version changed."""
        try:
            self.must_survive(*versions)
        except Failed as failed:
            raise Failed(f"{what} was answered {answer}: {failed}", failed.severity, [answer]) from failed

    def must_refuse(self, answer: Answer, what: str, aws: str, *versions: Version) -> None:
        """Fail if a version changed. An answer other than ``aws`` ("403 AccessDenied") is a deviation."""
        self.must_survive_answer(answer, what, *versions)
        self._compare(answer, what, aws, self.check_id)

    def must_refuse_delete(self, version: Version, answer: Answer, what: str, client: S3Client | None = None) -> None:
        """Call ``must_refuse``, then check that the same credential can delete an unlocked version.

        Without that control a refusal proves nothing.
        """
        self.must_survive_answer(answer, what, version)
        self._compare(answer, what, "403 AccessDenied", DELETION)
        self.control(client)

    def must_keep(self, version: Version, before: VersionState, answer: Answer, what: str, aws: str) -> None:
        """Fail if mode, date or hold are weaker than ``before``. A later date is allowed."""
        after = self.state(version)
        if weaker(before, after):
            raise Failed(f"{what} was answered {answer}: {words_of(before)} became {words_of(after)}", None, [answer])
        self.must_refuse(answer, what, aws, version)

    def must_allow(self, answer: Answer, what: str, aws: str = "200") -> None:
        """Fail unless the request succeeded. A success status other than ``aws`` is a deviation."""
        if not answer.ok:
            raise Failed(f"{what} must be allowed, and was answered {answer}", self._at_most_s3, [answer])
        if not aws.startswith(str(answer.status)):
            self.deviate(f"{what} was answered {answer}, not {aws}", answer)

    def must_be_gone(self, version: Version, what: str) -> None:
        """Fail if a deleted version is still there."""
        if self.state(version).body is not None:
            raise Failed(f"{what} was accepted, but version {version.id} is still there", self._at_most_s3)

    @property
    def _at_least_s2(self) -> str:
        return min(self.severity, "S2", key=severity_rank)

    @property
    def _at_most_s3(self) -> str:
        return max(self.severity, "S3", key=severity_rank)

    def control(self, client: S3Client | None = None) -> None:
        """Check that this credential can delete an unlocked version; if not, its refused deletes prove nothing.

        Raises Inconclusive or NotTried, as ``failed_control`` says.
        """
        used = client or self.client
        if id(used.credentials) in self._controlled:
            return
        version = self.stored()
        answer = self.delete(version, client=used)
        if not answer.ok or self.state(version).body is not None:
            raise self.failed_control(f"this credential cannot delete an unlocked version either ({answer})", used)
        self._controlled.add(id(used.credentials))

    def failed_control(self, words: str, client: S3Client) -> CheckEnded:
        """Return how a check ends whose control failed: NotTried if the user named a credential that lacks more."""
        kind = NotTried if client.sender and not self.trusts_limited else Inconclusive
        return kind(f"the control failed: {words}")

    def control_bypass(self) -> None:
        """Note if the bypass header does not delete a version under GOVERNANCE: other refusals then prove less."""
        version = self.locked()
        answer = self.delete(version, bypass=True)
        if self.state(version).body is not None:
            self.notes.append(f"the bypass header does not delete a version under GOVERNANCE either ({answer})")

    def _compare(self, answer: Answer, what: str, aws: str, check_id: str) -> None:
        """Note a deviation if the answer is not ``aws``, for which the check ``check_id`` may have a source."""
        if answer.ok:
            self.deviate(f"{what} was answered {answer}, though nothing changed; {expectation(check_id, aws)}", answer)
        elif aws != ANY_REFUSAL and (
            answer.status != int(aws[:3]) or (answer.code and " " in aws and answer.code not in aws.split()[1:])
        ):
            self.deviate(f"{what} was answered {answer}; {expectation(check_id, aws)}", answer)


def starter(
    client: S3Client,
    bucket: str,
    may_use_compliance: bool,
    limited: Mapping[str, S3Client],
    make_bucket: MakeBucket,
    clock_offset_seconds: float,
    trusts_limited: bool = True,
) -> Callable[[str], Case]:
    """Return the function that starts a check, with a record of its own. The arguments are those of a case."""
    return lambda identifier: Case(
        identifier, client.recording([]), bucket, may_use_compliance, limited, make_bucket, clock_offset_seconds,
        trusts_limited,
    )  # fmt: skip


def lock_headers(lock: ObjectLock | None, hold: str | None) -> Headers:
    """Headers that lock the object of any kind of upload."""
    held = [("x-amz-object-lock-legal-hold", hold)] if hold is not None else []
    return [*(lock.headers if lock else ()), *held]


def is_protected(state: VersionState, now: datetime) -> bool:
    """Return whether a hold, or a retention of at least two seconds more, forbids the deletion."""
    return state.hold == "ON" or (state.until is not None and state.until > now + timedelta(seconds=2))


def weaker(before: VersionState, after: VersionState, now: datetime | None = None) -> bool:
    """Return whether the version is less protected than before.

    With ``now``, a retention that has expired meanwhile does not count.
    """
    runs = now is None or (before.until is not None and before.until > now + timedelta(seconds=2))
    return (before.hold == "ON" and after.hold != "ON") or (
        runs
        and (
            (before.mode is not None and after.mode is None)
            or (before.mode == COMPLIANCE and after.mode != COMPLIANCE)
            or (before.until is not None and (after.until is None or after.until < before.until))
        )
    )


def md5_of(body: bytes) -> str:
    """Return the value of a Content-MD5 header."""
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


def iso(instant: datetime) -> str:
    """Format a date as Amazon does: 2026-11-21T18:00:00.123Z."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{instant.microsecond // 1000:03d}Z"


def instant_of(text: str) -> datetime | None:
    """Parse an ISO 8601 date; None if the text is not one."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def same_instant(one: datetime | None, other: datetime) -> bool:
    """Compare to the second: some platforms show no fractions."""
    return one is not None and abs((one - other).total_seconds()) < 1.0


def lock_configuration(rule: str) -> str:
    """Return the body of PutObjectLockConfiguration."""
    return (
        f'<ObjectLockConfiguration xmlns="{ROOT}"><ObjectLockEnabled>Enabled</ObjectLockEnabled>{rule}'
        "</ObjectLockConfiguration>"
    )


def words_of(state: VersionState) -> str:
    """The lock of a version in words."""
    if state.body is None:
        return "nothing: it is gone"
    retention = f"{state.mode} until {iso(state.until)}" if state.mode and state.until else "no retention"
    return retention + (f", hold {state.hold}" if state.hold else "")
