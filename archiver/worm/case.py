"""What a check has to work with: a bucket, keys of its own, the lock calls of S3, and the ways to judge an answer.

One idea: an answer is judged by the state it leaves. After every attempt the version is read again, bytes and lock;
that it is as it was proves a refusal, and that it is not proves a hole, whatever the status said.
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

from archiver.worm.requests.exchange import Answer, Headers, S3Client
from archiver.worm.verdict import CheckEnded, Failed, Inconclusive, NotOffered, NotTried

GOVERNANCE, COMPLIANCE = "GOVERNANCE", "COMPLIANCE"
LOCK_SECONDS = 90.0  # of locks that only have to outlast their check; clean-up bypasses them
COMPLIANCE_SECONDS = 25.0  # nobody can bypass these: clean-up waits for them
WAIT_SECONDS_MAX = 60.0
FARTHEST_SECONDS = 101 * 366 * 86_400.0  # beyond the 100 years that Amazon takes
LOCKING_FAR = ("CLK-06", "ING-04")  # checks that lock until dates as far as that, in the shared bucket, for a moment
_BYPASS_NAME = "x-amz-bypass-governance-retention"
BYPASS: Headers = ((_BYPASS_NAME, "true"),)
ROOT = "http://s3.amazonaws.com/doc/2006-03-01/"


class ObjectLock(NamedTuple):
    """A retention: mode and date."""

    mode: str
    until: datetime  # with a time zone, whole milliseconds

    @property
    def headers(self) -> Headers:
        """As PUT, copy and the start of a multipart upload take it."""
        return (
            ("x-amz-object-lock-mode", self.mode),
            ("x-amz-object-lock-retain-until-date", iso(self.until)),
        )


class Version(NamedTuple):
    """One object version that a check made."""

    bucket: str
    key: str
    id: str
    body: bytes


@dataclass(frozen=True, slots=True)
class VersionState:
    """A version as the platform shows it. Lock fields are None where it shows none."""

    body: bytes | None  # None: it is gone, or cannot be read
    mode: str | None = None
    until: datetime | None = None
    hold: str | None = None  # ON, OFF
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def lock(self) -> ObjectLock | None:
        return ObjectLock(self.mode, self.until) if self.mode is not None and self.until is not None else None


@dataclass(slots=True)
class Case:
    """One run of one check.

    ``bucket`` has Object Lock and is shared with other checks: only keys of ``key()`` may be touched in it. A check
    that changes a bucket's configuration makes one of its own with ``new_bucket``. ``limited`` has a client
    of the same platform for each right that it lacks: bypass, retention, hold, delete.
    """

    check_id: str
    client: S3Client
    bucket: str
    may_use_compliance: bool
    limited: Mapping[str, S3Client]
    make_bucket: Callable[[bool], str]  # with Object Lock or without; known to the ledger before it is made
    clock_offset_seconds: float  # server minus client
    deviations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _known: dict[tuple[str, str], VersionState] = field(default_factory=dict)  # as stored, unless the check changed it
    _prepared: dict[tuple[str, str], Version] = field(default_factory=dict)
    _keys: int = 0
    _controlled: set[int] = field(default_factory=set)

    # ---- names, clock, clients

    def key(self, ending: str = "") -> str:
        """A key that nobody else uses."""
        self._keys += 1
        return f"worm/{self.check_id}/{self._keys:03d}-{secrets.token_hex(4)}{ending}"

    def now(self) -> datetime:
        """The server's clock, as far as its Date header tells."""
        return datetime.fromtimestamp(time.time() + self.clock_offset_seconds, UTC)

    def lock(self, mode: str = GOVERNANCE, seconds: float | None = None) -> ObjectLock:
        """A retention from now on. Raises NotTried for COMPLIANCE where the user did not agree to it."""
        if mode == COMPLIANCE:
            self.need_compliance()
        length = seconds if seconds is not None else COMPLIANCE_SECONDS if mode == COMPLIANCE else LOCK_SECONDS
        until = self.now() + timedelta(seconds=length)
        return ObjectLock(mode, until.replace(microsecond=until.microsecond // 1000 * 1000))

    def need_compliance(self) -> None:
        if not self.may_use_compliance:
            raise NotTried("needs COMPLIANCE mode, which nobody can undo: agree to it with --compliance")

    def without_right(self, right: str) -> S3Client:
        """A client whose credential lacks a right: bypass, retention, hold, delete. Raises NotTried."""
        if right not in self.limited:
            raise NotTried(f"needs a credential without the right to {right}; name one with --limited-profile")
        client = self.limited[right].recording(self.client.record)
        client.sender = f"without the right to {right}"
        return client

    def anonymous(self) -> S3Client:
        """A client that signs nothing."""
        nobody = self.client.recording(self.client.record)
        nobody.credentials = None
        nobody.sender = "nobody"
        return nobody

    def wait_until(self, instant: datetime) -> None:
        """Until the server's clock has passed it."""
        seconds = (instant - self.now()).total_seconds()
        if seconds > WAIT_SECONDS_MAX:
            raise NotTried(f"would have to wait for {seconds:.0f} s")
        if seconds > 0:
            time.sleep(seconds)

    def new_bucket(self, *, lock: bool = True) -> str:
        """An empty bucket for this check alone."""
        return self.make_bucket(lock)

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
        """PUT an object (with Content-MD5); the version's id is empty where none came back."""
        bucket, key = bucket or self.bucket, key or self.key()
        body = body or f"{self.check_id} {secrets.token_hex(8)}".encode()
        wanted = [("Content-MD5", md5_of(body)), *headers, *lock_headers(lock, hold)]
        answer = (client or self.client).send("PUT", bucket, key, headers=wanted, body=body, query=query)
        return answer, Version(bucket, key, answer.version_id or "", body)

    def stored(self, key: str | None = None, body: bytes = b"", **how: object) -> Version:
        """A version that is there, with the lock and hold asked for, as ``put`` takes them. Raises Inconclusive."""
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
        """A version under retention that is seen to be there."""
        return self.stored(lock=self.lock(mode, seconds), hold=hold)

    def state(self, version: Version) -> VersionState:
        """The version read again, by the client with all rights: its bytes by GET, its lock by HEAD."""
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
        return state if state.mode is not None or state.hold is not None else self._asked_for_its_lock(version, state)

    def _asked_for_its_lock(self, version: Version, state: VersionState) -> VersionState:
        """HEAD showed no lock, which some platforms do for versions that are not current: so ask for it by its name."""
        asked = []
        for what in ("retention", "legal-hold"):
            query = ((what, None), ("versionId", version.id))
            try:
                answer = self.client.send("GET", version.bucket, version.key, query=query, unsure=True)
            except NotOffered:
                return state
            asked.append(answer if answer.ok else Answer(answer.status, {}, b""))
        mode, until = asked[0].text_of("Mode") or None, instant_of(asked[0].text_of("RetainUntilDate"))
        hold = asked[1].text_of("Status") or None
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
        """DELETE without a version: makes a marker."""
        return (client or self.client).send("DELETE", bucket, key)

    def set_retention(
        self, version: Version, lock: ObjectLock | None, *, bypass: bool = False, client: S3Client | None = None
    ) -> Answer:
        """PutObjectRetention; None is the empty Retention, which removes it."""
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
        """PUT ?retention or ?legal-hold of this version with any body (and its right Content-MD5)."""
        query = ((what, None), ("versionId", version.id)) if version.id else ((what, None),)
        answer = (client or self.client).send(
            "PUT", version.bucket, version.key, query=query, body=xml.encode(),
            headers=[("Content-MD5", md5_of(xml.encode())), *headers],
        )  # fmt: skip
        if answer.ok:  # then the lock is what the check made of it
            self._known.pop((version.key, version.id), None)
        return answer

    def configure(self, bucket: str, what: str, xml: str) -> Answer:
        """PUT a bucket's configuration: object-lock, versioning, lifecycle ..."""
        body = xml.encode()
        return self.client.send(
            "PUT", bucket, query=((what, None),), body=body, headers=[("Content-MD5", md5_of(body))]
        )

    def set_default(self, bucket: str, mode: str = GOVERNANCE, days: int | None = 1) -> Answer:
        """The bucket's default retention; ``days`` None clears it."""
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
        """DeleteObjects: (key, version id or None) each."""
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
        """CopyObject of this version, as ``put``; raises Inconclusive for an error inside a 200, as Amazon may send."""
        bucket, key = bucket or self.bucket, key or self.key()
        place = f"/{source.bucket}/{quote(source.key, safe='/~')}?versionId={source.id}"
        wanted = [("x-amz-copy-source", place), *headers, *lock_headers(lock, hold)]
        answer = (client or self.client).send("PUT", bucket, key, headers=wanted, query=query)
        if answer.ok and answer.elements("Error"):
            raise Inconclusive(f"a copy was answered 200 with an error inside: {answer.code}")
        return answer, Version(bucket, key, answer.version_id or "", source.body)

    def retention_of(self, version: Version) -> ObjectLock | None:
        """As GetObjectRetention shows it, which may be more exact than HEAD; None where it shows none."""
        query = (("retention", None), ("versionId", version.id))
        answer = self.client.send("GET", version.bucket, version.key, query=query)
        mode, until = answer.text_of("Mode"), instant_of(answer.text_of("RetainUntilDate"))
        return ObjectLock(mode, until) if answer.ok and mode and until else None

    # ---- judging

    def try_all(self, *parts: tuple[str, Callable[[], None]]) -> None:
        """Every part of a check, also after one has ended; then the worst end, whose reason names the parts with it.

        What is not offered or not tried is only noted where another part could be judged.
        """
        ends: list[tuple[str, CheckEnded]] = []
        for name, part in parts:
            try:
                part()
            except CheckEnded as ended:
                ends.append((name, ended))
        bad = [kind for kind in (Failed, Inconclusive) if any(isinstance(end, kind) for _, end in ends)]
        worst = bad[0] if bad else type(ends[0][1]) if ends and len(ends) == len(parts) else None
        self.notes += [f"{name}: {end.verdict}: {end}" for name, end in ends if type(end) is not worst]
        if worst is not None:
            raise worst("; ".join(f"{name}: {end}" for name, end in ends if type(end) is worst))

    def must_survive(self, *versions: Version, unlocked: bool = False) -> None:
        """Each version is there, byte for byte, and (unless ``unlocked``) still under a lock or a hold."""
        for version in versions:
            state = self.state(version)
            if state.body is None:
                raise Failed(f"version {version.id} of {version.key} is gone")
            if state.body != version.body:
                raise Failed(f"version {version.id} of {version.key} has other bytes than were stored")
            if not unlocked and state.mode is None and state.hold != "ON":
                raise Failed(f"version {version.id} of {version.key} is there, but no longer locked")
            known = self._known.get((version.key, version.id))
            if known is not None and weaker(known, state, self.now()):
                raise Failed(f"version {version.id} of {version.key}: {words_of(known)} became {words_of(state)}")

    def must_have_lost_nothing(self) -> None:
        """What was prepared with a lock is as it was, unless someone who may asked for less."""
        now = self.now()
        for place, known in list(self._known.items()):
            if is_protected(known, now) and not self._may_be_weaker(place, known):
                self.must_survive(self._prepared[place], unlocked=True)

    def _may_be_weaker(self, place: tuple[str, str], known: VersionState) -> bool:
        """Whether a request with all rights could have taken its lock, or a part of it."""
        for exchange in list(self.client.record):
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

    def must_refuse(self, answer: Answer, what: str, aws: str, *versions: Version) -> None:
        """The versions are as they were; an answer that is not Amazon's ("403 AccessDenied") is a deviation."""
        try:
            self.must_survive(*versions)
        except Failed as failed:
            raise Failed(f"{what} was answered {answer}: {failed}") from failed
        self._compare(answer, what, aws)

    def must_refuse_delete(self, version: Version, answer: Answer, what: str, client: S3Client | None = None) -> None:
        """As ``must_refuse``, and the same credential is seen to delete what is not locked: else it proves nothing."""
        self.must_refuse(answer, what, "403 AccessDenied", version)
        self.control(client)

    def must_keep(self, version: Version, before: VersionState, answer: Answer, what: str, aws: str) -> None:
        """Mode, date and hold are not weaker than ``before``. A longer date is as good."""
        after = self.state(version)
        if weaker(before, after):
            raise Failed(f"{what} was answered {answer}: {words_of(before)} became {words_of(after)}")
        self.must_refuse(answer, what, aws, version)

    def must_allow(self, answer: Answer, what: str, aws: str = "200") -> None:
        """Accepted; another status of success than Amazon's is a deviation."""
        if not answer.ok:
            raise Failed(f"{what} must be allowed, and was answered {answer}")
        if not aws.startswith(str(answer.status)):
            self.deviate(f"{what} was answered {answer}, not {aws}")

    def must_be_gone(self, version: Version, what: str) -> None:
        """A version that was deleted is no longer there."""
        if self.state(version).body is not None:
            raise Failed(f"{what} was accepted, but version {version.id} is still there")

    def deviate(self, words: str) -> None:
        """The state is right, the answer is not Amazon's."""
        self.deviations.append(words)

    def control(self, client: S3Client | None = None) -> None:
        """The same credential deletes an unlocked version; else a refusal proves nothing. Raises Inconclusive."""
        used = client or self.client
        if id(used.credentials) in self._controlled:
            return
        version = self.stored()
        answer = self.delete(version, client=used)
        if not answer.ok or self.state(version).body is not None:
            raise Inconclusive(
                f"the control failed: this credential cannot delete an unlocked version either ({answer})"
            )
        self._controlled.add(id(used.credentials))

    def control_bypass(self) -> None:
        """A bypass deletes a version under GOVERNANCE; a note where not: then its refusal elsewhere shows less."""
        version = self.locked()
        answer = self.delete(version, bypass=True)
        if self.state(version).body is not None:
            self.notes.append(f"the bypass header does not delete a version under GOVERNANCE either ({answer})")

    def _compare(self, answer: Answer, what: str, aws: str) -> None:
        if answer.ok:
            self.deviate(f"{what} was answered {answer}, though nothing changed; Amazon answers {aws}")
        elif answer.status != int(aws[:3]) or (answer.code and " " in aws and answer.code not in aws.split()[1:]):
            self.deviate(f"{what} was answered {answer}; Amazon answers {aws}")


def lock_headers(lock: ObjectLock | None, hold: str | None) -> Headers:
    """What an upload of any kind asks to be locked by."""
    held = [("x-amz-object-lock-legal-hold", hold)] if hold is not None else []
    return [*(lock.headers if lock else ()), *held]


def is_protected(state: VersionState, now: datetime) -> bool:
    """Whether nothing may delete it: by a hold, or for at least two seconds more by its retention."""
    return state.hold == "ON" or (state.until is not None and state.until > now + timedelta(seconds=2))


def weaker(before: VersionState, after: VersionState, now: datetime | None = None) -> bool:
    """Whether less protects the version than did. With ``now`` a retention that has run out since is no matter."""
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
    """The value of a Content-MD5 header."""
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


def iso(instant: datetime) -> str:
    """As Amazon writes dates: 2026-11-21T18:00:00.123Z."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{instant.microsecond // 1000:03d}Z"


def instant_of(text: str) -> datetime | None:
    """The instant of an ISO 8601 date; None where it is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def same_instant(one: datetime | None, other: datetime) -> bool:
    """To the second: some platforms show no more."""
    return one is not None and abs((one - other).total_seconds()) < 1.0


def lock_configuration(rule: str) -> str:
    """The body of PutObjectLockConfiguration."""
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
