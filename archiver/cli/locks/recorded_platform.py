"""The options that audit and cleanup share: how to reach the platforms that the ledger names."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from archiver.cli.parameters import (
    credential_options,
    part_of,
    route_options,
    say_first,
    timeout_options,
    tsm_options,
)
from archiver.platforms.opening import PlatformOptions
from backends.s3 import S3Options, S3Request
from backends.tsm import TsmOptions, TsmRequest


def recorded_platform_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which receives their values as one ``platform: PlatformOptions``."""

    @credential_options
    @route_options
    @timeout_options
    @tsm_options
    @wraps(command)
    def with_platform(**given: Any) -> None:
        s3, tsm = part_of(S3Request, given), part_of(TsmRequest, given)
        own = {name: value for name, value in given.items() if name not in s3 and name not in tsm}
        platform = PlatformOptions(S3Options(endpoints=(), **s3), TsmOptions(**tsm), say=say_first)
        command(platform=platform, **own)

    return with_platform
