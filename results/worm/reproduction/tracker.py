"""The text of a reproduction for a vendor's tracker, in Markdown."""

from __future__ import annotations

from urllib.parse import unquote

from archiver.values.platform import PlatformProfile
from results.worm.reproduction.evidence import Reproduction, Request

_RACE = (
    "",
    "Requests at the same time do not meet in the same way each time: the script tries 300 pairs, for five minutes at",
    "most. That it has not seen the finding does not prove that the finding is mended.",
)
_NO_NEWS = ("content-md5", "content-length", "content-type")  # headers that say nothing about a finding


def title_of(reproduction: Reproduction, platform: PlatformProfile) -> str:
    """Return check, platform and version, and what was tried, in a line."""
    return f"{reproduction.check.id} on {platform.title}: {reproduction.check.tries}"


def tracker_text(reproduction: Reproduction, platform: PlatformProfile, run: str, script: str) -> str:
    """Return the text: version, steps, what was expected, what was seen, and how to see it again."""
    check = reproduction.check
    steps = [f"{number}. {_step(request)}" for number, request in enumerate(reproduction.requests, 1)]
    lines = [
        f"# {title_of(reproduction, platform)}",
        "",
        f"- Platform: {platform.name}, version {platform.version or 'unknown'}",
        f"- Expected: {check.must}" + (f"; answer: {check.answer}" if check.answer else ""),
        f"- Source: {check.source or 'none; this is only expected'}",
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
        "credentials in AWS's variables. It makes a bucket with Object Lock and leaves it. Its exit status is 1 if the",
        "finding was seen again, 0 if it was not, and 125 if the script cannot tell.",
        *(_RACE if len(reproduction.attempt) > 1 else []),
        "",
        f"    AWS_ENDPOINT_URL=http://127.0.0.1:9000 AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=... python3 {script}",
    ]
    return "\n".join(lines) + "\n"


def _step(request: Request) -> str:
    _, _, rest = unquote(request.target.partition("&X-Amz-Algorithm=")[0])[1:].partition("/")
    headers = [f"{name}: {value}" for name, value in request.headers if name.lower() not in _NO_NEWS]
    sender = f", sent {request.sender}" if request.sender else ""
    body = f", {request.body_bytes} bytes" if request.body_bytes else ""
    codes = " ".join(request.elements("Code"))
    return (
        f"`{request.method} /bucket/{rest}`{body}{sender}"
        + (f", with `{'`, `'.join(headers)}`" if headers else "")
        + f": {request.status} {codes}".rstrip()
    )
