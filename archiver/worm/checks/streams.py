"""ING-16 to ING-18: parts without a checksum, empty checksums, and checksums in a trailer.

One idea: what a client says about its bytes must be true of what is stored under a lock. An upload in chunks says it
after the bytes, and how it was sent must not become a property of the record.
"""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from archiver.worm import multipart
from archiver.worm.case import ANY_REFUSAL, Case, Version, is_protected, words_of
from archiver.worm.checks import check
from archiver.worm.listing import must_store_nothing, with_id
from archiver.worm.requests.checksums import checksum_of
from archiver.worm.requests.exchange import UNSIGNED_TRAILER, Answer, Headers, PayloadNamed, target_of
from archiver.worm.verdict import Failed, Inconclusive, NotOffered

_TRAILER = "x-amz-checksum-crc32"
_WRONG = b"other bytes"
COMPLETIONS = 4


@check("ING-16")
def without_checksum(case: Case) -> None:
    bucket = case.new_bucket()
    answer = case.set_default(bucket)
    lock = case.lock()
    case.try_all(
        ("a part under a default rule", partial(_part_under_default, case, bucket, answer)),
        ("a part of an upload with a lock", partial(_part_of_locked_upload, case, lock.headers)),
        ("an empty Content-MD5", partial(_put_with, case, (("Content-MD5", ""), *lock.headers))),
        ("an empty checksum", partial(_put_with, case, ((_TRAILER, ""), *lock.headers))),
    )


def _need_locked_uploads(case: Case) -> None:
    """Raise NotOffered if an upload does not keep its lock whatever its parts are: that is the subject of ING-10."""
    answer, version = multipart.uploaded(case, [b"one part"], lock=case.lock())
    if not answer.ok or not is_protected(case.state(with_id(case, version)), case.now()):
        raise NotOffered(f"a multipart upload with a lock was answered {answer}, without a lock; see ING-10")


def _part_of_locked_upload(case: Case, headers: Headers) -> None:
    _need_locked_uploads(case)
    _part_without(case, case.bucket, headers)


def _part_under_default(case: Case, bucket: str, answer: Answer) -> None:
    if not answer.ok or case.state(case.stored(bucket=bucket)).mode is None:
        raise NotOffered(f"a default retention was answered {answer}, and locks no PUT; see DFT-01")
    _part_without(case, bucket, ())


def _part_without(case: Case, bucket: str, headers: Headers) -> None:
    """Upload a part without a checksum. The platform may refuse it, or store the record with its lock."""
    answer, upload = multipart.start(case, bucket=bucket, headers=headers)
    if not answer.ok:
        raise NotOffered(f"starting a multipart upload was answered {answer}")
    body = b"one part without a checksum"
    query = (("partNumber", "1"), ("uploadId", upload.id))
    sent = case.client.send("PUT", bucket, upload.key, query=query, body=body)
    if not sent.ok:
        multipart.abort(case, upload)
        case.must_refuse(sent, "a part without a checksum", "400 InvalidRequest")
        return
    case.deviate(f"a part without a checksum was answered {sent}; {case.expected('400 InvalidRequest')}", sent)
    answer = multipart.complete(case, upload, [sent.headers.get("etag", "")])
    case.must_allow(answer, "completing an upload whose part was accepted")
    _must_be_locked(case, Version(bucket, upload.key, answer.version_id or "", body), "a part without a checksum")


def _put_with(case: Case, headers: Headers) -> None:
    key, body = case.key(), b"with an empty checksum"
    answer = case.client.send("PUT", case.bucket, key, headers=headers, body=body)
    if not answer.ok:
        must_store_nothing(case, answer, "a PUT with an empty checksum", ANY_REFUSAL, case.bucket, key)
        return
    _must_be_locked(case, Version(case.bucket, key, answer.version_id or "", body), "a PUT with an empty checksum")
    case.deviate(f"a PUT with an empty checksum was answered {answer}; {case.expected('400 InvalidDigest')}", answer)


def _must_be_locked(case: Case, version: Version, what: str) -> None:
    state = case.state(with_id(case, version))
    if state.body != version.body:
        raise Failed(f"{what} was accepted, and its bytes are not kept", "S1")
    if not is_protected(state, case.now()):
        raise Failed(f"{what} was accepted, and stored with {words_of(state)}")


@check("ING-17")
def checksums_in_trailers(case: Case) -> None:
    body = f"{case.check_id} {secrets.token_hex(8)}".encode()
    right, wrong = checksum_of("crc32", body), checksum_of("crc32", _WRONG)
    answer, version = _put_chunked(case, body, f"{_TRAILER}:{right}\r\n")
    if not answer.ok:
        raise NotOffered(f"a right checksum in a trailer was answered {answer}")
    _must_be_locked(case, version, "a PUT with a checksum in a trailer")
    encoding = case.state(with_id(case, version)).headers.get("content-encoding", "")
    refused = partial(_must_refuse_chunked, case, body)
    case.try_all(
        ("a wrong checksum", partial(refused, f"{_TRAILER}:{wrong}\r\n")),
        ("a missing trailer", partial(refused, "")),
        ("another algorithm", partial(refused, f"x-amz-checksum-sha256:{checksum_of('sha256', body)}\r\n")),
        ("a wrong checksum in a header too", partial(refused, f"{_TRAILER}:{right}\r\n", ((_TRAILER, wrong),))),
        ("a wrong decoded length", partial(refused, f"{_TRAILER}:{right}\r\n", (), 1)),
        ("the encoding of the object", partial(_must_not_be_chunked, encoding)),
    )


def _put_chunked(
    case: Case, body: bytes, trailer: str, headers: Headers = (), more_bytes: int = 0
) -> tuple[Answer, Version]:
    """PUT in one chunk with a trailer and a lock. ``more_bytes`` is added to the decoded length that it states."""
    key = case.key()
    sent = b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, trailer.encode())
    wanted = (
        ("Content-Encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", str(len(body) + more_bytes)), ("x-amz-trailer", _TRAILER),
        *headers, *case.lock().headers,
    )  # fmt: skip
    target = target_of(case.bucket, key, ())
    signing = case.client.signing_headers("PUT", target, wanted, b"", partial(PayloadNamed, UNSIGNED_TRAILER))
    answer = case.client.send_as_is("PUT", target, [*wanted, *signing], sent)
    return answer, Version(case.bucket, key, answer.version_id or "", body)


def _must_refuse_chunked(case: Case, body: bytes, trailer: str, headers: Headers = (), more_bytes: int = 0) -> None:
    answer, version = _put_chunked(case, body, trailer, headers, more_bytes)
    must_store_nothing(case, answer, "the PUT", ANY_REFUSAL, version.bucket, version.key)


def _must_not_be_chunked(encoding: str) -> None:
    if "aws-chunked" in encoding:
        raise Failed(f"the object has Content-Encoding {encoding}, which is only how it was sent", "S3")


@check("ING-18")
def several_completions(case: Case) -> None:
    """Complete an upload again, and several times at once. Each acknowledged version must be there with its lock."""
    _need_locked_uploads(case)
    answer, upload = multipart.start(case, lock=case.lock())
    case.must_allow(answer, "starting a multipart upload")
    body = b"one part"
    etags = multipart.send_parts(case, upload, [body])

    def complete(_: int) -> Answer:
        return multipart.complete(case, upload, etags)

    with ThreadPoolExecutor(COMPLETIONS) as pool:
        answers = [*pool.map(complete, range(COMPLETIONS)), complete(0)]
    ids = dict.fromkeys(each.version_id for each in answers if each.ok and each.version_id)
    if not ids:
        raise Inconclusive(f"no completion was acknowledged with a version: {', '.join(map(str, answers))}")
    for identifier in ids:
        assert identifier is not None
        version = Version(upload.bucket, upload.key, identifier, body)
        what = f"one of {len(answers)} completions"
        case.must_survive_answer(answers[-1], what, version)
        _must_be_locked(case, version, what)
    if len(ids) > 1:
        case.deviate(f"one upload became {len(ids)} versions")
