"""Test every script of a real platform's findings, on that platform and on the embedded store, which has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from archiver.values.errors import ResultsError
from archiver.worm.requests.limited import RIGHTS, described
from archiver.worm.suite import CheckResult
from backends.embedded import process
from backends.s3.control import Credentials
from results.worm.reproduction.evidence import reproducible_check, reproduction_of
from results.worm.reproduction.script import script_text
from tests.archiver.worm.expected_verdicts import QUICK, checked_platform
from tests.archiver.worm.scripts import NOT_SEEN, SEEN, run_script, write_profiles
from tests.support.servers import real

# What a script cannot send, and why: `archiver worm reproduce` refuses these findings with such words.
REFUSED = (
    "contains no signatures",
    "has only the first",
    "does not say which two requests met",
    "lacks some of",
    "signed in chunks",
    "that a script leaves out returned",
)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[process.StoreProcess]:
    credentials = [f"no-{right}:without={right}" for right in RIGHTS]
    with process.start(tmp_path_factory.mktemp("honest") / "store", credentials=credentials) as store:
        yield store


def text_of(result: CheckResult) -> str | None:
    """Return the script for a result; None if it is no finding, or a finding that no script can show."""
    if not result.record.is_finding:
        return None
    try:
        evidence = [each.document for each in result.exchanges]
        return script_text(reproduction_of(reproducible_check([result.record], result.id), evidence), result.id)
    except ResultsError as refused:
        if not any(words in str(refused) for words in REFUSED):
            raise
        return None


def lacking(text: str, limited: Mapping[str, Credentials]) -> Credentials | None:
    """Return the credential that lacks the right that a script names; None if there is none."""
    return next((each for right, each in limited.items() if described(right) in text), None)


@pytest.mark.long
@pytest.mark.parametrize("name", real.STORES)
def test_every_script_tells_its_platform_from_the_embedded_store(
    name: str, honest: process.StoreProcess, tmp_path: Path
) -> None:
    own = Credentials(honest.access_key, honest.secret_key, None)
    of_honest = {
        right: Credentials(each.access_key, each.secret_key, None)
        for right, each in ((right, honest.credentials[f"no-{right}"]) for right in RIGHTS)
    }
    wrong: list[str] = []
    scripts = 0
    with checked_platform(name, tmp_path / "server") as platform:
        limited = {right: each.credentials for right, each in platform.limited.clients.items() if each.credentials}
        for result in platform.suite.run(QUICK, lambda _: None):
            text = text_of(result)
            if text is None:
                continue
            scripts += 1
            assert platform.client.credentials is not None
            for where, endpoint, credentials, others, expected in (
                ("platform", platform.client.endpoint, platform.client.credentials, limited, SEEN),
                ("embedded store", honest.endpoint, own, of_honest, NOT_SEEN),
            ):
                variables = {}
                if "LIMITED_PROFILE" in text:
                    other = lacking(text, others)
                    if other is None:
                        continue  # the embedded store has no such credential
                    write_profiles(tmp_path, {"limited": other})
                    variables = {"LIMITED_PROFILE": "limited"}
                    if where == "platform":
                        variables["BUCKET"] = platform.make_bucket(platform.client, True)
                status, output = run_script(text, tmp_path, endpoint, credentials, **variables)
                if status != expected:
                    wrong.append(f"{result.id} on the {where}: {status}\n{output}")
    assert scripts
    assert not wrong, "\n".join(wrong)
