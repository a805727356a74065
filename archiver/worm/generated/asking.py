"""Who asks and in which form: clients that change each request before they send it.

One idea: an attack is written once, as the owner would send it. The client adds headers, leaves out the signature, or
signs in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

from botocore.auth import HmacV1Auth, S3SigV4Auth

from archiver.worm.case import BYPASS, Case
from archiver.worm.generated.dimensions import Asking
from archiver.worm.requests import limited
from archiver.worm.requests.exchange import Answer, Headers, PayloadNamed, S3Client, target_of

_RIGHTS = {
    Asking.NO_BYPASS: limited.BYPASS,
    Asking.NO_RETENTION: limited.RETENTION,
    Asking.NO_HOLD: limited.HOLD,
    Asking.NO_DELETE: limited.DELETE,
}
CONTROLLED = frozenset(_RIGHTS) - {Asking.NO_DELETE}  # they must be able to delete what is not locked
_ADDED: Mapping[Asking, Headers] = {
    Asking.NO_BYPASS: BYPASS,
    Asking.BYPASS: BYPASS,
    Asking.BYPASS_FALSE: ((BYPASS[0][0], "false"),),
    Asking.REPLICATION: (
        ("x-amz-replication-status", "REPLICA"),
        ("x-minio-source-replication-request", "true"),
        ("x-minio-replication-delete-status", "COMPLETE"),
    ),
    Asking.FORCE: (("x-minio-force-delete", "true"), ("x-amz-force-delete", "true"), ("x-rgw-force-delete", "true")),
}
# A script signs by version 4, with the hash of the body, so it cannot show what these do.
NOT_IN_SCRIPTS = frozenset({Asking.OLD_SIGNATURE, Asking.UNSIGNED_PAYLOAD})


def asking_client(case: Case, asking: Asking) -> S3Client:
    """Return the client that asks so, recording in the case's evidence.

    Raises NotTried if the run has no credential without the right.
    """
    if asking in _RIGHTS:
        return AskingClient(case.without_right(_RIGHTS[asking]), asking)
    return AskingClient(case.anonymous() if asking is Asking.ANONYMOUS else case.client, asking)


class AskingClient(S3Client):
    """A client that sends its requests in one form."""

    def __init__(self, inner: S3Client, asking: Asking) -> None:
        super().__init__(
            inner.endpoint, inner.region, inner.credentials, inner.record,
            tls=inner._tls, virtual_hosted=inner._virtual_hosted,
        )  # fmt: skip
        self.sender = inner.sender
        self._inner = inner
        self._asking = asking

    def send(
        self,
        method: str,
        bucket: str,
        key: str | None = None,
        *,
        query: Sequence[tuple[str, str | None]] = (),
        headers: Headers = (),
        body: bytes = b"",
        sign: bool = True,
        unsure: bool = False,
    ) -> Answer:
        headers = [*headers, *_ADDED.get(self._asking, ())]
        match self._asking:
            case Asking.PRESIGNED if key is not None:
                return self.send_presigned(
                    method, bucket, key, query=query, signed=headers, headers=headers, body=body
                )  # fmt: skip
            case Asking.OLD_SIGNATURE:
                return self._signed_by(cast("Callable[..., S3SigV4Auth]", HmacV1Auth), method,
                                       target_of(bucket, key, query), headers, body)  # fmt: skip
            case Asking.UNSIGNED_PAYLOAD:
                return self._signed_by(partial(PayloadNamed, "UNSIGNED-PAYLOAD"), method,
                                       target_of(bucket, key, query), headers, body)  # fmt: skip
            case Asking.UNSIGNED_BYPASS:
                target = target_of(bucket, key, query)
                signing = self.signing_headers(method, target, headers, body)
                return self.send_as_is(method, target, [*headers, *signing, *BYPASS], body)
            case Asking.METHOD_OVERRIDE:
                headers.append(("X-HTTP-Method-Override", method))
                method = "POST"
            case Asking.SECOND_VERSION:
                query = [*query, ("versionId", "null")]
        return super().send(
            method, bucket, key, query=query, headers=headers, body=body, sign=sign, unsure=unsure
        )  # fmt: skip

    def _signed_by(
        self, auth: Callable[..., S3SigV4Auth], method: str, target: str, headers: Headers, body: bytes
    ) -> Answer:
        return self.send_as_is(
            method, target, [*headers, *self.signing_headers(method, target, headers, body, auth)], body
        )  # fmt: skip

    def _exchange(self, method: str, target: str, headers: Headers, body: bytes) -> Answer:
        return self._inner._exchange(method, target, headers, body)
