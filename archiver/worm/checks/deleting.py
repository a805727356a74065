"""DEL: deletes of locked and of unlocked versions."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from archiver.worm.case import COMPLIANCE, Case, Version
from archiver.worm.checks import check
from archiver.worm.requests.exchange import Headers
from archiver.worm.verdict import Failed, Inconclusive

RETRIES = 50
FORCE_HEADERS: tuple[Headers, ...] = ((("x-minio-force-delete", "true"),), (("x-rustfs-force-delete", "true"),))


@check("DEL-01")
def delete_unlocked(case: Case) -> None:
    version = case.stored()
    case.must_allow(case.delete(version), "deleting an unlocked version", "204")
    case.must_be_gone(version, "deleting an unlocked version")


@check("DEL-02")
def delete_governance(case: Case) -> None:
    version = case.locked()
    case.must_refuse_delete(version, case.delete(version), "deleting a version under GOVERNANCE")


@check("DEL-03")
def delete_compliance(case: Case) -> None:
    version = case.locked(COMPLIANCE)
    case.must_refuse_delete(version, case.delete(version), "deleting a version under COMPLIANCE")


@check("DEL-04")
def delete_compliance_with_bypass(case: Case) -> None:
    version = case.locked(COMPLIANCE)
    answer = case.delete(version, bypass=True)
    case.must_refuse_delete(version, answer, "deleting a version under COMPLIANCE with the bypass header")


@check("DEL-05")
def delete_by_key(case: Case) -> None:
    version = case.locked()
    answer = case.delete_key(version.bucket, version.key)
    case.must_survive(version)
    case.must_allow(answer, "deleting by key", "204")
    if answer.headers.get("x-amz-delete-marker") != "true":
        case.deviate("the answer to a delete by key does not show that it created a delete marker")
    if case.client.send("GET", version.bucket, version.key).ok:
        raise Failed("after deleting by key the object is still current")


@check("DEL-10")
def delete_again_and_again(case: Case) -> None:
    version = case.locked()
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: case.delete(version), range(RETRIES)))
    try:
        for answer in answers:
            case.must_refuse_delete(version, answer, "deleting a version under GOVERNANCE")
    except Failed as failed:  # it may have taken all of them
        raise Failed(str(failed), failed.severity, answers) from failed
    case.notes.append(f"{RETRIES} attempts, 10 at a time")


@check("DEL-06")
def delete_the_marker(case: Case) -> None:
    version = case.locked()
    marker = _marked(case, version)
    answer = case.delete(marker)
    case.must_survive(version)
    case.must_allow(answer, "deleting a delete marker", "204")
    current = case.client.send("GET", version.bucket, version.key)
    if not current.ok or current.body != version.body:
        raise Failed(
            f"the marker was deleted, but the object is not current again: GET answered {current}", None, [current]
        )


@check("DEL-07")
def delete_under_newer_versions(case: Case) -> None:
    def newer_versions() -> None:
        version = case.locked()
        for _ in range(3):
            case.stored(version.key)
        case.must_refuse_delete(version, case.delete(version), "deleting it under newer unlocked versions")

    def marker() -> None:
        version = case.locked()
        _marked(case, version)
        case.must_refuse_delete(version, case.delete(version), "deleting it under a marker")

    def both_in_turn() -> None:
        version = case.locked()
        for _ in range(2):
            case.stored(version.key)
            _marked(case, version)
        case.must_refuse_delete(version, case.delete(version), "deleting it under versions and markers in turn")

    case.try_all(
        ("newer versions", newer_versions), ("a marker", marker), ("versions and markers in turn", both_in_turn)
    )


@check("DEL-08")
def delete_between_locked(case: Case) -> None:
    older = case.locked()
    between = case.stored(older.key)
    newer = case.stored(older.key, lock=case.lock())
    answer = case.delete(between)
    case.must_survive(older, newer)
    case.must_allow(answer, "deleting an unlocked version between two locked ones", "204")
    case.must_be_gone(between, "deleting an unlocked version between two locked ones")


@check("DEL-09")
def delete_with_condition(case: Case) -> None:
    def with_etag(etag: str | None) -> Callable[[], None]:
        def attempt() -> None:
            version = case.locked()
            answer = case.delete(version, headers=[("If-Match", etag or case.state(version).headers["etag"])])
            case.must_refuse(
                answer,
                f"deleting a locked version with {'a wrong' if etag else 'the right'} If-Match",
                "412 PreconditionFailed" if etag and answer.status == 412 else "403 AccessDenied",
                version,
            )
            case.control()

        return attempt

    case.try_all(
        ("the right ETag", with_etag(None)),
        ("a wrong ETag", with_etag('"00000000000000000000000000000000"')),
        ("any ETag", with_etag("*")),
    )


@check("DEL-11")
def delete_by_other_spellings(case: Case) -> None:
    def spelt(spell: Callable[[str], str]) -> Callable[[], None]:
        def attempt() -> None:
            version = case.locked()
            other = spell(version.id)
            if other == version.id:
                return
            answer = case.delete(version._replace(id=other))
            case.must_survive(version)
            what = f"deleting version id {other!r} instead of {version.id!r}"
            if not case.client.send("GET", version.bucket, version.key).ok:
                case.deviate(f"{what} was answered {answer}, and the object is no longer current")
            elif answer.ok and len(other) not in (len("null"), len(version.id)):
                case.deviate(
                    f"{what} was answered {answer}, though nothing changed; {case.expected('400 InvalidArgument')}"
                )
            elif answer.ok:
                case.notes.append(f"{what} was answered {answer}, as for a missing version")

        return attempt

    case.try_all(
        ("null", spelt(lambda _: "null")),
        ("upper case", spelt(str.upper)),
        ("lower case", spelt(str.lower)),
        ("URL-encoded twice", spelt(lambda id: "".join(f"%{byte:02X}" for byte in id.encode()))),
        ("a space after it", spelt(lambda id: id + " ")),
        ("a space before it", spelt(lambda id: " " + id)),
        ("a zero byte after it", spelt(lambda id: id + "\0")),
        ("nothing", spelt(lambda _: "")),
    )
    case.control()


@check("DEL-12")
def delete_by_force(case: Case) -> None:
    bucket = case.new_bucket()
    inner = "inner"

    def attempt(target: str, headers: Headers, *, by_version: bool = False) -> Callable[[], None]:
        def tried() -> None:
            folder = case.key()
            version = case.stored(f"{folder}/{inner}", bucket=bucket, lock=case.lock())
            held = case.stored(f"{folder}/{inner}", bucket=bucket, hold="ON")
            key = folder + target
            query = (("versionId", version.id),) if by_version else ()
            answer = case.client.send("DELETE", bucket, key, query=query, headers=headers, unsure=True)
            case.must_survive(version, held)
            if not answer.ok and not answer.refused:
                case.notes.append(f"DELETE of {key} was answered {answer}")
            elif by_version and answer.ok:
                case.deviate(f"deleting a locked version by force was answered {answer}, though nothing changed")

        return tried

    case.control()
    case.try_all(
        ("the folder of its key", attempt("/", ())),
        ("the folder of its key without a slash", attempt("", ())),
        *(
            (f"{headers[0][0]} on {name}", attempt(target, headers, by_version=by_version))
            for headers in FORCE_HEADERS
            for name, target, by_version in (
                ("its key", f"/{inner}", False),
                ("its version", f"/{inner}", True),
                ("the folder of its key", "/", False),
                ("the start of its key", "", False),
            )
        ),
    )


def _marked(case: Case, version: Version) -> Version:
    """Delete the key and return its delete marker. Raises Inconclusive if there is none."""
    answer = case.delete_key(version.bucket, version.key)
    if not answer.ok or answer.version_id is None:
        raise Inconclusive(f"no delete marker was created: deleting by key was answered {answer}; see DEL-05")
    return version._replace(id=answer.version_id)
