"""The text of a reproduction for a vendor's tracker, in Markdown."""

from __future__ import annotations

from urllib.parse import unquote

from archiver.values.platform import PlatformProfile
from results.worm.harm import harm_words
from results.worm.reproduction.evidence import Reproduction, Request

_RACE = (
    "",
    "The timing of simultaneous requests varies. The script tries up to 2,000 times, for five minutes at most. If it",
    "does not see the finding, the finding may still exist.",
)
_LIMITED = (
    "LIMITED_PROFILE names an AWS profile whose credential lacks the right named in the steps and has all other rights",
    "to objects; BUCKET may name a bucket with Object Lock in which it has these rights.",
)
_OMITTED_HEADERS = ("content-md5", "content-length", "content-type")  # irrelevant to a finding


def title_of(reproduction: Reproduction, platform: PlatformProfile) -> str:
    """Return one line: the check, the platform with its version, and the action that was tried."""
    return f"{reproduction.check.id} on {platform.title}: {reproduction.check.tries}"


def tracker_text(reproduction: Reproduction, platform: PlatformProfile, run: str, script: str) -> str:
    """Return the text: version, steps, expected and actual result, and how to reproduce it."""
    check = reproduction.check
    steps = [f"{number}. {_step(request)}" for number, request in enumerate(reproduction.requests, 1)]
    lines = [
        f"# {title_of(reproduction, platform)}",
        "",
        f"- Platform: {platform.name}, version {platform.version or 'unknown'}",
        f"- Expected: {check.must}" + (f"; answer: {check.answer}" if check.answer else ""),
        f"- Source: {check.source or 'none; this is only expected'}",
        *([f"- Harm: {words}"] if (words := harm_words(check)) else []),
        f"- Seen: {reproduction.finding.words}",
        *([f"- Further findings of this check: {others}"] if (others := len(check.findings) - 1) else []),
        f"- Verdict: {check.verdict}, severity {check.severity}, check {check.id} of Archiver, run {run}",
        "",
        "## Steps",
        "",
        *steps,
        "",
        "## To see it again",
        "",
        f"`{script}` sends these requests. It needs Python 3.11 and botocore, the endpoint in AWS_ENDPOINT_URL, and",
        "credentials in AWS's variables. It creates a bucket with Object Lock and does not delete it. Its exit",
        "status is 1 if the finding was seen again, 0 if it was not, and 125 if the script cannot tell.",
        *(_LIMITED if any(each.sender and each.signature for each in reproduction.requests) else []),
        *(_RACE if len(reproduction.attempt) > 1 else []),
        "",
        f"    AWS_ENDPOINT_URL=http://127.0.0.1:9000 AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=... python3 {script}",
    ]
    return "\n".join(lines) + "\n"


def _step(request: Request) -> str:
    words = [word for word in unquote(request.target).replace("?", "&", 1).split("&") if not word.startswith("X-Amz-")]
    path, query = words[0].replace(request.bucket, "bucket", 1), "&".join(words[1:])
    headers = [f"{name}: {value}" for name, value in request.headers if name.lower() not in _OMITTED_HEADERS]
    sender = f", sent {request.sender}" if request.sender else ""
    body = f", {request.body_bytes} bytes" if request.body_bytes else ""
    codes = " ".join(request.elements("Code"))
    signed = " and ".join(name for name, _ in request.signed_headers) or "no further header"
    unsigned = f", not signed: {', '.join(request.unsigned_headers)}" if request.unsigned_headers else ""
    way = {"url": f", by a presigned URL that covers {signed}", "": ", not signed"}.get(request.signature, unsigned)
    return (
        f"`{request.method} {path}{'?' if query else ''}{query}`{body}{sender}{way}"
        + (f", with `{'`, `'.join(headers)}`" if headers else "")
        + f": {request.status} {codes}".rstrip()
    )
