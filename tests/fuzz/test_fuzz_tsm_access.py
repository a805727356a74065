"""Hostile access frames at the TSM server: no request reads another node's object without an access rule."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.backends.embedded import tsm_client as wire
from tests.backends.embedded.running_server import RunningTsmServer
from tests.backends.embedded.tsm_client import Client
from tests.fuzz.hostile import damaged, tries

SECRET, OPEN = b"what nobody may read", b"what everybody may read"
ANSWERS = {
    wire.REFUSED, wire.DATE, wire.ANSWER, wire.VOTE, wire.WILL_ABORT, wire.ARCHIVES, wire.STREAM_END, wire.SPACES,
    wire.RULES, wire.OBJECT_HEAD, wire.OBJECT_DATA, wire.OBJECT_FAILED,
}  # fmt: skip


class Guarded:
    """A TSM server with two objects of one node: a secret one, and one that the node shares with others."""

    def __init__(self, tsm_server: RunningTsmServer) -> None:
        self.server = tsm_server
        self.owner = tsm_server.sign_on()
        self.space = self.owner.space()
        for name, content in ((b"/secret", SECRET), (b"/open", OPEN)):
            said: dict[str, Any] = {
                "hl": b"/d",
                "description": content,
                "class_index": self.owner.class_index("STANDARD"),
            }
            assert self.owner.archive(self.space, name, content, **said) == 0
        self.ask(self.owner, wire.SET_ACCESS, access(self.space, b"/d", b"/open", b"OTHER", b"*"))
        self.rows = self.owner.query(self.space)

    @staticmethod
    def ask(client: Client, kind: int, body: bytes) -> None:
        client.send(kind, body)
        code, _, _ = struct.unpack("<hHQ", client.expect(wire.ANSWER).body)
        assert code == 0

    def talk(self, data: bytes) -> list[wire.Frame]:
        with self.server.sign_on("OTHER") as client:
            try:
                client.send_bytes(data)
                client.finish_sending()
            except OSError:  # the server has already closed the connection
                pass
            received = client.receive_all()
        self.server.settled(sessions=1)
        assert self.server.faults == []
        assert self.owner.query(self.space) == self.rows
        return received


def access(space: int, hl: bytes, ll: bytes, node: bytes, owner: bytes) -> bytes:
    return struct.pack("<I", space) + b"".join(map(wire.text, (hl, ll, node, owner)))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with RunningTsmServer(tmp_path_factory.mktemp("guarded") / "store") as tsm_server:
        guarded = Guarded(tsm_server)
        yield guarded
        guarded.owner.close()


VOTE = wire.frame(wire.END_TRANSACTION, b"\1")
small = st.integers(0, 5)
patterns = st.sampled_from(
    [b"*", b"?", b"/d", b"/*", b"/open", b"/secret", b"/s*", b"", b"/d/..", b"/\xff", b"x" * 256]
)
nodes = st.sampled_from([b"ARCHIVER", b"archiver", b"OTHER", b"*", b"", b"NOBODY", b"ARCH*", b"\xff"])
frames = st.one_of(
    st.builds(lambda *said: wire.frame(wire.SET_ACCESS, access(*said)), small, patterns, patterns, nodes, patterns),
    small.map(lambda number: wire.frame(wire.DELETE_ACCESS, struct.pack("<I", number))),
    st.just(wire.frame(wire.QUERY_ACCESS)),
    st.builds(lambda *said: wire.frame(wire.READ_FROM, b"".join(map(wire.text, said))), nodes, patterns),
    st.builds(lambda *said: wire.frame(wire.QUERY_ARCHIVES, wire.query_body(*said)), small, patterns, patterns),
    patterns.map(lambda pattern: wire.frame(wire.QUERY_SPACES, wire.text(pattern))),
    st.sampled_from([b"/fs", b"/none"]).map(lambda name: wire.frame(wire.FIND_SPACE, wire.text(name))),
    st.lists(st.tuples(small, small, small), min_size=1, max_size=3).map(
        lambda wanted: wire.frame(wire.GET, wire.get_body(wanted))
    ),
    small.map(lambda number: wire.frame(wire.DELETE, struct.pack("<Q", number)) + VOTE),
)  # fmt: skip
conversations = st.builds(
    lambda beginning, rest: beginning + b"".join(rest),
    st.sampled_from([b"", wire.frame(wire.READ_FROM, wire.text(b"ARCHIVER") + wire.text(b""))]),
    st.lists(frames, min_size=1, max_size=6),
)


@tries(80)
@given(conversations | conversations.flatmap(damaged))
def test_no_frame_reads_object_without_access_rule(guarded: Guarded, data: bytes) -> None:
    received = guarded.talk(data)
    assert {each.kind for each in received} <= ANSWERS
    assert wire.REFUSED not in [each.kind for each in received[:-1]]
    for each in received:
        assert SECRET not in each.body
        assert b"/secret" not in each.body


def test_shared_object_is_readable_through_access_rule(guarded: Guarded) -> None:
    beginning = wire.frame(wire.READ_FROM, wire.text(b"ARCHIVER") + wire.text(b""))
    found = guarded.talk(beginning + wire.frame(wire.GET, wire.get_body([(row.id, 0, 0) for row in guarded.rows])))
    content = b"".join(each.body for each in found if each.kind in (wire.OBJECT_HEAD, wire.OBJECT_DATA))
    assert OPEN in content
    assert SECRET not in content
