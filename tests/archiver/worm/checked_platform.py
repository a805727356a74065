"""The embedded store with credentials that each lack one right, and the S3 checks that tests run on it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence

from archiver.worm import checks
from archiver.worm.case import starter
from archiver.worm.requests.exchange import S3Client
from archiver.worm.requests.limited import RIGHTS, limited_clients
from archiver.worm.suite import CheckResult, Suite
from archiver.worm.verdict import CheckVerdict
from backends.embedded import process
from backends.s3.control import Credentials

checks.load()


class CheckedPlatform:
    """A correct store, and checks of it by clients that may lie."""

    def __init__(self, store: process.StoreProcess) -> None:
        self.client = S3Client(store.endpoint, "us-east-1", Credentials(store.access_key, store.secret_key, None), [])
        made = {right: store.credentials[f"no-{right}"] for right in RIGHTS}
        self.limited = {right: Credentials(each.access_key, each.secret_key, None) for right, each in made.items()}
        self.bucket = self.make_bucket(self.client, True)

    @property
    def secrets(self) -> list[str]:
        assert self.client.credentials is not None
        return [self.client.credentials.secret_key, *(each.secret_key for each in self.limited.values())]

    def make_bucket(self, client: S3Client, lock: bool) -> str:
        bucket = f"archiver-run-{secrets.token_hex(8)}"
        client.send("PUT", bucket, headers=[("x-amz-bucket-object-lock-enabled", "true")] if lock else [])
        return bucket

    def run(
        self,
        ids: Sequence[str],
        client: S3Client,
        on_result: Callable[[CheckResult], None] = lambda _: None,
        *,
        compliance: bool = True,
    ) -> list[CheckResult]:
        """Return the results of these checks with this client, and with clients that lack rights."""
        with limited_clients("", client, given=self.limited) as fewer:
            start = starter(client, self.bucket, compliance, fewer.clients, self.make_bucket, 0.0)
            return Suite(start).run(ids, on_result)


def of(verdict: CheckVerdict, results: Iterable[CheckResult]) -> set[str]:
    """Return the checks with this verdict."""
    return {each.id for each in results if each.verdict is verdict}


def reasons(results: Iterable[CheckResult]) -> str:
    """Return a line for each result, for messages."""
    return "\n".join(f"{each.id} {each.verdict}: {each.reason}" for each in results)
