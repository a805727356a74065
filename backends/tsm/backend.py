"""TsmBackend: one server, its policy, and a file space on it.

The server's management class decides the retention period; the client never sends a date. So a run reads the retention
period of the class, passes it to the guards, and reads the lock of the first object back.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from archiver.values.clock import now_seconds
from archiver.values.content import Content
from archiver.values.errors import PlatformError, PlatformGone, SafetyRefused, UsageError
from archiver.values.platform import PlatformProfile
from archiver.values.record import Operation
from archiver.values.retention import WITHOUT_END, Retention, RetentionMode, RetentionWish
from backends.addresses import is_own_address
from backends.base import (
    Capabilities,
    CloserLook,
    ExpectedLock,
    Location,
    LockReading,
    RemovalReport,
    RunPlan,
)
from backends.tsm.closer_look import look_closer
from backends.tsm.data_plane import TsmDataPlane
from backends.tsm.index import archived_at, firsts, number_in
from backends.tsm.library import structures as abi
from backends.tsm.library.api import (
    OLDER_ATTRIBUTES_VERSION,
    ApiSession,
    ArchivedObject,
    Library,
    ReportedManagementClass,
    SignOn,
    TsmError,
    default_library_path,
    seconds_of,
)
from backends.tsm.library.codes import Code
from backends.tsm.library.configuration import ERROR_LOG, read_password, session_options, stanza_encrypts
from backends.tsm.library.interruptible import interruptible
from backends.tsm.lock import DAY_SECONDS, SUMMER_TIME_SECONDS, LockRule, class_seconds
from backends.tsm.removal import remove
from backends.tsm.setting import OBJECTS_PER_GROUP, TsmWorkerSetting, high_level, low_level, object_name
from backends.tsm.transfer import Transfer

SPACE_LENGTH_MAX = 1024
_ZONE_SECONDS = 900  # every time zone's distance from UTC is a multiple of this
_ZONES_FROM, _ZONES_TO = -12 * 3600, 14 * 3600  # the time zones that exist


@dataclass(frozen=True, slots=True)
class TsmRequest:
    """The user's choices for a TSM server. A run's database stores them; options of commands have these names."""

    library: str | None = None  # None: ours
    server: str | None = None  # HOST:PORT, or a stanza of dsm.sys; None: dsm.opt decides
    encrypted: bool = False  # TLS for HOST:PORT; a stanza has its own option
    ca_file: Path | None = None  # of the authorities to trust then; None: those of this system
    node: str | None = None
    password_file: Path | None = None
    management_class: str | None = None  # None: the default class
    space: str | None = None  # None: a new one for the run
    objects_per_transaction: int | None = None  # None: the maximum of the server


@dataclass(frozen=True, slots=True)
class TsmOptions(TsmRequest):
    """All options for a TSM server. ``password`` (of the embedded store) replaces the file's."""

    password: str | None = field(default=None, repr=False)
    configuration: Path | None = None  # folder of private option files; None: the user's
    platform_name: str | None = None  # known if Archiver started the platform
    durability: str = "the answer to a transaction's vote"


class TsmBackend:
    """The backend for one server of the TSM client API."""

    name = "tsm"
    capabilities = Capabilities(
        retention_modes=("CLASS",),
        legal_hold=False,  # a hold is placed on an existing object, not while archiving
        operations=(
            Operation.ARCHIVE,
            Operation.RETRIEVE,
            Operation.HOLD,
            Operation.RELEASE,
            Operation.QUERY,
            Operation.REFUSED_DELETE,
            Operation.DELETE,
            Operation.AUDIT,
            Operation.RANGE_RETRIEVE,
            Operation.HEAD,
            Operation.NEW_VERSION,
        ),  # no EXTEND: the class decides the period; no COPY, DELETE_MARKER: the API has none
        stores_content=True,
        transactions=True,
    )

    def __init__(self, options: TsmOptions) -> None:
        self.options = options
        if options.space is not None and not _is_space_name(options.space):
            raise UsageError(f"--filespace {options.space}: write a name that begins with /, without wildcards")
        self._password = options.password
        if self._password is None and options.password_file is not None:
            self._password = read_password(options.password_file)
        if options.configuration is not None and not (options.node and self._password):
            raise UsageError(f"{options.server}: to sign on there, both --tsm-node and --tsm-password-file are needed")
        self._library = Library(options.library or str(default_library_path()))
        if self._library.missing:
            raise PlatformError(
                f"{self._library.path}: lacks {', '.join(self._library.missing)}; a client of version 8.2.1 has it"
            )
        self._session_options = session_options(options.server) if options.configuration is None else ""
        self._sign_on = SignOn(self._library, options.node, self._password, self._session_options)
        self._clock_offset_seconds = 0.0  # server minus client
        self._zone_seconds = 0  # the server's local time, which the API uses for dates, minus UTC
        self._endpoint = ""
        self._space_is_there = False
        self._limit = 1
        self._attributes_version = OLDER_ATTRIBUTES_VERSION
        self._protected = False
        self._default_class = ""
        self._classes: dict[str, ReportedManagementClass] = {}
        self._retention = Retention(RetentionMode.CLASS)
        self._location: Location | None = None

    @interruptible
    def profile(self) -> PlatformProfile:
        """Sign on; return the server's name, clock, limits and policy. Raises PlatformError."""
        with self._session("sign on") as session:
            found = session.information()
            offset = self._set_clock(found)
            in_force = session.options()
            is_encrypted = session.is_encrypted()
            if is_encrypted is None:  # the API does not tell
                is_encrypted = stanza_encrypts(Path(in_force.dsmiDir.decode()), in_force.serverName.decode())
            self._classes = session.management_classes()
            self._attributes_version = session.attributes_version()
            if self.options.space is not None:
                self._space_is_there = session.has_space(self.options.space)
        server = self.options.server or in_force.serverName.decode()
        self._endpoint = f"tsm://{found.id.decode()}@{server}"
        self._protected = bool(found.archiveRetentionProtection)
        self._default_class = found.dfltMCName.decode()
        self._limit = self._transaction_limit(found.maxObjPerTxn)
        return PlatformProfile(
            name=self.options.platform_name or found.adsmServerName.decode() or "unknown",
            backend=self.name,
            endpoints=(self._endpoint,),
            version=f"{found.serverVer}.{found.serverRel}.{found.serverLev}.{found.serverSubLev}",
            tls=is_encrypted,
            shares_host=_is_this_host(in_force.serverAddress.decode()),
            durability=self.options.durability,
            server_clock_offset_seconds=offset,
            details={
                "server_name": found.adsmServerName.decode(),
                "server_type": found.serverType.decode(),
                "retention_protected": self._protected,
                "node": found.id.decode(),
                "policy_domain": found.domainName.decode(),
                "policy_set": found.policySetName.decode(),
                "may_delete_archives": found.archDel == abi.ARCHDEL_YES,
                "default_class": self._default_class,
                "classes": [asdict(each) for each in self._classes.values()],
                "server_objects_per_transaction_max": found.maxObjPerTxn,
                "library": self._library.path,
                "library_version": ".".join(map(str, self._library.version())),
                "library_attributes_version": self._attributes_version,
            },
            session_open="sign-on",
            protocol="tsm",
            objects_per_transaction_max=self._limit,
        )

    @property
    def space_exists(self) -> bool:
        """Return whether the file space that the user named was there at the last sign-on of ``profile``."""
        return self._space_is_there

    @property
    def server_now(self) -> float:
        """Return the server's clock in epoch seconds, to within half a second."""
        return now_seconds() + self._clock_offset_seconds

    def retention_for(self, wish: RetentionWish) -> Retention:
        """Return the retention of the management class.

        Raises UsageError if ``wish`` has anything else, SafetyRefused if the class locks without an end.
        """
        if wish.mode not in (None, RetentionMode.CLASS) or wish.retain_for_seconds or wish.retain_until:
            raise UsageError(
                "--retention-mode, --retain-for, --retain-until: with the tsm backend the server's management class "
                "decides whether and how long; choose one with --management-class"
            )
        name = (self.options.management_class or self._default_class).upper()
        chosen = self._classes.get(name)
        if chosen is None or not chosen.archives:
            usable = ", ".join(each.name for each in self._classes.values() if each.archives)
            wrong = "has no archive copy group" if chosen is not None else "is not in the node's policy"
            raise UsageError(f"--management-class {name}: {wrong}; there are: {usable or 'none'}")
        if chosen.by_event or chosen.retver_days is None:
            why = "an event that this run does not send" if chosen.by_event else "ever, without limit"
            raise SafetyRefused(
                f"management class {name} would lock objects until {why}; no run may lock without an end, so choose "
                "another with --management-class"
            )
        exact = class_seconds(self._classes.values()).get(name)
        seconds = exact if exact is not None else float(chosen.retver_days * DAY_SECONDS)
        # A server that counts days by its local time ends a class an hour later where summer time ends before.
        late = 0.0 if exact is not None else float(SUMMER_TIME_SECONDS)
        return Retention(RetentionMode.CLASS, seconds, None, wish.legal_hold, name, late)

    def locate(self, plan: RunPlan) -> Location:
        """Return the run's file space and high-level name. Does not contact the server."""
        self._retention = plan.retention
        space = self.options.space or f"/archiver-{plan.run_id}"
        # A file space that the user named stays after clean-up, even if this run registers it.
        self._location = Location(self._endpoint, "", space, self.options.space is None, plan.run_id)
        return self._location

    @interruptible
    def prepare(self) -> None:
        """Register the file space if it does not exist. Raises PlatformError."""
        location = self._located()
        if not self._space_is_there:
            with self._session(f"register file space {location.bucket}") as session:
                session.register_space(location.bucket)

    @interruptible
    def attach(self, location: Location, retention: Retention) -> None:
        """Continue in the file space of an earlier run.

        Raises PlatformError if the file space does not exist, or if the policy no longer has the class of its objects.
        """
        with self._session(f"find file space {location.bucket}") as session:
            self._refuse_another_node(session.information().id.decode(), location)
            found = session.has_space(location.bucket)
        if not found:
            raise PlatformError(f"{self._endpoint}: has no file space {location.bucket}; is it the server of that run?")
        kept_by = retention.management_class
        if kept_by is not None and not (kept_by in self._classes and self._classes[kept_by].archives):
            raise PlatformError(
                f"{self._endpoint}: the policy no longer archives under class {kept_by}, which the objects in "
                f"{location.bucket} were to have; the server's default class decides now"
            )
        self._location, self._retention, self._space_is_there = location, retention, True

    def check_place(self, plan: RunPlan) -> None:
        """Nothing to check: an object's management class is chosen when it is archived."""

    def set_default_lock(self, retention: Retention | None) -> None:
        """Raise UsageError: the class is chosen when an object is archived, and a file space has no default."""
        raise UsageError(
            "a file space has no default rule that locks; with the tsm backend --management-class decides when an "
            "object is archived"
        )

    @interruptible
    def read_lock(self, number: int, retention: Retention, earliest: float | None, latest: float | None) -> LockReading:
        """Query object ``number``, just archived, and compare its class, dates and hold. Raises PlatformError."""
        name = self.object_name(number)
        with self._session(f"read the lock of {name}") as session:
            found = self._objects(session, number)
        if not found:
            return LockReading(None, None, False, f"{name} was archived, but the server does not have it")
        one = min(found, key=archived_at)
        problem = self._lock_rule().problem(one, retention, earliest, latest)
        words = problem.words if problem else None
        if one.held and not retention.legal_hold:
            words = words or "it is under a hold that this run did not request"
        until = one.expires - self._zone_seconds if one.expires is not None else WITHOUT_END
        whole = f"{name} was archived under a class, but {words}" if words else None
        return LockReading(RetentionMode.CLASS.value, until, one.held, whole)

    def object_name(self, number: int) -> str:
        """Return file space, high-level and low-level name of object ``number``."""
        location = self._located()
        return object_name(location.bucket, location.prefix, number)

    @interruptible
    def look_closer(self, number: int, size_bytes: int, content: Content, lock: ExpectedLock) -> CloserLook:
        """Describe all objects with the name of object ``number``. Raises PlatformError."""
        with self._session(f"look at {self.object_name(number)}") as session:
            found = self._objects(session, number)
            transfer = Transfer(self._library, self.worker_setting(), content, "all")
            return CloserLook(look_closer(session, found, transfer, number, size_bytes, self._lock_rule(), lock))

    def unseen_locks(self, number: int) -> str | None:
        """Return None: a client that may query an object sees its class, date and hold."""
        return None

    @interruptible
    def present(self, first: int, last: int) -> Iterator[int]:
        """Return the numbers from ``first`` to ``last`` that the server has, ascending. Raises PlatformError."""
        location = self._located()
        numbers: set[int] = set()
        with self._session(f"list {location.bucket}/{location.prefix}") as session:
            for number in range(first - first % OBJECTS_PER_GROUP, last + 1, OBJECTS_PER_GROUP):
                group = session.archives(location.bucket, high_level(location.prefix, number))
                found = firsts(group, location.bucket, location.prefix)
                numbers |= {at for at, version in found if version == 1}
        return iter(sorted(number for number in numbers if first <= number <= last))

    def _objects(self, session: ApiSession, number: int) -> list[ArchivedObject]:
        """Return all objects with the name of object ``number``."""
        space, prefix = self._located().bucket, self._located().prefix
        found = session.archives(space, high_level(prefix, number), low_level(number))
        return [one for one in found if number_in(one, space, prefix) == number]

    def _lock_rule(self) -> LockRule:
        return LockRule(self._zone_seconds, frozenset(class_seconds(self._classes.values())))

    def worker_setting(self) -> TsmWorkerSetting:
        location = self._located()
        return TsmWorkerSetting(
            library=self._library.path,
            configuration=self.options.configuration,
            options=self._session_options,
            node=self.options.node,
            password=self._password,
            space=location.bucket,
            prefix=location.prefix,
            management_class=self._retention.management_class,
            objects_per_transaction=self._limit,
            attributes_version=self._attributes_version,
            lock_rule=self._lock_rule(),
        )

    @classmethod
    def in_worker(cls, setting: TsmWorkerSetting) -> TsmDataPlane:
        return TsmDataPlane(setting)

    @interruptible
    def remove(
        self, location: Location, numbers: range | None, *, bypass_governance: bool, release_holds: bool
    ) -> RemovalReport:
        """Delete what the server allows, then the run's own file space. The API cannot bypass a class."""
        with self._session(f"remove {location.bucket}/{location.prefix}") as session:
            found = session.information()
            self._refuse_another_node(found.id.decode(), location)
            self._set_clock(found)
            return remove(session, found, location, numbers, self._zone_seconds, release_holds=release_holds)

    def _refuse_another_node(self, node: str, location: Location) -> None:
        """Raise PlatformError for another node: it has its own file spaces, perhaps with the same names."""
        owner, _, server = location.endpoint.removeprefix("tsm://").rpartition("@")
        if node != owner:
            raise PlatformError(
                f"{self.options.server or server}: signed on as node {node}, but the objects of the run belong to node "
                f"{owner}; name it with --tsm-node"
            )

    def _located(self) -> Location:
        assert self._location is not None, "locate() comes first"
        return self._location

    def _set_clock(self, found: Any) -> float:
        """Compute the server's clock and time zone from its local time; return server minus client in seconds."""
        now = now_seconds()
        local = (seconds_of(found.serverDate) or 0) + 0.5  # whole seconds: on average half a second old
        zone = round((local - now) / _ZONE_SECONDS) * _ZONE_SECONDS
        # Beyond the time zones that exist, it is the server's clock that is far from ours.
        self._zone_seconds = zone if _ZONES_FROM <= zone <= _ZONES_TO else 0
        self._clock_offset_seconds = local - self._zone_seconds - now
        return self._clock_offset_seconds

    def _transaction_limit(self, server_max: int) -> int:
        asked = self.options.objects_per_transaction
        if asked is not None and asked > server_max:
            raise UsageError(f"--objects-per-transaction {asked}: the server takes at most {server_max}")
        return asked or server_max

    @contextmanager
    def _session(self, doing: str) -> Iterator[ApiSession]:
        """Open a session for calls made once per run. Raises PlatformError that says what to do."""
        where = self._endpoint or f"tsm://{self.options.server or ''}"
        try:
            self._library.set_up(self.options.configuration)
            with self._sign_on.open() as session:
                yield session
        except TsmError as error:
            remedy = _REMEDY.get(error.deciding_code) or (_UNREACHABLE if error.lost else None)
            text = f"{where}: could not {doing}: {error}{self._logged(error)}"
            kind = PlatformGone if error.lost else PlatformError
            raise kind(f"{text}; {remedy}" if remedy else text) from error

    def _logged(self, error: TsmError) -> str:
        """Return what a library that gives no reason has logged last in a private folder, which is deleted later."""
        log = self.options.configuration / ERROR_LOG if self.options.configuration is not None else None
        if error.problem or log is None or not log.exists():
            return ""
        lines = log.read_text(errors="replace").split("\n")
        return "".join(f" ({ERROR_LOG}: {line.strip()})" for line in lines[-2:] if line.strip())


_UNREACHABLE = "is the server running there? check --tsm-server, or the stanza in dsm.sys"
_OPTION_FILES = "check dsm.opt and dsm.sys (DSMI_CONFIG, DSMI_DIR), or name the server: --tsm-server HOST:PORT"
_REMEDY: dict[int, str] = {
    Code.REJECT_NO_RESOURCES: "all sessions of the server are in use; try fewer clients, or raise its MAXSESSIONS",
    Code.REJECT_VERIFIER_EXPIRED: "the node's password has expired; set another and put it into --tsm-password-file",
    Code.REJECT_ID_UNKNOWN: "the server has no such node; check --tsm-node",
    Code.CLIENT_NOT_ARCHRETPROT: "the server is retention-protected; its stanza in dsm.sys must have "
    "ENABLEARCHIVERETENTIONPROTECTION YES",
    Code.AUTH_FAILURE: "node or password is wrong; check --tsm-node and --tsm-password-file",
    Code.INVALID_OPT: _OPTION_FILES,
    Code.NO_HOST_ADDR: _OPTION_FILES,
    Code.NO_OPT_FILE: _OPTION_FILES,
    Code.INVALID_SERVER: _OPTION_FILES,
    Code.INVALID_KEYWORD: _OPTION_FILES,
    Code.NO_SYS_OR_INCLEXCL: _OPTION_FILES,
    Code.NO_PASS_FILE: "the stanza has PASSWORDACCESS GENERATE, and no password is stored",
    Code.NO_NODE_REQD: "the stanza has PASSWORDACCESS GENERATE, so leave out --tsm-node and --tsm-password-file",
    Code.WRONG_VERSION: "the library is too old for this",
}


def _is_space_name(name: str) -> bool:
    return name.startswith("/") and 1 < len(name.encode()) <= SPACE_LENGTH_MAX and not set(name) & set("*?")


def _is_this_host(host: str) -> bool:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # only the library can resolve it
        return False
    return any(is_own_address(str(entry[4][0]).partition("%")[0]) for entry in found)
