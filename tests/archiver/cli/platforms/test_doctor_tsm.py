"""`archiver doctor` against a TSM server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backends.embedded import process as embedded
from backends.tsm.examination import examine
from backends.tsm.library import api
from backends.tsm.library import structures as abi
from tests.backends.tsm.tsm_sessions import reached
from tests.support.commands import archiver

pytestmark = pytest.mark.skipif(not api.OWN_LIBRARY.exists(), reason="our TSM library was not built: no C compiler")


@pytest.fixture
def sign_on(store: embedded.StoreProcess, tmp_path: Path) -> tuple[str, ...]:
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text(f"{store.node_password}\n")
    server = f"{store.tsm_host}:{store.tsm_port}"
    return ("--tsm-server", server, "--tsm-node", store.node, "--tsm-password-file", str(password))


def test_doctor_reports_what_a_run_would_find(sign_on: tuple[str, ...]) -> None:
    done = archiver("doctor", *sign_on, "--filespace", "/not-there")
    assert done.returncode == 0, done.stderr
    found = {line[:14].strip(): line[14:] for line in done.stdout.splitlines()}
    assert "libApiTSM64.so, level 8.2.1.0, ObjAttr 4" in found.pop("library")
    assert "ARCHIVER 8.2.1.0" in found.pop("server")
    assert "as node ARCHIVER at tsm://" in found.pop("sign-on")
    assert found.pop("encryption").startswith("no: ")
    assert "retention protection is on" in found.pop("protection")
    assert found.pop("class") == "STANDARD keeps objects 5m from archiving on"
    assert found == {
        "rights": "the node may delete its archives",
        "transaction": "at most 4,096 objects (TXNGROUPMAX)",
        "file space": "/not-there will be made by the run",
    }


def test_doctor_says_what_to_fix(sign_on: tuple[str, ...]) -> None:
    done = archiver("doctor", *sign_on, "--management-class", "EVENT", "--json")
    assert done.returncode == 1
    wrong = [each for each in json.loads(done.stdout)["findings"] if each["fix"]]
    assert [each["subject"] for each in wrong] == ["class"]
    assert "management class EVENT would lock objects until an event" in wrong[0]["fix"]


def test_doctor_names_what_refuses_the_sign_on(sign_on: tuple[str, ...]) -> None:
    done = archiver("doctor", *sign_on[:2], "--tsm-node", "NOBODY", *sign_on[4:])
    assert done.returncode == 3
    assert "53 REJECT_ID_UNKNOWN" in done.stderr
    assert archiver("doctor", "--tsm-node", "N").returncode == 2


def test_server_without_protection_and_right_to_delete_is_to_be_fixed(
    store: embedded.StoreProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = api.ApiSession.information

    def weaker(session: api.ApiSession) -> object:
        found = ask(session)
        found.archiveRetentionProtection, found.archDel = abi.bFalse, abi.ARCHDEL_NO
        return found

    monkeypatch.setattr(api.ApiSession, "information", weaker)
    with reached(store, api.OWN_LIBRARY) as server:
        fixes = {each.subject: each.fix for each in examine(server.backend()) if each.fix}
    assert fixes == {
        "protection": "set archiveretentionprotection on, on a server that holds no data",
        "rights": "update node ARCHIVER archdelete=yes",
    }
