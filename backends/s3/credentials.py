"""Credentials by AWS conventions, kept fresh: environment, profile, SSO, assumed roles, web identities, instances.

One idea: botocore finds and refreshes them. What goes wrong there, whatever library raises it, is one message.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import botocore.exceptions
import botocore.session

from archiver.errors import PlatformError, UsageError
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
        is_renewable = self._can_be_refreshed()
        if is_renewable and self._found.refresh_needed(refresh_in=seconds):
            found = self._load()  # by a new session, whose caches are empty
            with self._translated():
                found.get_frozen_credentials()
            self._found = found
        return CredentialsTerm(self._expiry(), is_renewable)

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

    def _can_be_refreshed(self) -> bool:
        """False for those of the environment, which stays as it is, and for roles that ask for a code (MFA)."""
        if self._found.method == "env":
            return False
        session = botocore.session.Session(profile=self._profile)
        with self._translated():
            profiles = session.full_config.get("profiles", {})
        name, seen = session.profile or "default", set[str]()
        while name not in seen:
            seen.add(name)
            settings = profiles.get(name, {})
            if "mfa_serial" in settings and "role_arn" in settings:
                return False
            name = settings.get("source_profile", name)
        return True

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
