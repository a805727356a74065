"""Runs the C program, and writes the option files with which it signs on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from backends.embedded.process import StoreProcess

SECONDS_MAX = 300  # under valgrind; reached only if the program hangs


OTHER_NODE = "OTHER"


PROTECTED = "ENABLEARCHIVERETENTIONPROTECTION yes"


def write_options(folder: Path, stanzas: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Write dsm.sys with these stanzas and dsm.opt with the name of the first. Returns the environment for both."""
    lines: list[str] = []
    for name, options in stanzas.items():
        lines += [f"SErvername {name}", *(f"   {option}" for option in options)]
    (folder / "dsm.sys").write_text("\n".join(lines) + "\n")
    (folder / "dsm.opt").write_text(f"* the server\nservername {next(iter(stanzas))}\n")
    return {**os.environ, "DSMI_DIR": str(folder), "DSMI_CONFIG": str(folder / "dsm.opt"), "DSMI_LOG": str(folder)}


def settings(folder: Path, store: StoreProcess) -> dict[str, str]:
    """Write every stanza that the program uses, and the files they name. Returns the environment."""
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
        "exclude.archive /program/.../*.tmp\n"
        'include "/program/.../keep.*"\n'
    )
    (folder / "badlist").write_text("schedmode prompted\n")
    (folder / "api.opt").write_text("SErvername WORD\n")
    address = f"TCPServeraddress {store.tsm_host}"
    server_options = [address, f"TCPPort {store.tsm_port}"]
    main = [*server_options, PROTECTED]
    generate = [*main, "PASSWORDAccess generate", f"NODename {node}"]
    environment = write_options(
        folder,
        {
            "MAIN": main,
            "OPEN": server_options,
            "NOBODY": [address, "TCPPort 1"],
            "NONAME": ["TCPServeraddress no.such.host.invalid"],
            "SILENT": [address, PROTECTED],
            "PIPE": [*main, "COMMMethod namedpipe"],
            "WORD": [*main, "nosuchkeyword 1"],
            "VALUE": [*main, "TCPWindowsize many"],
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
