"""A stand-in for MinIO in tests: it starts quickly, answers, and fails on request.

It is installed where the real program would be, so servers, command line and child processes are real. Files next to
its data control it: `refuse` makes it refuse to start, and `stubborn` makes it ignore SIGTERM.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from archiver.platforms.programs import PROGRAMS

NAME = "minio"

_SCRIPT = f"""#!{sys.executable}
import http.server, os, pathlib, signal, sys

folder = pathlib.Path(sys.argv[2]).parent
port = int(sys.argv[sys.argv.index("--address") + 1].rpartition(":")[2])
if (folder / "refuse").exists():
    sys.exit("the drive is full")
if (folder / "stubborn").exists():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["MINIO_ROOT_PASSWORD"].encode())


http.server.HTTPServer(("127.0.0.1", port), Answer).serve_forever()
"""


def install_stand_in(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the stand-in in this cache folder and make every command use that folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    path = PROGRAMS[NAME].path
    path.parent.mkdir(parents=True)
    path.write_text(_SCRIPT)
    path.chmod(0o755)
