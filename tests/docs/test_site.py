"""The documentation site: it builds without warnings, its links work, and its pages load nothing from the network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

pytest.importorskip("mkdocs")

from docs.site_pages import OUTSIDE, in_site

ROOT = Path(__file__).parents[2]
_REFERENCE = re.compile(r"""(?:href|src)="([^"]+)\"""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


def test_site_has_every_docs_and_repository_page(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    for page in (*pages, *(Path(name).with_suffix(".html") for name in OUTSIDE.values())):
        assert (site / page).exists(), page
    assert not list(site.rglob("*.py"))


def test_every_local_link_leads_to_a_site_file(site: Path) -> None:
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # its links are absolute paths on a server
            continue
        for link in _REFERENCE.findall(page.read_text()):
            if not re.match(r"https?:|mailto:|#|data:", link):
                assert (page.parent / unquote(link.partition("#")[0].partition("?")[0])).exists(), f"{page}: {link}"


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    for path in (*site.rglob("*.html"), *site.rglob("*.css")):
        text = path.read_text()
        fetched = re.findall(r"<(?:script|img|iframe)[^>]*\bsrc=\"(https?:[^\"]+)", text)
        fetched += re.findall(r"<link(?![^>]*rel=\"canonical\")[^>]*\bhref=\"(https?:[^\"]+)", text)
        fetched += re.findall(r"url\([\"']?(https?:[^)]+)|@import[^;]*(https?:[^;]+)", text)
        assert not fetched, f"{path}: {fetched}"


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("index.md", "[a](../README.md)", "[a](overview.md)"),
        ("platforms/minio.md", "[a](../../DESIGN.md#kinds-of-work)", "[a](../design.md#kinds-of-work)"),
        ("platforms/minio.md", "[a](../planning.md)", "[a](../planning.md)"),
        ("overview.md", "[a](docs/traces.md#the-file), [b](DESIGN.md)", "[a](traces.md#the-file), [b](design.md)"),
        ("backends.md", "[a](../docs/replay.md)", "[a](replay.md)"),
        ("replay.md", "[a](https://example.org/README.md)", "[a](https://example.org/README.md)"),
        ("replay.md", "[a](#criteria)", "[a](#criteria)"),
    ],
)  # fmt: skip
def test_repository_links_map_to_same_place_in_site(page: str, link: str, expected: str) -> None:
    assert in_site(link, page) == expected
