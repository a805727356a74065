"""The expected verdicts of the S3 checks on each platform. A changed verdict fails a test.

One file per platform in expected/ lists every check that does not pass, and the severity of each failure. Write the
files again after a change of checks or of a platform's version:

    python -m tests.archiver.worm.expected_verdicts [NAME...]

A race can end in several ways, so its new verdicts are added to the earlier ones. On a busy machine requests can be
too late for a check. A check with a changed verdict is therefore run a second time, and the second verdict counts.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from archiver.platforms.programs import PROGRAMS
from archiver.worm import checks
from archiver.worm.case import MakeBucket, starter
from archiver.worm.catalogue import catalogue
from archiver.worm.requests.exchange import S3Client
from archiver.worm.requests.limited import Limited, limited_clients
from archiver.worm.suite import Suite
from archiver.worm.verdict import CheckVerdict
from backends.s3.control import Credentials
from tests.support.servers import real

PLATFORMS = (*real.STORES, "moto")
ALL = tuple(each for each in catalogue() if not each.startswith("TSM-"))
_RACE = "RAC-"
_LONG = {"BAT-03", "LH-10", "VER-04", "VER-05"}  # checks with a thousand objects or more
QUICK = tuple(each for each in ALL if not each.startswith(_RACE) and each not in _LONG)
_OR = " or "

Verdicts = Mapping[str, str]  # check -> verdict, with the severity of a failure


def found(names: Sequence[str], ids: Sequence[str]) -> dict[str, Verdicts]:
    """Return the verdicts of the checks on each platform. All platforms are checked concurrently."""
    with ProcessPoolExecutor(len(names), get_context("spawn")) as processes:
        return dict(zip(names, processes.map(_found, names, [ids] * len(names)), strict=True))


class CheckedServer(NamedTuple):
    """A real platform, and the suite of S3 checks on it."""

    client: S3Client
    limited: Limited
    make_bucket: MakeBucket
    suite: Suite


@contextmanager
def checked_platform(name: str, folder: Path) -> Iterator[CheckedServer]:
    """Run the server of a platform for the block, and the suite of checks on it."""
    checks.load()
    with real.real_server(name, folder) as server:
        access = Credentials(server.access.access_key, server.access.secret_key, None)
        client = S3Client(server.endpoint, "us-east-1", access, [])
        with limited_clients(name, client) as limited:

            def make_bucket(client: S3Client, lock: bool) -> str:
                bucket = f"bucket-{secrets.token_hex(8)}"
                client.send("PUT", bucket, headers=[("x-amz-bucket-object-lock-enabled", "true")] if lock else [])
                limited.open_bucket(bucket)
                return bucket

            suite = Suite(starter(client, make_bucket(client, True), True, limited.clients, make_bucket, 0.0))
            yield CheckedServer(client, limited, make_bucket, suite)


def _found(name: str, ids: Sequence[str]) -> Verdicts:
    with tempfile.TemporaryDirectory() as folder, checked_platform(name, Path(folder)) as platform:
        return {result.id: result.graded_verdict for result in platform.suite.run(ids, lambda result: None)}


def expected(name: str) -> Mapping[str, Sequence[str]]:
    """Return check -> its allowed verdicts on this platform. Without a file, no verdict is allowed."""
    path = _path(name)
    if not path.exists():
        return {}
    declared = tomllib.loads(path.read_text())["verdicts"]
    unknown = declared.keys() - set(ALL)
    assert not unknown, f"{path} has verdicts of checks that do not exist: {sorted(unknown)}"
    return {each: declared.get(each, CheckVerdict.PASS.value).split(_OR) for each in ALL}


def declared_version(name: str) -> str:
    """Return the version of the platform for which its file was written."""
    version: str = tomllib.loads(_path(name).read_text())["version"]
    return version


def changed(name: str, verdicts: Verdicts) -> dict[str, str]:
    """Return the verdicts that are not expected on this platform."""
    allowed = expected(name)
    return {each: verdict for each, verdict in verdicts.items() if verdict not in allowed.get(each, ())}


def write(name: str, verdicts: Verdicts) -> None:
    """Write a platform's file. The verdicts of a race are added to those in the file."""
    before = expected(name)
    allowed = {
        each: sorted({verdict, *(before.get(each, ()) if each.startswith(_RACE) else ())})
        for each, verdict in verdicts.items()
    }
    lines = [
        f"# Checks that do not pass on {name}. Written by python -m tests.archiver.worm.expected_verdicts",
        f'version = "{PROGRAMS[name].version}"',
        "",
        "[verdicts]",
        *(
            f'{each} = "{_OR.join(several)}"'
            for each, several in allowed.items()
            if several != [CheckVerdict.PASS.value]
        ),
    ]
    _path(name).parent.mkdir(exist_ok=True)
    _path(name).write_text("\n".join(lines) + "\n")


def _path(name: str) -> Path:
    return Path(__file__).parent / "expected" / f"{name}.toml"


if __name__ == "__main__":
    for platform, verdicts in found(sys.argv[1:] or PLATFORMS, ALL).items():
        write(platform, {**verdicts, **found([platform], list(changed(platform, verdicts)))[platform]})
