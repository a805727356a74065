"""The name and version of a running platform: the user's, or else those of its Server header."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from backends.s3 import S3Backend, S3Options
from backends.s3.backend import name_and_version
from backends.s3.control import Credentials
from tests.support.servers.scripted import ScriptedServer, serve

Scripted = Callable[..., ScriptedServer]
KEYS = Credentials("AKIDEXAMPLE", "secret", None)
PAGE = b'<ListAllMyBucketsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Buckets/></ListAllMyBucketsResult>'


@pytest.mark.parametrize(
    ("header", "named"),
    [
        ("SeaweedFS 8000GB 4.48", ("SeaweedFS", "8000GB 4.48")),
        ("nginx/1.25.3", ("nginx", "1.25.3")),
        ("Apache/2.4.62 (Debian)", ("Apache", "2.4.62 (Debian)")),
        ("Store v2.1", ("Store", "2.1")),
        ("Ceph Object Gateway (squid)", ("Ceph Object Gateway (squid)", None)),
        ("AmazonS3", ("AmazonS3", None)),
        ("MinIO", ("MinIO", None)),
        ("", ("", None)),
    ],
)
def test_a_server_header_is_split_into_name_and_version(header: str, named: tuple[str, str | None]) -> None:
    assert name_and_version(header) == named


@pytest.mark.parametrize(
    ("header", "name", "version", "title"),
    [
        ("SeaweedFS 8000GB 4.48", None, None, "SeaweedFS 8000GB 4.48"),
        ("MinIO", None, None, "MinIO"),
        ("nginx/1.25.3", "StorageGRID", "12.0", "StorageGRID 12.0"),
        ("nginx/1.25.3", "StorageGRID", None, "StorageGRID"),  # the version is the proxy's
        ("SeaweedFS 8000GB 4.48", "seaweedfs", None, "seaweedfs 8000GB 4.48"),
        ("SeaweedFS 8000GB 4.48", None, "4.48", "SeaweedFS 4.48"),
        ("", "RGW", "16.2.15", "RGW 16.2.15"),
        ("", None, None, "HOST:PORT"),
    ],
)
def test_platform_title_comes_from_the_user_or_the_server_header(
    scripted: Scripted, header: str, name: str | None, version: str | None, title: str
) -> None:
    lines = [b"HTTP/1.1 200 OK", b"Content-Type: application/xml", b"Content-Length: %d" % len(PAGE)]
    lines += [b"Server: " + header.encode()] if header else []
    server = scripted(then=[serve(lambda _: b"\r\n".join([*lines, b"", PAGE]))])
    options = S3Options((server.url,), credentials=KEYS, platform_name=name, platform_version=version)
    profile = S3Backend(options).profile()
    assert profile.title == title.replace("HOST:PORT", urlsplit(server.url).netloc)
