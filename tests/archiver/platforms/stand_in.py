"""A program in MinIO's place for the rig's own tests: it starts at once, answers, and fails as it is told to.

One idea: it is found where the real one would be, so that the rig, the command line and its child processes are the
real ones. Files beside its data tell it what to do: `refuse` to start, or be `stubborn` and not stop.
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
    """Put it into this cache folder, and let everything use that."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    path = PROGRAMS[NAME].path
    path.parent.mkdir(parents=True)
    path.write_text(_SCRIPT)
    path.chmod(0o755)
