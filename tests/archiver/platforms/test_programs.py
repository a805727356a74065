"""Programs of platforms: found at their pinned version or said how to get, built once, and never by halves."""

from __future__ import annotations

from pathlib import Path

import pytest

from archiver.platforms import programs
from archiver.platforms.programs import PROGRAMS, find, install
from archiver.values.errors import PlatformError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, and nothing on PATH."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "cache"


@pytest.fixture
def go(tmp_path: Path) -> Path:
    """A Go toolchain that builds what the script says; it notes how it was called."""
    path = tmp_path / "bin" / "go"
    path.parent.mkdir()
    write_go(path, 'echo built > "$GOBIN/minio"; /bin/chmod +x "$GOBIN/minio"')
    return path


def write_go(path: Path, script: str) -> None:
    path.write_text(f'#!/bin/sh\necho "$@" >> {path.parent}/calls\n{script}\n')
    path.chmod(0o755)


def calls(go: Path) -> list[str]:
    noted = go.parent / "calls"
    return noted.read_text().splitlines() if noted.exists() else []


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_missing_program_is_named_with_its_version_and_the_remedy(name: str) -> None:
    with pytest.raises(PlatformError, match=f"archiver platform install {name}") as missing:
        find(name)
    assert f"{name} {PROGRAMS[name].version} is not installed" in str(missing.value)


def test_another_version_is_not_taken_for_the_pinned_one(cache: Path) -> None:
    older = cache / "archiver" / "platforms" / "minio-v0.0.0" / "minio"
    older.parent.mkdir(parents=True)
    older.touch(mode=0o755)
    with pytest.raises(PlatformError, match="is not installed"):
        find("minio")


def test_a_program_is_built_at_its_version_once_and_then_found(go: Path, cache: Path) -> None:
    path = install("minio")
    assert path == find("minio")
    assert path.is_relative_to(cache)
    assert PROGRAMS["minio"].version in str(path)
    assert install("minio") == path
    assert calls(go) == [f"install {PROGRAMS['minio'].module}@{PROGRAMS['minio'].version}"]


def test_without_go_the_message_says_so() -> None:
    with pytest.raises(PlatformError, match=r"there is no `go`; install Go"):
        install("minio")


def test_a_build_that_fails_is_quoted_and_leaves_nothing(go: Path, cache: Path) -> None:
    write_go(go, 'echo half > "$GOBIN/minio"; echo "no such host proxy.golang.org" >&2; exit 1')
    with pytest.raises(PlatformError, match=r"could not be built: no such host proxy\.golang\.org"):
        install("minio")
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_a_cache_that_cannot_be_made_is_named(go: Path, cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(PlatformError, match="cannot be made: Not a directory; set XDG_CACHE_HOME"):
        install("minio")
    assert calls(go) == []


def test_the_cache_is_in_the_users_folder_unless_it_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    assert programs.cache_folder() == tmp_path / "user" / ".cache" / "archiver" / "platforms"
