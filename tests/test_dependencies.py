"""Imported packages equal declared ones, and the lock file has allowed versions of them."""

from __future__ import annotations

import configparser
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements-dev.lock"
OURS = {"archiver", "backends", "scenarios", "results", "tests", "benchmarks", "docs"}
CALLED = {"hdrh": "hdrhistogram"}  # packages whose modules have another name
# Packages that a declared package requires and whose objects are part of its interface.
PART_OF = {
    "botocore": "boto3", "cryptography": "rfc3161-client", "dask": "distributed", "multidict": "aiohttp",
    "packaging": "build", "urllib3": "requests", "yarl": "aiohttp",
}  # fmt: skip
IMPORT = re.compile(r"^\s*(?:from\s+([A-Za-z_]\w*)[\w.]*\s+import\b|import\s+([A-Za-z_]\w*)[\w., ]*$)", re.MULTILINE)
# Programs, plug-ins and type stubs, which no code imports.
NOT_IMPORTED = {"mypy", "pytest-asyncio", "pytest-xdist", "ruff", "types-requests"}


def declared() -> dict[str, dict[str, Requirement]]:
    """Return the requirements by name, of the package ("") and of each extra."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    groups = {"": config["options"]["install_requires"], **config["options.extras_require"]}
    return {
        group: {canonicalize_name(each.name): each for each in map(Requirement, lines.split("\n")[1:])}
        for group, lines in groups.items()
    }


def imported(*folders: str) -> Iterator[tuple[str, str]]:
    """Yield (package, file) for each import of a third-party package."""
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    own = (
        OURS | {path.stem for path in files} | {path.name for folder in folders for path in (ROOT / folder).rglob("*")}
    )
    for path in files:
        for name in {name for found in IMPORT.findall(path.read_text()) for name in found if name}:
            if name not in own and name not in sys.stdlib_module_names:
                package = CALLED.get(name, canonicalize_name(name))
                yield PART_OF.get(package, package), str(path.relative_to(ROOT))


def locked() -> dict[str, str]:
    pins = [line.split("==") for line in LOCK.read_text().splitlines() if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


def test_package_imports_equal_declared_dependencies() -> None:
    groups = declared()
    known = {**groups[""], **groups["dask"], **groups["timestamps"], **groups["traces"]}
    used = dict(imported("archiver", "backends", "scenarios", "results"))
    assert {package: where for package, where in used.items() if package not in known} == {}
    assert set(known) - set(used) == set()


def test_test_benchmark_and_docs_imports_equal_declared_dependencies() -> None:
    groups = declared()
    used = dict(imported("tests", "benchmarks", "docs")) | dict.fromkeys(["setuptools"], "setup.py")
    known = {name for group in groups.values() for name in group}
    assert {package: where for package, where in used.items() if package not in known} == {}
    assert {*groups["test"], *groups["docs"]} - set(used) == NOT_IMPORTED


def test_every_requirement_has_lower_bound_and_allowed_locked_version() -> None:
    pins = locked()
    for group, requirements in declared().items():
        for name, requirement in requirements.items():
            assert [each.operator for each in requirement.specifier] == [">="], f"[{group}] {requirement}"
            assert name in pins, f"{name} is not in requirements-dev.lock: make lock"
            assert requirement.specifier.contains(pins[name]), f"{name} {pins[name]}: make lock"


def test_lock_file_has_sorted_exact_versions_without_sources() -> None:
    lines = [line for line in LOCK.read_text().splitlines() if not line.startswith("#")]
    assert lines == sorted(lines, key=lambda line: canonicalize_name(line.partition("==")[0]))
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][\w.+!]*", line)] == []
