"""Option files of the client library: the user's, or private ones for one command.

A stanza of the user's dsm.sys is used unchanged. For HOST:PORT, a dsm.opt and a dsm.sys are written to a temporary
folder, so that trying a server does not require root. Neither file contains a password.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from archiver.values.errors import UsageError

PASSWORD_LENGTH_MAX = 64
_STANZA = "ARCHIVER"
_ADDRESS = re.compile(r"(?:\[(?P<bracketed>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]]+)):(?P<port>\d{1,5})")
_STANZA_NAME = re.compile(r"[^\s:]{1,64}")


def parse_server(server: str) -> tuple[str, int] | None:
    """Return host and port of HOST:PORT, None for the name of a stanza. Raises UsageError for anything else."""
    address = _ADDRESS.fullmatch(server)
    if address is not None and 0 < int(address["port"]) < 65_536:
        return address["bracketed"] or address["host"], int(address["port"])
    if _STANZA_NAME.fullmatch(server) is None:
        raise UsageError(
            f"--tsm-server {server}: neither HOST:PORT, like archive.example:1500, nor the name of a stanza in dsm.sys"
        )
    return None


@contextmanager
def private_configuration(host: str, port: int) -> Iterator[Path]:
    """Make a folder with the option files for one server; delete it when the block ends."""
    with TemporaryDirectory(prefix="archiver-tsm-") as name:
        folder = Path(name)
        (folder / "dsm.opt").write_text(f"SErvername {_STANZA}\n")
        (folder / "dsm.sys").write_text(
            f"SErvername {_STANZA}\n"
            "  COMMMethod TCPip\n"
            f"  TCPServeraddress {host}\n"
            f"  TCPPort {port}\n"
            "  PASSWORDAccess prompt\n"
            "  ENABLEARCHIVERETENTIONPROTECTION YES\n"
        )
        yield folder


def session_options(server: str | None) -> str:
    """Return the options string of a session that uses the user's option files."""
    stanza = f"-SErvername={server} " if server is not None else ""
    # A protected server refuses clients without this option; other servers ignore it.
    return f"{stanza}-ENABLEARCHIVERETENTIONPROTECTION=yes"


def read_password(path: Path, option: str = "--tsm-password-file") -> str:
    """Return the first line of a file that only its owner can read. Raises UsageError, which names ``option``."""
    try:
        mode = path.stat().st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UsageError(f"{option} {path}: other users can read it; use chmod 600 {path}")
        password = path.read_text().partition("\n")[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option} {path}: cannot be read: {error}") from error
    if not 0 < len(password.encode()) <= PASSWORD_LENGTH_MAX:
        raise UsageError(
            f"{option} {path}: its first line must be the password, of at most {PASSWORD_LENGTH_MAX} bytes"
        )
    return password
