"""OVR-12: one object under two names.

One idea: to S3 a key is a sequence of characters. A platform that resolves a key like a path, as a file system does,
may write to or delete a locked version of another key.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from archiver.worm.case import Case, Version, md5_of
from archiver.worm.checks import check
from archiver.worm.listing import versions
from archiver.worm.requests.exchange import Answer, target_of
from archiver.worm.verdict import Failed, Inconclusive, NotOffered

_OTHER = b"the bytes of another name"
_NAMES: dict[str, Callable[[str, str], str]] = {  # of a folder and a name in it
    "a dot segment": lambda folder, name: f"{folder}/./{name}",
    "two slashes": lambda folder, name: f"{folder}//{name}",
    "two dots": lambda folder, name: f"{folder}/other/../{name}",
    "a dot segment at the end": lambda folder, name: f"{folder}/{name}/.",
}


@check("OVR-12")
def one_object_under_two_names(case: Case) -> None:
    case.try_all(
        *((f"{name}: {what}", partial(_by_another_name, case, alias, attempt))
          for name, alias in _NAMES.items() for what, attempt in _ATTEMPTS.items()),
        ("an encoded slash after the bucket", partial(_with_encoded_slash, case)),
        ("an encoded question mark in the source of a copy", partial(_with_encoded_mark, case)),
    )  # fmt: skip


def _put(case: Case, version: Version, key: str) -> Answer:
    return case.put(key, _OTHER, bucket=version.bucket)[0]


def _delete(case: Case, version: Version, key: str) -> Answer:
    return case.delete(version._replace(key=key))


def _delete_key(case: Case, version: Version, key: str) -> Answer:
    return case.delete_key(version.bucket, key)


_ATTEMPTS: dict[str, Callable[[Case, Version, str], Answer]] = {
    "PUT": _put,
    "DELETE of the version": _delete,
    "DELETE of the key": _delete_key,
}


def _by_another_name(
    case: Case, alias: Callable[[str, str], str], attempt: Callable[[Case, Version, str], Answer]
) -> None:
    version = case.locked()
    folder, _, name = version.key.rpartition("/")
    _attempted(case, version, lambda: attempt(case, version, alias(folder, name)))


def _attempted(case: Case, version: Version, attempt: Callable[[], Answer]) -> None:
    """Fail unless the locked version can be read by its key, is listed, and is current after the attempt."""
    try:
        answer = attempt()
    except NotOffered:
        case.must_survive(version)
        return
    case.must_survive_answer(answer, "the request", version)
    listed = {entry.id for page in versions(case, version.bucket, version.key) for entry in page}
    if version.id not in listed:
        raise Failed(f"was answered {answer}, and version {version.id} of {version.key} is not listed", "S2", [answer])
    if case.client.send("GET", version.bucket, version.key).body != version.body:
        raise Failed(f"was answered {answer}, and {version.key} is read with other bytes, or not", "S3", [answer])


def _with_encoded_slash(case: Case) -> None:
    version = case.locked()
    target = "/" + target_of(version.bucket, version.key, ())[1:].replace("/", "%2F", 1)
    headers = [("Content-MD5", md5_of(_OTHER))]

    def attempt() -> Answer:
        return case.client.send_as_is(
            "PUT", target, [*headers, *case.client.signing_headers("PUT", target, headers, _OTHER)], _OTHER
        )

    _attempted(case, version, attempt)


def _with_encoded_mark(case: Case) -> None:
    """Copy an older version whose id is named after ``%3F``: to S3 that is a key, which does not exist."""
    older = case.locked()
    answer, newer = case.put(older.key, _OTHER)
    if not answer.ok:
        raise Inconclusive(f"an object could not be prepared: PUT answered {answer}")
    place = f"/{older.bucket}/{older.key}%3FversionId={older.id}"
    copied = case.client.send("PUT", case.bucket, case.key(), headers=[("x-amz-copy-source", place)])
    case.must_survive(older)
    case.must_survive(newer, unlocked=True)
    case.must_refuse(copied, "a copy from a key that does not exist", "404 NoSuchKey")
