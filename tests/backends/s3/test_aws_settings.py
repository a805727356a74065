"""Endpoint, region, authorities and addressing as botocore resolves them, and where the endpoint is configured."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest

from archiver.values.errors import UsageError
from backends.s3.aws_settings import AwsSettings, aws_settings

CONFIG = """
[default]
endpoint_url = http://default:1

[profile plain]
region = eu-central-1
ca_bundle = /etc/lab.pem
endpoint_url = http://plain:2
s3 =
    addressing_style = virtual

[profile sections]
endpoint_url = http://ignored:3
services = lab

[profile none]
region = eu-west-3

[profile broken]
services = nowhere

[profile ignoring]
endpoint_url = http://ignored:5
ignore_configured_endpoint_urls = true

[services lab]
s3 =
    endpoint_url = http://sections:4
"""


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text(CONFIG)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


@pytest.mark.parametrize(
    ("profile", "environment", "endpoint", "origin"),
    [
        (None, {}, "http://default:1", "profile default (endpoint_url)"),
        ("plain", {}, "http://plain:2", "profile plain (endpoint_url)"),
        (None, {"AWS_PROFILE": "plain"}, "http://plain:2", "profile plain (endpoint_url)"),
        ("sections", {}, "http://sections:4", "profile sections (services section lab)"),
        ("sections", {"AWS_ENDPOINT_URL": "http://env:6"}, "http://env:6", "AWS_ENDPOINT_URL"),
        (
            "sections",
            {"AWS_ENDPOINT_URL": "http://env:6", "AWS_ENDPOINT_URL_S3": "http://s3:7"},
            "http://s3:7",
            "AWS_ENDPOINT_URL_S3",
        ),
        ("none", {}, None, ""),
        ("ignoring", {}, None, ""),
        ("plain", {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true", "AWS_ENDPOINT_URL": "http://env:6"}, None, ""),
    ],
)
def test_endpoint_is_the_one_that_botocore_uses(
    monkeypatch: pytest.MonkeyPatch, profile: str | None, environment: dict[str, str], endpoint: str | None, origin: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = aws_settings(profile)
    assert (found.endpoint, found.endpoint_origin) == (endpoint, origin)
    client = boto3.session.Session(profile_name=profile).client("s3", region_name="eu-west-3")
    assert client.meta.endpoint_url == (endpoint or "https://s3.eu-west-3.amazonaws.com")


def test_region_authorities_and_addressing_come_from_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    found = aws_settings("plain")
    assert (found.region, found.ca_bundle, found.addressing) == ("eu-central-1", "/etc/lab.pem", "virtual")
    assert aws_settings("none").addressing == "auto"
    monkeypatch.setenv("AWS_CA_BUNDLE", "/etc/other.pem")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    found = aws_settings("plain")
    assert (found.region, found.ca_bundle) == ("us-west-2", "/etc/other.pem")


def test_missing_configuration_gives_empty_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "absent"))
    assert aws_settings(None) == AwsSettings()


@pytest.mark.parametrize(("profile", "words"), [("absent", "absent"), ("broken", "nowhere")])
def test_settings_that_cannot_be_used_are_a_usage_error(profile: str, words: str) -> None:
    with pytest.raises(UsageError, match=rf"the AWS settings cannot be used: .*{words}.*; check --profile"):
        aws_settings(profile)
