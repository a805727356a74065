"""The errors of the S3 server: Amazon's codes, and the code of each refusal of the core.

One idea: clients act on the code and people read the message. The codes are Amazon S3's. The messages are this store's
and say what to do.
"""

from __future__ import annotations

from ..core.rules import refusals
from ..core.rules.refusals import Refusal

# The status of every code that the S3 server sends.
STATUS = {
    "AccessControlListNotSupported": 400,
    "AccessDenied": 403,
    "AuthorizationHeaderMalformed": 400,
    "AuthorizationQueryParametersError": 400,
    "BadDigest": 400,
    "BadRequest": 400,
    "BucketAlreadyOwnedByYou": 409,
    "BucketNotEmpty": 409,
    "EntityTooLarge": 400,
    "EntityTooSmall": 400,
    "IncompleteBody": 400,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "InvalidArgument": 400,
    "InvalidBucketAclWithObjectOwnership": 400,
    "InvalidBucketName": 400,
    "InvalidBucketState": 409,
    "InvalidDigest": 400,
    "InvalidPolicyDocument": 400,
    "InvalidPart": 400,
    "InvalidPartNumber": 416,
    "InvalidPartOrder": 400,
    "InvalidRange": 416,
    "InvalidRequest": 400,
    "InvalidStorageClass": 400,
    "InvalidTag": 400,
    "InvalidToken": 400,
    "InvalidURI": 400,
    "KeyTooLongError": 400,
    "MalformedPOSTRequest": 400,
    "MalformedXML": 400,
    "MaxPostPreDataLengthExceededError": 400,
    "MetadataTooLarge": 400,
    "MethodNotAllowed": 405,
    "MissingContentLength": 411,
    "NoSuchBucket": 404,
    "NoSuchBucketPolicy": 404,
    "NoSuchCORSConfiguration": 404,
    "NoSuchKey": 404,
    "NoSuchLifecycleConfiguration": 404,
    "NoSuchObjectLockConfiguration": 404,
    "NoSuchTagSet": 404,
    "NoSuchUpload": 404,
    "NoSuchVersion": 404,
    "NoSuchWebsiteConfiguration": 404,
    "NotImplemented": 501,
    "ObjectLockConfigurationNotFoundError": 404,
    "PreconditionFailed": 412,
    "ReplicationConfigurationNotFoundError": 404,
    "RequestTimeTooSkewed": 403,
    "ServerSideEncryptionConfigurationNotFoundError": 404,
    "ServiceUnavailable": 503,
    "SignatureDoesNotMatch": 403,
    "XAmzContentSHA256Mismatch": 400,
}


class S3Error(Exception):
    """One error answer. `details` become further XML elements, `headers` further response headers."""

    def __init__(
        self,
        code: str,
        message: str,
        details: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = STATUS[code]
        self.message = message
        self.details = details or {}
        self.headers = headers or {}


def invalid_argument(message: str, name: str, value: str) -> S3Error:
    return S3Error("InvalidArgument", message, {"ArgumentName": name, "ArgumentValue": value})


_CODES: dict[type[Refusal], str] = {
    refusals.NoSuchBucket: "NoSuchBucket",
    refusals.BucketExists: "BucketAlreadyOwnedByYou",
    refusals.BucketNotEmpty: "BucketNotEmpty",
    refusals.NotLockBucket: "InvalidRequest",
    refusals.WrongBucketState: "InvalidBucketState",
    refusals.NoEventHold: "InvalidRequest",
    refusals.NoSuchKey: "NoSuchKey",
    refusals.NoSuchVersion: "NoSuchVersion",
    refusals.IsDeleteMarker: "MethodNotAllowed",
    refusals.NoSuchUpload: "NoSuchUpload",
    refusals.NoSuchPart: "InvalidPart",
    refusals.PartsOutOfOrder: "InvalidPartOrder",
    refusals.PartTooSmall: "EntityTooSmall",
    refusals.UploadTooLarge: "EntityTooLarge",
    refusals.WrongObjectSize: "InvalidRequest",
    refusals.PartChecksumMissing: "InvalidRequest",
    refusals.WrongUploadChecksum: "BadDigest",
    refusals.AlreadyExists: "PreconditionFailed",
    refusals.WrongETag: "PreconditionFailed",
    refusals.LegallyHeld: "AccessDenied",
    refusals.Retained: "AccessDenied",
    # To clients, 503 means that the server cannot accept the write now; the message says that the disk is full.
    refusals.StoreFull: "ServiceUnavailable",
    refusals.WriteFailed: "ServiceUnavailable",
}


def of_refusal(refusal: Refusal, date_argument: str = "x-amz-object-lock-retain-until-date") -> S3Error:
    """Return Amazon's answer for a refusal of the core. `date_argument`: the name that the call has for the date."""
    if isinstance(refusal, refusals.BadVersionId):
        return invalid_argument("Invalid version id specified", "versionId", refusal.version_id)
    if isinstance(refusal, refusals.BadRetainUntil):
        return invalid_argument(str(refusal), date_argument, "")
    error = S3Error(_CODES[type(refusal)], str(refusal))
    if isinstance(refusal, refusals.PartTooSmall):
        error.details = {
            "PartNumber": str(refusal.number),
            "ETag": refusal.etag,
            "ProposedSize": str(refusal.size_bytes),
            "MinSizeAllowed": str(refusal.least_bytes),
        }
    if isinstance(refusal, refusals.NoSuchKey | refusals.IsDeleteMarker) and refusal.marker_id is not None:
        error.headers = {"x-amz-delete-marker": "true", "x-amz-version-id": refusal.marker_id}
    return error


def plain_number(text: str) -> int | None:
    """Parse a number of at most 19 ASCII digits; None for any other text.

    `int` alone would also accept digits of other alphabets, and fail on thousands of digits.
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 19 else None


def number_in(text: str, name: str, message: str, least: int = 0, most: int | None = None) -> int:
    """Parse the argument `name`, a number from `least` to `most`. Raises S3Error InvalidArgument with `message`."""
    number = plain_number(text)
    if number is None or number < least or (most is not None and number > most):
        raise invalid_argument(message, name, text)
    return number
