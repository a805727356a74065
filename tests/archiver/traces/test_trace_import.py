"""Test servers' logs as traces: what is understood, what is kept as is, and what is reported of the rest."""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archiver.traces.format import TracedOperation
from archiver.traces.importing import ImportReport, import_logs
from archiver.traces.logs import Refused, instant_ns, reader_of
from archiver.traces.streams import SESSION_GAP_NS, Streams
from archiver.values.errors import UsageError
from tests.archiver.traces.made import HERE, read
from tests.support.examples import share_of
from tests.support.servers import real

SECOND = 10**9
PAGE = HERE.parents[2] / "docs" / "traces.md"
NGINX = '192.0.2.1 - - [06/Feb/2026:10:00:00 +0000] "{request}" {status} {size} "-" "agent"'


def imported(folder: Path, kind: str, *logs: Path, **options: Any) -> tuple[ImportReport, list[TracedOperation]]:
    out = folder / f"{kind}.parquet"
    report = import_logs(out, logs, kind, **options)
    return report, read(out)


def of_lines(folder: Path, kind: str, lines: list[str], **options: Any) -> tuple[ImportReport, list[TracedOperation]]:
    log = folder / "access.log"
    log.write_text("".join(f"{line}\n" for line in lines), newline="")
    return imported(folder, kind, log, **options)


def notes(reasons: dict[str, Any]) -> dict[str, list[str]]:
    return {reason.partition(";")[0]: noted.first for reason, noted in reasons.items()}


def brief(rows: list[TracedOperation]) -> list[tuple[Any, ...]]:
    return [(row.due_ns / SECOND, row.operation, row.key, row.size_bytes, row.status) for row in rows]


def test_aws_access_log_is_imported(tmp_path: Path) -> None:
    report, rows = imported(tmp_path, "aws", HERE / "logs" / "aws.log")
    letter = "mails/2026/02/letter 1.eml"
    assert brief(rows) == [
        (0, "other", "mails", 113, 0),
        (2, "archive", letter, 4406583, 0),
        (4, "range-retrieve", letter, 4406583, 0),
        (5, "retrieve", "mails/100%25.txt", None, 403),
        (6, "delete", "mails/old.eml", 77, 0),
        (7, "delete", "mails/50% off.eml", 12, 0),
        (8, "other", "mails/gone.eml", 512, 0),
        (9, "copy", "mails/copy.eml", 4406583, 0),
        (10, "extend", "mails/copy.eml", 4406583, 0),
    ]
    archive, ranged = rows[1], rows[2]
    assert archive.done_ns == archive.due_ns + 41_754_000_000
    assert archive.first_byte_ns is None  # the log's 28 ms count from the end of the request
    assert (ranged.offset, ranged.length, ranged.first_byte_ns) == (None, 1024, ranged.due_ns + 8_000_000)
    assert len({row.client for row in rows}) == 4  # two streams of the clerk, another address, and the platform itself
    assert notes(report.left_out) == {"is not a complete line of an S3 server access log": ["aws.log:10"]}
    assert report.whole_seconds
    assert report.info.began_at_ns == 1_770_336_036 * SECOND


def test_minio_audit_log_is_imported(tmp_path: Path) -> None:
    report, rows = imported(tmp_path, "minio", HERE / "logs" / "minio.log")
    key = "bkt/a b/ü%20+x"
    assert [row[1:] for row in brief(rows)] == [
        ("other", "bkt", 0, 0),
        ("archive", key, 1000, 0),
        ("retrieve", key, 1000, 0),
        ("range-retrieve", key, 1000, 0),
        ("head", key, 1000, 0),
        ("other", key, None, 0),
        ("copy", "bkt/copy", None, 0),
        ("archive", "bkt/mp", 3000, 0),
        ("delete", key, None, 400),
        ("delete-marker", key, None, 0),
        ("delete-marker", "bkt/copy", None, 0),
        ("delete-marker", "bkt/zz", None, 0),
        ("list", "bkt/a", 267, 0),
    ]
    archive, ranged, copy, parts = rows[1], rows[3], rows[6], rows[7]
    assert (archive.retention_mode, archive.legal_hold) == ("GOVERNANCE", True)
    assert archive.retain_for_seconds == pytest.approx(299.04, abs=0.01)
    assert (archive.first_byte_ns or 0) - archive.due_ns == 7_557_234
    assert (ranged.offset, ranged.length) == (10, 10)
    assert copy.source == key
    assert (parts.length, (parts.done_ns or 0) - parts.due_ns > 15_000_000) == (3000, True)  # creation to completion
    assert {(row.client, row.session) for row in rows} == {(0, 0)}
    assert notes(report.remarks) == {"does not say whether a hold was set or lifted": ["minio.log:6"]}
    content = (tmp_path / "minio.parquet").read_bytes()
    assert not any(word in content for word in (b"clerk", b"0123456789abcdef", b"upload-1", b"Signature"))


def test_nginx_access_log_is_imported(tmp_path: Path) -> None:
    report, rows = imported(tmp_path, "nginx", HERE / "logs" / "nginx.log")
    assert brief(rows) == [
        (0, "archive", "mails/2026/ü.eml", None, 0),
        (1, "retrieve", "mails/2026/ü.eml", 8192, 0),
        (1, "range-retrieve", "mails/2026/ü.eml", 100, 0),
        (2, "retrieve", 'mails/rawü"name', None, 404),
        (2, "list", "mails/2026/", 512, 0),
        (3, "other", None, 157, 400),
        (4, "head", "mails/line\nbreak\0nul", None, 0),
        (5, "retrieve", "mails/a", None, 499),
    ]
    assert notes(report.left_out) == {
        "is not a complete line of nginx's format": ["nginx.log:9", "nginx.log:12"],
        "has no time that can be read": ["nginx.log:10"],
        "has a negative or an impossible number of bytes (sent_bytes)": ["nginx.log:11"],
    }
    assert notes(report.remarks) == {"has a request that is not understood": ["nginx.log:6"]}
    assert report.lines == len(rows) + report.lines_left_out


def test_haproxy_log_is_imported(tmp_path: Path) -> None:
    report, rows = imported(tmp_path, "haproxy", HERE / "logs" / "haproxy.log")
    assert brief(rows) == [
        (0, "retrieve", "mails/a b", 2750, 0),
        (0.045, "range-retrieve", "mails/big", 4096, 0),
        (0.245, "archive", "mails/c#d", None, 0),
        (0.345, "other", None, 187, 400),
        (1.345, "retrieve", "mails/lost", None, 5),
    ]
    assert [((row.first_byte_ns or 0) - row.due_ns, (row.done_ns or 0) - row.due_ns) for row in rows[:3]] == [
        (109_000_000, 109_000_000), (3_000_000, 5_000_000_000), (5_000_000, 15_000_000)
    ]  # fmt: skip
    assert rows[4].first_byte_ns is None
    # A connection has a stream of its own as long as other connections are open.
    assert [(row.client, row.session) for row in rows] == [(0, 0), (1, 0), (0, 0), (2, 0), (3, 0)]
    assert notes(report.left_out) == {"is not a complete line of haproxy's format": ["haproxy.log:6"]}


def test_documented_pattern_imports_every_field_of_its_log(tmp_path: Path) -> None:
    found = re.search(r"^```\n(\(\?P<address>.*)\n```", PAGE.read_text(), re.MULTILINE)
    assert found
    pattern = found[1]
    lines = [
        '192.0.2.1 7 1770336001.500 0.500 0.400 "PUT /b/k HTTP/1.1" 200 0 8192 "-" "-" "COMPLIANCE"'
        ' "2026-02-06T00:01:01Z" "ON"',
        '192.0.2.1 7 1770336002.000 0.100 0.010, 0.020 "GET /b/k HTTP/1.1" 206 10 - "bytes=90-99" "-" "-" "-" "-"',
        '192.0.2.1 7 1770336003.000 0.000 - "PUT /b/c HTTP/1.1" 200 0 0 "-" "/b/k%20?versionId=1" "-" "-" "-"',
    ]
    report, rows = of_lines(tmp_path, "nginx", lines, pattern=pattern, strict=True)
    assert report.info.began_at_ns == 1_770_336_001 * SECOND
    first, second, third = rows
    assert (first.due_ns, first.first_byte_ns, first.done_ns) == (0, 400_000_000, 500_000_000)
    assert (first.size_bytes, first.retention_mode, first.retain_for_seconds, first.legal_hold) == (
        8192, "COMPLIANCE", 60.0, True
    )  # fmt: skip
    assert (second.due_ns, second.offset, second.length, second.first_byte_ns) == (900_000_000, 90, 10, None)
    assert (third.operation, third.source) == ("copy", "b/k ")


@pytest.mark.parametrize(
    ("kind", "pattern", "message"),
    [
        ("aws", "(?P<time>.*)", "the format of --kind aws is fixed"),
        ("nginx", "(", "is not a regular expression"),
        ("nginx", "(?P<tyme>.*)", "tyme: there is no group of that name"),
        ("haproxy", "(?P<time>.*)", "needs groups"),
    ],
)
def test_invalid_log_pattern_is_refused(tmp_path: Path, kind: str, pattern: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"--pattern: .*{message}"):
        of_lines(tmp_path, kind, ["x"], pattern=pattern)


def test_strict_import_names_the_first_bad_line_and_writes_no_trace(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nginx\.log:6: has a request that is not understood"):
        imported(tmp_path, "nginx", HERE / "logs" / "nginx.log", strict=True)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("nginx")]


def test_log_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no request of --kind aws in 14 lines; minio\.log:1 is not a complete line"):
        imported(tmp_path, "aws", HERE / "logs" / "minio.log")
    (tmp_path / "empty.log").write_bytes(b"\n\n")
    with pytest.raises(UsageError, match=r"empty\.log: the log has no lines|no request of"):
        imported(tmp_path, "aws", tmp_path / "empty.log")
    with pytest.raises(UsageError, match=r"missing\.log: cannot be read"):
        imported(tmp_path, "aws", tmp_path / "missing.log")


def test_non_utf8_bytes_are_escaped_and_huge_lines_left_out(tmp_path: Path) -> None:
    log = tmp_path / "odd.log"
    good = NGINX.format(request="GET /b/a HTTP/1.1", status=200, size=1).encode()
    odd = NGINX.format(request="GET /b/@ HTTP/1.1", status=200, size=1).encode().replace(b"@", b"\xff")
    half = NGINX.format(request="GET /b/%FF%C3 HTTP/1.1", status=200, size=1).encode()
    log.write_bytes(b"\r\n".join([good, odd, b"x" * (3 << 20), b"\0" * 100, half, good]))
    report, rows = imported(tmp_path, "nginx", log)
    assert [row.key for row in rows] == ["b/a", "b/%FF", "b/%FF%C3", "b/a"]
    assert notes(report.remarks) == {"is not UTF-8": ["odd.log:2"]}
    assert sorted(each for first in notes(report.left_out).values() for each in first) == ["odd.log:3", "odd.log:4"]


def test_truncated_compressed_log_is_read_to_its_damage(tmp_path: Path) -> None:
    line = NGINX.format(request="GET /b/a HTTP/1.1", status=200, size=1) + "\n"
    whole, broken = tmp_path / "whole.gz", tmp_path / "broken.gz"
    whole.write_bytes(gzip.compress(line.encode() * 3))
    report, rows = imported(tmp_path, "nginx", whole, strict=True)
    assert (report.lines, len(rows)) == (3, 3)
    broken.write_bytes(gzip.compress(b"".join(line.replace("a HTTP", f"{i} HTTP").encode() for i in range(9999)))[:-9])
    (tmp_path / "nginx.parquet").unlink()
    report, rows = imported(tmp_path, "nginx", broken)
    assert 9000 < len(rows) <= 9999
    ((_, noted),) = report.left_out.items()
    assert noted.first == [f"broken.gz:{report.lines}"]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
@settings(max_examples=share_of(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_keys_with_any_character_are_imported_from_every_kind(tmp_path: Path, key: str) -> None:
    sent = quote(key, safe="/")
    document = {
        "time": "2026-02-06T10:00:00Z",
        "api": {"name": "GetObject", "bucket": "b", "object": key, "statusCode": 200},
        "requestPath": f"/b/{key}",
    }
    twice = quote(quote(key, safe="/"), safe="/")
    lines = {
        "nginx": NGINX.format(request=f"GET /b/{sent} HTTP/1.1", status=200, size=1),
        "minio": json.dumps(document),
        "aws": f'o b [06/Feb/2026:00:00:38 +0000] - - id REST.GET.OBJECT {twice} "GET /b/{sent} HTTP/1.1" 200 - 1 1 1 1'
        ' "-" "-" -',
    }
    for kind, line in lines.items():
        (tmp_path / f"{kind}.parquet").unlink(missing_ok=True)
        _, rows = of_lines(tmp_path, kind, [line], strict=True)
        assert [(row.operation, row.key) for row in rows] == [("retrieve", f"b/{key}")], kind


@given(st.sampled_from(["aws", "minio", "nginx", "haproxy"]), st.data())
@settings(max_examples=share_of(150))
def test_broken_log_line_is_parsed_or_refused(kind: str, data: st.DataObject) -> None:
    lines = (HERE / "logs" / f"{kind}.log").read_text().splitlines()
    line = data.draw(st.sampled_from(lines))
    cut = line[: data.draw(st.integers(0, len(line)))]
    at = data.draw(st.integers(0, len(cut)))
    broken = cut[:at] + data.draw(st.sampled_from(["", "-", '"', "\0", "999999999999999999999", "é"])) + cut[at:]
    entry = None
    with suppress(Refused):
        entry = reader_of(kind)(broken)
    assert entry is None or isinstance(entry.status, int)


def test_imported_lines_are_sorted_by_time_and_ties_keep_their_order(tmp_path: Path) -> None:
    line = NGINX.replace("10:00:00", "10:{minute:02d}:00")
    lines = [
        line.format(minute=(i * 7) % 60, request=f"GET /b/{i:03d} HTTP/1.1", status=200, size=i) for i in range(200)
    ]
    _, rows = of_lines(tmp_path, "nginx", lines)
    assert [row.size_bytes for row in rows] == sorted(range(200), key=lambda i: (i * 7) % 60)


def test_incomplete_upload_is_imported_as_other(tmp_path: Path) -> None:
    def line(method: str, query: str, size: int) -> str:
        return f'[{1770336000 + size}] "{method} /b/k?{query} HTTP/1.1" 200 {size}'

    pattern = r'\[(?P<time>\d+)\] "(?P<request>.*)" (?P<status>\d+) (?P<received_bytes>\d+)'
    _, rows = of_lines(
        tmp_path,
        "nginx",
        [
            line("POST", "uploads", 0), line("PUT", "partNumber=1&uploadId=a", 30),
            line("PUT", "partNumber=2&uploadId=a", 40), line("POST", "uploads", 50),
            line("PUT", "partNumber=1&uploadId=b", 60), line("DELETE", "uploadId=b", 70),
            line("POST", "uploads", 80),
        ],
        pattern=pattern,
    )  # fmt: skip
    assert brief(rows) == [(0, "other", "b/k", 70, 0), (50, "other", "b/k", 60, 0), (80, "other", "b/k", 0, 0)]


@pytest.mark.parametrize(
    ("text", "seconds", "whole"),
    [
        ("06/Feb/2026:00:00:38 +0000", 1770336038.0, True),
        ("06/Feb/2026:01:00:38 +0100", 1770336038.0, True),
        ("05/Feb/2026:18:30:38.250 -0530", 1770336038.25, False),
        ("06/Feb/2026:00:00:38.655", 1770336038.655, False),
        ("2026-02-06T00:00:38.500Z", 1770336038.5, False),
        ("2026-02-06T01:00:38+01:00", 1770336038.0, True),
        ("1770336038.125", 1770336038.125, False),
    ],
)
def test_log_times_are_parsed_in_every_format(text: str, seconds: float, whole: bool) -> None:
    assert instant_ns(text) == (round(seconds * 1000) * 10**6, whole)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "31/Feb/2026:00:00:00 +0000", "06/Foo/2026:00:00:00", "1969-01-01T00:00:00Z"]
)
def test_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="time"):
        instant_ns(text)


def test_overlapping_operations_get_separate_streams_and_silence_ends_a_session() -> None:
    streams = Streams()
    assert streams.of(0, None, 0, 10) == (0, 0)
    assert streams.of(0, None, 5, 20) == (1, 0)
    assert streams.of(1, None, 6, 7) == (2, 0)
    assert streams.of(0, None, 10, 12) == (0, 0)
    assert streams.of(0, None, 30 + SESSION_GAP_NS, None) == (0, 1)
    assert streams.of(0, None, 31 + SESSION_GAP_NS, None) == (0, 1)


def test_connection_keeps_its_stream_until_it_is_silent() -> None:
    streams = Streams()
    assert streams.of(0, 11, 0, 10) == (0, 0)
    assert streams.of(0, 22, 20, 30) == (1, 0)
    assert streams.of(0, 11, 40, 50) == (0, 0)
    late = 100 + SESSION_GAP_NS
    assert streams.of(0, 33, late, late) == (0, 1)
    assert streams.of(0, 11, late + 1, late + 2) == (1, 1)


def test_whole_second_times_make_no_extra_streams_for_sequential_operations() -> None:
    streams = Streams(SECOND)
    assert {streams.of(0, None, 0, SECOND // 2) for _ in range(50)} == {(0, 0)}
    assert streams.of(0, None, 0, 3 * SECOND) == (0, 0)
    assert streams.of(0, None, SECOND, SECOND) == (1, 0)


@contextmanager
def audit_webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Receive the audit log of a MinIO server that is started in the block."""
    documents: list[bytes] = []

    class Receiver(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            documents.append(self.rfile.read(int(self.headers["Content-Length"] or 0)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:
            """Suppress the log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("MINIO_AUDIT_WEBHOOK_ENABLE_test", "on")
    monkeypatch.setenv("MINIO_AUDIT_WEBHOOK_ENDPOINT_test", f"http://127.0.0.1:{server.server_port}/")
    try:
        yield documents
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.platforms
def test_audit_log_of_real_minio_is_imported_with_all_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "a b/ü%20+\u2028x"
    with audit_webhook(monkeypatch) as documents, real.real_server("minio", tmp_path / "minio") as server:
        client = real.client_of(server)
        client.create_bucket(Bucket="bucket", ObjectLockEnabledForBucket=True)
        client.put_object(Bucket="bucket", Key=key, Body=bytes(1000), ObjectLockLegalHoldStatus="ON")
        client.get_object(Bucket="bucket", Key=key)["Body"].read()
        client.get_object(Bucket="bucket", Key=key, Range="bytes=10-19")["Body"].read()
        client.head_object(Bucket="bucket", Key=key)
        client.copy_object(Bucket="bucket", Key="copy", CopySource={"Bucket": "bucket", "Key": key})
        upload = client.create_multipart_upload(Bucket="bucket", Key="parts")["UploadId"]
        part = {"Bucket": "bucket", "Key": "parts", "UploadId": upload}
        tag = client.upload_part(**part, PartNumber=1, Body=bytes(3000))["ETag"]
        client.complete_multipart_upload(**part, MultipartUpload={"Parts": [{"ETag": tag, "PartNumber": 1}]})
        client.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": "copy"}, {"Key": "other"}]})
        client.list_objects_v2(Bucket="bucket", Prefix="a")
        deadline = time.monotonic() + 30
        while b"ListObjectsV2" not in b"".join(documents) and time.monotonic() < deadline:
            time.sleep(0.05)
        secret = server.access.access_key.encode()
    log = tmp_path / "audit.log"
    log.write_bytes(b"".join(documents))
    report, rows = imported(tmp_path, "minio", log, strict=True)
    assert [(row.operation, row.key, row.source, row.size_bytes, row.offset, row.length) for row in rows[1:]] == [
        ("archive", f"bucket/{key}", None, 1000, None, None),
        ("retrieve", f"bucket/{key}", None, 1000, None, None),
        ("range-retrieve", f"bucket/{key}", None, 1000, 10, 10),
        ("head", f"bucket/{key}", None, 1000, None, None),
        ("copy", "bucket/copy", f"bucket/{key}", None, None, None),
        ("archive", "bucket/parts", None, 3000, None, 3000),
        ("delete-marker", "bucket/copy", None, None, None, None),
        ("delete-marker", "bucket/other", None, None, None, None),
        ("list", "bucket/a", None, rows[-1].size_bytes, None, None),
    ]
    assert rows[1].legal_hold is True
    assert all(row.due_ns <= (row.first_byte_ns or 0) <= (row.done_ns or 0) for row in rows)
    assert report.lines == 11
    assert secret not in (tmp_path / "minio.parquet").read_bytes()
