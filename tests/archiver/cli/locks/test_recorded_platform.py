"""Test that the options for reaching a recorded platform arrive as one value."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from archiver.cli.locks.recorded_platform import recorded_platform_options
from archiver.platforms.opening import PlatformOptions
from backends.s3 import S3Options
from backends.tsm import TsmOptions

GIVEN = (
    "--profile", "p", "--ca-bundle", "ca.pem", "--insecure", "--addressing", "virtual", "--direct",
    "--connect-timeout", "2s", "--read-timeout", "3s", "--tsm-library", "lib.so", "--tsm-server", "host:1500",
    "--tsm-node", "node", "--tsm-password-file", "password", "--tsm-tls", "--tsm-ca", "authorities",
)  # fmt: skip
S3 = S3Options(
    endpoints=(), profile="p", ca_bundle="ca.pem", insecure=True, addressing="virtual", direct=True,
    connect_timeout_seconds=2.0, read_timeout_seconds=3.0,
)  # fmt: skip
TSM = TsmOptions(
    library="lib.so", server="host:1500", node="node", password_file=Path("password"), encrypted=True,
    ca_file=Path("authorities"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "s3", "tsm"), [(GIVEN, S3, TSM), ((), S3Options(endpoints=()), TsmOptions())], ids=["given", "default"]
)
def test_platform_options_arrive_as_one_value_with_own_parameters(
    words: tuple[str, ...], s3: S3Options, tsm: TsmOptions
) -> None:
    received: list[tuple[str, PlatformOptions]] = []

    @click.command()
    @click.argument("run")
    @recorded_platform_options
    def command(run: str, platform: PlatformOptions) -> None:
        received.append((run, platform))

    assert CliRunner().invoke(command, ["latest", *words]).exit_code == 0
    ((run, platform),) = received
    assert (run, platform.s3, platform.tsm) == ("latest", s3, tsm)
