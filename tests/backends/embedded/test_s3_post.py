"""Form uploads (POST policy): form and policy as values, then forms of boto3 sent to a server."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.client
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from backends.embedded.process import StoreProcess
from backends.embedded.s3.errors import S3Error
from backends.embedded.s3.requests.post import FIELDS_BYTES_MAX, Policy, UploadForm

EDGE = "edge-of-the-form"
HEADERS = {"content-type": f"multipart/form-data; boundary={EDGE}"}
Fields = Sequence[tuple[str, str]]


def form_bytes(fields: Fields, file: bytes | None = b"the file", name: str = "file.txt", after: Fields = ()) -> bytes:
    def part(field: str, value: bytes) -> bytes:
        return f'--{EDGE}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n'.encode() + value + b"\r\n"

    parts = [part(field, value.encode()) for field, value in fields]
    if file is not None:
        head = f'--{EDGE}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        parts.append(head.encode() + b"Content-Type: text/x\r\n\r\n" + file + b"\r\n")
    parts += [part(field, value.encode()) for field, value in after]
    return b"".join(parts) + f"--{EDGE}--\r\n".encode()


class Pieces:
    """A body that arrives in pieces of a fixed length."""

    def __init__(self, body: bytes, length: int) -> None:
        self._pieces = [body[start : start + length] for start in range(0, len(body), length)]

    async def readany(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def read(body: bytes, length: int = 7, headers: dict[str, str] | None = None) -> tuple[dict[str, str], bytes, str]:
    async def whole() -> tuple[dict[str, str], bytes, str]:
        form = UploadForm(Pieces(body, length), headers or HEADERS)
        await form.read_fields()
        file = b"".join([piece async for piece in form.file()])
        return form.fields, file, form.file_name

    return asyncio.run(whole())


def refused(act: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(S3Error) as raised:
        act()
    return raised.value.status, raised.value.code


@pytest.mark.parametrize("length", [1, 2, 5, 64, 1 << 20])
@pytest.mark.parametrize("file", [b"", b"x", b"\r\n", b"\r\n--edge-of-the-for", bytes(range(256)) * 3, b"a\r\n--" * 50])
def test_form_is_parsed_alike_for_every_piece_length(file: bytes, length: int) -> None:
    body = form_bytes([("key", "a/é"), ("X-Amz-Meta-A", ""), ("policy", "a\r\nb")], file, "C:/in/a folder/ü.txt")
    assert read(b"preamble\r\n" + body + b"epilogue", length) == (
        {"key": "a/é", "x-amz-meta-a": "", "policy": "a\r\nb"}, file, "ü.txt",
    )  # fmt: skip


def test_fields_after_the_file_are_ignored() -> None:
    assert read(form_bytes([("key", "k")], after=[("key", "other"), ("acl", "x")]))[:2] == ({"key": "k"}, b"the file")


@pytest.mark.parametrize("cut", [1, 3, 30, 60, 120, 180])
def test_a_form_that_is_cut_anywhere_is_incomplete(cut: int) -> None:
    body = form_bytes([("key", "k"), ("policy", "p")]).removesuffix(b"\r\n")
    assert refused(lambda: read(body[:-cut])) == (400, "IncompleteBody")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (form_bytes([("key", "k"), ("KEY", "other")]), "InvalidArgument"),
        (form_bytes([("", "k")]), "InvalidArgument"),
        (form_bytes([("x-amz-meta-a:b", "k")]), "InvalidArgument"),
        (form_bytes([("x-amz-meta-é", "k")]), "InvalidArgument"),
        (form_bytes([("key", "k")], None), "InvalidArgument"),
        (form_bytes([("key", "k" * FIELDS_BYTES_MAX)]), "MaxPostPreDataLengthExceededError"),
        (form_bytes([(f"x-ignore-{i}", "") for i in range(1000)]), "MaxPostPreDataLengthExceededError"),
        (form_bytes([("key", "k")], after=[("more", "k" * FIELDS_BYTES_MAX)]), "MaxPostPreDataLengthExceededError"),
        (form_bytes([("key", "k")]) + b"x" * FIELDS_BYTES_MAX, "MaxPostPreDataLengthExceededError"),
        (b"x" * (FIELDS_BYTES_MAX + 1), "MaxPostPreDataLengthExceededError"),
        (b"nothing of the kind", "IncompleteBody"),
        (form_bytes([("key", "k")]).replace(b"form-data", b"attachment"), "MalformedPOSTRequest"),
        (form_bytes([("key", "k")]).replace(b"Content-Disposition", b"X"), "MalformedPOSTRequest"),
        (f"--{EDGE}\r\n\r\nvalue\r\n".encode() + form_bytes([("key", "k")]), "MalformedPOSTRequest"),
        (form_bytes([("key", "k")]).replace(b"\r\nk\r", b"\r\n\xff\r"), "MalformedPOSTRequest"),
        (form_bytes([("key", "k")]).replace(f"{EDGE}--".encode(), f"{EDGE}x-".encode()), "MalformedPOSTRequest"),
    ],
)  # fmt: skip
def test_malformed_form_is_refused(body: bytes, code: str) -> None:
    assert refused(lambda: read(body, 4096)) == (400, code)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"content-type": "multipart/form-data"}, "MalformedPOSTRequest"),
        ({"content-type": f"multipart/form-data; boundary={'x' * 71}"}, "MalformedPOSTRequest"),
        ({**HEADERS, "authorization": "AWS4-HMAC-SHA256 ..."}, "InvalidArgument"),
        ({**HEADERS, "x-amz-object-lock-mode": "GOVERNANCE"}, "AccessDenied"),
    ],
)
def test_invalid_form_headers_are_refused(headers: dict[str, str], code: str) -> None:
    assert refused(lambda: UploadForm(Pieces(b"", 1), headers))[1] == code


# Policies.


def encoded(document: Any) -> str:
    return base64.b64encode(json.dumps(document).encode()).decode()


def policy(*conditions: Any) -> Policy:
    return Policy.of(encoded({"expiration": "2030-01-01T00:00:00.000Z", "conditions": list(conditions)}))


END_MS = 1893456000_000
CONDITIONS = ({"bucket": "b"}, ["starts-with", "$Key", "in/"], {"X-Amz-Meta-A": "1"})
FIELDS = {"bucket": "b", "key": "in/k", "x-amz-meta-a": "1"}


@pytest.mark.parametrize(
    ("change", "is_allowed"),
    [
        ({}, True),
        ({"x-ignore-me": "anything", "policy": "p", "x-amz-signature": "s"}, True),
        ({"bucket": "other"}, False),
        ({"key": "out/k"}, False),
        ({"key": "In/k"}, False),
        ({"x-amz-meta-a": "2"}, False),
        ({"x-amz-meta-a": None}, False),
        ({"key": None}, False),
        ({"x-amz-object-lock-mode": "GOVERNANCE"}, False),
        ({"content-type": "text/html"}, False),
        ({"x-amz-date": "20300101T000000Z"}, False),
    ],
)
def test_form_must_meet_all_conditions_and_have_no_unlisted_field(
    change: dict[str, str | None], is_allowed: bool
) -> None:
    fields = {name: value for name, value in {**FIELDS, **change}.items() if value is not None}
    if is_allowed:
        policy(*CONDITIONS).check(fields, END_MS - 1)
    else:
        assert refused(lambda: policy(*CONDITIONS).check(fields, 0)) == (403, "AccessDenied")


def test_a_policy_ends_at_its_expiration() -> None:
    policy(*CONDITIONS).check(FIELDS, END_MS - 1)
    assert refused(lambda: policy(*CONDITIONS).check(FIELDS, END_MS)) == (403, "AccessDenied")


@pytest.mark.parametrize(
    ("kind", "is_allowed"), [("image/png", True), ("image/png,image/gif", True), ("image/png,text/html", False)]
)
def test_every_content_type_in_a_list_must_be_allowed(kind: str, is_allowed: bool) -> None:
    only = policy(["starts-with", "$Content-Type", "image/"])
    if is_allowed:
        only.check({"content-type": kind}, 0)
    else:
        assert refused(lambda: only.check({"content-type": kind}, 0)) == (403, "AccessDenied")


@pytest.mark.parametrize(
    ("size", "is_whole", "code"),
    [(0, False, None), (4, True, "EntityTooSmall"), (5, True, None), (10, True, None), (11, False, "EntityTooLarge")],
)
def test_file_length_must_satisfy_every_length_range(size: int, is_whole: bool, code: str | None) -> None:
    both = policy(["content-length-range", 5, "1000"], ["content-length-range", 0, 10])
    if code is None:
        both.check_length(size, is_whole)
    else:
        assert refused(lambda: both.check_length(size, is_whole)) == (400, code)


GOOD = {"expiration": "2030-01-01T00:00:00Z", "conditions": [{"bucket": "b"}]}


@pytest.mark.parametrize(
    "text",
    [
        "", "no base64!", base64.b64encode(b"{").decode(), encoded([]), encoded({}), encoded("text"), encoded(None),
        encoded({**GOOD, "expiration": "tomorrow"}), encoded({**GOOD, "expiration": 5}),
        encoded({**GOOD, "expiration": "2030-01-01T00:00:00"}), encoded({**GOOD, "unknown": 1}),
        encoded({**GOOD, "conditions": {}}), encoded({**GOOD, "conditions": ["text"]}),
        encoded({**GOOD, "conditions": [["eq", "key", "k"]]}), encoded({**GOOD, "conditions": [["eq", "$key"]]}),
        encoded({**GOOD, "conditions": [["ends-with", "$key", "k"]]}), encoded({**GOOD, "conditions": [{"key": 5}]}),
        encoded({**GOOD, "conditions": [["content-length-range", 1]]}),
        encoded({**GOOD, "conditions": [["content-length-range", -1, 5]]}),
        encoded({**GOOD, "conditions": [["content-length-range", True, 5]]}),
        encoded({**GOOD, "conditions": [["content-length-range", 1, 5, 6]]}),
        base64.b64encode(b'{"expiration":"2030-01-01T00:00:00Z","conditions":[{"key":"a","key":"b"}]}').decode(),
        base64.b64encode(b"[" * 100_000).decode(),
    ],
)  # fmt: skip
def test_malformed_policy_is_refused(text: str) -> None:
    assert refused(lambda: Policy.of(text)) == (400, "InvalidPolicyDocument")


# Against the real server.


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read().decode()
        found = re.search("<Code>(.*)</Code>", self.body)
        self.code = found[1] if found else ""


@pytest.fixture
def post(store: StoreProcess) -> Callable[..., Answer]:
    """Send a form to a bucket."""

    def send(
        bucket: str, fields: dict[str, str], file: bytes = b"the file", name: str = "file.txt", query: str = "",
        **headers: str,
    ) -> Answer:  # fmt: skip
        connection = http.client.HTTPConnection(urlsplit(store.endpoint).netloc)
        try:
            named = {key.replace("_", "-"): value for key, value in headers.items()}
            body = form_bytes(list(fields.items()), file, name)
            connection.request("POST", f"/{bucket}{query}", body, {"Content-Type": HEADERS["content-type"], **named})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    return send


@pytest.fixture
def form(store: StoreProcess, connect: Callable[..., Any]) -> Callable[..., dict[str, str]]:
    """Return the fields of a form signed by boto3. Its policy requires the given fields unchanged."""

    def made(bucket: str, key: str = "k", credential: str = "default", more: Sequence[Any] = (), **given: str) -> Any:
        fields = {name.replace("_", "-"): value for name, value in given.items()}
        conditions = [{name: value} for name, value in fields.items()]
        client = connect(store, credential, signature_version="s3v4")
        return client.generate_presigned_post(bucket, key, fields, [*conditions, *more], 60)["fields"]

    return made


def sha256_of(body: bytes) -> str:
    return base64.b64encode(hashlib.sha256(body).digest()).decode()


CHECKED = {"x_amz_checksum_sha256": sha256_of(b"the file")}


def lock_fields(until: datetime) -> dict[str, str]:
    return {
        "x_amz_object_lock_mode": "GOVERNANCE",
        "x_amz_object_lock_retain_until_date": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        **CHECKED,
    }


def test_a_form_of_boto3_stores_an_object(post: Any, form: Any, s3: Any, bucket: str) -> None:
    fields = form(bucket, "in/ä k", Content_Type="text/plain", x_amz_meta_note="a note")
    answer = post(bucket, fields)
    assert (answer.status, answer.body) == (204, "")
    assert answer.headers["Location"] == f"/{bucket}/in/%C3%A4%20k"
    found = s3.get_object(Bucket=bucket, Key="in/ä k")
    assert found["Body"].read() == b"the file"
    assert (found["ContentType"], found["Metadata"]) == ("text/plain", {"note": "a note"})
    assert (found["VersionId"], found["ETag"]) == (answer.headers["x-amz-version-id"], answer.headers["ETag"])


@pytest.mark.parametrize("length", [0, 1, 300_000, (8 << 20) - 1, (8 << 20) + 1, 10 << 20])
def test_a_file_of_any_length_is_stored_whole(post: Any, form: Any, s3: Any, bucket: str, length: int) -> None:
    file = bytes(range(251)) * (length // 251 + 1)
    file = file[:length]
    assert post(bucket, form(bucket, x_amz_checksum_sha256=sha256_of(file)), file).status == 204
    assert (
        hashlib.sha256(s3.get_object(Bucket=bucket, Key="k")["Body"].read()).digest() == hashlib.sha256(file).digest()
    )


def test_form_tags_must_be_an_xml_document(post: Any, form: Any, s3: Any, bucket: str) -> None:
    tags = "<Tagging>\n <TagSet>\n  <Tag><Key>a b</Key><Value>1+1=2</Value></Tag>\n </TagSet>\n</Tagging>"
    assert post(bucket, form(bucket, tagging=tags)).status == 204
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [{"Key": "a b", "Value": "1+1=2"}]
    assert post(bucket, form(bucket, tagging="a=b")).code == "MalformedXML"


@pytest.mark.parametrize(("acl", "status"), [("private", 204), ("public-read", 400)])
def test_form_accepts_only_the_private_acl(post: Any, form: Any, s3: Any, bucket: str, acl: str, status: int) -> None:
    assert post(bucket, form(bucket, acl=acl)).status == status
    assert len(s3.list_objects_v2(Bucket=bucket).get("Contents", [])) == (status == 204)


def test_the_files_name_becomes_part_of_the_key(post: Any, form: Any, s3: Any, bucket: str) -> None:
    fields = form(bucket, "in/${filename}")
    assert post(bucket, fields, name="C:/folder/ü.txt").status == 204
    assert s3.head_object(Bucket=bucket, Key="in/ü.txt")["ContentLength"] == 8
    assert post(bucket, {**fields, "key": "out/${filename}"}).code == "AccessDenied"


def test_a_lock_of_a_form_is_set(post: Any, form: Any, s3: Any, bucket: str, until: datetime) -> None:
    answer = post(bucket, form(bucket, x_amz_object_lock_legal_hold="ON", **lock_fields(until)))
    assert answer.status == 204
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == ("GOVERNANCE", until)
    assert head["ObjectLockLegalHoldStatus"] == "ON"
    with pytest.raises(s3.exceptions.ClientError, match="AccessDenied"):
        s3.delete_object(Bucket=bucket, Key="k", VersionId=head["VersionId"])


@pytest.mark.parametrize(
    "change",
    [
        {"x-amz-object-lock-mode": None},
        {"x-amz-object-lock-mode": "COMPLIANCE"},
        {"x-amz-object-lock-retain-until-date": "2026-11-22T00:00:00Z"},
        {"x-amz-object-lock-legal-hold": "OFF"},
        {"x-amz-checksum-sha256": None},
        {"key": "other"},
        {"x-amz-signature": "0" * 64},
        {"x-amz-signature": "é"},
        {"x-amz-date": "20200101T000000Z"},
        {"policy": ""},
        {"x-amz-meta-more": "unforeseen"},
    ],
)
def test_form_with_any_changed_part_is_refused(
    post: Any, form: Any, s3: Any, bucket: str, until: datetime, change: dict[str, str | None]
) -> None:
    fields = {**form(bucket, **lock_fields(until)), **change}
    answer = post(bucket, {name: value for name, value in fields.items() if value is not None})
    assert (answer.status, answer.code) in ((403, "AccessDenied"), (403, "SignatureDoesNotMatch"))
    assert "Versions" not in s3.list_object_versions(Bucket=bucket)


def test_form_for_another_bucket_is_refused(post: Any, form: Any, bucket: str, plain_bucket: str) -> None:
    assert post(plain_bucket, form(bucket)).code == "AccessDenied"


@pytest.mark.parametrize("missing", ["policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature"])
def test_a_form_without_a_part_of_its_signature_is_refused(post: Any, form: Any, bucket: str, missing: str) -> None:
    fields = form(bucket)
    fields.pop(missing)
    assert (post(bucket, fields).status, post(bucket, fields).code) == (400, "InvalidArgument")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"x-amz-algorithm": "AWS4-HMAC-SHA1"}, "InvalidArgument"),
        ({"x-amz-credential": "KEY/today"}, "InvalidArgument"),
        ({"x-amz-credential": "KEY/20261121/us-east-1/s3/aws4_request"}, "InvalidAccessKeyId"),
        ({"x-amz-security-token": "token"}, "InvalidToken"),
        ({"key": ""}, "InvalidArgument"),
    ],
)
def test_form_with_invalid_signature_fields_or_empty_key_is_refused(
    post: Any, form: Any, bucket: str, fields: dict[str, str], code: str
) -> None:
    assert post(bucket, {**form(bucket), **fields}).code == code


def test_anonymous_form_is_refused(post: Any, bucket: str) -> None:
    assert (post(bucket, {"key": "k"}).status, post(bucket, {"key": "k"}).code) == (403, "AccessDenied")


def test_form_with_extra_headers_query_or_key_path_is_refused(post: Any, form: Any, bucket: str) -> None:
    assert post(bucket, form(bucket), authorization="AWS4-HMAC-SHA256 Credential=KEY").code == "InvalidArgument"
    assert post(bucket, form(bucket), x_amz_object_lock_legal_hold="ON").code == "AccessDenied"
    assert post(bucket, form(bucket), query="?delete").code == "AccessDenied"
    assert post(f"{bucket}/k", form(bucket)).code == "AccessDenied"


def test_presigned_post_without_a_form_is_refused(store: StoreProcess, s3: Any, connect: Any, bucket: str) -> None:
    client = connect(store, signature_version="s3v4")
    url = client.generate_presigned_url("head_bucket", Params={"Bucket": bucket}, HttpMethod="POST")
    connection = http.client.HTTPConnection(urlsplit(store.endpoint).netloc)
    connection.request("POST", url.removeprefix(store.endpoint), b"", HEADERS)
    answer = Answer(connection.getresponse())
    connection.close()
    assert (answer.status, answer.code) == (412, "PreconditionFailed")


def test_locked_form_needs_a_correct_checksum_field(post: Any, form: Any, s3: Any, bucket: str) -> None:
    assert post(bucket, form(bucket, x_amz_object_lock_legal_hold="ON")).code == "InvalidRequest"
    wrong = form(bucket, x_amz_object_lock_legal_hold="ON", x_amz_checksum_sha256=sha256_of(b"other"))
    assert post(bucket, wrong).code == "BadDigest"
    assert "Versions" not in s3.list_object_versions(Bucket=bucket)


def test_form_has_only_its_signers_permissions(post: Any, form: Any, bucket: str, until: datetime) -> None:
    assert post(bucket, form(bucket, credential="no-retention", **lock_fields(until))).code == "AccessDenied"
    held = form(bucket, credential="no-hold", x_amz_object_lock_legal_hold="ON", **CHECKED)
    assert post(bucket, held).code == "AccessDenied"
    assert post(bucket, form(bucket, credential="no-hold")).status == 204


def test_bucket_default_retention_applies_to_form_uploads(post: Any, form: Any, s3: Any, bucket: str) -> None:
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    s3.put_object_lock_configuration(
        Bucket=bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    assert post(bucket, form(bucket, **CHECKED)).status == 204
    assert s3.head_object(Bucket=bucket, Key="k")["ObjectLockMode"] == "GOVERNANCE"


def test_lock_fields_are_refused_for_a_bucket_without_object_lock(
    post: Any, form: Any, plain_bucket: str, until: datetime
) -> None:
    assert post(plain_bucket, form(plain_bucket, **lock_fields(until))).code == "InvalidRequest"


@pytest.mark.parametrize(("least", "most", "code"), [(0, 7, "EntityTooLarge"), (9, 99, "EntityTooSmall")])
def test_a_file_of_a_length_that_is_not_allowed_is_not_stored(
    post: Any, form: Any, s3: Any, bucket: str, least: int, most: int, code: str
) -> None:
    assert post(bucket, form(bucket, more=[["content-length-range", least, most]])).code == code
    assert "Versions" not in s3.list_object_versions(Bucket=bucket)


def test_a_long_file_that_fails_at_its_end_leaves_nothing(
    store: StoreProcess, post: Any, form: Any, s3: Any, bucket: str
) -> None:
    def segments() -> set[str]:
        return {each.name for each in (store.data_dir / "segments").iterdir()}

    before, file = segments(), bytes(9 << 20)
    assert post(bucket, form(bucket, x_amz_checksum_sha256=sha256_of(b"other")), file).code == "BadDigest"
    assert (
        post(bucket, form(bucket, more=[["content-length-range", 10 << 20, 20 << 20]]), file).code == "EntityTooSmall"
    )
    assert segments() == before
    assert "Versions" not in s3.list_object_versions(Bucket=bucket)


def test_a_key_may_not_be_too_long(post: Any, form: Any, bucket: str) -> None:
    assert post(bucket, form(bucket, "k" * 1024)).status == 204
    assert post(bucket, form(bucket, "k" * 1025)).code == "KeyTooLongError"


def test_field_value_with_a_line_break_is_refused(post: Any, form: Any, bucket: str) -> None:
    assert (
        post(bucket, form(bucket, x_amz_meta_note="one\r\nx-amz-object-lock-mode: COMPLIANCE")).code
        == "InvalidArgument"
    )


# Forms that boto3 does not make.


def signed_form(
    store: StoreProcess,
    conditions: Sequence[Any],
    ends: timedelta,
    fields: dict[str, str],
    age: timedelta = timedelta(),
) -> dict[str, str]:
    now = datetime.now(UTC)
    date = (now - age).strftime("%Y%m%d")
    given = {
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": f"{store.access_key}/{date}/eu-west-1/s3/aws4_request",
        "x-amz-date": f"{now - age:%Y%m%dT%H%M%SZ}",
        **fields,
    }
    expiration = (now + ends).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = encoded({"expiration": expiration, "conditions": [*conditions, *({k: v} for k, v in given.items())]})
    key = f"AWS4{store.secret_key}".encode()
    for part in (date, "eu-west-1", "s3", "aws4_request", text):
        key = hmac.digest(key, part.encode(), "sha256")
    return {**given, "policy": text, "x-amz-signature": key.hex()}


@pytest.mark.parametrize(
    ("field", "answer"),
    [
        ({}, (204, "")),
        ({"success_action_status": "200"}, (200, "")),
        ({"success_action_status": "201"}, (201, "")),
        ({"success_action_status": "302"}, (204, "")),
        ({"success_action_redirect": "http://elsewhere/"}, (501, "NotImplemented")),
        ({"redirect": "http://elsewhere/"}, (501, "NotImplemented")),
    ],
)
def test_form_selects_the_success_status_and_redirects_are_not_offered(
    store: StoreProcess, post: Any, s3: Any, bucket: str, field: dict[str, str], answer: tuple[int, str]
) -> None:
    found = post(bucket, signed_form(store, [{"bucket": bucket}], timedelta(minutes=1), {"key": "k", **field}))
    assert (found.status, found.code) == answer
    assert ("Versions" in s3.list_object_versions(Bucket=bucket)) == (found.status < 300)
    if found.status == 201:
        assert f"<Bucket>{bucket}</Bucket><Key>k</Key>" in found.body


@pytest.mark.parametrize(
    ("conditions", "ends"),
    [([], 60), ([{"bucket": "another"}], 60), ([{"bucket": None}], -1)],
    ids=["no bucket", "another bucket", "expired"],
)
def test_policy_without_the_bucket_or_expired_is_refused(
    store: StoreProcess, post: Any, bucket: str, conditions: list[Any], ends: int
) -> None:
    meant = [{"bucket": each["bucket"] or bucket} for each in conditions]
    answer = post(bucket, signed_form(store, meant, timedelta(seconds=ends), {"key": "k"}))
    assert (answer.status, answer.code) == (403, "AccessDenied")


@pytest.mark.parametrize(
    ("age", "status"), [(timedelta(days=6, hours=23), 204), (timedelta(days=7, hours=1), 403), (timedelta(-1), 403)]
)
def test_signing_key_is_valid_for_seven_days(
    store: StoreProcess, post: Any, bucket: str, age: timedelta, status: int
) -> None:
    fields = signed_form(store, [{"bucket": bucket}], timedelta(minutes=1), {"key": "k"}, age)
    assert post(bucket, fields).status == status


def test_form_dated_on_another_day_than_its_key_is_refused(store: StoreProcess, post: Any, bucket: str) -> None:
    yesterday = f"{datetime.now(UTC) - timedelta(days=1):%Y%m%dT%H%M%SZ}"
    fields = {"key": "k", "x-amz-date": yesterday}
    answer = post(bucket, signed_form(store, [{"bucket": bucket}], timedelta(minutes=1), fields))
    assert (answer.status, answer.code) == (403, "AccessDenied")


def test_answers_and_log_reveal_no_signature_or_secret(store: StoreProcess, post: Any, form: Any, bucket: str) -> None:
    fields = {**form(bucket), "x-amz-date": "20200101T000000Z"}
    for changed in (fields, {**form(bucket), "key": "other"}, {**form(bucket), "policy": encoded(GOOD)}):
        answer = post(bucket, changed)
        assert answer.status == 403
        for secret in (store.secret_key, changed["x-amz-signature"], changed["policy"]):
            assert secret not in answer.body
            assert secret not in store.log()
