"""Random input to the TSM server breaks nothing, authenticates no client, and disturbs no other session."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.embedded.tsm import frames
from backends.embedded.tsm.frames import Fields, Malformed
from tests.backends.embedded import tsm_client as wire
from tests.backends.embedded.running_server import RunningTsmServer
from tests.backends.embedded.tsm_client import Client, Row
from tests.support.examples import share_of

U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)


def texts(most: int) -> st.SearchStrategy[bytes]:
    """Texts, mostly short ones and ones at the limit of length."""
    return st.binary(max_size=12) | st.integers(0, most).map(lambda size: b"x" * size) | st.just(b"x" * most)


def parse_object(body: memoryview) -> Any:
    """Parse an object as a session does: the frame is inside a buffer, with other bytes around it."""
    buffer = bytearray(b"before!!" + bytes(body) + b"\1" * 4000)
    return frames.parse_object(buffer, 8, 8 + len(body))


PARSERS: dict[str, Callable[[memoryview], Any]] = {
    "hello": frames.parse_hello,
    "space": lambda body: frames.parse_space(Fields(body)),
    "name": frames.parse_name,
    "password": frames.parse_password_change,
    "update": frames.parse_object_update,
    "object": parse_object,
    "ids": frames.parse_ids,
    "number": lambda body: frames.parse_number(body, 1),
    "query": frames.parse_archive_query,
    "get": frames.parse_get,
    "access": frames.parse_access,
    "source": frames.parse_source,
}

# Bodies as a client makes them, each with the expected result of its parser.
hellos = st.builds(
    lambda nonce, node, owner: (
        wire.hello(node, owner, nonce=nonce),
        frames.Hello(1, True, nonce, node, owner, b"tests"),
    ),
    st.binary(min_size=16, max_size=16), texts(64), texts(64),
)  # fmt: skip
spaces = st.builds(
    lambda name, kind, occupancy, capacity, info: (
        wire.text(name) + wire.text(kind) + struct.pack("<QQ", occupancy, capacity) + wire.text(info),
        frames.SpaceFields(name, kind, frames.signed(occupancy), frames.signed(capacity), info),
    ),
    texts(1024), texts(32), U64, U64, texts(480),
)  # fmt: skip
passwords = st.builds(
    lambda mac, salt, iterations, key: (
        mac + salt + struct.pack("<I", iterations) + key,
        frames.PasswordChange(mac, salt, iterations, key),
    ),
    st.binary(min_size=32, max_size=32), st.binary(min_size=16, max_size=16), U32, st.binary(min_size=32, max_size=32),
)  # fmt: skip
updates = st.builds(
    lambda space, mask, number, estimate, kind, said: (
        struct.pack("<IIQQB", space, mask, number, estimate, kind) + b"".join(map(wire.text, said)),
        frames.ObjectUpdate(
            space, mask, number if number < 1 << 63 else -1, frames.signed(estimate), kind, *said
        ),
    ),
    U32, U32, U64, U64, st.integers(0, 255), st.tuples(texts(1024), texts(256), texts(64), texts(255), texts(1500)),
)  # fmt: skip
ids = st.builds(
    lambda kind, numbers: (
        wire.event_body(kind, numbers),
        (kind, [number if number < 1 << 63 else -1 for number in numbers]),
    ),
    st.integers(0, 2), st.lists(U64, max_size=5),
)  # fmt: skip
queries = st.builds(
    lambda space, kind, archived, expires, said: (
        wire.query_body(
            space, said[0], said[1], kind=kind, archived=archived, expires=expires, owner=said[2], description=said[3]
        ),
        frames.ArchiveQuery(space, kind, *archived, *expires, *said),
    ),
    U32, st.sampled_from([1, 2, 0xFE, 0xFF]), st.tuples(U64, U64), st.tuples(U64, U64),
    st.tuples(texts(1024), texts(256), texts(64), texts(255)),
)  # fmt: skip
gets = st.lists(st.tuples(U64, U64, U64), min_size=1, max_size=5).map(
    lambda wanted: (
        wire.get_body(wanted),
        [frames.Wanted(each[0] if each[0] < 1 << 63 else -1, *each[1:]) for each in wanted],
    )
)
WHOLE: dict[str, st.SearchStrategy[tuple[bytes, Any]]] = {
    "hello": hellos,
    "space": spaces,
    "name": texts(1024).map(lambda name: (wire.text(name), name)),
    "password": passwords,
    "update": updates,
    "ids": ids,
    "number": st.integers(0, 255).map(lambda number: (bytes([number]), number)),
    "query": queries,
    "get": gets,
}


@pytest.mark.parametrize("name", WHOLE)
def test_only_a_complete_body_is_parsed(name: str) -> None:
    @settings(max_examples=share_of(40))
    @given(WHOLE[name], st.binary(min_size=1, max_size=9), st.data())
    def check(made: tuple[bytes, Any], more: bytes, data: st.DataObject) -> None:
        body, expected = made
        assert PARSERS[name](memoryview(body)) == expected
        with pytest.raises(Malformed):
            PARSERS[name](memoryview(body + more))
        cut = data.draw(st.integers(0, len(body) - 1))
        with pytest.raises(Malformed):
            PARSERS[name](memoryview(body[:cut]))

    check()


@settings(max_examples=share_of(100))
@given(
    U32, st.integers(0, 0xFFFF), st.sampled_from([1, 2]), st.sampled_from([0, 1]), U64,
    st.tuples(texts(1024), texts(256), texts(64), texts(255), texts(1500)), st.binary(max_size=20),
)  # fmt: skip
def test_object_head_is_separated_from_its_data_and_refused_if_truncated(
    space: int, class_index: int, kind: int, attributes: int, estimate: int, said: tuple[bytes, ...], data: bytes
) -> None:
    hl, ll, owner, description, info = said
    body = wire.object_body(
        space, hl, ll, class_index=class_index, kind=kind, attributes=attributes, estimate=estimate, owner=owner,
        description=description, info=info,
    )  # fmt: skip
    new, at = parse_object(memoryview(body + data))
    assert at == 8 + len(body)
    assert (new.space, new.class_id, new.type, new.attributes) == (space, class_index, kind, attributes)
    assert (new.estimate, new.hl, new.ll) == (frames.signed(estimate), hl, ll)
    assert (new.owner, new.description, new.info) == (owner, description, info)
    for cut in {0, 1, 15, 16, len(body) // 2, len(body) - 1}:
        with pytest.raises(Malformed):
            parse_object(memoryview(body[:cut]))


@pytest.mark.parametrize("name", PARSERS)
def test_any_bytes_are_parsed_or_malformed(name: str) -> None:
    @settings(max_examples=share_of(100))
    @given(st.binary(max_size=300) | st.builds(_changed, WHOLE.get(name, hellos).map(lambda made: made[0]), st.data()))
    def check(body: bytes) -> None:
        try:
            PARSERS[name](memoryview(body))
        except Malformed:
            pass

    check()


def _changed(body: bytes, data: st.DataObject) -> bytes:
    if not body:
        return body
    at = data.draw(st.integers(0, len(body) - 1))
    return body[:at] + data.draw(st.binary(max_size=3)) + body[at + data.draw(st.integers(0, 3)) :]


@given(st.binary(min_size=8, max_size=8))
def test_any_header_is_parsed_or_malformed(data: bytes) -> None:
    length, kind, flags, zero = struct.unpack("<IBBH", data)
    try:
        assert frames.parse_header(bytearray(data), 0) == (length, kind, flags)
        assert zero == 0
        assert length <= (1 << 20) + 8192
    except Malformed:
        assert zero or length > (1 << 20) + 8192


# A running server.


class Fuzzed:
    """A server with objects, and a witness session that must not see any change."""

    def __init__(self, tsm_server: RunningTsmServer) -> None:
        self.server = tsm_server
        self.witness = tsm_server.sign_on()
        self.space = self.witness.space()
        for number, class_name in enumerate(("NONE", "STANDARD", "EVENT")):
            said = {"class_index": self.witness.class_index(class_name)}
            assert self.witness.archive(self.space, b"/%d" % number, b"content %d" % number, **said) == 0
        self.rows: list[Row] = self.witness.query(self.space)

    def check(self) -> None:
        """Check that no other session is left and that the objects of the witness are unchanged."""
        self.server.settled(sessions=1)
        assert self.server.faults == []
        assert self.witness.query(self.space) == self.rows
        got = self.witness.get(*(row.id for row in self.rows))
        assert [each.content for each in got] == [b"content %d" % number for number in range(3)]

    def send(self, client: Client, data: bytes, cuts: list[int]) -> list[wire.Frame]:
        """Send the data in pieces. Returns all frames until the connection ends."""
        edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
        try:
            for start, end in itertools.pairwise(edges):
                client.send_bytes(data[start:end])
            client.finish_sending()
        except OSError:  # refused already
            pass
        received = client.receive_all()
        assert wire.REFUSED not in [each.kind for each in received[:-1]], "REFUSED is the last frame"
        return received


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    with RunningTsmServer(tmp_path_factory.mktemp("fuzz") / "store") as tsm_server:
        fuzzed = Fuzzed(tsm_server)
        yield fuzzed
        # Abandoned transactions left no files on the disk.
        known = {tsm_server.store._segments.path(number) for number in tsm_server.store._catalogue.segments}
        assert set(tsm_server.segments()) == known
        fuzzed.witness.close()


def object_frames(space: int, name: bytes, pieces: list[bytes], class_index: int) -> list[bytes]:
    head = wire.object_body(space, b"/d", name, class_index=class_index)
    kinds = [wire.OBJECT] + [wire.DATA] * (len(pieces) - 1)
    flags = [0] * (len(pieces) - 1) + [wire.LAST]
    return [wire.frame(*each) for each in zip(kinds, [head + pieces[0], *pieces[1:]], flags, strict=True)]


small = st.integers(0, 6)  # numbers of file spaces and objects that may exist, of either node
names = st.sampled_from([b"/fs", b"/own", b"/none"])
end = st.sampled_from([b"\1", b"\1", b"\2"]).map(lambda vote: wire.frame(wire.END_TRANSACTION, vote))


def joined(*parts: bytes) -> bytes:
    return b"".join(parts)


def space_body(name: bytes) -> bytes:
    return wire.text(name) + wire.text(b"type") + bytes(16) + wire.text(b"info")


# Requests that may follow each other: each leaves the session ready for the next.
requests = st.one_of(
    st.just(wire.frame(wire.PING)),
    st.just(wire.frame(wire.STOP)),
    names.map(lambda name: wire.frame(wire.FIND_SPACE, wire.text(name))),
    names.map(lambda name: wire.frame(wire.REGISTER_SPACE, space_body(name))),
    names.map(lambda name: wire.frame(wire.UPDATE_SPACE, b"\xff" * 4 + space_body(name))),
    names.map(lambda name: wire.frame(wire.DELETE_SPACE, wire.text(name))),
    passwords.map(lambda made: wire.frame(wire.CHANGE_PASSWORD, made[0])),
    st.binary(max_size=9).map(lambda said: wire.frame(wire.LOG, b"\1" + wire.text(said))),
    updates.map(lambda made: wire.frame(wire.UPDATE_OBJECT, made[0])),
    st.builds(
        lambda space, number: wire.frame(
            wire.UPDATE_OBJECT,
            struct.pack("<IIQQB", space, 7, number, 1, 1) + b"".join(map(wire.text, (b"/d", b"/o", b"", b"d", b"i"))),
        ),
        small, small,
    ),
    st.builds(
        lambda space, pieces, class_index, close: joined(*object_frames(space, b"/o", pieces, class_index), close),
        small, st.lists(st.binary(max_size=30), min_size=1, max_size=4), st.integers(0, 3), end,
    ),
    st.builds(
        lambda numbers, close: joined(*(wire.frame(wire.DELETE, struct.pack("<Q", each)) for each in numbers), close),
        st.lists(small, max_size=3), end,
    ),
    st.builds(
        lambda kind, numbers, close: wire.frame(wire.EVENT, wire.event_body(kind, numbers)) + close,
        st.integers(0, 2), st.lists(small, max_size=3), end,
    ),
    queries.map(lambda made: wire.frame(wire.QUERY_ARCHIVES, made[0])),
    small.map(lambda space: wire.frame(wire.QUERY_ARCHIVES, wire.query_body(space))),
    st.sampled_from([b"*", b"/?s"]).map(lambda pattern: wire.frame(wire.QUERY_SPACES, wire.text(pattern))),
    st.lists(st.tuples(small, st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=4).map(
        lambda wanted: wire.frame(wire.GET, wire.get_body(wanted))
    ),
)  # fmt: skip

kinds = st.sampled_from(wire.REQUESTS) | st.integers(0, 255)
any_frame = st.builds(wire.frame, kinds, st.binary(max_size=40), st.sampled_from([0, 0, 1, 2]))


@st.composite
def conversations(draw: st.DrawFn) -> bytes:
    """Requests with random faults: bytes changed, frames cut, repeated or moved, and random bytes inserted."""
    parts = draw(st.lists(requests | requests | any_frame, min_size=1, max_size=8))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(parts) - 1))
        fault = draw(st.sampled_from(["flip", "cut", "repeat", "move", "insert"]))
        if fault == "flip" and parts[at]:
            changed = bytearray(parts[at])
            changed[draw(st.integers(0, len(changed) - 1))] ^= 1 << draw(st.integers(0, 7))
            parts[at] = bytes(changed)
        elif fault == "cut":
            parts[at] = parts[at][: draw(st.integers(0, len(parts[at])))]
        elif fault == "repeat":
            parts.insert(at, parts[at])
        elif fault == "move":
            parts.append(parts.pop(at))
        elif fault == "insert":
            parts.insert(at, draw(st.binary(max_size=12)))
    return b"".join(parts)


over_the_wire = settings(
    max_examples=share_of(150), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
cuts = st.lists(st.integers(0, 10_000), max_size=6)


@over_the_wire
@given(st.binary(max_size=200) | conversations(), cuts, st.booleans())
def test_unknown_clients_are_only_refused(fuzzed: Fuzzed, data: bytes, cuts: list[int], has_said_hello: bool) -> None:
    with fuzzed.server.connect() as stranger:
        if has_said_hello:
            stranger.challenge(b"ARCHIVER")
            data = wire.frame(wire.PROOF, bytes(32)) + data if len(data) % 2 else data
        received = fuzzed.send(stranger, data, cuts)
    for kind, body in received:
        if not has_said_hello and kind == wire.CHALLENGE:
            continue  # the random bytes were a valid HELLO
        assert kind == wire.REFUSED
        assert struct.unpack("<h", body)[0] in (53, 57, 58, 68, 136, 137)
    fuzzed.check()


@over_the_wire
@given(conversations(), cuts)
def test_no_session_breaks_the_server_or_reaches_anothers_objects(fuzzed: Fuzzed, data: bytes, cuts: list[int]) -> None:
    with fuzzed.server.sign_on("OTHER") as client:
        client.space(b"/own")
        received = fuzzed.send(client, data, cuts)
    assert {each.kind for each in received} <= {
        wire.REFUSED, wire.DATE, wire.ANSWER, wire.VOTE, wire.WILL_ABORT, wire.ARCHIVES, wire.STREAM_END, wire.SPACES,
        wire.OBJECT_HEAD, wire.OBJECT_DATA, wire.OBJECT_FAILED,
    }  # fmt: skip
    for each in received:
        if each.kind == wire.ARCHIVES:
            wire.archive_rows(each)
        elif each.kind == wire.SPACES:
            wire.space_rows(each)
    fuzzed.check()


@settings(over_the_wire, max_examples=share_of(40))
@given(st.lists(requests, min_size=1, max_size=8), cuts)
def test_a_correct_session_is_never_refused(fuzzed: Fuzzed, asked: list[bytes], cuts: list[int]) -> None:
    """The client waits for each answer before its next request, so no request interrupts a stream."""
    with fuzzed.server.sign_on("OTHER") as client:
        client.space(b"/own")
        for each in asked:
            if each[4] == wire.CHANGE_PASSWORD:
                continue  # random bytes are not always legal here
            for start in range(0, len(each), 1 + sum(cuts) % 50):
                client.send_bytes(each[start : start + 1 + sum(cuts) % 50])
            if each[4] == wire.STOP:
                continue
            if each[4] in (wire.QUERY_ARCHIVES, wire.QUERY_SPACES, wire.GET):
                client.stream()
            else:
                client.expect(wire.DATE, wire.ANSWER, wire.VOTE)
        assert client.ping()
    fuzzed.check()
