"""The C program that expects every rule of the API to hold: as it is, under the sanitizers, under valgrind."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from backends.embedded import process
from backends.embedded.process import StoreProcess
from tests.backends.tsm.compiling import PROGRAM, SOURCES, Compiler

SECONDS_MAX = 300  # under valgrind; only a program that hangs gets there
OTHER_NODE = "OTHER"
PROTECTED = "ENABLEARCHIVERETENTIONPROTECTION yes"


@pytest.fixture(scope="session")
def plain(compiler: Compiler) -> Path:
    return compiler.compile("program", PROGRAM, SOURCES)


def write_options(folder: Path, stanzas: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """dsm.sys with these lines in each stanza, dsm.opt that names the first; the environment that leads to both."""
    lines: list[str] = []
    for name, options in stanzas.items():
        lines += [f"SErvername {name}", *(f"   {option}" for option in options)]
    (folder / "dsm.sys").write_text("\n".join(lines) + "\n")
    (folder / "dsm.opt").write_text(f"* the server\nservername {next(iter(stanzas))}\n")
    return {**os.environ, "DSMI_DIR": str(folder), "DSMI_CONFIG": str(folder / "dsm.opt"), "DSMI_LOG": str(folder)}


def settings(folder: Path, store: StoreProcess) -> dict[str, str]:
    """Every stanza that the program signs on with, and the files they name."""
    node, password = store.node, store.node_password
    assert password is not None
    passwords = folder / "passwords"
    passwords.mkdir(parents=True)
    (passwords / "TSM.PWD").touch(mode=0o600)
    (passwords / "TSM.PWD").write_text(password + "\n")
    (folder / "list").write_text(
        "* read from the bottom\n"
        "include /program/vanished/* NOSUCH\n"
        "include /program/.../short/* short\n"
        "exclude /program/.../*.tmp\n"
        'include "/program/.../keep.*"\n'
    )
    (folder / "badlist").write_text("include.backup /program/* SHORT\n")
    (folder / "api.opt").write_text("SErvername WORD\n")
    address = f"TCPServeraddress {store.tsm_host}"
    main_address = [address, f"TCPPort {store.tsm_port}"]
    main = [*main_address, PROTECTED]
    generate = [*main, "PASSWORDAccess generate", f"NODename {node}"]
    environment = write_options(
        folder,
        {
            "MAIN": main,
            "OPEN": main_address,
            "NOHOST": [PROTECTED],
            "NOBODY": [address, "TCPPort 1"],
            "NONAME": ["TCPServeraddress no.such.host.invalid"],
            "SILENT": [address, PROTECTED],
            "PIPE": [*main, "COMMMethod namedpipe"],
            "WORD": [*main, "nosuchkeyword 1"],
            "VALUE": [*main, "TCPWindowsize many"],
            "TLS": [*main, "SSLACCEPTCERTFROMSERV yes"],
            "QUOTE": [*main, "NODename 'HALF"],
            "OTHERNODE": [*main, "NODename SOMEBODY"],
            "STANZA": [*main, f"NODename {node}", f'PASsword "{password}"'],
            "GENERATE": [*generate, f"PASSWORDDIR {passwords}"],
            "NOFILE": [*generate, f"PASSWORDDIR {folder}"],
            "LIST": [*main, f"INCLExcl {folder / 'list'}"],
            "BADLIST": [*main, f"INCLExcl {folder / 'badlist'}"],
        },
    )
    environment |= {"TSM_NODE": node, "TSM_PASSWORD": password}
    other = store.nodes.get(OTHER_NODE)
    if other is not None:
        assert other.password is not None
        environment |= {"TSM_OTHER_NODE": other.name, "TSM_OTHER_PASSWORD": other.password}
    return environment


def run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]


@pytest.fixture
def environment(tmp_path: Path, own_store: StoreProcess) -> dict[str, str]:
    return settings(tmp_path / "options", own_store)


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[StoreProcess]:
    """Empty, so that the program knows what is in it."""
    with process.start(tmp_path / "store", nodes=[OTHER_NODE]) as running:
        yield running


def test_every_rule_holds(plain: Path, environment: dict[str, str]) -> None:
    run([str(plain)], environment)


@pytest.mark.long  # as test_tsm_trace has them, but without a trace
def test_every_rule_holds_under_the_sanitizers(sanitized: Path, environment: dict[str, str]) -> None:
    run([str(sanitized)], {**environment, "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0"})


@pytest.mark.long
def test_every_rule_holds_under_valgrind(plain: Path, environment: dict[str, str]) -> None:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("needs valgrind")
    leaks = ("--leak-check=full", "--errors-for-leak-kinds=definite")
    run([valgrind, "--quiet", "--error-exitcode=9", *leaks, str(plain)], environment)


@pytest.mark.parametrize("build", ["plain", "sanitized"])
def test_a_store_that_dies_ends_its_sessions_and_leaves_nothing_of_a_transaction(
    build: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    program: Path = request.getfixturevalue(build)
    with process.start(tmp_path / "store") as store:
        environment = settings(tmp_path / "options", store)
        with subprocess.Popen(
            [str(program), "lost"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as running:
            assert running.stdout is not None
            first = running.stdout.readline()
            store.kill()
            output, _ = running.communicate("go on\n", timeout=SECONDS_MAX)
    assert (first, output, running.returncode) == ("ready\n", "", 0)
    with process.start(tmp_path / "store") as store:
        run([str(program), "found"], settings(tmp_path / "options-again", store))
