"""The return codes of the TSM API that the server answers, and the code of each refusal of the core."""

from __future__ import annotations

from archiver.values.errors import Damaged, StoreError

from ..core.rules import refusals

NO_MATCH = 2
NO_SPACE = 20
ABORT_BY_CLIENT = 3
BAD_VERIFIER = 6
DATA_UNAVAILABLE = 14
INVALID_OFFSET = 33
INVALID_LENGTH = 34
REJECT_NO_RESOURCES = 51
REJECT_ID_UNKNOWN = 53
REJECT_CLIENT_DOWNLEVEL = 57
REJECT_SERVER_DOWNLEVEL = 58
CLIENT_NOT_ARCHRETPROT = 68
COMM_PROTOCOL_ERROR = 136
AUTH_FAILURE = 137
TXN_LIMIT_EXCEEDED = 249
NO_AUTHORIZATION = 123
FSNAME_NOTFOUND = 2060
FS_NOT_REGISTERED = 2061
FS_ALREADY_REGED = 2062

# The first matching entry counts.
_REASONS: tuple[tuple[type[StoreError], int], ...] = (
    (refusals.NoSuchSpace, NO_SPACE),
    (refusals.NoSuchArchive, NO_MATCH),
    (refusals.NotOwner, 36),
    (refusals.NoSuchRule, NO_MATCH),
    (refusals.RuleExists, 28),
    (refusals.TooManyRules, 17),
    (refusals.NothingArchived, 2113),
    (refusals.Locked, 248),
    (refusals.AlreadyHeld, 250),
    (refusals.WrongRetentionEvent, 47),
    (refusals.StoreFull, 11),
    (refusals.WriteFailed, 43),
    (Damaged, DATA_UNAVAILABLE),
)


def reason(refusal: StoreError) -> int:
    """Return the code for a refusal; 1, a fault of the server, for any other error."""
    return next((code for kind, code in _REASONS if isinstance(refusal, kind)), 1)
