"""Rules of the source layout: directions of imports, names of modules, sizes of folders.

A "room" is a module or a folder with modules.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("archiver", "backends", "scenarios", "results")

VALUES = "archiver.values"  # all four packages may import it
MAY_IMPORT = {
    "archiver": {"archiver", "backends", "scenarios", "results"},
    "backends": {"backends"},
    "scenarios": {"scenarios"},
    "results": {"results"},
}
EMBEDDED = "backends.embedded"
# Rooms of the embedded store, lowest first. A room may import its own modules and those of the rooms named here.
STORE_ROOMS = {
    "core.rules": set(),
    "core.files": {"core.rules"},
    "core.tables": {"core.rules", "core.files"},
    "core.changes": {"core.rules", "core.files", "core.tables"},
    "core": {"core.rules", "core.files", "core.tables", "core.changes"},
    "s3": {"core"},
    "tsm": {"core"},
    "": {"s3", "tsm", "core"},  # the modules server and process, which run both servers
}
FILES_MAX = 25  # in one folder: more show no architecture
ROOMS_MAX = 14  # in one folder
C_SOURCES = Path("backends/tsm/shim")  # built as one library; its header says which file holds which call
# The engine imports no command line, and of results only what it needs to fill the database.
SHOWING = ("archiver.cli", "archiver.web")  # rooms that show results
ENGINE_RESULTS = {
    "results.recorded.database",
    "results.recorded.model",
    "results.recorded.resources",
    "results.measures.metrics",
    "results.measures.statistics",
    "results.measures.verdict",
}


def modules() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


@cache
def imports(name: str, path: Path) -> list[str]:
    """Return the modules of our packages that a module imports, at load time or later."""
    return list(_imports(name, path))


def _imports(name: str, path: Path) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            origin = ".".join(part for part in (base, node.module) if part)
            known = [f"{origin}.{alias.name}" for alias in node.names]
            found = [full if _is_module(full) else origin for full in known]
        else:
            continue
        yield from (one for one in found if one.partition(".")[0] in PACKAGES)


def _is_module(name: str) -> bool:
    path = ROOT / Path(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_modules_import_only_allowed_packages() -> None:
    for name, imported in [(own, each) for own, path in modules() for each in imports(own, path)]:
        home, top = name.partition(".")[0], imported.partition(".")[0]
        allowed = top in MAY_IMPORT[home] or imported.startswith(f"{VALUES}.")
        assert allowed, f"{name} imports {imported}: {home} may import only {sorted(MAY_IMPORT[home])} and {VALUES}"
        if imported.split(".")[:2] == ["archiver", "cli"]:
            assert name.startswith(("archiver.cli", "archiver.__main__")), f"{name} imports the command line"
        if home == "archiver" and not name.startswith(SHOWING) and top == "results":
            assert imported in ENGINE_RESULTS, f"{name} imports {imported}: the engine only fills the database"


def test_values_import_only_values() -> None:
    for name, path in modules():
        if name.startswith(f"{VALUES}."):
            assert all(imported.startswith(f"{VALUES}.") for imported in imports(name, path)), name


def rooms(folder: str) -> dict[str, set[str]]:
    """Return which rooms of this folder each room of it imports."""
    depth = len(folder.split("."))

    def room(name: str) -> str | None:
        parts = name.split(".")
        return parts[depth] if name.startswith(f"{folder}.") and len(parts) > depth else None

    graph: dict[str, set[str]] = {}
    for name, path in modules():
        own = room(name)
        if own is not None:
            graph.setdefault(own, set()).update(
                target for one in imports(name, path) if (target := room(one)) not in (None, own)
            )
    return graph


def test_rooms_of_a_folder_have_no_import_cycle() -> None:
    """No room imports a room that imports it, directly or through others."""
    for folder in sorted({name for name, path in modules() if path.name == "__init__.py"}):
        graph = rooms(folder)
        while graph:
            lowest = {room for room, imported in graph.items() if not imported & set(graph)}
            assert lowest, f"{folder}: imports go round among {sorted(graph)}"
            graph = {room: imported for room, imported in graph.items() if room not in lowest}


def test_number_of_rooms_in_archiver_package_is_limited() -> None:
    assert len(rooms("archiver")) <= ROOMS_MAX


def test_modules_have_no_import_cycle() -> None:
    graph = {name: set(imports(name, path)) - {name} for name, path in modules()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, "imports go round: " + " -> ".join([*trail[trail.index(name) :], name])
        if name in done:
            return
        for imported in graph.get(name, ()):
            visit(imported, (*trail, name))
        done.add(name)

    for name in graph:
        visit(name, ())


def _in_room(name: str, room: str) -> bool:
    return not room or name == room or name.startswith(f"{room}.")


def test_embedded_store_rooms_import_only_lower_rooms() -> None:
    inside = {name.removeprefix(EMBEDDED).lstrip("."): path for name, path in modules() if _in_room(name, EMBEDDED)}
    for name, path in inside.items():
        room = next(room for room in STORE_ROOMS if _in_room(name, room))
        for imported in imports(f"{EMBEDDED}.{name}".rstrip("."), path):
            if not _in_room(imported, EMBEDDED):
                continue
            target = imported.removeprefix(EMBEDDED).lstrip(".")
            target_room = next(room for room in STORE_ROOMS if _in_room(target, room))
            allowed = target_room == room or any(_in_room(target, lower) for lower in STORE_ROOMS[room])
            assert allowed, f"{name} imports {target}: {room} may import only {sorted(STORE_ROOMS[room])}"


def test_number_of_files_per_folder_is_limited() -> None:
    listed = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    folders: dict[Path, int] = {}
    for line in listed.stdout.splitlines():
        folder = Path(line).parent
        if folder != C_SOURCES:
            folders[folder] = folders.get(folder, 0) + 1
    crowded = {str(folder): files for folder, files in folders.items() if files > FILES_MAX}
    assert not crowded, f"give these folders rooms: {crowded}"


def test_no_module_has_a_meaningless_name() -> None:
    empty = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
    names = {part for name, _ in modules() for part in name.split(".")}
    assert not names & empty


def test_every_module_has_a_docstring_with_a_full_sentence() -> None:
    for name, path in modules():
        text = ast.get_docstring(ast.parse(path.read_text()))
        assert text, f"{name} has no docstring"
        assert text.split("\n\n")[0].rstrip().endswith((".", "DIR`.", ":")), f"{name}: the first sentence does not end"


def test_no_two_classes_share_a_name() -> None:
    found: dict[str, list[str]] = {}
    for name, path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(name)
    shared = {name: where for name, where in found.items() if len(where) > 1}
    assert not shared, f"give these classes names of their own: {shared}"


def test_top_level_has_only_files_of_the_layout() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    top = {line.partition("/")[0] for line in tracked.stdout.splitlines()}
    assert top <= {
        *PACKAGES, "tests", "benchmarks", "docs", ".ci", ".gitignore", "setup.cfg", "setup.py", "pyproject.toml",
        "MANIFEST.in", "Makefile", "demo.sh", "mkdocs.yml", "README.md", "DESIGN.md", "CHANGELOG.md", "LICENSE",
        "CONTRIBUTING.md", "Dockerfile", ".dockerignore", ".github", "requirements-dev.lock",
    }  # fmt: skip


def test_importing_packages_loads_no_heavy_dependency() -> None:
    code = "import sys, archiver, backends, scenarios, results; print([m for m in sys.modules if m in sys.argv[1:]])"
    heavy = ["matplotlib", "boto3", "numpy", "aiohttp"]
    out = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.strip() == "[]"


def test_starting_a_worker_loads_no_heavy_dependency() -> None:
    """Loading them takes most of a worker's start, and a run waits for its workers."""
    code = "import sys, archiver.engine.workers.processes, backends.s3; "
    code += "print([m for m in sys.modules if m in sys.argv[1:]])"
    heavy = ["boto3", "pyarrow", "matplotlib", "aiohttp", "requests"]
    out = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.strip() == "[]"


def test_no_test_file_imports_from_another() -> None:
    """Shared helpers are in a module of the same folder, or in tests/support."""
    importing = re.compile(
        r"^(?:from|import) (?:tests\.(?:\w+\.)*)?test_\w+|^from tests(?:\.\w+)* import test_", re.MULTILINE
    )
    found = {
        str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py") if importing.search(path.read_text())
    }
    assert found == set()
