"""Credentials by AWS conventions, renewed in time: environment, profile, SSO, assumed roles, web identities, instances.

One idea: botocore finds and renews them. Its failures, whichever library raises them, become one message.
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
from backends.s3.botocore_session import sign_in_python
from backends.s3.control import Credentials

# Places of AWS credentials for which the message names another remedy.
_WRONG_SETTINGS = (
    botocore.exceptions.ProfileNotFound,
    botocore.exceptions.ConfigNotFound,
    botocore.exceptions.ConfigParseError,
    botocore.exceptions.PartialCredentialsError,
    botocore.exceptions.InvalidConfigError,
    botocore.exceptions.UnknownCredentialError,
    botocore.exceptions.MissingDependencyException,
)
# Exceptions of the services, files and programs that issue credentials.
_NOT_TO_BE_HAD = (
    botocore.exceptions.BotoCoreError,
    botocore.exceptions.ClientError,
    OSError,  # an unreadable token file
    RuntimeError,  # the renewed credentials had expired
    ValueError,  # not JSON
    KeyError,  # a field is missing
)


class FoundCredentials:
    """Credentials of one profile or of the environment; botocore renews them if it can."""

    def __init__(self, profile: str | None) -> None:
        """Raises UsageError if there are none, PlatformError if they cannot be obtained."""
        self._profile = profile
        self._found = self._load()
        self.current()  # roles are assumed and tokens exchanged on the first use

    def __repr__(self) -> str:
        return f"FoundCredentials({self._profile})"

    def current(self) -> Credentials:
        """Return the credentials to use now; renew them if they are about to expire. Raises PlatformError."""
        with self._translated():
            frozen = self._found.get_frozen_credentials()
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)

    def refresh(self, seconds: float) -> CredentialsTerm:
        """Renew credentials that end within ``seconds``, if possible. Raises PlatformError."""
        if self._expiry() is None:
            return CredentialsTerm()
        profiles = self._profiles()
        can_be_refreshed = self._found.method != "env" and not any(map(_asks_for_a_code, profiles))
        if can_be_refreshed and self._found.refresh_needed(refresh_in=seconds):
            found = self._load()  # with a new session, whose caches are empty
            with self._translated():
                found.get_frozen_credentials()
            self._found = found
        with self._translated():
            signed_in_until = [end for each in profiles if (end := _sign_in_ends_at(each)) is not None]
        expiry = self._expiry() or 0.0
        return CredentialsTerm(expiry, can_be_refreshed and all(end > expiry for end in signed_in_until))

    def _load(self) -> Any:
        sign_in_python()  # requests for a role's credentials
        with self._translated():
            found = botocore.session.Session(profile=self._profile).get_credentials()
        if found is None:
            if self._profile is not None:
                raise UsageError(
                    f"no S3 credentials: profile {self._profile} has none; add keys, a role or a sign-in to it, or "
                    "name another with --profile"
                )
            raise UsageError(
                "no S3 credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile with --profile"
            )
        return found

    def _expiry(self) -> float | None:
        # botocore has no other way to get the end of credentials.
        expiry: datetime | None = getattr(self._found, "_expiry_time", None)
        return expiry.timestamp() if expiry is not None else None

    def _profiles(self) -> list[Mapping[str, Any]]:
        """Return the configuration of the profile and of its source profiles."""
        session = botocore.session.Session(profile=self._profile)
        with self._translated():
            profiles = session.full_config.get("profiles", {})
        name, found = session.profile or "default", dict[str, Mapping[str, Any]]()
        while name not in found:
            found[name] = profiles.get(name, {})
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
            words = " ".join(str(error).split())  # a program's message may have several lines
            raise PlatformError(f"no S3 credentials ({whose}): {words}; {remedy}") from error


def _asks_for_a_code(profile: Mapping[str, Any]) -> bool:
    """Return whether botocore gets the role's credentials only once, with a code from an MFA device."""
    return "mfa_serial" in profile and "role_arn" in profile


def _sign_in_ends_at(profile: Mapping[str, Any]) -> float | None:
    """Return the end (epoch seconds) of an SSO sign-in, which only the user can renew; None if there is none."""
    if "sso_start_url" not in profile or "sso_session" in profile:
        return None
    cache = botocore.credentials.JSONFileCache(str(Path("~/.aws/sso/cache").expanduser()))
    token = SSOTokenLoader(cache)(profile["sso_start_url"])
    return datetime.fromisoformat(token["expiresAt"].replace("UTC", "Z")).timestamp()
