"""The options that audit and cleanup share: how to reach the platforms that the ledger names."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from archiver.cli.parameters import credential_options, route_options, say_first, timeout_options, tsm_options
from archiver.platforms.opening import PlatformOptions
from backends.s3 import S3Options
from backends.tsm import TsmOptions


def recorded_platform_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which receives their values as one ``platform: PlatformOptions``."""

    @credential_options
    @route_options
    @timeout_options
    @tsm_options
    @wraps(command)
    def with_platform(
        *,
        profile: str | None,
        ca_bundle: str | None,
        insecure: bool,
        addressing: str,
        direct: bool,
        connect_timeout: float,
        read_timeout: float,
        tsm_library: str | None,
        tsm_server: str | None,
        tsm_node: str | None,
        tsm_password_file: Path | None,
        **own: Any,  # the command's other parameters
    ) -> None:
        s3 = S3Options(
            endpoints=(),
            profile=profile,
            ca_bundle=ca_bundle,
            insecure=insecure,
            addressing=addressing,
            direct=direct,
            connect_timeout_seconds=connect_timeout,
            read_timeout_seconds=read_timeout,
        )
        tsm = TsmOptions(library=tsm_library, server=tsm_server, node=tsm_node, password_file=tsm_password_file)
        command(platform=PlatformOptions(s3, tsm, say=say_first), **own)

    return with_platform
