"""Credentials by AWS conventions, kept fresh: environment, profile, SSO, assumed roles, web identities, instances.

One idea: botocore finds and refreshes them. What goes wrong there, whatever library raises it, is one message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import botocore.credentials
import botocore.exceptions
import botocore.session
from botocore.utils import SSOTokenLoader

from archiver.values.errors import PlatformError, UsageError
from backends.base import CredentialsTerm
from backends.s3.control import Credentials

# What a file or an option has to say otherwise.
_WRONG_SETTINGS = (
    botocore.exceptions.ProfileNotFound,
    botocore.exceptions.ConfigNotFound,
    botocore.exceptions.ConfigParseError,
    botocore.exceptions.PartialCredentialsError,
    botocore.exceptions.InvalidConfigError,
    botocore.exceptions.UnknownCredentialError,
    botocore.exceptions.MissingDependencyException,
)
# What services, files and programs come to that give out credentials.
_NOT_TO_BE_HAD = (
    botocore.exceptions.BotoCoreError,
    botocore.exceptions.ClientError,
    OSError,  # a file with a token that cannot be read
    RuntimeError,  # what was refreshed had expired
    ValueError,  # no JSON
    KeyError,  # a field is missing
)


class FoundCredentials:
    """Credentials of one profile, or of the environment; refreshed where botocore can."""

    def __init__(self, profile: str | None) -> None:
        """Raises UsageError where there are none, PlatformError where they cannot be had."""
        self._profile = profile
        self._found = self._load()
        self.current()  # roles are assumed and tokens exchanged only when a key is asked for

    def __repr__(self) -> str:
        return f"FoundCredentials({self._profile})"

    def current(self) -> Credentials:
        """Return the credentials to use now; about to expire, they are refreshed first. Raises PlatformError."""
        with self._translated():
            frozen = self._found.get_frozen_credentials()
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)

    def refresh(self, seconds: float) -> CredentialsTerm:
        """Get new ones where these end within so many seconds and there can be new ones. Raises PlatformError."""
        if self._expiry() is None:
            return CredentialsTerm()
        profiles = self._profiles()
        can_be_refreshed = self._found.method != "env" and not any(map(_asks_for_a_code, profiles))
        if can_be_refreshed and self._found.refresh_needed(refresh_in=seconds):
            found = self._load()  # by a new session, whose caches are empty
            with self._translated():
                found.get_frozen_credentials()
            self._found = found
        with self._translated():
            signed_in_until = [end for each in profiles if (end := _sign_in_ends_at(each)) is not None]
        expiry = self._expiry() or 0.0
        return CredentialsTerm(expiry, can_be_refreshed and all(end > expiry for end in signed_in_until))

    def _load(self) -> Any:
        with self._translated():
            found = botocore.session.Session(profile=self._profile).get_credentials()
        if found is None:
            raise UsageError(
                "no S3 credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile with --profile"
            )
        return found

    def _expiry(self) -> float | None:
        # botocore tells in no other way when credentials end.
        expiry: datetime | None = getattr(self._found, "_expiry_time", None)
        return expiry.timestamp() if expiry is not None else None

    def _profiles(self) -> list[Mapping[str, Any]]:
        """What the configuration says of the profile, and of those that it takes its credentials from."""
        session = botocore.session.Session(profile=self._profile)
        with self._translated():
            known = session.full_config.get("profiles", {})
        name, found = session.profile or "default", dict[str, Mapping[str, Any]]()
        while name not in found:
            found[name] = known.get(name, {})
            name = found[name].get("source_profile", name)
        return list(found.values())

    @contextmanager
    def _translated(self) -> Iterator[None]:
        whose = f"profile {self._profile}" if self._profile else "AWS_PROFILE or the environment"
        try:
            yield
        except _WRONG_SETTINGS as error:
            raise UsageError(f"no S3 credentials: {error}; check --profile or AWS_PROFILE") from error
        except _NOT_TO_BE_HAD as error:
            is_sign_in = isinstance(error, botocore.exceptions.SSOError | botocore.exceptions.TokenRetrievalError)
            remedy = "sign in again: aws sso login" if is_sign_in else "correct the profile, or name another"
            words = " ".join(str(error).split())  # a program's may have several lines
            raise PlatformError(f"no S3 credentials ({whose}): {words}; {remedy}") from error


def _asks_for_a_code(profile: Mapping[str, Any]) -> bool:
    """A role of which botocore gets credentials once, with a code from a device (MFA)."""
    return "mfa_serial" in profile and "role_arn" in profile


def _sign_in_ends_at(profile: Mapping[str, Any]) -> float | None:
    """When a sign-in (SSO) ends that only the user can renew, in epoch seconds; None where the profile has none."""
    if "sso_start_url" not in profile or "sso_session" in profile:
        return None
    cache = botocore.credentials.JSONFileCache(str(Path("~/.aws/sso/cache").expanduser()))
    token = SSOTokenLoader(cache)(profile["sso_start_url"])
    return datetime.fromisoformat(token["expiresAt"].replace("UTC", "Z")).timestamp()
