"""A Ceph cluster of one monitor, one OSD and one RGW gateway on loopback, as one process tree.

One idea: the cluster lives and ends with this process. SIGTERM stops the gateway, then the OSD, then the monitor. If a
daemon ends by itself, this process stops the others and fails. If this process is killed, the kernel kills the daemons.

Run it as ``python -m archiver.platforms.ceph TREE FOLDER PORT [--tls]``, where TREE has the unpacked packages; two
variables have the credentials. BlueStore is in a sparse file of half the free space. There is no manager daemon: it
gathers statistics and balances data, which is not needed here.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACCESS_KEY, SECRET_KEY = "ARCHIVER_CEPH_ACCESS_KEY", "ARCHIVER_CEPH_SECRET_KEY"
USER = "archiver"
_STOP_SECONDS_MAX = 6.0  # maximum for each daemon
_LOOK_SECONDS = 0.1
_BLOCK_BYTES = 65536
_CONFIGURATION = "ceph.conf"
# After a kill, a client first connects to the previous OSD, and the OSD still has the previous gateway as a client.
# With the defaults the client requests another OSD after 10 s, and a change waits 30 s for the gateway to drop its
# cached copy.
_SOON_AFTER_A_KILL = (
    "--objecter-timeout", "1", "--objecter-tick-interval", "0.5", "--rgw-cache-enabled", "false",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CephCluster:
    """A cluster's programs, its folder, and the port and TLS of its gateway."""

    tree: Path
    folder: Path
    port: int
    tls: bool

    @property
    def libraries(self) -> Path:
        """Return the folder of shared libraries, whose name has the machine's architecture."""
        (folder,) = (self.tree / "usr" / "lib").glob("*-linux-gnu")
        return folder

    def environment(self) -> dict[str, str]:
        """Return the environment in which the programs find their libraries."""
        folders = (self.libraries, self.libraries / "ceph", self.tree / "lib" / self.libraries.name)
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, folders))}

    def run(self, program: str, *arguments: str) -> None:
        """Run a program to its end. Raises CalledProcessError."""
        subprocess.run(
            self._command(program, *arguments),
            cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL, check=True,
        )  # fmt: skip

    @contextmanager
    def started(self, lock: int, program: str, *arguments: str, text: str = "") -> Iterator[subprocess.Popen[bytes]]:
        """Run a program with ``text`` as its input, for the length of the block or until this process ends.

        ``lock`` is the descriptor of a locked file, which stays locked until the program has ended.
        """
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *self._command(program, *arguments)],
            cwd=self.folder, env=self.environment(), stdin=subprocess.PIPE, pass_fds=[lock],
        )  # fmt: skip
        try:
            assert process.stdin is not None
            with process.stdin as entry:
                entry.write(text.encode())
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [str(self.tree / "usr" / "bin" / program), "--conf", _CONFIGURATION, *arguments]


def serve(cluster: CephCluster, access_key: str, secret_key: str) -> None:
    """Run the cluster until a daemon ends. Raises CalledProcessError if it cannot be started."""
    data = cluster.folder / "data"
    with (data / "lock").open("wb") as locked:
        lock = locked.fileno()
        fcntl.flock(lock, fcntl.LOCK_EX)  # daemons of a process that was killed may still be ending
        _prepare(cluster, data)
        with (
            cluster.started(lock, "ceph-mon", "--foreground", "--id", "a"),
            cluster.started(lock, "ceph-osd", "--foreground", "--id", "0"),
        ):
            user = json.dumps({"data": _user(access_key, secret_key)})
            # It waits for the monitor and the OSD.
            put = ("radosgw-admin", *_SOON_AFTER_A_KILL, "metadata", "put", f"user:{USER}")
            with cluster.started(lock, *put, text=user) as admin:
                if _wait_for_any() != admin.pid:
                    return
                if admin.wait():
                    raise subprocess.CalledProcessError(admin.returncode, put)
            with cluster.started(lock, "radosgw", "--foreground", "--name", "client.rgw"):
                _wait_for_any()


def _wait_for_any() -> int:
    """Wait until a started program has ended, and return its process id.

    It polls, because a signal that comes just before an unbounded wait would be handled only after that wait.
    """
    while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)) is None:
        time.sleep(_LOOK_SECONDS)
    return ended.si_pid


def _user(access_key: str, secret_key: str) -> dict[str, Any]:
    """Return a user with only these keys, who may create users and any number of buckets."""
    return {
        "user_id": USER,
        "display_name": USER,
        "keys": [{"user": USER, "access_key": access_key, "secret_key": secret_key}],
        "caps": [{"type": "users", "perm": "*"}],
        "op_mask": "read, write, delete",
        "max_buckets": 0,  # no limit
    }


def _prepare(cluster: CephCluster, data: Path) -> None:
    """Write the configuration, with a new port of the monitor; at the first start, create the cluster."""
    identity = data / "fsid"
    is_new = not identity.exists()
    fsid = str(uuid.uuid4()) if is_new else identity.read_text()
    monitor = f"[v2:127.0.0.1:{_free_port()}]"
    (cluster.folder / _CONFIGURATION).write_text(_configuration(cluster, fsid, monitor))
    cluster.run("monmaptool", "--create", "--clobber", "--fsid", fsid, "--addv", "a", monitor, "data/monmap")
    if not is_new:
        cluster.run("ceph-mon", "--id", "a", "--inject-monmap", "data/monmap")
        return
    for daemon in ("mon", "osd"):
        shutil.rmtree(data / daemon, ignore_errors=True)  # a first start may have been interrupted
        (data / daemon).mkdir()
    cluster.run("osdmaptool", "--createsimple", "1", "--clobber", "data/osdmap")
    cluster.run("ceph-mon", "--id", "a", "--mkfs", "--monmap", "data/monmap", "--osdmap", "data/osdmap")
    cluster.run("ceph-osd", "--id", "0", "--mkfs", "--no-mon-config", "--osd-uuid", str(uuid.uuid4()))
    identity.write_text(fsid)


def _configuration(cluster: CephCluster, fsid: str, monitor: str) -> str:
    """Return the configuration of all daemons; relative paths are below the cluster's folder."""
    free_bytes = shutil.disk_usage(cluster.folder).free
    endpoint = f"{'ssl_endpoint' if cluster.tls else 'endpoint'}=127.0.0.1:{cluster.port}"
    certificate = " ssl_certificate=certificates/public.crt ssl_private_key=certificates/private.key"
    options = {
        "fsid": fsid,
        "mon host": monitor,
        "public addr": "127.0.0.1",
        "cluster addr": "127.0.0.1",
        "ms bind msgr1": "false",
        # No key rings, and no encryption between the daemons on loopback.
        **{f"auth {side} required": "none" for side in ("cluster", "service", "client")},
        **{f"ms {each} mode": "crc" for each in ("cluster", "service", "client")},
        **{f"ms mon {each} mode": "crc" for each in ("cluster", "service", "client")},
        "plugin dir": cluster.libraries / "ceph",
        "erasure code dir": cluster.libraries / "ceph" / "erasure-code",
        "osd class dir": cluster.libraries / "rados-classes",
        "mon data": "data/mon",
        "osd data": "data/osd",
        "crash dir": "data",
        "admin socket": "",
        "log file": "$name.log",
        "log to stderr": "false",
        "err to stderr": "true",  # errors are also in the server's log, which messages quote
        "mon cluster log to file": "false",
        **{f"debug {part}": "0" for part in ("mon", "osd", "rgw", "rocksdb", "bluestore", "bluefs", "bdev")},
        "paxos propose interval": "0.05",  # seconds until a new pool can be used
        "bluestore block size": free_bytes // 2 // _BLOCK_BYTES * _BLOCK_BYTES,
        "bluestore fsck on mkfs": "false",
        "mon allow pool size one": "true",
        "osd client watch timeout": "10",  # seconds that changes wait for a gateway that was killed; default: 30
        "osd crush chooseleaf type": "0",
        "osd pool default size": "1",
        "osd pool default min size": "1",
        "osd pool default pg num": "8",
        "osd pool default pg autoscale mode": "off",
        "rgw frontends": f"beast {endpoint}{certificate if cluster.tls else ''}",
    }
    return "[global]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the daemons are being stopped
    raise SystemExit(0)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="archiver.platforms.ceph")
    parser.add_argument("tree", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("--tls", action="store_true")
    cluster = CephCluster(**vars(parser.parse_args(arguments)))
    access_key, secret_key = os.environ.pop(ACCESS_KEY), os.environ.pop(SECRET_KEY)
    signal.signal(signal.SIGTERM, _end)
    try:
        serve(cluster, access_key, secret_key)
    except subprocess.CalledProcessError as failed:
        raise SystemExit(f"{Path(failed.cmd[0]).name} failed; the lines above say why") from failed
    raise SystemExit("a daemon of Ceph ended by itself; the lines above say why")


if __name__ == "__main__":
    main(sys.argv[1:])
