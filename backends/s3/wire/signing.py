"""AWS Signature Version 4 in request headers, for tens of thousands of requests a second.

One idea: only the path and at most a checksum change from object to object. So a RequestTemplate compiles everything
else into two byte strings once a second, and one request costs two formats, one SHA-256 and one HMAC.

Source of the algorithm: AWS General Reference, "Create a signed AWS API request": canonical request, string to sign,
signing key = HMAC chain over date, region, service, "aws4_request".
"""

from __future__ import annotations

import hmac
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from hashlib import _Hash as HASH

UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
EMPTY_SHA256 = sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class SigningSecond:
    """All that a signature needs of one second of one day."""

    epoch_seconds: int
    amz_date: str  # 20261121T110327Z
    credential: str  # access key and scope, as in the Authorization header
    # The two hash states of HMAC, the inner one already fed with the start of the string to sign. Copying a state and
    # feeding the rest takes half the time of hmac.digest() with the key.
    inner: HASH
    outer: HASH

    def __repr__(self) -> str:
        return f"SigningSecond({self.amz_date})"


class Signer:
    """Signs for one credential in one region. Never shows its secret."""

    def __init__(self, access_key: str, secret_key: str, region: str, session_token: str | None = None) -> None:
        self._access_key = access_key
        self._secret_key = secret_key
        self._region = region
        self.session_token = session_token
        self._day = ""
        self._day_key = b""
        self._moment: SigningSecond | None = None

    def __repr__(self) -> str:
        return f"Signer({self._access_key}, {self._region})"

    def moment(self, epoch_seconds: int) -> SigningSecond:
        """Return what signatures need in this second, cached; the key is cached for the day."""
        if self._moment is not None and self._moment.epoch_seconds == epoch_seconds:
            return self._moment
        amz_date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(epoch_seconds))
        day = amz_date[:8]
        if day != self._day:
            key = ("AWS4" + self._secret_key).encode()
            for part in (day, self._region, "s3", "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._day, self._day_key = day, key
        scope = f"{day}/{self._region}/s3/aws4_request"
        self._moment = SigningSecond(
            epoch_seconds,
            amz_date,
            f"{self._access_key}/{scope}",
            *_hmac_states(self._day_key, f"AWS4-HMAC-SHA256\n{amz_date}\n{scope}\n".encode()),
        )
        return self._moment


class RequestTemplate:
    """The head of one kind of request: fixed except for the path, the ``variable`` headers and the date.

    Arguments: ``fixed`` are signed headers. ``variable`` are names of signed headers whose values come with each
    request, in sorted order. ``unsigned`` headers are sent but not signed (Content-Length). ``query`` is the canonical
    query string; with ``query_varies`` its rest comes with each request, encoded. With ``length_varies``
    Content-Length, unsigned, comes with each request too. If ``variable`` has ``x-amz-content-sha256``, its value is
    also the payload hash.
    """

    def __init__(
        self,
        method: str,
        host: str,
        fixed: dict[str, str],
        *,
        variable: tuple[str, ...] = (),
        unsigned: dict[str, str] | None = None,
        query: str = "",
        query_varies: bool = False,
        length_varies: bool = False,
    ) -> None:
        self._method = method
        self._fixed = {"host": host, **fixed}
        self._variable = variable
        self._unsigned = {name: value.replace("%", "%%") for name, value in (unsigned or {}).items()}
        if length_varies:
            self._unsigned["Content-Length"] = "%d"
        self._query = query.replace("%", "%%") + ("%b" if query_varies else "")  # for bytes formatting
        self._payload_is_variable = "x-amz-content-sha256" in variable
        if not self._payload_is_variable:
            self._fixed.setdefault("x-amz-content-sha256", UNSIGNED_PAYLOAD)
        self._moment: SigningSecond | None = None
        self._canonical = b""
        self._wire = b""

    def compile(self, signer: Signer, epoch_seconds: int, dated: dict[str, str]) -> None:
        """Make the two byte strings for this second; ``dated`` are signed headers that change with the time."""
        moment = signer.moment(epoch_seconds)
        headers = {**self._fixed, **dated, "x-amz-date": moment.amz_date}
        if signer.session_token:
            headers["x-amz-security-token"] = signer.session_token
        # Bytes formatting needs a doubled %; a variable header becomes one %b.
        values = {name: value.replace("%", "%%") for name, value in headers.items()}
        values.update(dict.fromkeys(self._variable, "%b"))
        names = sorted(values)
        signed = ";".join(names)
        payload = "%b" if self._payload_is_variable else values["x-amz-content-sha256"]
        canonical_headers = "".join(f"{name}:{values[name]}\n" for name in names)
        query = self._query
        self._canonical = f"{self._method}\n%b\n{query}\n{canonical_headers}\n{signed}\n{payload}".encode()
        target = f"%b?{query}" if query else "%b"
        sent_headers = "".join(f"{name}: {values[name]}\r\n" for name in names)
        sent_headers += "".join(f"{name}: {value}\r\n" for name, value in self._unsigned.items())
        self._wire = (
            f"{self._method} {target} HTTP/1.1\r\n{sent_headers}Authorization: AWS4-HMAC-SHA256 "
            f"Credential={moment.credential.replace('%', '%%')}, SignedHeaders={signed}, Signature=%b\r\n\r\n"
        ).encode()
        self._moment = moment

    def head(self, path: bytes, values: tuple[bytes, ...] = (), length: int | None = None) -> bytes:
        """Return the signed head for one path.

        ``values`` are the rest of the query, if it varies, and then the ``variable`` headers in sorted order.
        ``length`` is that of the body, if it varies.
        """
        moment = self._moment
        assert moment is not None, "compile() comes first"
        if self._payload_is_variable:
            canonical = self._canonical % (path, *values, values[-1])
        else:
            canonical = self._canonical % (path, *values)
        inner = moment.inner.copy()
        inner.update(sha256(canonical).hexdigest().encode())
        outer = moment.outer.copy()
        outer.update(inner.digest())
        signature = outer.hexdigest().encode()
        if length is None:
            return self._wire % (path, *values, signature)
        return self._wire % (path, *values, length, signature)


def _hmac_states(key: bytes, head: bytes) -> tuple[HASH, HASH]:
    """Return the inner and outer hash of HMAC-SHA256 (RFC 2104) for keys up to 64 bytes, the inner with ``head``."""
    padded = key.ljust(64, b"\0")
    return sha256(bytes(byte ^ 0x36 for byte in padded) + head), sha256(bytes(byte ^ 0x5C for byte in padded))


def encode_path(path: str) -> str:
    """Encode a path as S3 signs it: UTF-8, percent-encoded once, slashes kept."""
    return quote(path, safe="/-_.~")
