"""The sdist and the wheel: their contents, installation with and without a C compiler, and reproducible builds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.runs import TINY

ROOT = Path(__file__).parent.parent
SECONDS_MAX = 600.0  # reached only if a command hangs


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy all files that are checked in, and new ones that are not ignored."""
    tree = tmp_path_factory.mktemp("source") / "tree"
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
    return tree


@pytest.fixture(scope="module")
def installed(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and from it the wheel. Return the folder into which the wheel is unpacked."""
    folder = tmp_path_factory.mktemp("package")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(tree)],
        check=True,
        capture_output=True,
    )
    (wheel,) = (folder / "dist").glob("*.whl")
    assert "-py3-none-linux_" in wheel.name  # for this architecture and any Python 3
    assert list((folder / "dist").glob("*.tar.gz"))
    site = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def run(site: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_contains_only_code_and_data(installed: Path) -> None:
    top = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert top == {"archiver", "backends", "scenarios", "results"}
    data = (
        "scenarios/dr550.toml",
        "results/reference/dr550.json",
        "results/recorded/schema.sql",
        "results/document/pages/page.css",
    )
    for name in (*data, "archiver/py.typed"):
        assert (installed / name).exists(), name


def test_sdist_contains_everything_to_build_and_test(tree: Path, installed: Path) -> None:
    (sdist,) = (installed.parent / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()}
    checked_in = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    of_hosting = {name for name in checked_in if name.startswith((".ci/", ".github/")) or name == ".gitignore"}
    made_by_building = {name for name in checked_in if ".egg-info/" in name}
    assert checked_in - of_hosting - made_by_building - there == set()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_wheel_contains_tsm_library_that_does_not_link_python(installed: Path, tmp_path: Path) -> None:
    assert (installed / "backends/tsm/shim/include/dsmapitd.h").exists()
    said = run(installed, tmp_path, "-m", "archiver", "tsm-library", "--check")
    assert str(installed / "backends" / "tsm" / "libApiTSM64.so") in said
    assert "exports 47 of 47 functions" in said
    library = installed / "backends/tsm/libApiTSM64.so"
    symbols = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout
    assert " Py" not in symbols
    # Beyond the API it exports two functions, and it is hardened.
    defined = [line.split()[2] for line in symbols.splitlines() if " T " in line or " D " in line or " B " in line]
    others = [name for name in defined if not name.startswith("dsm")]
    assert others == ["archiverQueryEncryption", "archiverQueryProblem"]
    assert "__stack_chk_fail" in symbols
    assert "_chk@" in symbols
    parts = subprocess.run(["readelf", "-dlW", library], capture_output=True, text=True, check=True).stdout
    assert "GNU_RELRO" in parts
    assert "BIND_NOW" in parts


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_wheel_contains_md5_library_and_uses_it(installed: Path, tmp_path: Path) -> None:
    used = run(installed, tmp_path, "-c", "from backends.embedded.core.files import md5; print(type(md5.start()))")
    assert "_LibraryMd5" in used


def test_wheel_built_without_compiler_works_except_for_tsm(tree: Path, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(tree)],
        env={**os.environ, "CC": str(tmp_path / "no-such-compiler")},
        check=True,
        capture_output=True,
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    assert not list((tmp_path / "site").rglob("*.so"))
    run(
        tmp_path / "site",
        tmp_path,
        "-c",
        "from backends.tsm.library.codes import Code; from backends.tsm.library.structures import DataBlk;"
        "from backends.embedded.core.files import md5; md5.start().update(b'')",
    )
    done = subprocess.run(
        [sys.executable, "-m", "archiver", "run", "dr550", "--quick", "--backend", "tsm"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site"), "ARCHIVER_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "C compiler" in done.stderr


def test_run_works_from_any_folder_and_leaves_no_files(installed: Path, tmp_path: Path) -> None:
    """The folder has a folder with the name of a package, which is neither imported nor written to."""
    folder = tmp_path / "project"
    (folder / "results").mkdir(parents=True)
    (folder / "results" / "mine.txt").write_text("mine")
    where = run(installed, folder, "-c", "import archiver, results; print(archiver.__file__, results.__file__)")
    assert where.count(str(installed)) == 2, "the tests would be of another installation"
    out = run(installed, folder, "-m", "archiver", "run", "dr550", *TINY, "--tables", "all")
    assert "Archive: objects/s" in out
    assert "Session time" in out
    assert [path.name for path in folder.rglob("*")] == ["results", "mine.txt"]


def built(tree: Path, out: Path, umask: int, **environment: str) -> dict[str, bytes]:
    """Build the sdist and the wheel of a tree; return their contents by name."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)],
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000", **environment},
        umask=umask, check=True, capture_output=True,
    )  # fmt: skip
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.mark.long
def test_sdist_and_wheel_builds_are_reproducible(tree: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "a folder of another name"
    for folder, rights in ((one, 0o644), (other, 0o600)):
        shutil.copytree(tree, folder)
        for path in folder.rglob("*"):
            if path.is_file():
                path.chmod(rights | path.stat().st_mode & 0o100)
                os.utime(path, (rights * 10**6, rights * 10**6))
    first = built(one, tmp_path / "first", 0o022, TZ="UTC", PYTHONHASHSEED="1")
    second = built(other, tmp_path / "second", 0o077, TZ="Asia/Tokyo", PYTHONHASHSEED="2", LC_ALL="C")
    assert len(first) == 2
    assert {name: first[name] == second.get(name) for name in first} == dict.fromkeys(first, True)


@pytest.mark.long
@pytest.mark.parametrize("with_compiler", [True, False], ids=["with a compiler", "without a compiler"])
def test_sdist_installs_and_runs_in_fresh_environment(tree: Path, tmp_path: Path, with_compiler: bool) -> None:
    """Install the sdist with pip, as a user does, with the locked versions of its dependencies."""
    if with_compiler and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    sdist = next(path for path in _sdist_of(tree, tmp_path / "dist") if path.name.endswith(".tar.gz"))
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "bare"], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {} if with_compiler else {"CC": str(tmp_path / "no-such-compiler")}
    installing = [str(tmp_path / "bare/bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*installing, "--constraint", ROOT / "requirements-dev.lock", sdist], env=environment, check=True)
    folder = tmp_path / "empty"
    folder.mkdir()
    library = subprocess.run(
        [tmp_path / "bare/bin/archiver", "tsm-library", "--check"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (library.returncode == 0) is with_compiler, library.stdout + library.stderr
    run = subprocess.run(
        [tmp_path / "bare/bin/archiver", "run", "dr550", "--quick"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "Rates, latency and limits" in run.stdout


@pytest.mark.long
@pytest.mark.parametrize("installer", ["pipx", "uv"])
def test_pipx_and_uv_install_a_checkout(tree: Path, tmp_path: Path, installer: str) -> None:
    """README.md names them next to pip: ``pipx install .`` and ``uv tool install .``."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "tools"], check=True)
    own = tmp_path / "tools/bin"
    subprocess.run([own / "pip", "install", "--quiet", "--disable-pip-version-check", installer], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {
        "PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "UV_TOOL_DIR": str(tmp_path / "uv"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
    }  # fmt: skip
    words: list[str | Path] = [own / "uv", "tool", "install"] if installer == "uv" else [own / "pipx", "install"]
    subprocess.run([*words, tree], env=environment, cwd=tmp_path, check=True)
    done = subprocess.run(
        [tmp_path / "bin/archiver", "run", "dr550", *TINY],
        env={**environment, "ARCHIVER_HOME": str(tmp_path / "home")},
        cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_built_packages_pass_strict_twine_check(tree: Path, tmp_path: Path) -> None:
    """The metadata are complete, and the long description can be rendered."""
    built(tree, tmp_path / "dist", 0o022)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "tools"], check=True)
    subprocess.run(
        [tmp_path / "tools/bin/pip", "install", "--quiet", "--disable-pip-version-check", "twine"], check=True
    )
    packages = [str(path) for path in (tmp_path / "dist").iterdir()]
    subprocess.run([tmp_path / "tools/bin/twine", "check", "--strict", *packages], check=True)


def _sdist_of(tree: Path, out: Path) -> list[Path]:
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(out), str(tree)]
    subprocess.run(command, check=True, capture_output=True)
    return list(out.iterdir())
