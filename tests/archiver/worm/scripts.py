"""Runs generated scripts in a process that cannot import Archiver."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from backends.s3.control import Credentials

SEEN, NOT_SEEN, CANNOT_TELL = 1, 0, 125


def run_script(text: str, folder: Path, endpoint: str, credentials: Credentials, **variables: str) -> tuple[int, str]:
    """Run a script and return its exit status and output. ``variables`` are added to its environment."""
    script = folder / "script.py"
    script.write_text(text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON"))}
    environment |= {"AWS_ENDPOINT_URL": endpoint, "AWS_CONFIG_FILE": str(folder / "config")}
    environment |= {"AWS_ACCESS_KEY_ID": credentials.access_key, "AWS_SECRET_ACCESS_KEY": credentials.secret_key}
    done = subprocess.run(
        [sys.executable, "-I", str(script)],
        env=environment | variables, cwd=folder, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def write_profiles(folder: Path, profiles: Mapping[str, Credentials]) -> None:
    """Write the configuration file that ``run_script`` names, with these profiles."""
    text = ""
    for name, each in profiles.items():
        text += f"[profile {name}]\naws_access_key_id = {each.access_key}\naws_secret_access_key = {each.secret_key}\n"
        text += f"aws_session_token = {each.session_token}\n" if each.session_token else ""
    (folder / "config").write_text(text)
