"""Sign-on at the TSM server: accepted and refused nodes, changes of passwords, and isolation of nodes and owners."""

from __future__ import annotations

import stat
import struct
from pathlib import Path
from typing import Any

import pytest

from backends.embedded.core.files import owner_file
from backends.embedded.tsm import nodes
from tests.backends.embedded.running_server import RunningTsmServer
from tests.backends.embedded.tsm_client import (
    BYE,
    CHALLENGE,
    CHANGE_PASSWORD,
    HELLO,
    HOLD,
    LOG,
    OBJECT,
    PING,
    PROOF,
    REQUESTS,
    Client,
    Ended,
    hello,
    key_of,
    mac,
    object_body,
    text,
)


def test_a_known_node_signs_on_and_gets_the_servers_attributes(tsm_server: RunningTsmServer) -> None:
    tsm_server.clock.seconds += 5
    with tsm_server.connect() as client:
        welcome = client.sign_on(b"ARCHIVER", tsm_server.password())
    assert welcome.now_ms == tsm_server.clock.now_ms
    assert welcome.activated_ms == tsm_server.clock.now_ms - 5000
    assert welcome.version >= (8, 2, 1, 0)
    assert welcome.objects_max == 4096
    assert welcome.flags == 1  # retention-protected
    assert welcome.texts[2:] == ("STANDARD", "STANDARD")
    # Name, archive copy group, RETINIT, RETVER and RETMIN in days.
    assert [(each[0], *each[2:6]) for each in welcome.classes] == [
        ("STANDARD", 1, 0, 1, 0), ("SHORT", 1, 0, 1, 0), ("NONE", 1, 0, 0, 0), ("EVENT", 1, 1, 0, 1),
    ]  # fmt: skip
    assert welcome.classes[welcome.default_class].name == "STANDARD"


def test_node_and_password_are_case_insensitive(tsm_server: RunningTsmServer) -> None:
    with tsm_server.connect() as client:
        client.sign_on(b"aRcHiVeR", tsm_server.password().lower())
        assert client.ping() == tsm_server.clock.now_ms


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (hello(b"ARCHIVER", version=0), 57),
        (hello(b"ARCHIVER", version=2), 58),
        (b"ATSM" + struct.pack("<HH", 9, 0xFFFF) + b"whatever a later version has here", 58),
        (hello(b"NOBODY"), 53),
        (hello(b""), 53),
        (hello("ÄRCHIVER".encode()), 53),
        (hello(b"ARCHIVER", flags=0), 68),
        (hello(b"ARCHIVER", flags=2), 136),
        (hello(b"ARCHIVER", magic=b"ATSN"), 136),
        (hello(b"ARCHIVER") + b"\0", 136),
        (hello(b"ARCHIVER")[:-1], 136),
        (hello(b"A" * 65), 136),
        (hello(b"ARCHIVER", b"o" * 65), 136),
        (b"", 136),
    ],
    ids=[
        "version-0",
        "version-2",
        "version-9",
        "unknown",
        "no-node",
        "not-ascii",
        "no-protection",
        "flags",
        "magic",
        "more",
        "less",
        "long-node",
        "long-owner",
        "empty",
    ],
)
def test_invalid_hello_is_refused_with_its_reason(tsm_server: RunningTsmServer, said: bytes, code: int) -> None:
    with tsm_server.connect() as client:
        client.send(HELLO, said)
        assert client.ended() == code


def test_a_wrong_password_is_refused(tsm_server: RunningTsmServer) -> None:
    with tsm_server.connect() as client, pytest.raises(Ended) as ended:
        client.sign_on(b"ARCHIVER", "wrong")
    assert ended.value.code == 137


@pytest.mark.parametrize("purpose", ["server", "change", "mask", ""])
def test_a_proof_for_another_purpose_is_refused(tsm_server: RunningTsmServer, purpose: str) -> None:
    with tsm_server.connect() as client:
        key = key_of(tsm_server.password(), *client.challenge(b"ARCHIVER"))
        client.send(PROOF, mac(key, purpose, client.nonces + b"ARCHIVER"))
        assert client.ended() == 137


@pytest.mark.parametrize("proof", [b"", bytes(31), bytes(32), bytes(33)])
def test_a_wrong_proof_is_refused(tsm_server: RunningTsmServer, proof: bytes) -> None:
    with tsm_server.connect() as client:
        client.challenge(b"ARCHIVER")
        client.send(PROOF, proof)
        assert client.ended() == 137


def test_a_replayed_proof_is_refused(tsm_server: RunningTsmServer) -> None:
    with tsm_server.connect() as first:
        first.sign_on(b"ARCHIVER", tsm_server.password())
    with tsm_server.connect() as second:
        second.send(HELLO, hello(b"ARCHIVER", nonce=first.nonces[:16]))
        second.receive()
        second.send(PROOF, mac(first.key, "client", first.nonces + b"ARCHIVER"))
        assert second.ended() == 137


def test_password_of_another_node_is_refused(tsm_server: RunningTsmServer) -> None:
    with tsm_server.connect() as client, pytest.raises(Ended) as ended:
        client.sign_on(b"OTHER", tsm_server.password("ARCHIVER"))
    assert ended.value.code == 137


def test_only_hello_then_proof_is_accepted_before_sign_on(tsm_server: RunningTsmServer) -> None:
    others = [*REQUESTS, 0x00, CHALLENGE, 0xFF]
    for kind in set(others) - {HELLO}:
        with tsm_server.connect() as client:
            client.send(kind)
            assert client.ended() == 136
    for kind in set(others) - {PROOF}:
        with tsm_server.connect() as client:
            client.challenge(b"ARCHIVER")
            client.send(kind)
            assert client.ended() == 136


def test_a_second_sign_on_is_refused(tsm: Client) -> None:
    tsm.send(HELLO, hello(b"OTHER"))
    assert tsm.ended() == 136


def test_frames_after_a_refused_proof_are_ignored(tsm_server: RunningTsmServer) -> None:
    with tsm_server.sign_on() as client:
        space = client.space()
        with tsm_server.connect() as stranger:
            stranger.challenge(b"ARCHIVER")
            stranger.send(PROOF, bytes(32))
            try:
                stranger.send(OBJECT, object_body(space, b"/d", b"/o"), 1)
                stranger.send(0x24, b"\1")
            except ConnectionError:
                pass
            assert stranger.ended() == 137
        assert client.query(space) == []


def test_the_number_of_sessions_is_limited(data_dir: Path) -> None:
    with RunningTsmServer(data_dir, sessions_max=2) as tsm_server, tsm_server.sign_on() as first:
        with tsm_server.sign_on() as second:
            with tsm_server.connect() as third:
                assert third.ended() == 51
            assert second.ping() == first.ping()
        tsm_server.settled(sessions=1)
        with tsm_server.sign_on() as fourth:
            assert fourth.ping()


def test_bye_ends_a_session(tsm_server: RunningTsmServer, tsm: Client) -> None:
    tsm.send(BYE)
    assert tsm.receive() is None
    tsm_server.settled(sessions=0)


def test_a_clients_log_message_is_written_on_one_line(tsm_server: RunningTsmServer, tsm: Client) -> None:
    assert tsm.ask(LOG, b"\2" + text("tape\x1b[2J\nfull \N{SNOWMAN}".encode())) == (0, 0)
    assert tsm_server.said == ["node ARCHIVER reports (severity 2): tape [2J full \N{SNOWMAN}"]


# Changes of passwords.


def test_expired_password_allows_its_change_and_nothing_else(data_dir: Path) -> None:
    with RunningTsmServer(data_dir, password_seconds_max=60) as tsm_server:
        with tsm_server.sign_on() as client, pytest.raises(Ended) as ended:
            client.ping()
        assert ended.value.code == 136
        with tsm_server.sign_on() as client:
            assert client.change_password(client.key, "Of my Choice") == 0
            assert client.ping()


def test_server_sets_how_many_objects_a_transaction_may_have(data_dir: Path) -> None:
    with RunningTsmServer(data_dir, objects_max=2) as tsm_server, tsm_server.sign_on() as client:
        space = client.space()
        for count, code in ((2, 0), (3, 249)):
            for number in range(count):
                client.send_object(space, b"/%d" % number, b"x")
            assert client.vote() == code


def test_after_a_change_only_the_new_password_is_valid(data_dir: Path) -> None:
    with RunningTsmServer(data_dir) as tsm_server:
        old, other = tsm_server.password(), tsm_server.password("OTHER")
        with tsm_server.sign_on() as client:
            assert client.change_password(client.key, "Of my Choice", iterations=3) == 0
            assert client.ping()
    stored = (data_dir / "nodes.json").read_text()
    assert "of my choice" not in stored.lower()
    assert old not in stored
    assert other in stored  # the other node's generated password
    assert stat.S_IMODE((data_dir / "nodes.json").stat().st_mode) == 0o600
    with RunningTsmServer(data_dir) as tsm_server:
        for password in (old, "of my choic", ""):
            with tsm_server.connect() as client, pytest.raises(Ended) as ended:
                client.sign_on(b"ARCHIVER", password)
            assert ended.value.code == 137
        with tsm_server.connect() as client:
            client.sign_on(b"archiver", "oF MY cHOICE")
            assert client.ping()


def test_password_change_needs_the_old_password(tsm_server: RunningTsmServer, tsm: Client) -> None:
    before = nodes.load(tsm_server.store.folder)
    assert tsm.change_password(bytes(32), "new") == 6
    assert tsm.change_password(key_of("new", bytes(16), 1), "new") == 6
    assert nodes.load(tsm_server.store.folder) == before
    with tsm_server.sign_on() as again:
        assert again.ping()


def test_second_password_change_needs_the_current_password(tsm_server: RunningTsmServer, tsm: Client) -> None:
    """Also in another session that signed on before the first change."""
    with tsm_server.sign_on() as other:
        assert tsm.change_password(tsm.key, "second") == 0
        second = key_of("second", bytes(16), 1)
        assert other.change_password(other.key, "third") == 6
        assert other.change_password(second, "third", salt=b"s" * 16) == 0
        assert tsm.change_password(second, "fourth") == 6
    with tsm_server.connect() as client:
        client.sign_on(b"ARCHIVER", "THIRD")


def test_an_altered_change_of_password_is_refused(tsm: Client) -> None:
    """The seal covers salt, iterations and key."""
    key, salt, iterations = key_of("new", bytes(16), 1), bytes(16), struct.pack("<I", 0x101)
    about = tsm.nonces + b"ARCHIVER" + salt
    masked = bytes(a ^ b for a, b in zip(key, mac(tsm.key, "mask", about), strict=True))
    body = mac(tsm.key, "change", about + iterations + masked) + salt + iterations + masked
    for changed in set(range(len(body))) - {50, 51}:  # these would exceed the maximum of iterations
        tampered = bytearray(body)
        tampered[changed] ^= 1
        assert tsm.ask(CHANGE_PASSWORD, bytes(tampered)) == (6, 0)
    assert tsm.ask(CHANGE_PASSWORD, body) == (0, 0)


@pytest.mark.parametrize(("iterations", "code"), [(0, 136), (1, 0), (100_000, 0), (100_001, 136)])
def test_key_iterations_must_be_between_1_and_100000(tsm: Client, iterations: int, code: int) -> None:
    if code:
        with pytest.raises(Ended) as ended:
            tsm.change_password(tsm.key, "new", iterations=iterations)
        assert ended.value.code == code
    else:
        assert tsm.change_password(tsm.key, "new", iterations=iterations) == 0


def test_a_password_that_cannot_be_written_is_unchanged(
    tsm_server: RunningTsmServer, tsm: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(owner_file, "_write", full)
        assert tsm.change_password(tsm.key, "new") == 43
    assert tsm.ping()
    with tsm_server.sign_on() as again:
        assert again.ping()


# Two nodes.


def test_a_node_sees_nothing_of_anothers_spaces(tsm_server: RunningTsmServer, tsm: Client) -> None:
    space = tsm.space(b"/mine")
    with tsm_server.sign_on("OTHER") as other:
        assert other.find_space(b"/mine") == (2061, 0)
        assert other.update_space(0x02, b"/mine", b"stolen") == 2061
        assert other.delete_space(b"/mine") == (2060, 0)
        assert other.query_spaces() == []
        code, own = other.register_space(b"/mine")
        assert code == 0
        assert own != space
    assert tsm.find_space(b"/mine") == (0, space)
    assert [row.type for row in tsm.query_spaces()] == [b"type"]


def test_a_node_reaches_nothing_of_anothers_objects(tsm_server: RunningTsmServer, tsm: Client) -> None:
    space, expired = tsm.space(), tsm.class_index("NONE")
    assert tsm.archive(space, b"/o", b"mine", class_index=expired, description=b"d") == 0
    (before,) = tsm.query(space)
    with tsm_server.sign_on("OTHER") as other:
        own = other.space()
        assert other.query(space) == []
        assert other.query(own) == []
        assert other.get(before.id) == [(2, b"", 0)]
        assert other.delete(before.id) == 36
        assert other.event(HOLD, before.id) == 36
        for through in (space, own):
            assert other.update_object(through, 0x04, number=before.id, description=b"theirs") == 2
        assert other.update_object(space, 0x04, hl=b"/d", ll=b"/o", description=b"theirs") == 2
        assert other.archive(space, b"/theirs") == 20
        assert other.warnings == [20]
    assert tsm.query(space) == [before]
    assert tsm.get(before.id) == [(0, b"mine", 0)]


def test_an_owner_reaches_only_its_own_objects(tsm_server: RunningTsmServer, tsm: Client) -> None:
    space, expired = tsm.space(), tsm.class_index("NONE")
    for owner in (b"ann", b"bob"):
        assert tsm.archive(space, b"/" + owner, owner, owner=owner, class_index=expired) == 0
    ann, bob = tsm.query(space)
    with tsm_server.sign_on(owner=b"bob") as session:
        assert session.query(space) == [bob]
        assert session.query(space, owner=b"ann") == []
        assert session.get(ann.id, bob.id) == [(2, b"", 0), (0, b"bob", 0)]
        assert session.delete(ann.id) == 36
        assert session.event(HOLD, ann.id) == 36
        assert session.update_object(space, 0x04, number=ann.id, description=b"x") == 36
        assert session.delete_space(b"/fs") == (0, 1)  # its own is gone, the other stays
    assert tsm.query(space) == [ann]


def test_an_illegal_request_ends_only_its_own_session(tsm_server: RunningTsmServer, tsm: Client) -> None:
    with tsm_server.sign_on() as other:
        other.send(PING, b"x")
        assert other.ended() == 136
    assert tsm.ping()
