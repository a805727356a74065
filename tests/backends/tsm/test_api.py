"""The binding: the library that is loaded, its errors, and its sessions with a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ctypes.util import find_library
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archiver.values.errors import PlatformError
from backends.embedded import process
from backends.tsm.library import api, structures
from backends.tsm.library.api import Library, SignOn, TsmError
from backends.tsm.library.codes import Code, describe
from backends.tsm.library.configuration import private_configuration
from tests.backends.embedded.running_server import RunningTsmServer
from tests.backends.tsm.compiling import SHARED, Compiler
from tests.backends.tsm.tsm_sessions import Server, archived, archives, data_plane, reached, record_of_sessions


@pytest.fixture(scope="module")
def server(shim: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    classes = ["LONG:retver=30d", "EVER:retver=nolimit", "CASE:retver=0,retinit=event,retmin=7d"]
    folder = tmp_path_factory.mktemp("tsm") / "store"
    with process.start(folder, management_classes=classes) as store, reached(store, shim) as server:
        yield server


@pytest.fixture
def library(server: Server) -> Library:
    library = Library(str(server.library))
    library.set_up(server.configuration)
    return library


@pytest.fixture
def sign_on(server: Server, library: Library) -> SignOn:
    return SignOn(library, server.store.node, server.store.node_password, "")


def test_own_library_has_every_function_and_the_version_of_its_header(shim: Path) -> None:
    library = Library(str(shim))
    assert (library.exports, library.missing) == (len(structures.PROTOTYPES), [])
    assert library.exports == 47
    assert library.version() == (
        structures.DSM_API_VERSION, structures.DSM_API_RELEASE, structures.DSM_API_LEVEL, structures.DSM_API_SUBLEVEL
    )  # fmt: skip


def test_encryption_of_third_party_library_is_what_the_stanza_says(
    compiler: Compiler, server: Server, tmp_path: Path
) -> None:
    script = tmp_path / "symbols"
    script.write_text("{ local: archiver*; };")
    theirs = compiler.compile("other.so", (*SHARED, f"-Wl,--version-script={script}"))
    backend = Server(server.store, theirs, server.configuration).backend()
    assert backend.profile().tls is False


def test_older_library_gets_the_older_attributes_of_objects(compiler: Compiler, server: Server, tmp_path: Path) -> None:
    changed = tmp_path / "older.h"
    changed.write_text('#include "include/archiver_tsm.h"\n#undef ObjAttrVersion\n#define ObjAttrVersion 3\n')
    older = compiler.compile("older.so", (*SHARED, "-include", str(changed)))
    backend, _ = Server(server.store, older, server.configuration).prepared("older")
    assert backend.profile().details["library_attributes_version"] == 3
    archived(backend, 1, 2)
    assert list(backend.present(0, 10)) == [1, 2]
    assert server.backend().profile().details["library_attributes_version"] == structures.ObjAttrVersion
    refused = record_of_sessions(data_plane(replace(backend.worker_setting(), attributes_version=4)), archives(3))
    assert [error.reason for error in refused.errors.values()] == [describe(Code.WRONG_VERSION_PARM)]


def test_unbuilt_library_is_refused_with_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "OWN_LIBRARY", Path("nowhere.so"))
    with pytest.raises(PlatformError, match=r"nowhere\.so.*install one \(gcc or clang\).*--tsm-library"):
        api.default_library_path()


def test_library_of_another_api_is_refused() -> None:
    with pytest.raises(PlatformError, match="not a library of the TSM API"):
        Library(find_library("c") or "libc.so.6")


def test_library_that_cannot_be_loaded_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    for name in ("text.so", "missing.so"):
        with pytest.raises(PlatformError, match=f"--tsm-library {re.escape(str(tmp_path / name))}: cannot be loaded"):
            Library(str(tmp_path / name))


@pytest.mark.parametrize(
    ("code", "reason", "shown", "deciding", "lost"),
    [
        (137, 0, "dsmX: 137 AUTH_FAILURE: ", 137, False),
        (2302, 248, "dsmX: 2302 CHECK_REASON_CODE, reason 248 ABORT_DELETE_NOT_ALLOWED: ", 248, False),
        (-50, 0, "dsmX: -50 TCPIP_FAILURE: ", -50, True),
        (31999, 0, "dsmX: 31999: the library has no text for this code", 31999, False),
    ],
)
def test_an_error_has_number_name_text_and_reason(
    shim: Path, code: int, reason: int, shown: str, deciding: int, lost: bool
) -> None:
    library = Library(str(shim))
    with pytest.raises(TsmError) as raised:
        library.check("dsmX", code, reason)
    error = raised.value
    assert str(error).startswith(shown)
    assert (error.function, error.code, error.reason) == ("dsmX", code, reason)
    assert (error.deciding_code, error.lost) == (deciding, lost)
    assert error.text == library.message(deciding)


def test_success_is_no_error(shim: Path) -> None:
    Library(str(shim)).check("dsmX", Code.OK)


def test_vote_with_code_ok_and_a_reason_is_an_error(shim: Path) -> None:
    with pytest.raises(TsmError):
        Library(str(shim)).check("dsmEndTxn", Code.OK, 11)


@pytest.mark.parametrize(
    ("node", "password", "code"),
    [("ARCHIVER", "wrong", Code.AUTH_FAILURE), ("NOBODY", "wrong", Code.REJECT_ID_UNKNOWN)],
)
def test_a_sign_on_that_is_refused_raises_the_servers_code(
    library: Library, node: str, password: str, code: int
) -> None:
    with pytest.raises(TsmError) as raised:
        SignOn(library, node, password, "").open()
    assert raised.value.code == code


def test_expired_password_gives_a_handle_for_its_change_only(shim: Path, tmp_path: Path) -> None:
    with RunningTsmServer(tmp_path / "store", password_seconds_max=60) as tsm_server:
        old, new = tsm_server.password().encode(), b"Another one"
        with private_configuration(tsm_server.host, tsm_server.port) as configuration:
            library = Library(str(shim))
            library.set_up(configuration)
            functions = library.functions
            with pytest.raises(TsmError) as raised:
                SignOn(library, "ARCHIVER", old.decode(), "").open()
            assert raised.value.code == Code.REJECT_VERIFIER_EXPIRED
            code, handle = SignOn(library, "ARCHIVER", old.decode(), "").attempt()
            assert code == Code.REJECT_VERIFIER_EXPIRED
            assert functions.dsmBeginTxn(handle) == Code.BAD_CALL_SEQUENCE
            assert functions.dsmChangePW(handle, old, new) == Code.OK
            assert functions.dsmBeginTxn(handle) == Code.OK
            assert functions.dsmTerminate(handle) == Code.OK
            with SignOn(library, "ARCHIVER", new.decode(), "").open() as session:
                assert session.information().id == b"ARCHIVER"
            tsm_server.clock.seconds += 61
            with pytest.raises(TsmError):
                SignOn(library, "ARCHIVER", new.decode(), "").open()


def test_repr_of_a_sign_on_hides_its_password(library: Library) -> None:
    assert "secret" not in repr(SignOn(library, "NODE", "secret", ""))


def test_call_in_an_ended_session_is_refused(sign_on: SignOn) -> None:
    with sign_on.open() as session:
        session.information()
    with pytest.raises(TsmError) as raised:
        session.information()
    assert raised.value.code == Code.INVALID_DS_HANDLE


def test_management_classes_match_policy(sign_on: SignOn) -> None:
    with sign_on.open() as session:
        found = session.management_classes()
    assert {name: (one.retver_days, one.retmin_days, one.by_event) for name, one in found.items()} == {
        "STANDARD": (1, 0, False),  # five minutes: the API reports whole days, rounded up
        "SHORT": (1, 0, False),
        "NONE": (0, 0, False),
        "EVENT": (0, 1, True),
        "LONG": (30, 0, False),
        "EVER": (None, 0, False),
        "CASE": (0, 7, True),
    }
    assert all(one.archives for one in found.values())


def test_a_file_space_can_be_registered_twice_and_deleted_once(sign_on: SignOn) -> None:
    with sign_on.open() as session:
        assert not session.has_space("/twice")
        session.register_space("/twice")
        session.register_space("/twice")
        assert session.has_space("/twice")
        session.delete_space("/twice")
        assert not session.has_space("/twice")
        with pytest.raises(TsmError) as raised:
            session.delete_space("/twice")
        assert raised.value.code == Code.FSNAME_NOTFOUND


def test_query_returns_each_object_and_applies_patterns(server: Server, sign_on: SignOn) -> None:
    backend, location = server.prepared("run-query", management_class="LONG")
    archived(backend, 1, 2, 1003)
    with sign_on.open() as session:
        found = list(session.archives(location.bucket, "/run-query/*"))
        assert [one.low_level for one in session.archives(location.bucket, "/run-query/000001")] == [b"/000000001003"]
        assert list(session.archives(location.bucket, "/other/*")) == []
        session.information()  # the session is free again
    assert [(one.high_level, one.low_level, one.size_bytes) for one in found] == [
        (b"/run-query/000000", b"/000000000001", 8192),
        (b"/run-query/000000", b"/000000000002", 8192),
        (b"/run-query/000001", b"/000000001003", 8192),
    ]
    assert len({one.id for one in found}) == 3
    assert [one.restore_order for one in found] == sorted({one.restore_order for one in found})
    assert all(one.expires is not None and one.expires - one.archived == 30 * 86400 for one in found)
    assert not any(one.held for one in found)


def test_query_yields_no_answer_twice_if_the_library_leaves_num_bytes(
    server: Server, sign_on: SignOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, location = server.prepared("run-num-bytes", management_class="LONG")
    archived(backend, 1, 2)
    with sign_on.open() as session:
        real = session._functions.dsmGetNextQObj

        def leaves_num_bytes(handle: int, block: Any) -> int:
            before = block._obj.numBytes
            code: int = real(handle, block)
            if code == Code.FINISHED:
                block._obj.numBytes = before
            return code

        monkeypatch.setattr(session._functions, "dsmGetNextQObj", leaves_num_bytes)
        names = [each.low_level for each in session.archives(location.bucket, "/run-num-bytes/*")]
    assert names == [b"/000000000001", b"/000000000002"]


def test_a_query_in_an_unknown_file_space_raises(sign_on: SignOn) -> None:
    with sign_on.open() as session, pytest.raises(TsmError) as raised:
        list(session.archives("/nowhere", "/x/*"))
    assert raised.value.code == Code.FILE_SPACE_NOT_FOUND


def test_a_deletion_before_expiry_is_refused_at_the_vote_and_deletes_nothing(server: Server, sign_on: SignOn) -> None:
    kept, location = server.prepared("run-kept", space="/mixed")
    archived(kept, 1)
    expired, _ = server.prepared("run-expired", space="/mixed", management_class="NONE")
    archived(expired, 2)
    with sign_on.open() as session:
        ids = [one.id for one in session.archives(location.bucket, "*")]
        assert len(ids) == 2
        with pytest.raises(TsmError) as raised:
            session.delete(ids)
        assert (raised.value.function, raised.value.deciding_code) == ("dsmEndTxn", Code.ABORT_DELETE_NOT_ALLOWED)
        assert len(list(session.archives(location.bucket, "*"))) == 2
        session.delete([one.id for one in session.archives(location.bucket, "/run-expired/*")])
        assert [one.high_level for one in session.archives(location.bucket, "*")] == [b"/run-kept/000000"]


def test_release_without_hold_is_refused_and_keeps_session_usable(server: Server, sign_on: SignOn) -> None:
    backend, location = server.prepared("run-free")
    archived(backend, 1)
    with sign_on.open() as session:
        (found,) = session.archives(location.bucket, "*")
        with pytest.raises(TsmError):
            session.release([found.id])
        assert len(list(session.archives(location.bucket, "*"))) == 1
