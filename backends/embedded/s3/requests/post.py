"""Browser-based uploads (POST policy): a form whose signed policy allows each of its fields.

One idea: a form becomes a PUT or nothing. If the signed policy allows each field, the fields become the headers of an
ordinary upload, and the file becomes its body. The one function that stores objects then handles locks, checksums and
the bucket's default retention. "Browser-Based Uploads Using POST" in the S3 API reference defines form and policy.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any, Protocol
from urllib.parse import urlencode

from aiohttp import web

from .. import xml
from ..errors import S3Error, invalid_argument
from ..xml import document, element
from .presigned import ALGORITHM, Scope, refuse_token
from .signature import Signed, Verifier

FIELDS_BYTES_MAX = 20 << 10  # of everything except the file; Amazon's limit
FILENAME = "${filename}"

_KIND = "multipart/form-data"
_SIGNING = ("x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature")
_UNCOVERED = ("x-amz-signature", "policy")  # fields that need no condition
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")  # a legal header name: RFC 9110, 5.6.2
_NO_HEADERS = ("policy", "key", "acl", "tagging")  # fields that are no headers of a PUT
_REDIRECTS = ("success_action_redirect", "redirect")
_STATUSES = ("200", "201", "204")


class BodyStream(Protocol):
    """A body that arrives; `readany` returns b"" at its end."""

    async def readany(self) -> bytes: ...


def is_form(method: str, raw_path: str, raw_query: str, headers: Mapping[str, str]) -> bool:
    """Return whether the request is a form upload to a bucket. Only its body is signed."""
    if method != "POST" or raw_query:
        return False
    raw_bucket, _, raw_key = raw_path[1:].partition("/")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return bool(raw_bucket) and not raw_key and kind == _KIND


# ---- the form


class UploadForm:
    """A multipart form, read once from start to end. Memory is bounded: it keeps the fields only."""

    def __init__(self, content: BodyStream, headers: Mapping[str, str]) -> None:
        """`headers` are the request's, by lower-case name. Raises S3Error if a form must not have one of them."""
        if "authorization" in headers:
            raise invalid_argument("Only one auth mechanism allowed: header or form", "Authorization", "")
        unsigned = [name for name in headers if name.startswith("x-amz-")]
        if unsigned:
            raise S3Error(
                "AccessDenied",
                "a form has its parameters in its fields: its headers are not signed",
                {"HeadersNotSigned": ", ".join(unsigned)},
            )
        message = Message()
        message["Content-Type"] = headers["content-type"]
        boundary = message.get_boundary("")
        if not 1 <= len(boundary) <= 70:
            raise _malformed("the boundary is missing, or longer than 70 characters")
        self.file_name = ""
        self.fields: dict[str, str] = {}
        self._content = content
        self._mark = b"\r\n--" + boundary.encode("latin-1", "replace")
        self._pending = b"\r\n"  # the first boundary then has the form of the others
        self._room = FIELDS_BYTES_MAX

    async def read_fields(self) -> None:
        """Read the fields before the file. Names are in lower case. Raises S3Error."""
        await self._until(self._mark)
        while True:
            if await self._until(b"\r\n"):
                raise invalid_argument("POST requires exactly one file upload per request.", "file", "")
            disposition = await self._part_head()
            name = _parameter(disposition, "name").lower()
            if name == "file":
                self.file_name = re.split(r"[/\\]", _parameter(disposition, "filename"))[-1]
                return
            if _TOKEN.fullmatch(name) is None or name in self.fields:
                raise invalid_argument(
                    "a form may have each field once, with a name that is legal for a header", name, ""
                )
            try:
                self.fields[name] = (await self._until(self._mark)).decode()
            except UnicodeDecodeError:
                raise _malformed(f"the field {name} is not UTF-8") from None

    async def file(self) -> AsyncIterator[bytes]:
        """Yield the file's bytes, then read to the form's end; fields after the file are ignored. Raises S3Error."""
        kept = len(self._mark) - 1  # bytes that may begin the mark
        while (end := self._pending.find(self._mark)) < 0:
            if len(self._pending) > kept:
                ready, self._pending = self._pending[:-kept], self._pending[-kept:]
                yield ready
            self._pending += await self._more()
        if end:
            yield self._pending[:end]
        self._pending = self._pending[end + len(self._mark) :]
        self._room = FIELDS_BYTES_MAX
        while (await self._until_either(b"--", b"\r\n")) == b"\r\n":
            await self._until(self._mark)
        self._spend(len(self._pending))
        while rest := await self._read():
            self._spend(len(rest))

    async def _part_head(self) -> Message:
        head = b"\r\n" + await self._until(b"\r\n\r\n")
        if self._mark in head:
            raise _malformed("a part has no description")
        found = re.search(rb"\r\ncontent-disposition:([^\r\n]*)", head, re.IGNORECASE)
        message = Message()
        message["Content-Disposition"] = found[1].decode("utf-8", "replace").strip() if found else ""
        if message.get_content_disposition() != "form-data":
            raise _malformed("a part is not described as form-data")
        return message

    async def _until(self, mark: bytes) -> bytes:
        """Return the bytes before the mark; consume the mark too."""
        while (end := self._pending.find(mark)) < 0:
            if len(self._pending) > self._room:
                raise _too_long()
            self._pending += await self._more()
        taken, self._pending = self._pending[:end], self._pending[end + len(mark) :]
        self._spend(end + len(mark))
        return taken

    async def _until_either(self, one: bytes, other: bytes) -> bytes:
        """Return which of these two-byte marks comes next."""
        while len(self._pending) < len(one):
            self._pending += await self._more()
        taken, self._pending = self._pending[: len(one)], self._pending[len(one) :]
        if taken not in (one, other):
            raise _malformed("a boundary is followed by neither a part nor the end")
        return taken

    async def _read(self) -> bytes:
        try:
            return await self._content.readany()
        except (web.RequestPayloadError, asyncio.IncompleteReadError, ConnectionError) as cut:
            raise S3Error("IncompleteBody", "the connection ended before the form did") from cut

    async def _more(self) -> bytes:
        data = await self._read()
        if not data:
            raise S3Error("IncompleteBody", "the form ends before its last boundary")
        return data

    def _spend(self, length: int) -> None:
        self._room -= length
        if self._room < 0:
            raise _too_long()


def _parameter(disposition: Message, name: str) -> str:
    value = disposition.get_param(name, "", "content-disposition")
    return value if isinstance(value, str) else ""  # browsers do not use the form of RFC 2231


# ---- the policy


@dataclass(frozen=True, slots=True)
class Policy:
    """A signed policy: what the form may contain."""

    expires_ms: int
    conditions: tuple[tuple[str, str, str], ...]  # "eq" or "starts-with", field, value
    lengths: tuple[tuple[int, int], ...]  # of the file in bytes: each range must have it

    @classmethod
    def of(cls, text: str) -> Policy:
        """Parse the base64 of the policy's JSON. Raises S3Error if it is no policy."""
        try:
            parsed = json.loads(base64.b64decode(text, validate=True), object_pairs_hook=_once)
            expiration, conditions = parsed.pop("expiration"), parsed.pop("conditions")
            expires_ms = xml.instant_of_text(expiration)
        except (binascii.Error, ValueError, KeyError, AttributeError, TypeError, OverflowError, RecursionError):
            raise _no_policy("it is the base64 of JSON with an expiration (an instant) and conditions") from None
        if parsed or not isinstance(conditions, list):
            raise _no_policy("it has an expiration and a list of conditions, and nothing else")
        plain: list[tuple[str, str, str]] = []
        lengths: list[tuple[int, int]] = []
        for condition in conditions:
            if isinstance(condition, list) and condition[:1] == ["content-length-range"]:
                lengths.append(_range(condition))
            else:
                plain += _plain_conditions(condition)
        return cls(expires_ms, tuple(plain), tuple(lengths))

    def check(self, fields: Mapping[str, str], now_ms: int) -> None:
        """Return if every condition is true and every field has one. `fields` includes the bucket. Raises S3Error."""
        if now_ms >= self.expires_ms:
            raise _refused("Policy expired.")
        for operation, name, value in self.conditions:
            if name not in fields or not _is_met(operation, name, fields[name], value):
                raise _refused(f"Policy Condition failed: the field {name}")
        covered = {name for _, name, _ in self.conditions}
        extra = [name for name in fields if not (name in covered or name in _UNCOVERED or name.startswith("x-ignore-"))]
        if extra:
            raise _refused(f"Extra input fields: {', '.join(sorted(extra))}")

    def check_length(self, size_bytes: int, is_whole: bool) -> None:
        """Check the bytes of the file received so far, and at its end the minimum. Raises S3Error."""
        for least, most in self.lengths:
            if size_bytes > most:
                raise S3Error("EntityTooLarge", f"the policy allows a file of at most {most} bytes")
            if is_whole and size_bytes < least:
                raise S3Error("EntityTooSmall", f"the policy allows a file of at least {least} bytes")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a repeated name: one of its conditions would be lost."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def _plain_conditions(condition: Any) -> list[tuple[str, str, str]]:
    match condition:
        case dict():
            found = [("eq", name, value) for name, value in condition.items()]
        case ["eq" | "starts-with" as operation, str(name), value] if name.startswith("$"):
            found = [(operation, name[1:], value)]
        case _:
            raise _no_policy("a condition is {name: value}, [eq, $name, value], [starts-with, $name, value] or a range")
    if not all(isinstance(value, str) for _, _, value in found):
        raise _no_policy("the value of a condition is a text")
    return [(operation, name.lower(), value) for operation, name, value in found]


def _range(condition: list[Any]) -> tuple[int, int]:
    bounds = [int(each) for each in condition[1:] if re.fullmatch(r"[0-9]{1,18}", str(each))]
    if len(condition) != 3 or len(bounds) != 2:
        raise _no_policy("content-length-range has a least and a most number of bytes")
    return bounds[0], bounds[1]


def _is_met(operation: str, name: str, given: str, value: str) -> bool:
    if operation == "eq":
        return given == value
    if name == "content-type":  # a list of types: each of them
        return all(each.strip().startswith(value) for each in given.split(","))
    return given.startswith(value)


# ---- both


@dataclass(frozen=True, slots=True)
class FormUpload:
    """The upload that a form requests: the headers of a PUT, and the status of its answer."""

    key: str
    headers: dict[str, str]
    signed: Signed
    policy: Policy
    status: int


def allowed_upload(form: UploadForm, bucket: str, verifier: Verifier, now_ms: int) -> FormUpload:
    """Return the upload that a form's fields request, if the signed policy allows all of them. Raises S3Error."""
    fields = form.fields
    if "key" not in fields:
        raise invalid_argument("Bucket POST must contain a field named 'key' before the file", "key", "")
    fields["key"] = fields["key"].replace(FILENAME, form.file_name)
    if not fields["key"]:
        raise invalid_argument("User key must have a length greater than 0.", "key", "")
    signed, policy = _signed_policy(fields, verifier)
    policy.check({**fields, "bucket": bucket}, now_ms)
    redirect = next((name for name in _REDIRECTS if name in fields), None)
    if redirect is not None:
        raise S3Error("NotImplemented", f"the embedded store does not offer {redirect}; use success_action_status")
    status = fields.get("success_action_status", "")
    headers = {name: value for name, value in fields.items() if name not in (*_SIGNING, *_NO_HEADERS)}
    if "acl" in fields:
        headers["x-amz-acl"] = fields["acl"]
    if "tagging" in fields:  # a document in a form, a header in a PUT
        headers["x-amz-tagging"] = urlencode(xml.parse_tagging(fields["tagging"].encode()))
    unprintable = next((name for name, value in headers.items() if not value.isprintable()), None)
    if unprintable is not None:  # answers about the object would have it as a header
        raise invalid_argument(
            "a field has a line break, or another character that no header may have", unprintable, ""
        )
    return FormUpload(fields["key"], headers, signed, policy, int(status) if status in _STATUSES else 204)


def _signed_policy(fields: Mapping[str, str], verifier: Verifier) -> tuple[Signed, Policy]:
    if "policy" not in fields and not any(name in fields for name in _SIGNING):
        raise S3Error("AccessDenied", "the form is not signed; the store takes no anonymous uploads")
    refuse_token(fields, "x-amz-security-token")
    for name in ("policy", *_SIGNING):
        if name not in fields:
            raise invalid_argument(f"Bucket POST must contain a field named '{name}' before the file", name, "")
    if fields["x-amz-algorithm"] != ALGORITHM:
        raise invalid_argument(f"x-amz-algorithm only supports {ALGORITHM}", "x-amz-algorithm", "")
    scope = Scope.of(fields["x-amz-credential"])
    if scope is None:
        raise invalid_argument("it must be like ACCESSKEY/20261121/REGION/s3/aws4_request", "x-amz-credential", "")
    signed = verifier.verify_policy(fields["policy"], scope, fields["x-amz-date"], fields["x-amz-signature"])
    return signed, Policy.of(fields["policy"])


def stored_document(bucket: str, key: str, etag: str, location: str) -> bytes:
    """Return the body of a 201 answer."""
    parts = [element("Location", location), element("Bucket", bucket), element("Key", key), element("ETag", etag)]
    return document("PostResponse", parts)


def _refused(why: str) -> S3Error:
    return S3Error("AccessDenied", f"Invalid according to Policy: {why}")


def _no_policy(why: str) -> S3Error:
    return S3Error("InvalidPolicyDocument", f"Invalid Policy: {why}")


def _malformed(why: str) -> S3Error:
    return S3Error(
        "MalformedPOSTRequest", f"The body of your POST request is not well-formed multipart/form-data: {why}"
    )


def _too_long() -> S3Error:
    return S3Error("MaxPostPreDataLengthExceededError", f"a form may have {FIELDS_BYTES_MAX} bytes without its file")
