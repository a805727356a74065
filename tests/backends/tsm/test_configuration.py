"""The library's server and option files, and files with a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from archiver.values.errors import UsageError
from backends.tsm.library.configuration import (
    client_folder,
    parse_server,
    private_configuration,
    read_password,
    session_options,
    stanza_encrypts,
)


@pytest.mark.parametrize(
    ("server", "found"),
    [
        ("archive.example:1500", ("archive.example", 1500)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("[::1]:65535", ("::1", 65535)),
        ("RET1", None),
        ("my-stanza_2", None),
    ],
)
def test_a_server_is_an_address_or_a_stanza(server: str, found: tuple[str, int] | None) -> None:
    assert parse_server(server) == found


@pytest.mark.parametrize("server", ["", "a:b:c", "host:", ":1500", "host:0", "host:65536", "two words", "x" * 65])
def test_invalid_server_argument_is_refused(server: str) -> None:
    with pytest.raises(UsageError, match="neither HOST:PORT"):
        parse_server(server)


def test_private_option_files_name_server_and_are_deleted_after_block() -> None:
    with private_configuration("archive.example", 1500) as folder:
        assert (folder / "dsm.opt").read_text() == "SErvername ARCHIVER\n"
        lines = [line.split() for line in (folder / "dsm.sys").read_text().splitlines()]
        assert ["TCPServeraddress", "archive.example"] in lines
        assert ["TCPPort", "1500"] in lines
        assert ["ENABLEARCHIVERETENTIONPROTECTION", "YES"] in lines
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()


def test_private_option_files_have_tls_and_ipv6(tmp_path: Path) -> None:
    with private_configuration("::1", 1500, encrypted=True, ca_file=tmp_path / "ca.pem") as folder:
        lines = [line.split() for line in (folder / "dsm.sys").read_text().splitlines()]
    for line in (["COMMMethod", "V6Tcpip"], ["SSL", "yes"], ["SSLCAFILE", str(tmp_path / "ca.pem")]):
        assert line in lines


def test_private_folder_links_all_of_an_installed_client_but_its_option_files(tmp_path: Path) -> None:
    (tmp_path / "en_US").mkdir()
    for name in ("en_US/dsmclientV3.cat", "dsmtca", "dsm.opt", "dsm.sys", "dsierror.log", "libApiTSM64.so"):
        (tmp_path / name).write_text(f"installed {name}")
    with private_configuration("h", 1, client_folder=client_folder(str(tmp_path / "libApiTSM64.so"))) as folder:
        assert {path.name for path in folder.iterdir()} == {"en_US", "dsmtca", "libApiTSM64.so", "dsm.opt", "dsm.sys"}
        assert (folder / "en_US" / "dsmclientV3.cat").read_text() == "installed en_US/dsmclientV3.cat"
        assert (folder / "dsm.sys").read_text().startswith("SErvername ARCHIVER")
    assert (tmp_path / "dsm.sys").read_text() == "installed dsm.sys"


def test_folder_of_an_installed_client_is_dsmi_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSMI_DIR", str(tmp_path))
    assert client_folder("/elsewhere/libApiTSM64.so") == tmp_path
    assert client_folder(None) is None
    monkeypatch.setenv("DSMI_DIR", str(tmp_path / "missing"))
    assert client_folder("/elsewhere/libApiTSM64.so") is None


@pytest.mark.parametrize(
    ("stanza", "encrypts"), [("plain", False), ("SECURE", True), ("said-no", False), ("missing", None)]
)
def test_encryption_is_read_from_the_stanza(tmp_path: Path, stanza: str, encrypts: bool | None) -> None:
    (tmp_path / "dsm.sys").write_text(
        "\ufeff* SErvername missing\nse plain\n  TCPPort 1\nServerName secure\n * SSL no\n ssl YES\n"
        "REPLSERVERNAME secure\n SSL no\nSERVER said-no\n SSL No\n"
    )
    assert stanza_encrypts(tmp_path, stanza) is encrypts
    assert stanza_encrypts(tmp_path / "nowhere", stanza) is None


def test_session_options_name_stanza_and_allow_protected_servers() -> None:
    assert session_options("RET1") == "-SErvername=RET1 -ENABLEARCHIVERETENTIONPROTECTION=yes"
    assert session_options(None) == "-ENABLEARCHIVERETENTIONPROTECTION=yes"


@pytest.mark.parametrize(
    ("text", "password"), [("secret", "secret"), ("secret\r\nmore\n", "secret"), ("a b \n", "a b ")]
)
def test_password_is_the_first_line_of_a_private_file(tmp_path: Path, text: str, password: str) -> None:
    path = tmp_path / "password"
    path.write_bytes(text.encode())
    path.chmod(0o600)
    assert read_password(path) == password


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_password_file_accessible_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "password"
    path.write_text("secret")
    path.chmod(mode)
    with pytest.raises(UsageError, match="chmod 600") as refused:
        read_password(path)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"\nsecret", b"x" * 65, b"\xff\xfe"])
def test_a_file_without_a_password_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "password"
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="--tsm-password-file"):
        read_password(path)


def test_missing_password_file_is_named_in_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing-here: cannot be read"):
        read_password(tmp_path / "nothing-here")
