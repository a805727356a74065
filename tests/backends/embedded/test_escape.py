"""No key, bucket, file space or object name of a client becomes a file name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.embedded import process
from backends.embedded.process import StoreProcess
from tests.backends.embedded.raw_exchanges import exchanged, head_of, is_done
from tests.backends.embedded.running_server import RunningTsmServer
from tests.backends.embedded.signed_requests import signed_by_botocore
from tests.backends.embedded.tsm_client import Ended
from tests.support.examples import share_of

# Files that a running store may create in its folder.
_OWN_FILES = re.compile(r"segments/[0-9a-f]+\.seg|catalogue\.db-(wal|shm|journal)")
NAMES = [
    "../../x", "../credentials.json", "..", ".", "...", "/", "//", "/etc/passwd", "a/../../b", "a/./b", "a//b", "~/x",
    "credentials.json", "nodes.json", "catalogue.db", "segments/00000001.seg", "-/statistics", "-/metrics",
    "%2e%2e/%2e%2e/x", "%2e%2e%2fx", "..%2f..%2fx", "..%5c..%5cx", "..\\..\\x", "C:\\x", "\\\\host\\share\\x",
    "a\0b", "\0", "a\nb", "a\r\nx-amz-b: c", "a\tb", "\x7f", "a\x1bb", "é", "e\u0301",
    "\u202e\u2066x", "\ufeff", "\U0001f512", "$(touch x)",
    "`touch x`", "; touch x", "| touch x", "'; DROP TABLE versions; --", '" OR 1=1 --', "%s%n%d{0}", "?x=y",
    "a?versionId=1", "#x", "a b", "a+b", " ", "  ", "k" * 1024, "../" * 340, "é" * 512,
]  # fmt: skip


def files(folder: Path) -> dict[str, int]:
    """Return every file and folder below a folder, with its inode."""
    found = {}
    for where, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(where, name)
            found[str(path.relative_to(folder))] = path.lstat().st_ino
    return found


def strange(folder: Path, own: dict[str, int]) -> list[str]:
    """Return the names in a store's folder that are not the store's own."""
    return [name for name in files(folder) if name not in own and _OWN_FILES.fullmatch(name) is None]


class Fenced:
    """A store next to a neighbour's files, which are all checked."""

    def __init__(self, store: StoreProcess, s3: Any, around: Path) -> None:
        self.store = store
        self.s3 = s3
        self._around = around
        self._data = store.data_dir.name
        self._neighbours = self._others()
        self.neighbour = s3.put_object(Bucket="neighbour", Key="k", Body=b"neighbour")["VersionId"]
        self._own = files(store.data_dir)

    def _others(self) -> dict[str, int]:
        return {name: inode for name, inode in files(self._around).items() if not name.startswith(self._data + "/")}

    def check(self) -> None:
        """Check that no file was added or removed, and that the neighbour's object is unchanged."""
        assert self._others() == self._neighbours
        assert strange(self.store.data_dir, self._own) == []
        found = self.s3.list_object_versions(Bucket="neighbour")
        assert [each["VersionId"] for each in found["Versions"]] == [self.neighbour]
        assert "DeleteMarkers" not in found
        assert self.s3.get_object(Bucket="neighbour", Key="k")["Body"].read() == b"neighbour"


@pytest.fixture(scope="module")
def fenced(tmp_path_factory: pytest.TempPathFactory, connect: Callable[..., Any]) -> Iterator[Fenced]:
    around = tmp_path_factory.mktemp("around")
    (around / "x").write_text("a neighbour's file")
    (around / "data").mkdir()
    with process.start(around / "data" / "store") as store:
        s3 = connect(store)
        for name in ("neighbour", "names"):
            s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
        yield Fenced(store, s3, around / "data")
        assert (around / "x").read_text() == "a neighbour's file"


def stored_and_deleted(fenced: Fenced, key: str) -> None:
    """Check that the object of this key, and no other, is stored, read, listed and deleted."""
    s3, content = fenced.s3, key.encode()
    version = s3.put_object(Bucket="names", Key=key, Body=content)["VersionId"]
    assert s3.get_object(Bucket="names", Key=key)["Body"].read() == content
    listed = s3.list_object_versions(Bucket="names", EncodingType="url")["Versions"]
    assert [each["VersionId"] for each in listed] == [version]
    if is_plain(key):
        s3.delete_objects(Bucket="names", Delete={"Objects": [{"Key": key, "VersionId": version}]})
    else:
        s3.delete_object(Bucket="names", Key=key, VersionId=version)
    assert "Versions" not in s3.list_object_versions(Bucket="names")


def is_plain(key: str) -> bool:
    """Whether XML can contain the key unchanged."""
    return re.search("[\0-\x1f\x7f\ufffe\uffff]", key) is None and key == key.strip()


def test_key_never_becomes_a_file_name(fenced: Fenced) -> None:
    for key in NAMES:
        stored_and_deleted(fenced, key)
    fenced.check()


def test_bucket_may_have_the_name_of_a_store_file(fenced: Fenced) -> None:
    for name in ("credentials.json", "catalogue.db", "segments"):
        fenced.s3.create_bucket(Bucket=name)
        fenced.s3.put_object(Bucket=name, Key="k", Body=b"x")
        fenced.s3.delete_object(Bucket=name, Key="k")
        fenced.s3.delete_bucket(Bucket=name)
    fenced.check()


def test_too_long_key_is_refused(fenced: Fenced) -> None:
    for key in ("k" * 1025, "é" * 513, "../" * 342):
        with pytest.raises(ClientError, match="KeyTooLong"):
            fenced.s3.put_object(Bucket="names", Key=key, Body=b"x")
    fenced.check()


@settings(max_examples=share_of(15))
@given(key=st.text(st.sampled_from("./\\%2eEfF\0é~ +?#&;"), min_size=1, max_size=30))
def test_no_key_with_parts_of_paths_escapes(fenced: Fenced, key: str) -> None:
    stored_and_deleted(fenced, key)
    fenced.check()


@pytest.mark.parametrize(
    "path",
    ["/..", "/../names", "/%2e%2e", "/%2e%2e/names", "/..%2fnames", "/names%00", "/.", "//", "//names", "/-", "/-/x",
     "/%ff", "/names/%ff", "/names/%c0%ae%c0%ae/x", "/names/%ed%a0%80",
     "/names/%",
     "/names/%zz", "/NAMES", "/na%20mes", "/" + "n" * 64, "/segments/00000001.seg"],
)  # fmt: skip
def test_illegal_buckets_and_keys_are_not_created(fenced: Fenced, path: str) -> None:
    store = fenced.store
    before = [each["Name"] for each in fenced.s3.list_buckets()["Buckets"]]
    for method in ("PUT", "DELETE", "GET"):
        url = store.endpoint + path
        signed = signed_by_botocore(method, url, {}, (store.access_key, store.secret_key))
        received = exchanged(store, head_of(method, path, {**signed, "Content-Length": "0", "Connection": "close"}))
        is_list = (method, path) in (("GET", "//"), ("GET", "/"))
        assert is_list or not is_done(received), received
        assert b" 500 " not in received.partition(b"\r\n")[0]
    assert [each["Name"] for each in fenced.s3.list_buckets()["Buckets"]] == before
    fenced.check()


TSM_NAMES = [
    b"/..", b"/../..", b"/etc/passwd", b"/credentials.json", b"/a\nb", b"/a\0b", b"/\xff\xfe",
    b"/'; DROP TABLE spaces; --",
    b"/" + b"x" * 1000, b"/\\host\\c$", b"/.", b"//", b"/a/../../b", b"/$(touch x)", b"/%2e%2e",
]  # fmt: skip


def test_no_file_space_or_object_of_tsm_escapes(data_dir: Path) -> None:
    data_dir.mkdir(parents=True)
    (data_dir.parent / "x").write_text("a neighbour's file")
    around = {name for name in files(data_dir.parent) if not name.startswith("store/")}
    with RunningTsmServer(data_dir) as tsm_server:
        with tsm_server.sign_on() as client:
            assert client.archive(client.space(b"/first"), b"/first", b"x") == 0
        own = files(data_dir)
        for name in TSM_NAMES:
            with tsm_server.sign_on() as client:
                space = client.space(name)
                index = client.class_index("NONE")
                for hl, ll in ((b"/..", b"/.."), (name[:1000], b"/x"), (b"/d", name[:200])):
                    assert client.archive(space, ll, name, hl=hl, class_index=index) == 0
                    (row,) = [row for row in client.query(space) if (row.hl, row.ll) == (hl, ll)]
                    assert client.get(row.id)[0].content == name
        with tsm_server.sign_on() as client:
            for name in (b"", b"..", b"/" + b"x" * 1024):
                with tsm_server.sign_on() as other, pytest.raises(Ended):
                    other.space(name)
            assert {row.name for row in client.query_spaces()} == {*TSM_NAMES, b"/first"}
        assert {name for name in files(data_dir.parent) if not name.startswith("store/")} == around
        assert strange(data_dir, own) == []
