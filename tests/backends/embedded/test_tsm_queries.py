"""Queries of objects and file spaces on the TSM server, updates of both, and how clients stop long answers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backends.embedded.tsm import streams
from backends.embedded.tsm.access import Caller
from backends.embedded.tsm.frames import ArchiveQuery
from backends.embedded.tsm.patterns import bounds, matches
from tests.backends.embedded.running_server import RunningTsmServer
from tests.backends.embedded.tsm_client import (
    BYE,
    DIRECTORY,
    FILE,
    GET,
    NEVER,
    PING,
    QUERY_ARCHIVES,
    QUERY_SPACES,
    REGISTER_SPACE,
    STOP,
    STREAM_END,
    UPDATE_SPACE,
    Client,
    Row,
    archive_rows,
    frame,
    get_body,
    query_body,
    text,
)

MIB = 1 << 20


def fits(pattern: bytes, value: bytes) -> bool:
    """The reference rule: `*` matches any bytes, `?` any one byte."""
    # `possible`: the lengths of `value` that the pattern so far can match.
    possible = {0}
    for each in pattern:
        if each == ord("*"):
            possible = set(range(min(possible, default=len(value) + 1), len(value) + 1))
        else:
            possible = {at + 1 for at in possible if at < len(value) and each in (ord("?"), value[at])}
    return len(value) in possible


letters = st.lists(st.sampled_from([b"a", b"b", b"/", b"\n", b"\\", b"[", b"\xff"]), max_size=8).map(b"".join)
patterns = st.lists(
    st.sampled_from([b"a", b"b", b"/", b"\n", b"\\", b"[", b"\xff", b"*", b"*", b"?"]), max_size=8
).map(b"".join)  # fmt: skip


@given(patterns, letters)
@example(b"a*", b"a\n\n")
@example(b"*a*b", b"aab")
@example(b"**", b"")
@example(b"?", b"")
@example(b"*?b", b"abb")
@example(b"*ab*ab", b"ab")
def test_pattern_matching_equals_the_reference_rule(pattern: bytes, value: bytes) -> None:
    assert matches(pattern, value) is fits(pattern, value)


@given(patterns, patterns, letters, letters)
def test_the_bounds_of_a_pattern_include_all_matches(
    hl_pattern: bytes, ll_pattern: bytes, hl: bytes, ll: bytes
) -> None:
    low, high = bounds(hl_pattern, ll_pattern)
    if fits(hl_pattern, hl) and fits(ll_pattern, ll):
        assert low <= (hl, ll) < high


def test_a_pattern_of_many_stars_is_matched_in_linear_time() -> None:
    """Trying every way to match would take longer than a year."""
    assert not matches(b"*a" * 30 + b"b", b"a" * 1000)
    assert matches(b"*a" * 30 + b"*", b"a" * 1000)


NAMES = [
    (hl, ll)
    for hl in (b"", b"/", b"/a", b"/a/b", b"/a/c", b"/b", b"/\xff\xff")
    for ll in (b"/1", b"/12", b"/2", b"/\xff")
]


def test_queries_find_names_by_pattern_in_order(tsm: Client) -> None:
    space = tsm.space()
    for hl, ll in reversed(NAMES):
        tsm.send_object(space, ll, hl=hl)
    assert tsm.vote() == 0
    parts = (b"*", b"/*", b"/a", b"/a*", b"/a/?", b"/?", b"*b", b"", b"/\xff*", b"/nothing")
    last_parts = (b"*", b"/1", b"/1*", b"/?", b"*2", b"/\xff", b"")
    for hl, ll in itertools.product(parts, last_parts):
        found = [(row.hl, row.ll) for row in tsm.query(space, hl, ll)]
        assert found == sorted(name for name in NAMES if fits(hl, name[0]) and fits(ll, name[1]))


def test_several_objects_of_one_name_come_oldest_first(tsm: Client) -> None:
    space = tsm.space()
    for number in range(5):
        assert tsm.archive(space, b"/o", b"%d" % number) == 0
    rows = tsm.query(space, b"/d", b"/o")
    assert [each.content for each in tsm.get(*(row.id for row in rows))] == [b"0", b"1", b"2", b"3", b"4"]
    assert [row.id for row in rows] == sorted(row.id for row in rows)


@pytest.fixture
def three(tsm_server: RunningTsmServer, tsm: Client) -> list[Row]:
    """Three objects, archived one second apart. The second expires first, the third never."""
    space = tsm.space()
    for number, (class_name, kind) in enumerate((("STANDARD", FILE), ("SHORT", DIRECTORY), ("EVENT", FILE))):
        said: dict[str, Any] = {"class_index": tsm.class_index(class_name), "kind": kind, "owner": b"o%d" % number}
        assert tsm.archive(space, b"/%d" % number, description=b"descr %d" % number, **said) == 0
        tsm_server.clock.seconds += 1
    return tsm.query(space)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, (0, 1, 2)),
        ({"kind": 0xFF}, (0, 1, 2)),
        ({"kind": FILE}, (0, 2)),
        ({"kind": DIRECTORY}, (1,)),
        ({"owner": b"o1"}, (1,)),
        ({"owner": b"o*"}, ()),
        ({"owner": b"o"}, ()),
        ({"description": b"*"}, (0, 1, 2)),
        ({"description": b"descr ?"}, (0, 1, 2)),
        ({"description": b"*2"}, (2,)),
        ({"description": b"descr"}, ()),
        ({"kind": FILE, "owner": b"o2", "description": b"*2"}, (2,)),
        ({"kind": FILE, "owner": b"o1"}, ()),
    ],
)
def test_queries_find_by_type_owner_and_description(
    tsm: Client, three: list[Row], asked: dict[str, Any], found: tuple[int, ...]
) -> None:
    assert tsm.query(tsm.space(), **asked) == [three[each] for each in found]


def test_date_ranges_of_queries_include_both_ends(tsm: Client, three: list[Row]) -> None:
    space = tsm.space()
    assert three[0].archived_ms < three[1].archived_ms < three[2].archived_ms
    assert three[1].expires_ms < three[0].expires_ms < three[2].expires_ms == NEVER
    for name, of in (("archived", [row.archived_ms for row in three]), ("expires", [row.expires_ms for row in three])):
        edges = {0, NEVER} | {each + by for each in of for by in (-1, 0, 1) if 0 <= each + by <= NEVER}
        for low, high in itertools.product(edges, edges):
            expected = [row for row, date in zip(three, of, strict=True) if low <= date <= high]
            between: dict[str, Any] = {name: (low, high)}
            assert tsm.query(space, **between) == expected


def test_an_empty_result_has_its_own_code(tsm: Client) -> None:
    space = tsm.space()
    for number in (space, space + 1, 0, (1 << 32) - 1):
        tsm.send(QUERY_ARCHIVES, query_body(number))
        assert tsm.query_answer() == ([], 2)
    tsm.send(QUERY_SPACES, text(b"/none"))
    assert tsm.stream() == ([], 2)


@pytest.fixture
def many(tsm: Client) -> list[bytes]:
    """Archive more objects than a page of the catalogue has, some with equal names. Returns the names."""
    space = tsm.space()
    names = [b"/%04d" % (number // 3 * 3) for number in range(2500)]
    for ll in names:
        tsm.send_object(space, ll)
    assert tsm.vote() == 0
    return names


def test_a_long_answer_has_each_object_once(tsm: Client, many: list[bytes]) -> None:
    rows = tsm.query(tsm.space())
    assert [row.ll for row in rows] == many
    assert len({row.id for row in rows}) == len(many)
    assert len(tsm.query(tsm.space(), ll=b"*9")) == sum(name.endswith(b"9") for name in many)


def test_a_long_search_does_not_block_other_sessions(
    tsm_server: RunningTsmServer, tsm: Client, many: list[bytes]
) -> None:
    """Even if it finds nothing to send."""
    caller = Caller("ARCHIVER", b"")
    query = ArchiveQuery(tsm.space(), FILE, 0, NEVER, 0, NEVER, b"*", b"*", b"", b"nothing")

    async def turns_of_others() -> int:
        turns = 0

        async def search() -> None:
            async for _ in streams.archives(tsm_server.store, caller, query):
                raise AssertionError("nothing matches")

        searching = asyncio.ensure_future(search())
        while not searching.done():
            turns += 1
            await asyncio.sleep(0)
        assert isinstance(searching.exception(), streams.StreamFailed)
        return turns

    assert tsm_server.call(turns_of_others()) >= len(many) / 1000


# Streams that end early.


def test_stop_ends_a_query_early(tsm: Client, many: list[bytes]) -> None:
    tsm.send_bytes(frame(QUERY_ARCHIVES, query_body(tsm.space())) + frame(STOP))
    rows, code = tsm.query_answer()
    assert code == 0
    assert len(rows) < len(many)
    assert tsm.ping()


@pytest.mark.parametrize("how", ["stop", "bye", "nonsense", "vanish"])
def test_unread_get_ends_when_the_client_stops_or_leaves(
    monkeypatch: pytest.MonkeyPatch, tsm_server: RunningTsmServer, tsm: Client, how: str
) -> None:
    """The answer would have four gigabytes. The server reads only what its buffers can take."""
    assert tsm.archive(tsm.space(), b"/o", bytes(MIB)) == 0
    (row,) = tsm.query(tsm.space())
    read: list[int] = []
    found: Callable[..., Any] = tsm_server.store._read

    async def counted(*arguments: Any) -> Any:
        read.append(1)
        return await found(*arguments)

    monkeypatch.setattr(tsm_server.store, "_read", counted)
    with tsm_server.sign_on() as client:
        client.send(GET, get_body([(row.id, 0, 0)] * 4080))

        async def until_it_waits() -> Any:
            await tsm_server.until(lambda: len(tsm_server.server._sessions) == 2)
            session = next(each for each in tsm_server.server._sessions if each._stream)
            await tsm_server.until(lambda: not session._may_write.is_set())
            return session

        session = tsm_server.call(until_it_waits())
        client.send({"stop": STOP, "bye": BYE}.get(how, 0x7F))
        if how == "vanish":
            client.reset()
        elif how == "stop":
            tsm_server.call(tsm_server.until(lambda: session._stops_stream))
            frames, code = client.stream()
            assert code == 0
            assert len(frames) < 500
            assert client.ping()
        else:
            received = client.receive_all()
            assert len(received) < 500
            assert (received[-1].kind == 0x8F) is (how == "nonsense")
            assert STREAM_END not in {each.kind for each in received}
    tsm_server.settled(sessions=1)
    assert len(read) < 500


def test_late_stop_is_ignored(tsm: Client, three: list[Row]) -> None:
    for _ in range(2):
        tsm.send(STOP)
        assert tsm.query(tsm.space()) == three
        tsm.send(STOP)
        tsm.send(STOP)
        assert tsm.ping()
        assert [each.code for each in tsm.get(three[0].id)] == [0]


def test_a_ping_is_answered_during_a_stream(tsm: Client, many: list[bytes]) -> None:
    tsm.send_bytes(frame(QUERY_ARCHIVES, query_body(tsm.space())) + frame(PING) * 3)
    kinds: list[int] = []
    rows = 0
    while kinds.count(STREAM_END) + kinds.count(0x90) < 4:
        received = tsm.expect(0xB0, 0x90, STREAM_END)
        kinds.append(received.kind)
        rows += len(archive_rows(received)) if received.kind == 0xB0 else 0
    assert rows == len(many)


@pytest.mark.parametrize("kind", [0x11, 0x16, 0x20, 0x24, 0x30, 0x31, 0x40])
def test_other_requests_during_a_stream_are_refused(tsm: Client, many: list[bytes], kind: int) -> None:
    tsm.send_bytes(frame(QUERY_ARCHIVES, query_body(tsm.space())) + frame(kind))
    received = tsm.receive_all()
    assert (received[-1].kind, received[-1].body) == (0x8F, b"\x88\0")


def test_a_client_that_never_reads_is_dropped(
    tsm_server: RunningTsmServer, tsm: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.embedded.tsm.session._UNREAD_BYTES_MAX", 100_000)

    def ask(client: Client) -> None:
        for _ in range(200):
            client.send_bytes(frame(PING) * 10_000)

    with tsm_server.sign_on() as client:
        with pytest.raises(ConnectionError):
            ask(client)
        tsm_server.settled(sessions=1)
    assert tsm.ping()


# Gets.


def test_get_returns_objects_in_list_order_with_duplicates(tsm: Client) -> None:
    space = tsm.space()
    contents = [b"", b"small", bytes(range(256)) * 400, bytes(2 * MIB)]
    for number, content in enumerate(contents):
        assert tsm.archive(space, b"/%d" % number, content) == 0
    ids = [row.id for row in tsm.query(space)]
    order = [3, 0, 1, 2, 2, 1, 0, 3, 1]
    got = tsm.get(*(ids[each] for each in order), 999, ids[1])
    assert [each.content for each in got] == [*(contents[each] for each in order), b"", b"small"]
    assert [each.code for each in got] == [*[0] * len(order), 2, 0]


@pytest.mark.parametrize(
    "body", [get_body([]), get_body([(1, 0, 0)] * 4081), get_body([(1, 0, 0)])[:-1], get_body([(1, 0, 0)]) + b"\0"]
)
def test_a_malformed_list_ends_the_session(tsm: Client, body: bytes) -> None:
    tsm.send(GET, body)
    assert tsm.ended() == 136


def test_a_list_has_up_to_4080_entries(tsm: Client) -> None:
    assert tsm.archive(tsm.space(), b"/o", b"x") == 0
    (row,) = tsm.query(tsm.space())
    got = tsm.get(*[row.id, 999] * 2040)
    assert got == [(0, b"x", 0), (2, b"", 0)] * 2040


# File spaces.


def test_a_space_is_registered_once(tsm: Client) -> None:
    assert tsm.find_space(b"/fs") == (2061, 0)
    code, number = tsm.register_space(b"/fs", b"kind", 5, (1 << 64) - 1, bytes(range(200)))
    assert code == 0
    assert tsm.register_space(b"/fs", b"other") == (2062, number)
    assert tsm.find_space(b"/fs") == (0, number)
    assert tsm.query_spaces() == [(b"/fs", b"kind", 5, (1 << 64) - 1, bytes(range(200)), 0)]


def test_spaces_are_found_by_pattern_in_order(tsm_server: RunningTsmServer, tsm: Client) -> None:
    names = [b"/b", b"/a", b"/a/b", b"/" + b"n" * 1023, b"/\xff"]
    for name in names:
        tsm.space(name)
    for pattern in (b"*", b"/a*", b"/?", b"/a", b"*b", b"a"):
        assert [row.name for row in tsm.query_spaces(pattern)] == sorted(name for name in names if fits(pattern, name))


def test_spaces_that_exceed_one_frame_are_all_listed(tsm: Client) -> None:
    names = [b"/%03d" % number for number in range(250)]
    tsm.send_bytes(b"".join(frame(REGISTER_SPACE, text(name) + text(b"") + bytes(16) + text(b"")) for name in names))
    for _ in names:
        tsm.expect(0x91)
    assert [row.name for row in tsm.query_spaces()] == names


@pytest.mark.parametrize(
    ("mask", "changed"),
    [
        (0, {}),
        (0x02, {"type": b"T"}),
        (0x04, {"info": b"I"}),
        (0x20, {"occupancy": 7}),
        (0x40, {"capacity": 8}),
        (0xFF, {"type": b"T", "info": b"I", "occupancy": 7, "capacity": 8}),
    ],
)
def test_the_mask_selects_the_changed_attributes_of_a_space(tsm: Client, mask: int, changed: dict[str, Any]) -> None:
    tsm.register_space(b"/fs", b"type", 1, 2, b"info")
    (before,) = tsm.query_spaces()
    assert tsm.update_space(mask, b"/fs", b"T", 7, 8, b"I") == 0
    assert tsm.query_spaces() == [before._replace(**changed)]
    assert tsm.update_space(mask, b"/other", b"T", 7, 8, b"I") == 2061


def test_a_space_has_the_time_of_its_last_archive(tsm_server: RunningTsmServer, tsm: Client) -> None:
    number = tsm.space()
    tsm.space(b"/other")
    tsm_server.clock.seconds += 5
    assert tsm.archive(number, b"/o", b"o") == 0
    assert [row.archived_ms for row in tsm.query_spaces()] == [tsm_server.clock.now_ms, 0]


@pytest.mark.parametrize("name", [b"", b"fs", b"/" + b"n" * 1024])
def test_an_illegal_space_name_ends_the_session(tsm: Client, name: bytes) -> None:
    tsm.send(REGISTER_SPACE, text(name) + text(b"") + bytes(16) + text(b""))
    assert tsm.ended() == 136


@pytest.mark.parametrize(("kind", "info"), [(b"k" * 33, b""), (b"", b"i" * 481)])
def test_the_attributes_of_a_space_are_limited(tsm: Client, kind: bytes, info: bytes) -> None:
    tsm.space()
    tsm.send(UPDATE_SPACE, bytes(4) + text(b"/fs") + text(kind) + bytes(16) + text(info))
    assert tsm.ended() == 136


# Changes of an object's attributes.


@pytest.mark.parametrize("by_name", [True, False])
@pytest.mark.parametrize(
    ("mask", "changed"),
    [
        (0, {}),
        (0x01, {"owner": b"new owner"}),
        (0x02, {"info": b"new info", "estimate": 77}),
        (0x04, {"description": b"new description"}),
        (0x07, {"owner": b"new owner", "info": b"new info", "estimate": 77, "description": b"new description"}),
    ],
)
def test_the_mask_selects_the_changed_attributes_of_an_object(
    tsm: Client, by_name: bool, mask: int, changed: dict[str, Any]
) -> None:
    space = tsm.space()
    for number in range(2):
        said: dict[str, Any] = {"owner": b"o", "description": b"d", "info": b"i", "estimate": 5}
        assert tsm.archive(space, b"/o", b"content %d" % number, **said) == 0
    older, newer = tsm.query(space)
    named: dict[str, Any] = {"hl": b"/d", "ll": b"/o"} if by_name else {"number": older.id}
    new: dict[str, Any] = {
        "owner": b"new owner",
        "info": b"new info",
        "estimate": 77,
        "description": b"new description",
    }
    assert tsm.update_object(space, mask, **named, **new) == 0
    expected = [older, newer._replace(**changed)] if by_name else [older._replace(**changed), newer]
    assert tsm.query(space) == expected
    assert [each.content for each in tsm.get(older.id, newer.id)] == [b"content 0", b"content 1"]


def test_update_of_a_missing_object_is_refused_and_changes_nothing(tsm: Client) -> None:
    space, other = tsm.space(), tsm.space(b"/other")
    assert tsm.archive(space, b"/o", b"o") == 0
    (row,) = tsm.query(space)
    for where, named in (
        (space, {"number": 999}),
        (space, {"number": (1 << 64) - 1}),
        (space, {"hl": b"/d", "ll": b"/other"}),
        (other, {"number": row.id}),
        (other, {"hl": b"/d", "ll": b"/o"}),
        (999, {"number": row.id}),
    ):
        assert tsm.update_object(where, 0x04, description=b"x", **named) == 2
    assert tsm.query(space) == [row]
