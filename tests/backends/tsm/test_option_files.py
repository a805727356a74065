"""Option files as administrators have them: which server they lead to, and what is said of those that are refused.

What IBM's client documents decides. The pages are in its manuals of level 8.2.2: "Client options reference" (an option
each), "Include options", "Exclude options", "Wildcard characters", and dsmBindMC in the manual of the API.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref
from pathlib import Path

import pytest

from backends.embedded import process
from backends.embedded.process import StoreProcess
from backends.tsm.library import structures as abi
from backends.tsm.library.api import ApiSession, Library, SignOn, TsmError
from backends.tsm.library.codes import Code

FILES = sorted((Path(__file__).parent / "option_files").glob("*.sys"))
LISTS = {
    "first.list": "* nested\nexclude.archive /a/*\nINCLEXCL {folder}/nested.list\n",
    "nested.list": "include.archive /a/n* SHORT\nexclude.dir /a\n",
    "second.list": "include.encrypt /a/*\ninclude.archive /a/second.[a-c] NONE\n",
}
MINIMUM = "SErvername one\n TCPServeraddress 127.0.0.1\n TCPPort {port}\n ENABLEARCHIVERETENTIONPROTECTION yes\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    with process.start(tmp_path_factory.mktemp("tsm") / "store") as store:
        yield store


@pytest.fixture(scope="module")
def store6(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    with process.start(tmp_path_factory.mktemp("tsm6") / "store", host="::1") as store:
        yield store


@pytest.fixture
def library(shim: Path, tmp_path: Path) -> Library:
    """The library, which reads its option files from the test's folder."""
    (tmp_path / "dsm.opt").write_text("* names no server\n")
    library = Library(str(shim))
    library.set_up(tmp_path)
    return library


def write(folder: Path, text: str, store: StoreProcess) -> None:
    """Write dsm.sys. Bytes stay as they are but for the port of the store."""
    (folder / "dsm.sys").write_bytes(text.replace("{port}", str(store.tsm_port)).encode())


@contextmanager
def session(
    library: Library, store: StoreProcess, options: str = "", *, generates: bool = False
) -> Iterator[ApiSession]:
    """Sign on, with the stored password if it is generated."""
    node, password = (None, None) if generates else (store.node, store.node_password)
    with SignOn(library, node, password, options).open() as opened:
        yield opened


def problem(library: Library, store: StoreProcess, options: str = "") -> tuple[int, str]:
    """Return the code of a failed sign-on, and its words."""
    with pytest.raises(TsmError) as failed, session(library, store, options):
        pass
    return failed.value.code, str(failed.value)


def bound(library: Library, opened: ApiSession, full_name: tuple[str, str, str]) -> str:
    """Return the class that a name is bound to, or "excluded"."""
    name = abi.dsmObjName(*(part.encode() for part in full_name), abi.DSM_OBJ_FILE)
    key = abi.mcBindKey(stVersion=abi.mcBindKeyVersion)
    code = library.functions.dsmBindMC(opened.handle, byref(name), abi.stArchive, byref(key))
    assert code in (Code.OK, Code.TL_EXCLUDED)
    return "excluded" if code else str(key.mcName.decode())


def test_there_are_twelve_option_files() -> None:
    assert len(FILES) == 12


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_option_file_leads_to_its_server(
    file: Path, library: Library, store: StoreProcess, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    text = file.read_bytes().decode()
    if "@PORT6@" in text:
        store = request.getfixturevalue("store6")
    (tmp_path / "TSM.PWD").touch(mode=0o600)
    (tmp_path / "TSM.PWD").write_text(f"{store.node_password}\n")
    for name, content in LISTS.items():
        (tmp_path / name).write_text(content.replace("{folder}", str(tmp_path)))
    values = {"PORT": store.tsm_port, "PORT6": store.tsm_port, "NODE": store.node}
    for placeholder, value in {**values, "PASSWORDS": tmp_path, "FOLDER": tmp_path}.items():
        text = text.replace(f"@{placeholder}@", str(value))
    write(tmp_path, text, store)
    with session(library, store, generates="generate" in text) as opened:
        assert opened.information().adsmServerName == b"ARCHIVER"
        if "INCLUDE.ARCHIVE    /records" in text:
            assert bound(library, opened, ("/records", "/2026", "/one")) == "SHORT"
            assert bound(library, opened, ("/records", "/2026", "/one.part")) == "excluded"
            assert bound(library, opened, ("/home", "/a", "/core")) == "STANDARD"
        if "second.list" in text:
            found = [bound(library, opened, ("/a", "", name)) for name in ("/x", "/nx", "/second.b", "/second.d")]
            assert found == ["excluded", "SHORT", "NONE", "excluded"]


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("TCPPort 70000", Code.INVALID_OPT, "TCPPort: must be a number from 1 to 65535"),
        ("NODename", Code.INVALID_OPT, "NODename: has no value"),
        ("SSL maybe", Code.INVALID_OPT, "SSL: must be Yes or No"),
        ("COMPRESSION sometimes", Code.INVALID_OPT, "COMPRESSIon: must be Yes or No"),
        ("COMMMETHOD SHAREDMEM", Code.INV_COMM_METHOD, "COMMMethod: must be TCPip or V6Tcpip"),
        ("TCPSERVERADRESS x", Code.INVALID_KEYWORD, "TCPSERVERADRESS: is not an option of the client"),
        ("ASNODENAME OTHER", Code.INVALID_OPT, "ASNODEname: makes the session a proxy for another node"),
        ("VIRTUALNODENAME OTHER", Code.INVALID_OPT, "VIRTUALNodename: signs on under another node's name"),
        ("DEFAULTSERVER one", Code.INVALID_OPT, "DEFAultserver: must be before the first stanza"),
        ("INCLUDE.ARCHIVE records/* SHORT", Code.NO_STARTING_DELIMITER, "include.archive: must begin with /"),
        ("EXCLUDE.ARCHIVE /a/[bc", Code.PATTERN_TOO_COMPLEX, "exclude.archive: has [ without ]"),
        ("INCLUDE.ARCHIVE '/a/b", Code.UNMATCHED_QUOTE, "include.archive: lacks a quote"),
        ("INCLEXCL /nowhere/list", Code.NO_INCLEXCL_FILE, "INCLExcl: /nowhere/list No such file or directory"),
        ("INCLUDE.NOTHING /a", Code.INVALID_KEYWORD, "INCLUDE.NOTHING: is not an option of the client"),
    ],
)
def test_refused_line_is_named_in_message_and_log(
    library: Library, store: StoreProcess, tmp_path: Path, line: str, code: int, words: str
) -> None:
    write(tmp_path, MINIMUM + f" {line}\n", store)
    found, message = problem(library, store)
    assert found == code
    assert f"{tmp_path}/dsm.sys:5: {words}".lower() in message.lower()
    assert f"{tmp_path}/dsm.sys:5: {words}".lower() in (tmp_path / "dsierror.log").read_text().lower()


def test_problem_of_an_earlier_sign_on_is_forgotten(library: Library, store: StoreProcess, tmp_path: Path) -> None:
    write(tmp_path, MINIMUM + " TCPPort 70000\n", store)
    problem(library, store)
    write(tmp_path, MINIMUM, store)
    with session(library, store):
        assert library.problem() == ""


def test_log_is_written_to_dsm_log_if_dsmi_log_is_not_set(shim: Path, store: StoreProcess, tmp_path: Path) -> None:
    (tmp_path / "dsm.opt").write_text("NOSUCH 1\n")
    script = (
        "import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); text = ctypes.create_string_buffer(4000)\n"
        "print(library.dsmQueryCliOptions(text))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(shim)],
        env={"DSMI_DIR": str(tmp_path), "DSM_LOG": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{Code.INVALID_KEYWORD}\n"
    assert f"{tmp_path}/dsm.opt:1: NOSUCH: is not an option" in (tmp_path / "dsierror.log").read_text()


def test_ignored_options_are_logged_once_in_a_process(shim: Path, tmp_path: Path) -> None:
    (tmp_path / "dsm.opt").write_text("QUIET\n")
    (tmp_path / "dsm.sys").write_text("SErvername one\n SCHEDMODE polling\n SSLACCEPTCERTFROMSERV yes\n")
    script = (
        "import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); text = ctypes.create_string_buffer(4000)\n"
        "print([library.dsmQueryCliOptions(text) for _ in range(2)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(shim)],
        env={"DSMI_DIR": str(tmp_path), "DSMI_LOG": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "[0, 0]\n"
    (line,) = (tmp_path / "dsierror.log").read_text().splitlines()
    assert line[20:] == (
        f"options that this library ignores: {tmp_path}/dsm.opt:1: QUIET, {tmp_path}/dsm.sys:2: SCHEDMODe, "
        f"{tmp_path}/dsm.sys:3: SSLACCEPTCERTFROMSERV"
    )


# Which stanza.

TWO = "DEFAULTSERVER two\n" + MINIMUM.replace("{port}", "1") + MINIMUM.replace("one", "two")


def test_server_name_of_dsm_opt_is_stronger_than_default_server(
    library: Library, store: StoreProcess, tmp_path: Path
) -> None:
    write(tmp_path, TWO, store)
    with session(library, store) as opened:
        assert opened.options().serverName == b"two"
    (tmp_path / "dsm.opt").write_text("SErvername one\n")
    assert problem(library, store)[0] == Code.TCPIP_FAILURE
    with session(library, store, "-SErvername=two") as opened:
        assert opened.options().serverName == b"two"


def test_first_stanza_is_used_without_server_name_and_default_server(
    library: Library, store: StoreProcess, tmp_path: Path
) -> None:
    write(tmp_path, MINIMUM + MINIMUM.replace("one", "two").replace("{port}", "1"), store)
    with session(library, store) as opened:
        assert opened.options().serverName == b"one"


def test_missing_stanza_is_named(library: Library, store: StoreProcess, tmp_path: Path) -> None:
    write(tmp_path, TWO.replace("DEFAULTSERVER two", "DEFAULTSERVER three"), store)
    code, message = problem(library, store)
    assert code == Code.INVALID_SERVER
    assert f"{tmp_path}/dsm.sys: has no stanza SErvername three" in message


def test_dsm_sys_in_place_of_dsm_opt_is_refused(library: Library, store: StoreProcess, tmp_path: Path) -> None:
    write(tmp_path, TWO, store)
    (tmp_path / "dsm.opt").write_bytes((tmp_path / "dsm.sys").read_bytes())
    code, message = problem(library, store)
    assert code == Code.INVALID_OPT
    assert f"{tmp_path}/dsm.opt:6: SErvername: begins a second stanza, so this is a dsm.sys" in message


def test_option_outside_every_stanza_is_refused(library: Library, store: StoreProcess, tmp_path: Path) -> None:
    write(tmp_path, "INCLUDE.ARCHIVE /a/* SHORT\n" + MINIMUM, store)
    assert "dsm.sys:1: INCLUDE.ARCHIVE: must be in a stanza" in problem(library, store)[1]


def test_lists_that_name_each_other_are_refused(library: Library, store: StoreProcess, tmp_path: Path) -> None:
    (tmp_path / "list").write_text(f"inclexcl {tmp_path}/list\n")
    write(tmp_path, MINIMUM + f" inclexcl {tmp_path}/list\n", store)
    assert f"{tmp_path}/list:1: INCLExcl: names lists within lists" in problem(library, store)[1]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf16_list_is_named(library: Library, store: StoreProcess, tmp_path: Path, encoding: str) -> None:
    mark = "" if encoding == "utf-16" else "\ufeff"
    (tmp_path / "list").write_bytes(f"{mark}exclude /a\n".encode(encoding))
    write(tmp_path, MINIMUM + f" inclexcl {tmp_path}/list\n", store)
    code, message = problem(library, store)
    assert code == Code.NO_INCLEXCL_FILE
    assert f"INCLExcl: {tmp_path}/list is not in UTF-8 but in UTF-16" in message


# What a list means for archives.

ROOT = ("/", "/records/2026", "/one.txt")
DEEP = ("/records", "/2026/01", "/one.txt")


@pytest.mark.parametrize(
    ("rules", "name", "result"),
    [
        # dsmBindMC: "The Exclude list can prevent objects from a backup but not from an archive."
        ("exclude /.../*", DEEP, "STANDARD"),
        ("exclude.backup /.../*", DEEP, "STANDARD"),
        ("exclude.file /.../*", DEEP, "STANDARD"),
        ("exclude.file.backup /.../*", DEEP, "STANDARD"),
        ("exclude.archive /.../*", DEEP, "excluded"),
        # "Exclude options": these are about backups, file systems, compression and encryption.
        ("exclude.dir /records", DEEP, "STANDARD"),
        ("exclude.fs /records", DEEP, "STANDARD"),
        ("exclude.compression /.../*\nexclude.encrypt /.../*", DEEP, "STANDARD"),
        # "Include options": INCLUDE affects archives and backups; the forms with a suffix affect what they name.
        ("include /.../* SHORT", DEEP, "SHORT"),
        ("include.archive /.../* short", DEEP, "SHORT"),
        ("include.backup /.../* SHORT", DEEP, "STANDARD"),
        ("include.file /.../* SHORT", DEEP, "STANDARD"),
        ("include.encrypt /.../*", DEEP, "STANDARD"),
        # "Include and exclude option processing": from the bottom up, the first match decides.
        ("include.archive /.../* SHORT\ninclude.archive /records/.../* NONE", DEEP, "NONE"),
        ("exclude.archive /.../*\ninclude.archive /records/.../*", DEEP, "STANDARD"),
        ("include.archive /.../* SHORT\nexclude /.../*", DEEP, "SHORT"),
        # "Wildcard characters".
        ("include.archive /records/2026/01/*.txt SHORT", DEEP, "SHORT"),
        ("include.archive /records/*.txt SHORT", DEEP, "STANDARD"),
        ("include.archive /records/202?/01/one.txt SHORT", DEEP, "SHORT"),
        ("include.archive /records/202[5-7]/.../* SHORT", DEEP, "SHORT"),
        ("include.archive /records/202[578]/.../* SHORT", DEEP, "STANDARD"),
        ("include.archive /records/[0-9]*/.../[a-nop]ne.txt SHORT", DEEP, "SHORT"),
        ("include.archive /records[/]2026/.../* SHORT", DEEP, "STANDARD"),
        # A file space "/" and a high-level name that begins with / have one slash between them.
        ("include.archive /records/.../* SHORT", ROOT, "SHORT"),
        ("include.archive //records/2026/* SHORT", ROOT, "SHORT"),
        ("include.archive /records/* SHORT", ("/records", "/", "/one"), "SHORT"),
        ('include.archive "/with blank/*" SHORT', ("/with blank", "", "/one"), "SHORT"),
    ],
)
def test_list_decides_class_or_exclusion_of_archives(
    library: Library, store: StoreProcess, tmp_path: Path, rules: str, name: tuple[str, str, str], result: str
) -> None:
    write(tmp_path, MINIMUM + rules + "\n", store)
    with session(library, store) as opened:
        assert bound(library, opened, name) == result


def test_missing_address_means_this_machine(library: Library, store: StoreProcess, tmp_path: Path) -> None:
    """ "Tcpserveraddress": without it, the client contacts a server on its own machine."""
    write(tmp_path, MINIMUM.replace("TCPServeraddress 127.0.0.1", "* none"), store)
    with session(library, store) as opened:
        assert opened.options().serverAddress == b"localhost"
