"""SID: ways around the lock other than a delete by the owner.

One idea: a lock must also withstand rights and rules. Whoever gets access, and whatever a rule deletes, a locked
version must still be there with its lock. What needs a declaration, an operator, a second site or days has no check
here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial

from archiver.worm.case import BYPASS, ROOT, Case, Version, VersionState, lock_configuration, words_of
from archiver.worm.checks import check
from archiver.worm.checks.hold import EVENT_HOLD
from archiver.worm.requests.exchange import Answer, S3Client
from archiver.worm.verdict import Failed, Inconclusive, NotOffered
from backends.s3.control import Credentials

WATCHED_SECONDS = 20.0  # how long a rule that is due at once has to do damage
DEFAULT_EVENT_HOLD = (
    "<Rule><DefaultRetention><DefaultEventHold><Days>1</Days></DefaultEventHold></DefaultRetention></Rule>"
)

# Lifecycle rules of some vendors that delete every version or every delete marker.
VENDOR_RULES = {
    "ExpiredObjectAllVersions (MinIO)": (
        "<Expiration><Days>1</Days><ExpiredObjectAllVersions>true</ExpiredObjectAllVersions></Expiration>"
    ),
    "DelMarkerExpiration (MinIO)": "<DelMarkerExpiration><Days>1</Days></DelMarkerExpiration>",
}
DUE_RULE = "<Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration>"


# ---- rules that delete


@check("SID-02")
def lifecycle_that_deletes(case: Case) -> None:
    answer = _set_lifecycle(case, case.new_bucket(), "<Expiration><Days>1</Days></Expiration>")
    if not answer.ok:
        raise NotOffered(f"a lifecycle on a bucket with Object Lock was answered {answer}")
    case.try_all(
        *((name, partial(_set_vendor_rule, case, xml)) for name, xml in VENDOR_RULES.items()),
        ("a rule that is due at once", partial(_set_due_rule, case)),
    )


def _set_lifecycle(case: Case, bucket: str, action: str) -> Answer:
    rule = f"<Rule><ID>worm</ID><Filter><Prefix></Prefix></Filter><Status>Enabled</Status>{action}</Rule>"
    return case.configure(
        bucket, "lifecycle", f'<LifecycleConfiguration xmlns="{ROOT}">{rule}</LifecycleConfiguration>'
    )


def _set_vendor_rule(case: Case, action: str) -> None:
    bucket = case.new_bucket()
    version = case.stored(bucket=bucket, lock=case.lock())
    answer = _set_lifecycle(case, bucket, action)
    case.must_survive(version)
    element = "ExpiredObjectAllVersions" if "ExpiredObjectAllVersions" in action else "DelMarkerExpiration"
    kept = case.client.send("GET", bucket, query=(("lifecycle", None),)).elements(element)
    if kept:
        raise Inconclusive(f"the rule was answered {answer} and is kept; its effect takes a day (see SID-01)")
    if answer.ok:
        case.notes.append(f"{element} was answered {answer}, and the bucket does not show it: the rule is unknown here")


def _set_due_rule(case: Case) -> None:
    bucket = case.new_bucket()
    version = case.stored(bucket=bucket, lock=case.lock())
    answer = _set_lifecycle(case, bucket, DUE_RULE)
    if not answer.ok:
        raise NotOffered(f"was answered {answer}")
    case.wait_until(case.now() + timedelta(seconds=WATCHED_SECONDS))
    if case.state(version).body is None:
        # Some platforms apply a due rule when a client reads, and answer that one read as if all were gone.
        case.wait_until(case.now() + timedelta(seconds=1))
        case.must_survive(version)
        case.deviate("the first read by version id after a rule was due found no version; later ones returned it")
    case.must_survive(version)
    current = case.client.send("GET", bucket, version.key)
    acted = "had made a marker" if current.status == 404 else "had not acted yet"
    case.notes.append(f"{WATCHED_SECONDS:.0f} s after a rule that was due at once, the platform {acted}")


# ---- rights for every client


@check("SID-05")
def open_to_every_client(case: Case) -> None:
    changes = {
        "a policy that lets every client delete": _set_policy,
        "an ACL of the bucket that lets every client write": _set_bucket_acl,
        "an ACL of the version that gives every client full control": _set_version_acl,
        "no block on public access": _remove_public_access_block,
    }
    case.try_all(*((name, partial(_open, case, name, change)) for name, change in changes.items()))


def _set_policy(case: Case, version: Version) -> Answer:
    actions = ("GetObject", "GetObjectVersion", "PutObject", "DeleteObject", "DeleteObjectVersion")
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": ["*"]},
        "Action": [f"s3:{action}" for action in actions],
        "Resource": [f"arn:aws:s3:::{version.bucket}/*"],
    }
    return case.configure(version.bucket, "policy", json.dumps({"Version": "2012-10-17", "Statement": [statement]}))


def _set_bucket_acl(case: Case, version: Version) -> Answer:
    return case.client.send("PUT", version.bucket, query=(("acl", None),), headers=[("x-amz-acl", "public-read-write")])


def _set_version_acl(case: Case, version: Version) -> Answer:
    query = (("acl", None), ("versionId", version.id))
    everybody = 'uri="http://acs.amazonaws.com/groups/global/AllUsers"'
    return case.client.send(
        "PUT", version.bucket, version.key, query=query, headers=[("x-amz-grant-full-control", everybody)]
    )


def _remove_public_access_block(case: Case, version: Version) -> Answer:
    return case.client.send("DELETE", version.bucket, query=(("publicAccessBlock", None),))


def _open(case: Case, name: str, change: Callable[[Case, Version], Answer]) -> None:
    bucket = case.new_bucket()
    retained, held = case.stored(bucket=bucket, lock=case.lock()), case.stored(bucket=bucket, hold="ON")
    unlocked = case.stored(bucket=bucket)
    before = {version: case.state(version) for version in (retained, held)}
    _remove_barriers(case, bucket)
    answer = change(case, retained)
    _must_be_as_before(case, before, "the change itself")
    if not answer.ok:
        raise NotOffered(f"was answered {answer}")
    anonymous = case.anonymous()
    for version in (retained, held):
        case.must_refuse_delete(version, case.delete(version), "deleting a locked version by its owner")
        for bypass in (False, True):
            what = f"deleting a locked version without a credential{' with the bypass header' if bypass else ''}"
            case.must_refuse(case.delete(version, bypass=bypass, client=anonymous), what, "403 AccessDenied", version)
        case.delete_many(bucket, [(version.key, version.id)], headers=BYPASS, client=anonymous)
    case.set_retention(retained, None, bypass=True, client=anonymous)
    case.set_retention(retained, case.lock(seconds=1), bypass=True, client=anonymous)
    case.set_hold(held, "OFF", client=anonymous)
    _must_be_as_before(case, before, "attempts without a credential")
    if not case.delete(unlocked, client=anonymous).ok:
        case.notes.append(f"{name}: NOTE: no other client can delete unlocked versions either, so refusals prove less")


def _remove_barriers(case: Case, bucket: str) -> None:
    """Remove other barriers to public access that some platforms have; a platform without them needs nothing."""
    rule = "<Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule>"
    with suppress(NotOffered):
        case.client.send("DELETE", bucket, query=(("publicAccessBlock", None),))
    with suppress(NotOffered):
        case.configure(bucket, "ownershipControls", f'<OwnershipControls xmlns="{ROOT}">{rule}</OwnershipControls>')


def _must_be_as_before(case: Case, before: Mapping[Version, VersionState], after_what: str) -> None:
    for version, state in before.items():
        now = case.state(version)
        if (now.body, now.lock, now.hold) != (state.body, state.lock, state.hold):
            raise Failed(f"after {after_what}: {words_of(state)} became {words_of(now)}")


# ---- clients without rights


@check("SID-06")
def strangers(case: Case) -> None:
    owner = case.client.credentials
    assert owner is not None
    clients = {
        "a client without a credential": case.anonymous(),
        "an unknown access key": _client_with(case, Credentials("UNKNOWNACCESSKEY0000", owner.secret_key, None)),
        "a wrong secret": _client_with(case, Credentials(owner.access_key, owner.secret_key[::-1] + "x", None)),
    }
    parts = [(name, partial(_try_to_delete, case, client)) for name, client in clients.items()]
    parts.append(("a credential without the right to delete", partial(_try_without_right, case)))
    case.try_all(*parts)


def _client_with(case: Case, credentials: Credentials) -> S3Client:
    client = case.anonymous()
    client.credentials = credentials
    return client


def _try_without_right(case: Case) -> None:
    client = case.without_right("delete")
    answer, version = case.put(client=client)
    if not answer.ok or case.state(version).body is None:
        raise case.failed_control(f"this credential cannot store anything either ({answer})", client)
    _try_to_delete(case, client)


def _try_to_delete(case: Case, client: S3Client) -> None:
    locked, unlocked = case.locked(), case.stored()
    both = [(version.key, version.id) for version in (locked, unlocked)]
    answers = {
        "deleting a locked version": case.delete(locked, client=client),
        "deleting a locked version with the bypass header": case.delete(locked, bypass=True, client=client),
        "deleting an unlocked version": case.delete(unlocked, client=client),
        "deleting by key": case.delete_key(unlocked.bucket, unlocked.key, client=client),
    }
    case.delete_many(case.bucket, both, headers=BYPASS, client=client)
    case.delete_many(case.bucket, [(unlocked.key, None)], client=client)
    case.must_survive(locked)
    case.must_survive(unlocked, unlocked=True)
    if not case.client.send("GET", unlocked.bucket, unlocked.key).ok:
        raise Failed("an object was hidden by a delete marker")
    for what, answer in answers.items():
        case.must_refuse(answer, what, "403 AccessDenied InvalidAccessKeyId SignatureDoesNotMatch")


# ---- locks that a platform may not support


@check("SID-10")
def event_hold(case: Case) -> None:
    # A real event hold lasts at least a day, so the header has a value that every platform that supports it rejects.
    key = case.key()
    answer, version = case.put(key, headers=[(EVENT_HOLD, "MAYBE")])
    if answer.ok:
        claim = _claim_of_event_holds(case, version)
        if claim:
            raise Failed(f"{EVENT_HOLD}: MAYBE was answered {answer} and is not kept, but {claim}")
        raise NotOffered(f"{EVENT_HOLD}: MAYBE was answered {answer}, and nothing shows that event holds are known")
    plain, _ = case.put(key)
    if not plain.ok:
        raise Inconclusive(f"the control failed: PUT without the header was answered {plain}")
    case.notes.append(
        f"{EVENT_HOLD}: MAYBE was answered {answer}, so the header is not ignored; that a hold protects was not tried,"
        " since the shortest lasts a day"
    )


def _claim_of_event_holds(case: Case, version: Version) -> str:
    """Return how the platform shows that it knows event holds; empty if it does not."""
    shown = case.state(version).headers.get(EVENT_HOLD)
    if shown:
        return f"HEAD shows {shown}"
    query = (("retention", None), ("versionId", version.id))
    shown = case.client.send("GET", version.bucket, version.key, query=query).text_of("EventHold")
    if shown:
        return f"GetObjectRetention shows {shown}"
    bucket = case.new_bucket()
    with suppress(NotOffered):
        case.configure(bucket, "object-lock", lock_configuration(DEFAULT_EVENT_HOLD))
    configuration = case.client.send("GET", bucket, query=(("object-lock", None),))
    return "a bucket keeps a default event hold" if configuration.elements("DefaultEventHold") else ""
