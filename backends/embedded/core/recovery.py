"""What a store checks and mends when it opens: the segments against the catalogue.

One idea: the catalogue is the truth. A segment with less than the catalogue says is damage and is named; a
segment with more is what a crash left behind, bytes that nobody was promised, and is cut off. One exception
tells a crash from a catalogue that was damaged or put back: only one commit is ever under way, so leftovers
of a later one than the next were acknowledged once, and the store refuses to throw them away. The commit mark
tells the same of commits that left nothing in a segment, and of the very last one.
"""

from __future__ import annotations

import os
from pathlib import Path

from archiver.errors import Damaged

from .files.segments import Segments
from .tables.catalogue import Catalogue

_MARK_NAME = "last-commit"


class CommitMark:
    """The number of the last commit, in a file of the data folder.

    It is written after each commit and never synced. So it outlives the process, however that ends; after a
    power failure it may be older than the catalogue, but never newer, unless the catalogue has lost commits.
    """

    def __init__(self, folder: Path, commit: int) -> None:
        self._fd = os.open(folder / _MARK_NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.write(commit)

    def close(self) -> None:
        os.close(self._fd)

    def write(self, commit: int) -> None:
        os.pwrite(self._fd, b"%020d\n" % commit, 0)

    @staticmethod
    def read(folder: Path) -> int:
        """0 where there is none, or a power failure left no number in it."""
        path = folder / _MARK_NAME
        text = path.read_bytes().strip() if path.exists() else b""
        return int(text) if text.isdigit() else 0


def reconcile(catalogue: Catalogue, segments: Segments, marked_commit: int) -> None:
    """Raise Damaged, or leave exactly the segments and lengths that the catalogue knows."""
    existing = segments.numbers()
    if catalogue.created and existing:
        raise Damaged(
            f"{segments.folder} holds {len(existing)} segments but their catalogue is missing;"
            " restore catalogue.db (and catalogue.db-wal) from a copy"
        )
    commits = catalogue.state.commits
    if commits < marked_commit:
        raise Damaged(
            f"the catalogue of {segments.folder.parent} ends at commit {commits}, but commit {marked_commit} was"
            " acknowledged: it has lost writes (was an older copy put back, or catalogue.db-wal removed?);"
            " restore it from a newer copy"
        )
    for number, use in catalogue.segments.items():
        path = segments.path(number)
        length = path.stat().st_size if path.exists() else 0
        if length < use.length or not path.exists():
            lost = catalogue.objects_beyond(number, length)
            raise Damaged(
                f"segment {path} {'is shorter than the catalogue says' if path.exists() else 'is missing'}"
                f" ({length} of {use.length} bytes): {lost} objects are lost; restore the file from a copy"
            )
    for number in existing:
        known = catalogue.segments.get(number)
        keep = known.length if known else 0
        path = segments.path(number)
        if path.stat().st_size == keep and known:
            continue
        for record in segments.records_from(number, keep):
            if record.commit > commits + 1:
                raise Damaged(
                    f"segment {path} holds object {record.key!r} of commit {record.commit}, but the"
                    f" catalogue ends at commit {commits}: it has lost writes (was"
                    " catalogue.db-wal removed or damaged?); restore it from a copy"
                )
        if known:
            os.truncate(path, keep)
        else:
            segments.remove(number)
