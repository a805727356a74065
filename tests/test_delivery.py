"""The Dockerfile, the CI workflow and CONTRIBUTING.md agree with the files and the Makefile."""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text()


def instructions() -> list[tuple[str, list[str]]]:
    """Return the instructions of the Dockerfile in order: (word, arguments)."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    return [(word, shlex.split(rest)) for word, rest in lines]


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_files_copied_into_image_exist_and_match_dockerignore() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert (ROOT / ".dockerignore").read_text().startswith("*\n")
    copied = [name for word, words in instructions() if word == "COPY" and words[0][:2] != "--" for name in words[:-1]]
    assert {"setup.py", "archiver", "backends", "scenarios", "results"} <= set(copied)
    for name in copied:
        assert (ROOT / name).exists(), name
        assert any(fnmatch(name, pattern) for pattern in allowed), f"{name} is kept away by .dockerignore"
    assert sorted(allowed) == sorted(copied), "more is sent to the builder than is copied"


def test_image_build_copies_all_files_and_packages_of_setup_cfg() -> None:
    """Without a file that setup.cfg names, the wheel is not built or is incomplete."""
    copied = {name for word, words in instructions() if word == "COPY" for name in words}
    config = (ROOT / "setup.cfg").read_text()
    named = re.findall(r"(?:file: |license_files = )(\S+)", config)
    packages = re.findall(r"^    (\w+)\*$", config, re.MULTILINE)
    assert {*named, *packages} <= copied
    assert packages


def test_image_runs_as_unprivileged_user_with_state_in_volume() -> None:
    stages = [index for index, (word, _) in enumerate(instructions()) if word == "FROM"]
    last = instructions()[stages[-1] :]
    words = [word for word, _ in last]
    (user,) = [words for word, words in last if word == "USER"]
    assert user == ["archiver"]
    assert words.index("USER") < words.index("CMD")
    assert ["useradd", "--create-home", "--uid", "1000", "archiver"] in [arguments for _, arguments in last]
    home = next(arguments[0].partition("=")[2] for word, arguments in last if word == "ENV")
    assert ("VOLUME", [home]) in last
    assert ("RUN", ["mkdir", home]) in last[words.index("USER") :]  # so that the volume is the user's
    installed = next(arguments for word, arguments in last if word == "RUN" and "pip" in arguments)
    assert "--constraint" in installed
    assert not {"gcc", "apt-get"} & {each for _, arguments in last for each in arguments}


def test_base_images_and_workflow_use_supported_python_versions() -> None:
    bases = [arguments[0] for word, arguments in instructions() if word == "FROM"]
    versions = set(re.findall(r"Python :: (3\.\d+)", (ROOT / "setup.cfg").read_text()))
    assert {re.sub(r"^python:([\d.]+)-slim$", r"\1", base) for base in bases} <= versions
    assert set(re.findall(r'"(3\.\d+)"', WORKFLOW)) == versions


def test_every_workflow_step_runs_a_make_target() -> None:
    runs = re.findall(r"^\s+- run: (.*)$", WORKFLOW, re.MULTILINE)
    assert runs
    assert len(runs) == WORKFLOW.count("run:"), "a step that is not in one line"
    for line in runs:
        make, *named = line.split()
        assert (make, set(named) - targets()) == ("make", set()), line


def test_workflow_runs_all_targets_of_the_gate() -> None:
    gate = {*re.findall(r"\b(?:make|tested) ([a-z-]+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)}
    assert {"check", "test", "test-benchmarks", "test-platforms", "test-browser", "demo"} <= gate
    assert gate <= set(re.findall(r"- run: make ([a-z-]+)", WORKFLOW))


def test_make_targets_and_files_named_for_contributors_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = {word for line in re.findall(r"make ([a-z][a-z -]*)", text) for word in line.split()[:1]}
    assert named - targets() <= {".venv"}
    paths = re.findall(r"`((?:archiver|backends|scenarios|tests|docs|benchmarks)/[\w/.]*)`", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [link for link in re.findall(r"\]\(([^)]+)\)", text) if not (ROOT / link).exists()] == []
