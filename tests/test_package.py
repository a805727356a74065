"""What users install: the wheel, built from the sdist, works from any folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is checked in, or would be."""
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
    """A folder into which the wheel was unpacked; the wheel itself was built from the sdist."""
    folder = tmp_path_factory.mktemp("package")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(tree)],
        check=True,
        capture_output=True,
    )
    (wheel,) = (folder / "dist").glob("*.whl")
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
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_code_and_data_and_nothing_else(installed: Path) -> None:
    top = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert top == {"archiver", "backends", "scenarios", "results"}
    data = (
        "scenarios/dr550.toml",
        "results/reference/dr550.json",
        "results/schema.sql",
        "results/report/pages/page.css",
    )
    for name in (*data, "archiver/py.typed"):
        assert (installed / name).exists(), name


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_tsm_library_comes_with_the_wheel_and_needs_no_python(installed: Path, tmp_path: Path) -> None:
    assert (installed / "backends/tsm/shim/include/dsmapitd.h").exists()
    said = run(installed, tmp_path, "-m", "archiver", "tsm-library", "--check")
    assert str(installed / "backends" / "tsm" / "libApiTSM64.so") in said
    assert "exports 47 of 47 functions" in said
    needed = subprocess.run(
        ["nm", "-D", installed / "backends/tsm/libApiTSM64.so"], capture_output=True, text=True, check=True
    )
    assert " Py" not in needed.stdout


def test_without_a_compiler_everything_else_is_installed(tree: Path, tmp_path: Path) -> None:
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


def test_the_quick_matrix_runs_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    where = run(installed, folder, "-c", "import archiver, results; print(archiver.__file__, results.__file__)")
    assert where.count(str(installed)) == 2, "the tests would be of another installation"
    out = run(installed, folder, "-m", "archiver", "run", "dr550", "--quick")
    assert "Archive: objects/s" in out
    assert "Session time" in out
    assert list(folder.iterdir()) == [], "a run left something where it was started"


def test_a_folder_named_results_is_neither_imported_nor_written(installed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "results").mkdir(parents=True)
    (folder / "results" / "mine.txt").write_text("mine")
    run(installed, folder, "-m", "archiver", "run", "dr550", "--quick", "--set", "object_sizes=8KiB")
    assert [path.name for path in folder.rglob("*")] == ["results", "mine.txt"]
