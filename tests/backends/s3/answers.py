"""Status and code of the answers that the tests expect, by name; a success has no code."""

from __future__ import annotations

Answer = tuple[int, str]

OK, NO_CONTENT = (200, ""), (204, "")
DENIED = (403, "AccessDenied")
MALFORMED, BAD_ARGUMENT, BAD_REQUEST = (400, "MalformedXML"), (400, "InvalidArgument"), (400, "InvalidRequest")
NO_LOCK = (404, "NoSuchObjectLockConfiguration")
NO_KEY, NO_VERSION = (404, "NoSuchKey"), (404, "NoSuchVersion")
CRASHED = (500, "500")
