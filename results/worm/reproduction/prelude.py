"""Functions of the generated scripts. A script contains this text, so it imports only botocore and Python."""

import base64
import hashlib
import html
import http.client
import os
import re
import secrets
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlsplit

import botocore.session
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest

OWN = botocore.session.Session()
ENDPOINT = (os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ["AWS_ENDPOINT_URL"]).rstrip("/")
REGION = OWN.get_config_variable("region") or "us-east-1"
LOCATION = f"""<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
<LocationConstraint>{REGION}</LocationConstraint></CreateBucketConfiguration>"""


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def date(start: datetime, seconds: float, digits: int = 3) -> str:
    text = (start + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return text[: 20 + digits] if digits else text[:19]


def q(value: str) -> str:
    return quote(value, safe="")


def md5(body: str) -> str:
    return base64.b64encode(hashlib.md5(body.encode("latin-1"), usedforsecurity=False).digest()).decode()


def send(
    method: str,
    target: str,
    headers: tuple[tuple[str, str], ...] = (),
    body: str = "",
    by: botocore.session.Session | None = OWN,
    unsigned: tuple[tuple[str, str], ...] = (),
) -> dict[str, str]:
    """Send a request and return the response. The credentials of ``by`` sign it, but not its ``unsigned`` headers."""
    if method == "PUT" and target.count("/") == 1 and "?" not in target and REGION != "us-east-1":
        body = body or LOCATION  # region of the new bucket
    request = AWSRequest(method, ENDPOINT + target, data=body.encode("latin-1"))
    for name, value in headers:
        request.headers.add_header(name, value)
    if by is not None:
        S3SigV4Auth(by.get_credentials(), "s3", REGION).add_auth(request)
    for name, value in unsigned:
        request.headers.add_header(name, value)
    url = urlsplit(ENDPOINT)
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.netloc, timeout=60)
    connection.request(method, target, body.encode("latin-1") or None, request.headers)
    reply = connection.getresponse()
    answer = {"status": str(reply.status), "body": reply.read().decode("latin-1")}
    connection.close()
    answer |= {name.lower(): value.strip('"') for name, value in reply.getheaders()}
    for name, text in re.findall(r"<(\w+)>([^<]+)</", answer["body"]):
        answer[name] = (answer[name] + "," if name in answer else "") + html.unescape(text).strip('"')
    print(method, target.partition("X-Amz-")[0], "->", answer["status"], answer.get("Code", ""))
    return answer


def stores(bucket: str, by: botocore.session.Session, headers: tuple[tuple[str, str], ...] = ()) -> bool:
    """Return whether an object with these headers is stored. This is a control, and no part of the finding."""
    key = f"/{bucket}/control-{secrets.token_hex(8)}"
    return send("PUT", key, (("Content-MD5", md5("control")), *headers), "control", by)["status"] == "200"


def needed(status: str, answer: dict[str, str]) -> dict[str, str]:
    """Return the response to a request before the finding.

    Exits if its status has another first digit: with 0 if the platform makes a bucket and stores a locked object, so
    that only this request is answered otherwise than it was; else with 125.
    """
    if answer["status"][0] == status[0]:
        return answer
    bucket = f"reproduction-{secrets.token_hex(8)}"
    lock = (("x-amz-object-lock-mode", "GOVERNANCE"), ("x-amz-object-lock-retain-until-date", date(now(), 60) + "Z"))
    made = send("PUT", f"/{bucket}", (("x-amz-bucket-object-lock-enabled", "true"),))["status"]
    is_answer = answer["status"] < "500" or answer["status"] == "501"
    if is_answer and made == "200" and stores(bucket, OWN, lock):
        print(f"NOT SEEN: before the finding a request was answered {answer['status']}, not {status}")
        sys.exit(0)
    print(f"CANNOT TELL: a request was answered {answer['status']}, not {status}")
    sys.exit(125)


def near(found: str | None, seen: str | None, seconds: float) -> bool:
    try:
        apart = datetime.fromisoformat(str(found)) - datetime.fromisoformat(str(seen))
    except (TypeError, ValueError):
        return False
    return abs(apart) <= timedelta(seconds=seconds)


def shows(answer: dict[str, str], seen: dict[str, str | None], seconds: float = 2) -> bool:
    """Return whether a response has the recorded values. Dates may differ by ``seconds``."""
    return all(answer.get(name) == value or near(answer.get(name), value, seconds) for name, value in seen.items())


def presigned(method: str, target: str, headers: tuple[tuple[str, str], ...] = ()) -> str:
    """Return the target with a signature that covers these headers."""
    request = AWSRequest(method, ENDPOINT + target, headers=dict(headers))
    S3SigV4QueryAuth(OWN.get_credentials(), "s3", REGION, expires=300).add_auth(request)
    return target.partition("?")[0] + "?" + str(request.url).partition("?")[2]


def together(*requests: Callable[[], dict[str, str]]) -> list[dict[str, str]]:
    """Send requests at the same time, each with a random delay of up to 4 ms."""

    def later(request: Callable[[], dict[str, str]]) -> dict[str, str]:
        time.sleep(secrets.randbelow(5) / 1000)
        return request()

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(later, requests))
