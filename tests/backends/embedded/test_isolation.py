"""Two nodes with similar names: no request of one changes or reveals the other's objects.

The answers about the other's objects must equal the answers about numbers that never existed, so that a node learns
nothing. TOLD_APART lists the exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.embedded.process import StoreProcess
from tests.backends.embedded.running_server import RunningTsmServer
from tests.backends.embedded.tsm_client import HOLD, Client, Row
from tests.support.examples import share_of

NAMES = ((b"/fs", b"/d", b"/o"), (b"/fs", b"/d", b"/p"), (b"/other", b"/d", b"/o"))
NOBODYS = 1 << 62
RELEASE, ACTIVATE = 2, 0


class TwoNodes:
    """ARCHIVER owns objects. OTHER tries to reach them."""

    def __init__(self, tsm_server: RunningTsmServer) -> None:
        self.server = tsm_server
        with tsm_server.sign_on() as owner:
            for space, hl, ll in NAMES:
                index = owner.class_index("NONE")
                assert owner.archive(owner.space(space), ll, b"mine", hl=hl, class_index=index) == 0
            self.spaces = [owner.space(name) for name in (b"/fs", b"/other")]
        self.before = self.seen()
        self.ids = [row.id for row, _ in self.before[0]]

    def seen(self) -> tuple[list[tuple[Row, list[Any]]], list[Any]]:
        """Return all that the owner sees: objects with content, holds and dates, and file spaces."""
        with self.server.sign_on() as owner:
            rows = [row for name in (b"/fs", b"/other") for row in owner.query(owner.space(name))]
            return [(row, owner.get(row.id)) for row in rows], owner.query_spaces()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    with RunningTsmServer(tmp_path_factory.mktemp("two") / "store") as tsm_server:
        yield TwoNodes(tsm_server)


Try = Callable[[Client, int, int], Any]
TRIES: dict[str, Try] = {
    "get": lambda other, number, _: other.get(number),
    "a part": lambda other, number, _: other.get((number, 1, 2)),
    "several": lambda other, number, _: other.get(number, number),
    "delete": lambda other, number, _: other.delete(number),
    "hold": lambda other, number, _: other.event(HOLD, number),
    "release": lambda other, number, _: other.event(RELEASE, number),
    "activate": lambda other, number, _: other.event(ACTIVATE, number),
    "describe": lambda other, number, space: other.update_object(space, 0x04, number=number, description=b"x"),
    "describe by name": lambda other, _, space: other.update_object(space, 0x04, hl=b"/d", ll=b"/o", description=b"x"),
    "query": lambda other, _, space: other.query(space),
    "archive": lambda other, _, space: other.archive(space, b"/theirs"),
    "find": lambda other, *_: other.find_space(b"/fs"),
    "spaces": lambda other, *_: other.query_spaces(),
    "change a space": lambda other, *_: other.update_space(0x02, b"/fs", b"stolen"),
    "delete a space": lambda other, *_: other.delete_space(b"/fs"),
}
# The API refuses a transaction with reason 36 if another node owns the object, and with 2 if no object has the number.
# A node can therefore learn that a number is in use, and nothing else.
TOLD_APART = {("delete", 36, 2), ("hold", 36, 2), ("release", 36, 2), ("activate", 36, 2)}


@pytest.mark.parametrize("name", TRIES)
def test_no_request_changes_or_reveals_another_nodes_objects(two: TwoNodes, name: str) -> None:
    attempt = TRIES[name]
    for number in two.ids:
        for space in two.spaces:
            with two.server.sign_on("OTHER") as other:
                theirs = attempt(other, number, space)
            with two.server.sign_on("OTHER") as other:
                nobodys = attempt(other, NOBODYS, 4_000_000_000)
            assert theirs == nobodys or (name, theirs, nobodys) in TOLD_APART
    assert two.seen() == two.before


@settings(max_examples=share_of(30))
@given(data=st.data())
def test_no_sequence_of_requests_reaches_another_nodes_objects(two: TwoNodes, data: st.DataObject) -> None:
    numbers = st.one_of(st.sampled_from(two.ids), st.integers(0, 50), st.integers(0, 2**64 - 1))
    spaces = st.one_of(st.sampled_from(two.spaces), st.integers(0, 2**32 - 1))
    names = [name for name in TRIES if name != "archive"]  # A failed one may be reported later.
    with two.server.sign_on("OTHER") as other:
        own = other.space(b"/fs")
        for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=8)):
            heard = TRIES[name](other, data.draw(numbers), data.draw(st.one_of(st.just(own), spaces)))
            assert b"mine" not in repr(heard).encode()
    assert two.seen() == two.before


def test_s3_does_not_show_nodes_and_tsm_does_not_show_s3(store: StoreProcess, s3: Any, bucket: str) -> None:
    assert store.node_password is not None
    with Client(store.tsm_host, store.tsm_port) as client:
        client.sign_on(store.node.encode(), store.node_password)
        space = client.space(b"/isolated")
        assert client.archive(space, b"/o", b"of a node", class_index=client.class_index("NONE")) == 0
        (row,) = client.query(space)
        buckets = [each["Name"] for each in s3.list_buckets()["Buckets"]]
        for name in ("isolated", store.node.lower(), "archives"):
            assert name not in buckets
            with pytest.raises(s3.exceptions.ClientError, match="NoSuchBucket"):
                s3.get_object(Bucket=name, Key="o")
        assert "Versions" not in s3.list_object_versions(Bucket=bucket)
        stored = s3.put_object(Bucket=bucket, Key="k", Body=b"of S3")
        first = int(stored["VersionId"][:16], 16)
        for number in range(max(0, first - 3), first + 4):
            assert number == row.id or all(found.content != b"of S3" for found in client.get(number))
        assert client.query(space) == [row]
