"""Access rules of the TSM server: which objects they open to which readers. Nothing else of a node is visible."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from backends.embedded.core.changes import access
from tests.backends.embedded import tsm_client as wire
from tests.backends.embedded.running_server import RunningTsmServer
from tests.backends.embedded.tsm_client import Client, Ended, RuleRow

NO_MATCH, PROTOCOL_ERROR, EXISTS, NO_AUTHORIZATION, NOTHING_ARCHIVED = 2, 136, 28, 123, 2113
NO_SPACE_TO_OPEN, NO_SPACE_TO_FIND = 2060, 2061


class Held(NamedTuple):
    """The objects of the node that grants access: one of each of two owners in `open`, one in `closed`."""

    space: int
    open: int
    others: int
    closed: int


@pytest.fixture
def held(tsm: Client) -> Held:
    space = tsm.space()
    for hl, owner in ((b"/open", b"anna"), (b"/open", b"bert"), (b"/closed", b"anna")):
        assert tsm.archive(space, b"/o", hl + owner, hl=hl, owner=owner) == 0
    closed, mine, others = tsm.query(space)
    return Held(space, mine.id, others.id, closed.id)


@pytest.fixture
def reader(tsm_server: RunningTsmServer) -> Iterator[Client]:
    """A session of another node that reads from the granting node."""
    with tsm_server.sign_on("OTHER") as client:
        assert client.read_from(b"archiver") == 0
        yield client


def seen(client: Client, held: Held) -> list[int]:
    """Return the objects that a session sees, and check that it can get exactly these."""
    found = [row.id for row in client.query(held.space)]
    got = client.get(held.open, held.others, held.closed)
    assert [
        number for number, each in zip(held[1:], got, strict=True) if each.code == 0
    ] == sorted(found)  # fmt: skip
    assert all(each.code in (0, NO_MATCH) for each in got)
    return found


def test_access_rule_shows_only_the_named_objects_to_the_named_node(tsm: Client, held: Held, reader: Client) -> None:
    assert seen(reader, held) == []
    code, number = tsm.set_access(held.space, b"other", hl=b"/open")
    assert code == 0
    assert tsm.rules() == [RuleRow(number, b"/fs", b"/open", b"*", b"OTHER", b"*")]
    assert seen(reader, held) == [held.open, held.others]
    assert reader.find_space(b"/fs") == (0, held.space)
    assert [row.name for row in reader.query_spaces()] == [b"/fs"]
    assert tsm.delete_access(number) == 0
    assert seen(reader, held) == []
    assert tsm.rules() == []


def test_without_a_rule_another_nodes_objects_are_invisible(
    tsm: Client, held: Held, tsm_server: RunningTsmServer
) -> None:
    """Existing and missing names get the same answer, so that no node learns names by trying."""
    tsm.space(b"/hidden")
    assert tsm.set_access(held.space, b"THIRD")[0] == 0
    with tsm_server.sign_on("OTHER") as client:
        assert client.read_from(b"ARCHIVER") == 0
        for name in (b"/fs", b"/hidden", b"/none"):
            assert client.find_space(name) == (NO_AUTHORIZATION, 0)
        client.send(wire.QUERY_SPACES, wire.text(b"*"))
        assert client.stream() == ([], NO_AUTHORIZATION)
        assert seen(client, held) == []
    with tsm_server.sign_on("OTHER") as client:
        assert client.read_from(b"NOBODY") == 0
        assert client.find_space(b"/fs") == (NO_AUTHORIZATION, 0)
    assert tsm.set_access(held.space, b"OTHER", hl=b"/open")[0] == 0
    with tsm_server.sign_on("OTHER") as client:
        assert client.read_from(b"ARCHIVER") == 0
        for name in (b"/hidden", b"/none"):
            assert client.find_space(name) == (NO_SPACE_TO_FIND, 0)
    with tsm_server.sign_on("OTHER") as client:  # without read_from, a session sees only its own
        assert client.find_space(b"/fs") == (NO_SPACE_TO_FIND, 0)
        assert seen(client, held) == []


CHANGES: dict[str, Callable[[Held], tuple[int, bytes]]] = {
    "register": lambda _: (wire.REGISTER_SPACE, wire.text(b"/new") + wire.text(b"t") + bytes(16) + wire.text(b"")),
    "update space": lambda _: (
        wire.UPDATE_SPACE, bytes(4) + wire.text(b"/fs") + wire.text(b"t") + bytes(16) + wire.text(b"")
    ),
    "delete space": lambda _: (wire.DELETE_SPACE, wire.text(b"/fs")),
    "update object": lambda held: (
        wire.UPDATE_OBJECT,
        struct.pack("<IIQQB", held.space, 1, held.open, 0, 1) + b"".join(map(wire.text, (b"", b"", b"x", b"", b""))),
    ),
    "archive": lambda held: (wire.OBJECT, wire.object_body(held.space, b"/open", b"/new")),
    "delete": lambda held: (wire.DELETE, struct.pack("<Q", held.open)),
    "hold": lambda held: (wire.EVENT, wire.event_body(wire.HOLD, [held.open])),
    "vote": lambda _: (wire.END_TRANSACTION, b"\1"),
    "give": lambda held: (wire.SET_ACCESS, struct.pack("<I", held.space) + b"".join([wire.text(b"*")] * 4)),
    "take back": lambda _: (wire.DELETE_ACCESS, struct.pack("<I", 1)),
    "read from a third": lambda _: (wire.READ_FROM, wire.text(b"THIRD") + wire.text(b"")),
}  # fmt: skip


def test_a_session_that_reads_from_another_node_cannot_change_anything(
    tsm_server: RunningTsmServer, tsm: Client, held: Held
) -> None:
    assert tsm.set_access(held.space, b"OTHER")[0] == 0
    before = tsm.query(held.space), tsm.query_spaces(), tsm.rules()
    for change, request in CHANGES.items():
        with tsm_server.sign_on("OTHER") as client:
            assert client.read_from(b"ARCHIVER") == 0
            client.send(*request(held))
            assert client.ended() == PROTOCOL_ERROR, change
        assert (tsm.query(held.space), tsm.query_spaces(), tsm.rules()) == before, change


def test_a_rule_gives_no_right_to_change_by_number(tsm: Client, held: Held, tsm_server: RunningTsmServer) -> None:
    """A reader cannot use the numbers that it learned in a session of its own node."""
    assert tsm.set_access(held.space, b"OTHER")[0] == 0
    with tsm_server.sign_on("OTHER") as client:
        assert client.delete(held.open) == 36
        assert client.event(wire.HOLD, held.open) == 36
        assert client.archive(held.space, b"/new", b"x") == 20
        assert client.update_object(held.space, 1, number=held.open, owner=b"thief") == NO_MATCH
        assert client.set_access(held.space, b"*") == (NO_SPACE_TO_OPEN, 0)
        assert client.set_access(9999, b"*") == (NO_SPACE_TO_OPEN, 0)
        assert client.delete_access(tsm.rules()[0].number) == NO_MATCH
        assert client.rules() == []


PATTERNS = [
    (b"OTHER", b"*", b"", True),
    (b"OTH?R", b"carl", b"carl", True),
    (b"*", b"c*", b"carl", True),
    (b"OTHER", b"carl", b"dora", False),
    (b"OTHER", b"CARL", b"carl", False),  # owners are case-sensitive
    (b"OTHER", b"carl", b"", True),  # acts for every owner of its node
    (b"OTHERS", b"*", b"carl", False),
    (b"ARCHIVER", b"*", b"carl", False),
]


def test_rule_matches_nodes_and_owners_by_pattern(tsm_server: RunningTsmServer, tsm: Client, held: Held) -> None:
    for node, owner, session, opens in PATTERNS:
        code, number = tsm.set_access(held.space, node, owner)
        assert code == 0
        with tsm_server.sign_on("OTHER", session) as client:
            assert client.read_from(b"ARCHIVER") == 0
            assert len(seen(client, held)) == (3 if opens else 0), (node, owner, session)
        assert tsm.delete_access(number) == 0


def test_an_owner_opens_only_its_own_objects(
    tsm_server: RunningTsmServer, tsm: Client, held: Held, reader: Client
) -> None:
    with tsm_server.sign_on(owner=b"anna") as anna, tsm_server.sign_on(owner=b"bert") as bert:
        code, number = anna.set_access(held.space, b"OTHER")
        assert code == 0
        assert seen(reader, held) == [held.closed, held.open]
        assert bert.rules() == []
        assert bert.delete_access(number) == NO_MATCH
        assert bert.set_access(held.space, b"OTHER", hl=b"/closed") == (NOTHING_ARCHIVED, 0)
        assert tsm.set_access(held.space, b"OTHER")[0] == 0  # the same objects, granted by the node
        assert len(seen(reader, held)) == 3
        assert [row.number for row in anna.rules()] == [number]
        assert [row.number for row in tsm.rules()] == [number, number + 1]


def test_owners_need_rules_within_a_node_but_a_session_for_all_needs_none(
    tsm_server: RunningTsmServer, tsm: Client, held: Held
) -> None:
    with tsm_server.sign_on(owner=b"bert") as bert:
        assert bert.read_from(owner=b"anna") == 0
        assert seen(bert, held) == []
        assert tsm.set_access(held.space, b"ARCHIVER", b"bert", hl=b"/open")[0] == 0
        assert seen(bert, held) == [held.open]
    assert tsm.read_from(owner=b"bert") == 0
    assert seen(tsm, held) == [held.others]


def test_illegal_rules_are_refused(tsm: Client, held: Held) -> None:
    assert tsm.set_access(held.space, b"OTHER")[0] == 0
    assert tsm.set_access(held.space, b"other") == (EXISTS, 0)  # nodes are not case-sensitive
    assert tsm.set_access(held.space, b"OTHER", hl=b"/none") == (NOTHING_ARCHIVED, 0)
    assert tsm.set_access(held.space + 1, b"OTHER") == (NO_SPACE_TO_OPEN, 0)
    assert tsm.delete_access(tsm.rules()[0].number + 1) == NO_MATCH


@pytest.mark.parametrize(
    "texts", [(b"*", b"*", b"", b"*"), (b"*", b"*", b"N", b""), (b"", b"", b"N", b"*"), (b"h" * 1025, b"", b"N", b"*")]
)
def test_a_malformed_rule_ends_the_session(tsm: Client, held: Held, texts: tuple[bytes, ...]) -> None:
    with pytest.raises(Ended) as ended:
        tsm.ask(wire.SET_ACCESS, struct.pack("<I", held.space) + b"".join(map(wire.text, texts)))
    assert ended.value.code == PROTOCOL_ERROR


def test_a_node_has_a_bounded_number_of_rules(tsm: Client, held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 120  # more than one frame of an answer has
    monkeypatch.setattr(access, "RULES_MAX", most)
    for number in range(most):
        assert tsm.set_access(held.space, b"N%d" % number)[0] == 0
    assert tsm.set_access(held.space, b"OTHER") == (17, 0)
    rules = tsm.rules()
    assert [row.node for row in rules] == [b"N%d" % number for number in range(most)]
    assert tsm.delete_access(rules[0].number) == 0
    assert tsm.set_access(held.space, b"OTHER")[0] == 0


def test_rules_survive_a_restart_and_end_with_their_file_space(data_dir: Path) -> None:
    with RunningTsmServer(data_dir, classes=["BRIEF:retver=1s"]) as tsm_server, tsm_server.sign_on() as client:
        space = client.space()
        assert client.archive(space, b"/o", b"content", class_index=client.class_index("BRIEF")) == 0
        code, number = client.set_access(space, b"OTHER")
        assert code == 0
    with (
        RunningTsmServer(data_dir) as tsm_server,
        tsm_server.sign_on() as client,
        tsm_server.sign_on("OTHER") as reader,
    ):
        assert [row.number for row in client.rules()] == [number]
        assert reader.read_from(b"ARCHIVER") == 0
        (row,) = reader.query(space)
        assert reader.get(row.id)[0].content == b"content"
        tsm_server.clock.seconds += 10
        assert client.delete_space(b"/fs") == (0, 0)
        assert client.rules() == []
        assert reader.find_space(b"/fs") == (NO_AUTHORIZATION, 0)
        again = client.space()
        assert client.archive(again, b"/o", b"content") == 0
        assert reader.find_space(b"/fs") == (NO_AUTHORIZATION, 0)  # A new space of that name is not open.
        assert client.set_access(again, b"OTHER")[1] > number  # Numbers of rules are not reused.
