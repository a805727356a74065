"""Test the catalogue of checks: every claim about Amazon has a source, and no other text mentions Amazon."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from archiver import worm
from archiver.worm.catalogue import catalogue, expectation
from results.worm.harm import LOST, WHO

FOLDER = Path(worm.__file__).parent
SOURCES: dict[str, str] = tomllib.loads((FOLDER / "catalogue.toml").read_text())["sources"]
CLAIMS = {(entry.id, claim): name for entry in catalogue().values() for claim, name in entry.sources.items()}


def texts() -> Iterator[tuple[str, str]]:
    """Yield every string in the code of the checks that is not a docstring, with its file."""
    for path in FOLDER.rglob("*.py"):
        tree = ast.parse(path.read_text())
        comments = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in comments:
                yield path.name, node.value


def test_only_the_catalogue_mentions_amazon() -> None:
    assert [found for found in texts() if "Amazon" in found[1]] == [("catalogue.py", "Amazon answers")]


def test_every_claim_names_a_source_with_an_address() -> None:
    assert set(CLAIMS.values()) == set(SOURCES)
    for text in SOURCES.values():
        assert re.search(r"[^:]: https://[^ ]+$", text), text


def test_every_answer_with_a_source_is_expected_by_the_code() -> None:
    """No check would use a claim with different wording."""
    expected = {text for _, text in texts()}
    answers = {claim for check, claim in CLAIMS if re.match(r"[1-5][0-9][0-9]\b", claim) and "TSM" not in check}
    assert len(answers) > 10
    assert answers - expected == set()


@pytest.mark.parametrize(
    ("identifier", "answer", "words"),
    [
        ("CFG-11", "409 BucketNotEmpty", "Amazon answers 409 BucketNotEmpty"),
        ("CFG-11", "409", "expected 409"),
        ("CFG-06", "400 InvalidArgument", "Amazon answers 400 InvalidArgument"),  # claimed only for a default rule
        ("ING-04", "any refusal", "expected any refusal"),  # claimed only for a date more than 100 years ahead
        ("RET-08", "403 AccessDenied", "expected 403 AccessDenied"),
    ],
)
def test_answer_is_attributed_to_amazon_only_with_a_source(identifier: str, answer: str, words: str) -> None:
    assert expectation(identifier, answer) == words


def test_each_check_that_finds_violations_names_their_harm() -> None:
    for entry in catalogue().values():
        assert (entry.harm is not None) == entry.is_violation, entry.id
        if entry.harm is not None:
            assert (entry.harm.lost in LOST, entry.harm.who in WHO) == (True, True), entry.id
