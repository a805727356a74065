"""Test that a client without free local ports is named as the limit, in a network namespace of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Only 60 local ports are free. A port that a session used is not free again for a minute.
IN_A_NAMESPACE = """
import fcntl, resource, socket, struct, subprocess, sys
first, last, left = 40000, 42999, 60
with socket.socket() as any_socket:  # SIOCSIFFLAGS: IFF_UP
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh22x", b"lo", 1))
for name, value in (("ip_local_port_range", f"{first} {last}"), ("tcp_tw_reuse", "0")):
    with open(f"/proc/sys/net/ipv4/{name}", "w") as setting:
        setting.write(value)
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = [socket.socket() for _ in range(first, last + 1 - left)]
for port, each in enumerate(held, first):
    each.bind(("127.0.0.1", port))
sys.exit(subprocess.run([sys.executable, "-m", "archiver", *sys.argv[1:]]).returncode)
"""
SCENARIO = """
name = "hasty"
title = "A session per object"

[[criterion]]
that = "errors == 0"

[[phase]]
name = "write"
[[phase.workload]]
name = "writer"
operation = "archive"
data = "all"
sizes = "1KiB"
clients = 2
objects = 3000
"""


def is_allowed() -> bool:
    try:
        return not subprocess.run(["unshare", "--user", "--map-root-user", "--net", "true"], check=False).returncode
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not is_allowed(), reason="this user may make no network namespace")
def test_run_without_local_ports_is_void_and_limited_by_client(tmp_path: Path) -> None:
    scenario = tmp_path / "hasty.toml"
    scenario.write_text(SCENARIO)
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", sys.executable, "-c", IN_A_NAMESPACE,
         "run", str(scenario), "--platform", "embedded", "--connect-timeout", "1m", "--json"],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "write: up to 3,000 sessions within 60 s to one address" in done.stderr
    document = json.loads(done.stdout)
    (result,) = document["results"]
    assert {each["reason"] for each in result["first_errors"]} == {"no local port free"}
    assert result["limited_by"] == "client"
    assert document["verdict"] == "void"
    (doubt,) = [each for each in document["doubts"] if "limited by the client" in each]
    assert "no local port free" in doubt
    assert "tcp_tw_reuse" in doubt
