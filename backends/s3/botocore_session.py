"""Botocore's sessions here: they sign in Python by this process's clock, and read no profile and no file.

awscrt would wait for ever for a signature whose callback a signal interrupted.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Protocol

import botocore.credentials
import botocore.loaders
import botocore.session
from botocore.auth import (
    AUTH_TYPE_MAPS,
    SIGV4_TIMESTAMP,
    S3SigV4Auth,
    S3SigV4QueryAuth,
    SigV4Auth,
    SigV4QueryAuth,
)
from botocore.awsrequest import AWSRequest

from archiver.values.clock import now_seconds


class _Keys(Protocol):
    @property
    def access_key(self) -> str: ...

    @property
    def secret_key(self) -> str: ...

    @property
    def session_token(self) -> str | None: ...


class _CurrentCredentials(botocore.credentials.Credentials):  # type: ignore[misc]
    """Credentials that botocore reads again for each request."""

    def __init__(self, current: Callable[[], _Keys]) -> None:
        super().__init__("", "")
        self._current = current

    def get_frozen_credentials(self) -> botocore.credentials.ReadOnlyCredentials:
        now = self._current()
        return botocore.credentials.ReadOnlyCredentials(now.access_key, now.secret_key, now.session_token)


class _Provider(botocore.credentials.CredentialProvider):  # type: ignore[misc]
    """The only provider in which a session looks for credentials."""

    METHOD = "given"

    def __init__(self, current: Callable[[], _Keys]) -> None:
        super().__init__()
        self._current = current

    def load(self) -> _CurrentCredentials:
        return _CurrentCredentials(self._current)


class _OwnClockAuth(S3SigV4Auth):  # type: ignore[misc]
    """Signs requests for the time of this process, as the data plane does: it is the same after the machine's clock is
    set, so the control plane of a run goes on too.
    """

    def _modify_request_before_signing(self, request: AWSRequest) -> None:
        request.context["timestamp"] = time.strftime(SIGV4_TIMESTAMP, time.gmtime(now_seconds()))
        super()._modify_request_before_signing(request)


@functools.cache
def _loader() -> botocore.loaders.Loader:
    """Return botocore's descriptions of services, which it keeps once read: reading them takes 0.1 s a session."""
    return botocore.loaders.create_loader(os.environ.get("AWS_DATA_PATH"))


def sign_in_python() -> None:
    """Make botocore sign as it does where awscrt is not installed. Archiver needs awscrt for checksums alone.

    awscrt calls Python back, and discards an exception that a signal raises there. Botocore would then wait for the
    signature for ever.
    """
    AUTH_TYPE_MAPS.update(
        {"v4": SigV4Auth, "v4-query": SigV4QueryAuth, "s3v4": _OwnClockAuth, "s3v4-query": S3SigV4QueryAuth}
    )


def session_of(current: Callable[[], _Keys]) -> botocore.session.Session:
    """Return a session that signs with the result of ``current``, called before each request.

    Profiles and files were read before, for both planes.
    """
    sign_in_python()
    unread: dict[str, tuple[None, None, str | None, None]] = {
        "profile": (None, None, None, None),
        "config_file": (None, None, os.devnull, None),
        "credentials_file": (None, None, os.devnull, None),
    }
    session = botocore.session.Session(session_vars=unread)
    session.register_component("data_loader", _loader())
    resolver = botocore.credentials.CredentialResolver([_Provider(current)])
    session.register_component("credential_provider", resolver)
    return session
