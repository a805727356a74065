"""Reads S3 settings from AWS's variables and files: endpoint, region, certificate authorities, addressing style.

One idea: botocore decides, as for every AWS tool, and once for both planes. It is called for one source of endpoints at
a time, so that messages can name the source.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import botocore.exceptions
import botocore.session
from botocore.configprovider import ConfiguredEndpointProvider

from archiver.values.errors import UsageError
from backends.base import ADDRESSING_STYLES

_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


@dataclass(frozen=True, slots=True)
class AwsSettings:
    """Settings of S3 clients, without credentials. None and "auto" mean not configured."""

    profile: str | None = None  # named by --profile or AWS_PROFILE
    endpoint: str | None = None
    endpoint_origin: str = ""  # for messages: where the endpoint is configured
    region: str | None = None
    ca_bundle: str | None = None
    addressing: str = "auto"  # path, virtual, auto


def aws_settings(profile: str | None) -> AwsSettings:
    """Return the settings of this profile; None: of the environment's profile, or of the default one.

    Raises UsageError for a profile or a file that cannot be read.
    """
    try:
        session = botocore.session.Session(profile=profile)
        scoped: Mapping[str, Any] = session.get_scoped_config()
        endpoint, origin = _endpoint(session, scoped)
        s3 = scoped.get("s3", {})
        addressing = s3.get("addressing_style", "auto") if isinstance(s3, dict) else "auto"
        if addressing not in ADDRESSING_STYLES:
            raise UsageError(
                f"the AWS settings cannot be used: addressing_style = {addressing} of profile "
                f"{session.profile or 'default'}: choose one of {', '.join(ADDRESSING_STYLES)}"
            )
        return AwsSettings(
            profile=session.profile,
            endpoint=endpoint,
            endpoint_origin=origin,
            region=session.get_config_variable("region") or os.environ.get("AWS_REGION"),
            ca_bundle=session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE"),
            addressing=addressing,
        )
    except botocore.exceptions.BotoCoreError as error:
        raise UsageError(f"the AWS settings cannot be used: {error}; check --profile or AWS_PROFILE") from error


def _endpoint(session: botocore.session.Session, scoped: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the configured endpoint and its source; (None, "") if there is none or the settings say to ignore it."""
    if session.get_config_variable("ignore_configured_endpoint_urls"):
        return None, ""
    for origin, profile, environment in _places(session.profile or "default", scoped):
        url = ConfiguredEndpointProvider(session.full_config, profile, "s3", environment).provide()
        if url:
            return url, origin
    return None, ""


def _places(name: str, scoped: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, str]]]:
    """Yield the sources of endpoints in botocore's order: their names, and the settings in profile and environment."""
    for variable in _ENDPOINT_VARIABLES:
        yield variable, {}, {variable: os.environ.get(variable, "")}
    if "services" in scoped:
        yield f"profile {name} (services section {scoped['services']})", {"services": scoped["services"]}, {}
    yield f"profile {name} (endpoint_url)", {"endpoint_url": scoped.get("endpoint_url")}, {}
