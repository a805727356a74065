"""An S3 server on loopback that breaks one promise of a platform, chosen by name.

One idea: the store behind it is small and honest (versions, locks, uploads, all in memory), and each mode is a function
that sees a request and may answer instead of the store, change the store, or change its answer. A new attack is one
function with ``@mode("its name")``:

    with hostile("ignores the prefix of listings") as server:
        archiver("cleanup", "latest", **server.keys)

It accepts any signature. Names of several modes may be given; the first one sees a request first.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

_LOCK = "x-amz-object-lock-"
_LOCK_HEADERS = (f"{_LOCK}mode", f"{_LOCK}retain-until-date", f"{_LOCK}legal-hold")
_PAGE = 1000


@dataclass(slots=True)
class Asked:
    """One request."""

    method: str
    bucket: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]  # names in lower case
    body: bytes
    number: int  # of this method on an object, from 1

    @property
    def is_upload(self) -> bool:
        """Whether it writes a whole object."""
        return self.method == "PUT" and bool(self.key) and not self.query


@dataclass(slots=True)
class Answer:
    """One answer. ``sends`` replaces how it is written to the connection."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    sends: Callable[[BaseHTTPRequestHandler], None] | None = None


@dataclass(slots=True)
class Version:
    """A version of a key, or a delete marker."""

    key: str
    id: str
    body: bytes
    headers: dict[str, str]  # of the lock and the user's metadata
    is_marker: bool = False

    @property
    def locked_until(self) -> datetime | None:
        text = self.headers.get(f"{_LOCK}retain-until-date")
        return datetime.fromisoformat(text) if text else None

    def is_locked(self, bypass: bool) -> bool:
        """Return whether a deletion is refused."""
        if self.headers.get(f"{_LOCK}legal-hold") == "ON":
            return True
        until, mode = self.locked_until, self.headers.get(f"{_LOCK}mode")
        return until is not None and until > datetime.now(UTC) and not (bypass and mode == "GOVERNANCE")


@dataclass(slots=True)
class Bucket:
    """The versions of a bucket, oldest first, its lock configuration and its unfinished uploads."""

    versions: list[Version] = field(default_factory=list)
    lock_configuration: bytes = (
        b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>"
    )
    uploads: dict[str, tuple[str, dict[str, str], dict[int, bytes]]] = field(
        default_factory=dict
    )  # key, headers, parts

    def of(self, key: str, version: str | None = None) -> Version | None:
        """Return a version of a key, or its newest one."""
        found = [each for each in self.versions if each.key == key and version in (None, each.id)]
        return found[-1] if found else None


PassOn = Callable[[Asked], Answer]
Mode = Callable[["Hostile", Asked, PassOn], Answer]
MODES: dict[str, Mode] = {}


def mode(name: str) -> Callable[[Mode], Mode]:
    """Register a way of being hostile."""

    def register(behaviour: Mode) -> Mode:
        MODES[name] = behaviour
        return behaviour

    return register


def error(status: int, code: str, message: str = "") -> Answer:
    """Return an error as S3 writes it."""
    text = f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
    return Answer(status, text.encode(), {"Content-Type": "application/xml"})


class Hostile(ThreadingHTTPServer):
    """The server and its store. ``setting`` has values that modes use; a test may change it while the server runs."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, names: tuple[str, ...], setting: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.keys = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "key"}
        self.modes = [MODES[name] for name in names]
        self.setting = setting
        self.buckets: dict[str, Bucket] = {}
        self.log: list[Asked] = []
        self.guard = threading.RLock()
        self._counts: dict[str, int] = {}
        self._ids = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may close its connection at any time."""

    def next_id(self) -> str:
        """Return a new id of a version or an upload."""
        self._ids += 1
        return f"id-{self._ids:09}"

    def put(self, bucket: str, key: str, body: bytes, **headers: str) -> Version:
        """Store a version of another owner. ``headers``: mode, retain_until_date and legal_hold of its lock."""
        locks = {f"{_LOCK}{name.replace('_', '-')}": text for name, text in headers.items()}
        with self.guard:
            version = Version(key, self.next_id(), body, locks)
            self.buckets.setdefault(bucket, Bucket()).versions.append(version)
        return version

    def answer(self, asked: Asked) -> Answer:
        """Return the answer of the modes, in turn, and of the store."""
        with self.guard:
            if asked.key:
                self._counts[asked.method] = self._counts.get(asked.method, 0) + 1
                asked.number = self._counts[asked.method]
            self.log.append(asked)

        def after(index: int) -> PassOn:
            if index == len(self.modes):
                return self.store
            return lambda again: self.modes[index](self, again, after(index + 1))

        return after(0)(asked)

    def store(self, asked: Asked) -> Answer:
        """Return the honest answer."""
        with self.guard:
            if not asked.bucket:
                return Answer(200, b"<ListAllMyBucketsResult><Buckets></Buckets></ListAllMyBucketsResult>")
            if asked.method == "PUT" and not asked.key and not asked.query:
                self.buckets[asked.bucket] = Bucket()
                return Answer(200)
            bucket = self.buckets.get(asked.bucket)
            if bucket is None:
                return error(404, "NoSuchBucket")
            return self._of_object(bucket, asked) if asked.key else self._of_bucket(bucket, asked)

    def _of_bucket(self, bucket: Bucket, asked: Asked) -> Answer:
        if "object-lock" in asked.query:
            if asked.method == "PUT":
                bucket.lock_configuration = asked.body
            return Answer(200, b"" if asked.method == "PUT" else bucket.lock_configuration)
        if "versioning" in asked.query:
            return Answer(200, b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
        if "versions" in asked.query:
            return _listed(bucket, asked)
        if "uploads" in asked.query:
            rows = "".join(
                f"<Upload><Key>{escape(key)}</Key><UploadId>{upload}</UploadId></Upload>"
                for upload, (key, _, _) in sorted(bucket.uploads.items())
            )
            return Answer(200, f"<ListMultipartUploadsResult>{rows}</ListMultipartUploadsResult>".encode())
        if "delete" in asked.query and asked.method == "POST":
            return self._delete_many(bucket, asked)
        if asked.method == "DELETE":
            if bucket.versions or bucket.uploads:
                return error(409, "BucketNotEmpty")
            del self.buckets[asked.bucket]
            return Answer(204)
        return Answer(200)

    def _delete_many(self, bucket: Bucket, asked: Asked) -> Answer:
        bypass = asked.headers.get("x-amz-bypass-governance-retention", "").lower() == "true"
        errors = ""
        for item in ElementTree.fromstring(asked.body).iter():
            if not item.tag.endswith("Object"):
                continue
            named = {each.tag.rpartition("}")[2]: each.text or "" for each in item}
            refusal = _delete(bucket, named["Key"], named.get("VersionId"), bypass, self)
            if refusal is not None:
                errors += (
                    f"<Error><Key>{escape(named['Key'])}</Key><VersionId>{named.get('VersionId', '')}</VersionId>"
                    f"<Code>AccessDenied</Code><Message>{refusal}</Message></Error>"
                )
        return Answer(200, f"<DeleteResult>{errors}</DeleteResult>".encode())

    def _of_object(self, bucket: Bucket, asked: Asked) -> Answer:
        if "uploads" in asked.query or "uploadId" in asked.query:
            return self._of_upload(bucket, asked)
        version = bucket.of(asked.key, asked.query.get("versionId"))
        if asked.is_upload:
            made = Version(asked.key, self.next_id(), asked.body, _kept(asked.headers))
            bucket.versions.append(made)
            return Answer(200, headers={"ETag": _etag(asked.body), "x-amz-version-id": made.id})
        if asked.method == "DELETE":
            bypass = asked.headers.get("x-amz-bypass-governance-retention", "").lower() == "true"
            refusal = _delete(bucket, asked.key, asked.query.get("versionId"), bypass, self)
            return Answer(204) if refusal is None else error(403, "AccessDenied", refusal)
        if version is None or version.is_marker:
            return error(404, "NoSuchKey")
        for name, header, field_name in (
            ("retention", f"{_LOCK}mode", "Mode"),
            ("legal-hold", f"{_LOCK}legal-hold", "Status"),
        ):
            if name in asked.query:
                return _lock_request(version, asked, name, header, field_name)
        headers = {"ETag": _etag(version.body), "x-amz-version-id": version.id, **version.headers}
        first, last = 0, len(version.body) - 1
        if "range" in asked.headers:
            low, _, high = asked.headers["range"].removeprefix("bytes=").partition("-")
            first, last = int(low), min(int(high), last) if high else last
            headers["Content-Range"] = f"bytes {first}-{last}/{len(version.body)}"
        return Answer(206 if "range" in asked.headers else 200, version.body[first : last + 1], headers)

    def _of_upload(self, bucket: Bucket, asked: Asked) -> Answer:
        if "uploads" in asked.query:
            upload = self.next_id()
            bucket.uploads[upload] = (asked.key, _kept(asked.headers), {})
            text = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            return Answer(200, text.encode())
        upload = asked.query["uploadId"]
        if upload not in bucket.uploads:
            return error(404, "NoSuchUpload")
        key, headers, parts = bucket.uploads[upload]
        if asked.method == "PUT":
            parts[int(asked.query["partNumber"])] = asked.body
            return Answer(200, headers={"ETag": _etag(asked.body)})
        del bucket.uploads[upload]
        if asked.method == "DELETE":
            return Answer(204)
        body = b"".join(parts[number] for number in sorted(parts))
        made = Version(key, self.next_id(), body, headers)
        bucket.versions.append(made)
        text = f"<CompleteMultipartUploadResult><ETag>{escape(_etag(body))}</ETag></CompleteMultipartUploadResult>"
        return Answer(200, text.encode(), {"x-amz-version-id": made.id})


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def _kept(headers: dict[str, str]) -> dict[str, str]:
    return {
        name: text
        for name, text in headers.items()
        if name in _LOCK_HEADERS or name.startswith(("x-amz-meta-", "x-amz-checksum-"))
    }


def _delete(bucket: Bucket, key: str, version_id: str | None, bypass: bool, server: Hostile) -> str | None:
    """Delete a version, or write a delete marker; return why it is refused."""
    if version_id is None:
        bucket.versions.append(Version(key, server.next_id(), b"", {}, is_marker=True))
        return None
    version = bucket.of(key, version_id)
    if version is None:
        return None
    if version.is_locked(bypass):
        return "the version is locked"
    bucket.versions.remove(version)
    return None


def _lock_request(version: Version, asked: Asked, name: str, header: str, field_name: str) -> Answer:
    root = {"retention": "Retention", "legal-hold": "LegalHold"}[name]
    if asked.method == "PUT":
        for each in ElementTree.fromstring(asked.body).iter():
            tag = each.tag.rpartition("}")[2]
            if tag == field_name:
                version.headers[header] = each.text or ""
            if tag == "RetainUntilDate":
                version.headers[f"{_LOCK}retain-until-date"] = each.text or ""
        return Answer(200)
    if header not in version.headers:
        return error(404, "NoSuchObjectLockConfiguration")
    date = version.headers.get(f"{_LOCK}retain-until-date", "")
    dated = f"<RetainUntilDate>{date}</RetainUntilDate>" if name == "retention" else ""
    return Answer(200, f"<{root}><{field_name}>{version.headers[header]}</{field_name}>{dated}</{root}>".encode())


def _listed(bucket: Bucket, asked: Asked) -> Answer:
    """List versions by key, the newest of a key first."""
    prefix, page = asked.query.get("prefix", ""), int(asked.query.get("max-keys", _PAGE))
    newest = {each.key: each.id for each in bucket.versions}
    rows = sorted((each for each in reversed(bucket.versions) if each.key.startswith(prefix)), key=lambda row: row.key)
    after_key, after_id = asked.query.get("key-marker", ""), asked.query.get("version-id-marker", "")
    if after_key:
        at = next((n for n, row in enumerate(rows) if (row.key, row.id) == (after_key, after_id)), None)
        rows = rows[at + 1 :] if at is not None else [row for row in rows if row.key > after_key]
    shown, rest = rows[:page], rows[page:]
    text = "".join(
        f"<{kind}><Key>{escape(row.key)}</Key><VersionId>{row.id}</VersionId>"
        f"<IsLatest>{'true' if newest[row.key] == row.id else 'false'}</IsLatest><Size>{len(row.body)}</Size></{kind}>"
        for row in shown
        for kind in ("DeleteMarker" if row.is_marker else "Version",)
    )
    more = ""
    if rest and shown:
        more = (
            f"<NextKeyMarker>{escape(shown[-1].key)}</NextKeyMarker>"
            f"<NextVersionIdMarker>{shown[-1].id}</NextVersionIdMarker>"
        )
    truncated = "true" if rest else "false"
    return Answer(
        200, f"<ListVersionsResult>{text}<IsTruncated>{truncated}</IsTruncated>{more}</ListVersionsResult>".encode()
    )


class _Handler(BaseHTTPRequestHandler):
    server: Hostile
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def _answer(self) -> None:
        split = urlsplit(self.path)
        bucket, _, key = unquote(split.path.removeprefix("/")).partition("/")
        asked = Asked(
            self.command,
            bucket,
            key,
            dict(parse_qsl(split.query, keep_blank_values=True)),
            {name.lower(): text for name, text in self.headers.items()},
            self.rfile.read(int(self.headers.get("content-length", 0))),
            0,
        )
        answer = self.server.answer(asked)
        if answer.sends is not None:
            answer.sends(self)
            return
        self.send_response_only(answer.status)
        self.send_header("Date", format_datetime(datetime.now(UTC), usegmt=True))
        for name, text in answer.headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self.wfile.flush()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


@contextmanager
def hostile(*names: str, **setting: Any) -> Iterator[Hostile]:
    """Run a server with these modes for the block."""
    with Hostile(names, setting) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


# The modes ------------------------------------------------------------------------------------------------------------


@mode("ignores the prefix of listings")
def _ignores_prefix(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    asked.query.pop("prefix", None)
    return pass_on(asked)


@mode("changes locks from an object on")
def _changes_locks(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    """``from_object``: the first such PUT; ``lock``: the lock headers that it stores instead (an empty text: none)."""
    if asked.is_upload and asked.number >= server.setting["from_object"]:
        for name, text in server.setting["lock"].items():
            asked.headers[f"{_LOCK}{name}"] = text
            if not text:
                del asked.headers[f"{_LOCK}{name}"]
    return pass_on(asked)


@mode("refuses every object")
def _refuses_objects(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    """``refusal``: (status, code, message). ``from_object``: the first PUT that is refused (1 unless given)."""
    if asked.is_upload and asked.number >= server.setting.get("from_object", 1):
        return error(*server.setting["refusal"])
    return pass_on(asked)


@mode("refuses every object once")
def _refuses_once(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    """``refusal``: (status, code, message) of the first PUT of each key."""
    if asked.is_upload:
        with server.guard:
            seen = server.setting.setdefault("seen", set())
            if asked.key not in seen:
                seen.add(asked.key)
                return error(*server.setting["refusal"])
    return pass_on(asked)


@mode("answers an upload with an error body")
def _error_body(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    """200 with an error in the body, and nothing is stored."""
    if asked.is_upload:
        return Answer(200, error(200, "InternalError", "try again").body)
    return pass_on(asked)


@mode("stops answering")
def _stops(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    """Closes every connection without an answer, from the PUT ``from_object`` on."""
    with server.guard:
        stopped = server.setting.get("stopped", False) or (
            asked.is_upload and asked.number >= server.setting["from_object"]
        )
        server.setting["stopped"] = stopped
    if stopped:
        return Answer(0, sends=_close)
    return pass_on(asked)


def _close(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    with suppress(OSError):
        handler.connection.shutdown(2)


@mode("shows another lock on reads")
def _shows_another_lock(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    """``shown``: headers of the lock that answers to GET of an object show from GET ``from_read`` on (empty: none)."""
    answer = pass_on(asked)
    if asked.method == "GET" and asked.key and not asked.query and asked.number >= server.setting["from_read"]:
        for name, text in server.setting["shown"].items():
            answer.headers.pop(f"{_LOCK}{name}", None)
            if text:
                answer.headers[f"{_LOCK}{name}"] = text
    return answer


@mode("gets a default rule")
def _gets_a_rule(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    """``rule_at``: the PUT of an object before which another owner sets a default rule of ten years."""
    if asked.is_upload and asked.number == server.setting["rule_at"]:
        with server.guard:
            server.buckets[asked.bucket].lock_configuration = (
                b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>"
                b"<Mode>COMPLIANCE</Mode><Years>10</Years></DefaultRetention></Rule></ObjectLockConfiguration>"
            )
    return pass_on(asked)


@mode("changes the locks of copies and uploads")
def _changes_copies(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    """``lock``: headers of the lock that objects made by a copy or a multipart upload get. It also makes the copies."""
    source = unquote(asked.headers.get("x-amz-copy-source", "")).removeprefix("/")
    if source or (asked.method == "POST" and "uploads" in asked.query):
        asked.headers |= {f"{_LOCK}{name}": text for name, text in server.setting["lock"].items()}
    if not source:
        return pass_on(asked)
    bucket, _, key = source.partition("/")
    with server.guard:
        copied = server.buckets[bucket].of(key)
    asked.body = copied.body if copied is not None else b""
    answer = pass_on(asked)
    answer.body = f"<CopyObjectResult><ETag>{escape(_etag(asked.body))}</ETag></CopyObjectResult>".encode()
    return answer


@mode("answers chosen requests otherwise")
def _answers_otherwise(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    """``chosen(asked)``: whether a request is; ``otherwise(asked, pass_on)``: its answer. A test may change both."""
    chosen: Callable[[Asked], bool] = server.setting["chosen"]
    otherwise: Callable[[Asked, PassOn], Answer] = server.setting["otherwise"]
    return otherwise(asked, pass_on) if chosen(asked) else pass_on(asked)


@mode("repeats the markers of listings")
def _repeats_markers(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    """Two pages refer to each other for ever. ``marker``: False: the pages go on after no key at all."""
    if asked.method != "GET" or not {"versions", "uploads"} & asked.query.keys():
        return pass_on(asked)
    after = {"a": "b"}.get(asked.query.get("key-marker", ""), "a")
    marker = f"<NextKeyMarker>{after}</NextKeyMarker>" if server.setting.get("marker", True) else ""
    return Answer(200, f"<ListVersionsResult><IsTruncated>true</IsTruncated>{marker}</ListVersionsResult>".encode())


@mode("names a key of another owner in the answer to a deletion")
def _names_another(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    """``named``: (key, version id)."""
    answer = pass_on(asked)
    if "delete" in asked.query:
        key, version = server.setting["named"]
        wrong = f"<Error><Key>{key}</Key><VersionId>{version}</VersionId><Code>AccessDenied</Code></Error>"
        answer.body = answer.body.replace(b"</DeleteResult>", f"{wrong}</DeleteResult>".encode())
    return answer


@mode("refuses to release holds")
def _refuses_releases(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    """``held``: the keys for which it refuses; all unless given."""
    held = server.setting.get("held")
    if (
        asked.method == "PUT"
        and {"legal-hold", "retention"} & asked.query.keys()
        and (held is None or asked.key in held)
    ):
        return error(403, "AccessDenied")
    return pass_on(asked)


@mode("hides locks")
def _hides_locks(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    """As for a credential without the rights to see locks."""
    if asked.method == "GET" and {"legal-hold", "retention"} & asked.query.keys():
        return error(403, "AccessDenied")
    answer = pass_on(asked)
    answer.headers = {name: text for name, text in answer.headers.items() if not name.startswith(_LOCK)}
    return answer


@mode("acknowledges the release of holds and keeps them")
def _keeps_holds(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    if asked.method == "PUT" and "legal-hold" in asked.query:
        return Answer(200)
    return pass_on(asked)


@mode("deletes a bucket with everything in it")
def _deletes_full_buckets(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    """As SeaweedFS does. ``deleted`` has the names of the buckets."""
    if asked.method == "DELETE" and not asked.key:
        server.setting.setdefault("deleted", []).append(asked.bucket)
        del server.buckets[asked.bucket]
        return Answer(204)
    return pass_on(asked)


@mode("answers uploads with a load balancer's page")
def _answers_page(server: Hostile, asked: Asked, pass_on: PassOn) -> Answer:
    """504 with a page in HTML, from the PUT ``from_object`` on."""
    if asked.is_upload and asked.number >= server.setting["from_object"]:
        title = "<head><title>504 Gateway Time-out</title><style>body{color:red}</style></head>"
        page = f"<html>{title}<body><center><h1>504 Gateway Time-out</h1></center><hr>nginx</body></html>"
        return Answer(504, page.encode(), {"Content-Type": "text/html"})
    return pass_on(asked)
