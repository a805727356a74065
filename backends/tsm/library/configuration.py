"""Option files of the client library: the user's, or private ones for one command.

A stanza of the user's dsm.sys is used unchanged. For HOST:PORT, a dsm.opt and a dsm.sys are written to a temporary
folder, so that trying a server does not require root. Neither file contains a password. An installed client has more in
the folder of its option files, such as the message catalogue and a helper program; the temporary folder links all that.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from archiver.values.errors import UsageError

PASSWORD_LENGTH_MAX = 64
ERROR_LOG = "dsierror.log"
_STANZA = "ARCHIVER"
_OPTION_FILES = ("dsm.opt", "dsm.sys")
_ADDRESS = re.compile(r"(?:\[(?P<bracketed>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]]+)):(?P<port>\d{1,5})")
_SERVER_NAME = re.compile("(?i)se(r(v(e(r(n(a(m(e)?)?)?)?)?)?)?)?")
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
def private_configuration(
    host: str, port: int, *, encrypted: bool = False, ca_file: Path | None = None, client_folder: Path | None = None
) -> Iterator[Path]:
    """Make a folder with the option files for one server; delete it when the block ends.

    ``client_folder``: DSMI_DIR of an installed client, whose other files are needed. ``ca_file`` is an option of our
    own library.
    """
    security = ["SSL yes"] if encrypted else []
    if ca_file is not None:
        security.append(f"SSLCAFILE {ca_file.absolute()}")
    with TemporaryDirectory(prefix="archiver-tsm-") as name:
        folder = Path(name)
        for entry in client_folder.iterdir() if client_folder is not None else ():
            if entry.name not in (*_OPTION_FILES, ERROR_LOG):
                (folder / entry.name).symlink_to(entry.absolute())
        (folder / "dsm.opt").write_text(f"SErvername {_STANZA}\n")
        (folder / "dsm.sys").write_text(
            f"SErvername {_STANZA}\n"
            f"  COMMMethod {'V6Tcpip' if ':' in host else 'TCPip'}\n"
            f"  TCPServeraddress {host}\n"
            f"  TCPPort {port}\n"
            "  PASSWORDAccess prompt\n"
            "  ENABLEARCHIVERETENTIONPROTECTION YES\n" + "".join(f"  {line}\n" for line in security)
        )
        yield folder


def client_folder(library: str | None) -> Path | None:
    """Return the folder with the other files of an installed client: DSMI_DIR, else that of its library.

    None for our own library, which needs none.
    """
    if library is None:
        return None
    named = os.environ.get("DSMI_DIR")
    folder = Path(named) if named else Path(library).resolve().parent
    return folder if folder.is_dir() else None


def stanza_encrypts(folder: Path, stanza: str) -> bool | None:
    """Return whether SSL in a stanza of dsm.sys asks for encrypted data; None if the file or the stanza is not there.

    Since level 8.1.2 the sign-on is always encrypted, and SSL decides about the data ("Ssl", client manual 8.2.2).
    """
    try:
        lines = (folder / "dsm.sys").read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError:
        return None
    found, is_within = None, False
    for keyword, *values in (line.split() for line in lines if line.strip() and not line.lstrip().startswith("*")):
        if _SERVER_NAME.fullmatch(keyword) is not None or keyword.lower().startswith("replservern"):
            is_within = (
                found is None and keyword[0] in "sS" and values[:1] != [] and values[0].lower() == stanza.lower()
            )
            found = False if is_within else found
        elif is_within and keyword.lower() == "ssl":
            found = values[:1] != [] and values[0].lower() == "yes"
    return found


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
