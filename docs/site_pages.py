"""What mkdocs is told beyond mkdocs.yml: files of the repository that are pages, too, and links between all of them.

One idea: a link is written once, as it works in the repository (``../README.md``), and leads to the same place in the
site: it is resolved where its file lies, and written anew for where its page lies.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
# Files outside docs/, and the pages that they are in the site.
OUTSIDE = {
    "README.md": "overview.md",
    "DESIGN.md": "design.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "backends/README.md": "backends.md",
}
_IN_REPOSITORY = {page: file for file, page in OUTSIDE.items()}
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Take in the files from outside docs/."""
    for file, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / file).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Write every link for the site."""
    return in_site(markdown, page.file.src_uri)


def in_site(markdown: str, page: str) -> str:
    """The Markdown of a page with its links as they are in the site."""
    here = posixpath.dirname(_IN_REPOSITORY.get(page, f"docs/{page}"))

    def moved(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(here, found[1]))
        there = OUTSIDE.get(target, target.removeprefix("docs/"))
        return f"]({posixpath.relpath(there, posixpath.dirname(page) or '.')}{found[2] or ''})"

    return _LINK.sub(moved, markdown)
