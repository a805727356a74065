"""Clean-up on an S3 platform: delete what the run made and no lock protects, and report what stays and why.

One idea: the platform's listing is not trusted. Only a key whose form and number are the run's is deleted, released or
aborted, and everything is listed once before anything is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeAlias

import botocore.exceptions

from archiver.values.errors import PlatformError
from archiver.values.retention import RetentionMode
from backends.base import NAMES_LEFT_MAX, Location, RemovalReport
from backends.s3.answers import code_of, pages, quoted, rows_of
from backends.s3.keys import number_of

_HOLD_OFF = {"Status": "OFF"}
_LEFT_ASKED_PER_PAGE = 10
_REQUESTS_AT_ONCE = 8  # S3 releases and shows one hold per request; botocore keeps at most ten connections
_Version: TypeAlias = tuple[str, str]  # key, version id


class Removal:
    """One removal of what a run left in one bucket."""

    def __init__(
        self,
        client: Any,
        location: Location,
        numbers: range | None,
        *,
        bypass_governance: bool,
        release_holds: bool,
    ) -> None:
        """``client`` is boto3's. ``numbers`` are those that the run may have used; None: every key is the run's."""
        self._client = client
        self._endpoint = client.meta.endpoint_url
        self._location = location
        self._numbers = numbers
        self._bypass = {"BypassGovernanceRetention": True} if bypass_governance else {}
        self._release_holds = release_holds
        self._report = RemovalReport()

    def carry_out(self) -> RemovalReport:
        """Remove every version, delete marker and unfinished upload that may be removed, then the run's own bucket.

        Raises PlatformError for answers that cannot be trusted, and ClientError.
        """
        try:
            self._count_names_of_others()
            self._remove_versions()
            self._abort_uploads()
            if self._location.bucket_created and not self._report.objects_left:
                self._delete_bucket()
        except botocore.exceptions.ClientError as error:
            if code_of(error) != "NoSuchBucket":
                raise
            self._report.bucket_missing = True
        return self._report

    def _is_of_run(self, key: str) -> bool:
        prefix = self._location.prefix
        return key.startswith(prefix) if self._numbers is None else number_of(prefix, key) in self._numbers

    def _pages(self) -> Iterator[dict[str, Any]]:
        return pages(self._client, "list_object_versions", bucket=self._location.bucket, prefix=self._location.prefix)

    def _count_names_of_others(self) -> None:
        """List everything before anything is deleted, so that a false listing ends the removal here."""
        before: set[str] = set()
        for page in self._pages():
            others = {row["Key"] for row in rows_of(page) if not self._is_of_run(row["Key"])}
            self._report.names_of_others += len(others - before)  # versions of one key may be on two pages
            before = others

    def _remove_versions(self) -> None:
        """List and delete until nothing more is deleted: a listing may skip entries that move up after a deletion."""
        report = self._report
        removed_before, claimed = -1, set[_Version]()
        while report.objects_removed > removed_before:
            removed_before = report.objects_removed
            report.objects_left = report.bytes_left = report.holds_unconfirmed = 0
            report.names_left.clear()
            is_first = True
            for page in self._pages_of_run():
                if is_first:  # each listing begins at the same place
                    self._refuse_false_deletions(claimed, page)
                gone = self._remove_page(page)
                if is_first:
                    is_first, claimed = False, gone

    def _pages_of_run(self) -> Iterator[list[dict[str, Any]]]:
        """Yield the run's versions page by page.

        A page comes when the next one has been listed. Otherwise its last version, after which the next one begins,
        might be deleted already.
        """
        waiting: list[dict[str, Any]] = []
        before: set[_Version] = set()
        for page in self._pages():
            rows = {(row["Key"], row["VersionId"]): row for row in rows_of(page) if self._is_of_run(row["Key"])}
            if waiting:
                yield waiting
            # versitygw begins a page with the last version of the previous page.
            waiting = [row for version, row in rows.items() if version not in before]
            before = set(rows)
        if waiting:
            yield waiting

    def _refuse_false_deletions(self, claimed: set[_Version], page: list[dict[str, Any]]) -> None:
        """Raise PlatformError if the platform lists a version again that it reported as deleted."""
        for row in page:
            if (row["Key"], row["VersionId"]) in claimed:
                raise PlatformError(
                    f"{self._endpoint}: reported {row['Key']} (version {row['VersionId']}) as deleted, but still "
                    "lists it; nothing counts as removed. Clean up again later; if it recurs, do not trust the platform"
                )

    def _remove_page(self, rows: list[dict[str, Any]]) -> set[_Version]:
        """Delete the versions of a page; return those that the platform reports as deleted."""
        report = self._report
        sizes = {(row["Key"], row["VersionId"]): row.get("Size", 0) for row in rows}
        left = self._delete(list(sizes))
        unconfirmed: set[_Version] = set()
        if self._release_holds:
            # An event hold goes last: under GOVERNANCE a bypass removes its object at once.
            for name, release in (("legal hold", self._release_hold), ("event hold", self._release_event_hold)):
                refused = self._release(name, release, left)
                unconfirmed |= refused
                if len(refused) < len(left):
                    left = self._delete(list(left))
        gone = set(sizes) - set(left)
        report.objects_left += len(left)
        report.bytes_left += sum(sizes[version] for version in left)
        report.names_left += [key for key, _ in left][: NAMES_LEFT_MAX - len(report.names_left)]
        report.objects_removed += len(gone)
        report.bytes_removed += sum(sizes[version] for version in gone)
        report.refusals.extend(sorted(set(left.values()) - set(report.refusals)))
        # A run may leave a hundred thousand objects, so the locks of a few are read. Released holds are all read back.
        unseen = self._read_locks(list(left) if self._release_holds else list(left)[-_LEFT_ASKED_PER_PAGE:])
        if self._release_holds:
            report.holds_unconfirmed += len((unconfirmed & set(left)) | unseen)
        return gone

    def _release(
        self, name: str, release: Callable[[dict[str, str]], None], versions: Iterable[_Version]
    ) -> set[_Version]:
        """Release the holds of these versions; return those for which the platform refused it."""
        refused: set[_Version] = set()
        for version, answer in self._ask_each(release, versions):
            if isinstance(answer, botocore.exceptions.ClientError):
                refused.add(version)
                self._quote(f"release the {name}", answer)
        return refused

    def _release_hold(self, which: dict[str, str]) -> None:
        self._client.put_object_legal_hold(**which, LegalHold=_HOLD_OFF)

    def _release_event_hold(self, which: dict[str, str]) -> None:
        head = self._client.head_object(**which)
        if head.get("ObjectLockEventHold") == "ON":
            released = {"Mode": head["ObjectLockMode"], "EventHold": "OFF"}
            self._client.put_object_retention(**which, Retention=released)

    def _read_locks(self, versions: list[_Version]) -> set[_Version]:
        """Report the locks of versions that were left; return those that show no lock, although they are left."""
        report = self._report
        unseen: set[_Version] = set()
        for version, head in self._ask_each(lambda which: self._client.head_object(**which), versions):
            if isinstance(head, botocore.exceptions.ClientError):  # the report says that they stay, the ledger how long
                unseen.add(version)
                continue
            is_held = "ON" in (head.get("ObjectLockLegalHoldStatus"), head.get("ObjectLockEventHold"))
            report.on_hold |= is_held
            report.governance = report.governance or head.get("ObjectLockMode") == RetentionMode.GOVERNANCE.value
            until: datetime | None = head.get("ObjectLockRetainUntilDate")
            if until is not None:
                report.locked_until = max(report.locked_until or 0.0, until.timestamp())
            elif not is_held:
                unseen.add(version)
        return unseen

    def _ask_each(
        self, ask: Callable[[dict[str, str]], Any], versions: Iterable[_Version]
    ) -> Iterator[tuple[_Version, Any]]:
        """Send a request about each version, several at a time; yield each with its answer, or with the ClientError.

        Other errors are raised, and end the requests.
        """

        def answer(version: _Version) -> Any:
            try:
                return ask({"Bucket": self._location.bucket, "Key": version[0], "VersionId": version[1]})
            except botocore.exceptions.ClientError as refusal:
                return refusal

        asked = list(versions)
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as requests:
            yield from zip(asked, requests.map(answer, asked), strict=True)

    def _delete(self, versions: list[_Version]) -> dict[_Version, str]:
        """Delete versions in one batch; return those that were refused, with the reason."""
        if not versions:
            return {}
        reply = self._client.delete_objects(
            Bucket=self._location.bucket,
            Delete={"Objects": [{"Key": key, "VersionId": version} for key, version in versions], "Quiet": True},
            **self._bypass,
        )
        refused: dict[_Version, str] = {}
        asked = set(versions)
        for error in reply.get("Errors", []):
            key, version = error.get("Key"), error.get("VersionId")
            reason = f"{error.get('Code')}: {error.get('Message', '')}"
            # A refusal without a version id may concern any version of its key.
            meant = [(key, version)] if (key, version) in asked else [each for each in versions if each[0] == key]
            if not meant:
                raise PlatformError(
                    f"{self._endpoint}: answered a deletion with an error about {key}, which was not to be deleted "
                    f"({reason}); such an answer cannot be trusted, so nothing more is removed"
                )
            refused |= dict.fromkeys(meant, reason)
        return refused

    def _uploads(self) -> list[dict[str, Any]] | None:
        """Return all unfinished uploads of the bucket; None if the platform refuses to list them."""
        try:
            # MinIO takes the prefix for a whole key, and lists nothing under it.
            found = pages(self._client, "list_multipart_uploads", bucket=self._location.bucket)
            return [upload for page in found for upload in page.get("Uploads", [])]
        except botocore.exceptions.ClientError as error:
            if code_of(error) == "NoSuchBucket":
                raise
            if code_of(error) == "NotImplemented":  # without the operation there are no uploads
                return []
            self._quote("unfinished uploads may remain", error)
            return None

    def _abort_uploads(self) -> None:
        """Abort the run's unfinished uploads: they cost storage, and no listing of objects shows them."""
        for upload in self._uploads() or []:
            if self._is_of_run(upload["Key"]):
                try:
                    self._client.abort_multipart_upload(
                        Bucket=self._location.bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                    )
                except botocore.exceptions.ClientError as error:
                    if code_of(error) != "NoSuchUpload":
                        self._quote("an unfinished upload remains", error)

    def _delete_bucket(self) -> None:
        """Delete the run's own bucket, unless something is in it.

        SeaweedFS deletes a bucket with everything in it, and unfinished uploads stop no platform. So both are listed
        first.
        """
        report, bucket = self._report, self._location.bucket
        uploads = self._uploads()
        if uploads is None:
            report.bucket_kept = "its unfinished uploads cannot be listed, and some may be another owner's"
        elif uploads or any(rows_of(page) for page in pages(self._client, "list_object_versions", bucket=bucket)):
            report.bucket_kept = "it has content that the run did not put there"
        else:
            try:
                self._client.delete_bucket(Bucket=bucket)
                report.bucket_removed = True
            except botocore.exceptions.ClientError as error:
                if code_of(error) != "BucketNotEmpty":
                    raise
                report.bucket_kept = "the platform reports that it is not empty"

    def _quote(self, doing: str, error: botocore.exceptions.ClientError) -> None:
        words = f"{doing}: {quoted(error)}"
        if words not in self._report.refusals:
            self._report.refusals.append(words)
