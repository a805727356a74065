"""Recovery: the store compares its segments with its catalogue when it opens.

One idea: the catalogue decides. A segment that is shorter than the catalogue's length is damaged, and the error names
it. A segment that is longer has bytes of a crashed, unacknowledged commit, and the store cuts them off. One exception
distinguishes a crash from a catalogue that was damaged or replaced by an older copy: only one commit is under way at a
time. Bytes of a later commit than the next one were acknowledged once, so the store refuses to discard them. The
commit mark detects the same for commits that left nothing in a segment, and for the very last commit.
"""

from __future__ import annotations

import os
from pathlib import Path

from archiver.values.errors import Damaged

from .files.segments import Segments
from .tables.catalogue import Catalogue

_MARK_NAME = "last-commit"


class CommitMark:
    """The number of the last commit, in a file of the data folder.

    The store writes it after each commit and never syncs it. So it survives any end of the process. After a power
    failure it may be older than the catalogue. It is newer only if the catalogue has lost commits.
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
        """Return the number; 0 if the file does not exist or holds no number after a power failure."""
        path = folder / _MARK_NAME
        text = path.read_bytes().strip() if path.exists() else b""
        return int(text) if text.isdigit() else 0


def reconcile(catalogue: Catalogue, segments: Segments, marked_commit: int) -> None:
    """Make the segments and their lengths equal to the catalogue's. Raises Damaged if acknowledged data is missing."""
    existing = segments.numbers()
    if catalogue.created and existing:
        raise Damaged(
            f"{segments.folder} contains {len(existing)} segments, but their catalogue is missing;"
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
        counted = catalogue.segments.get(number)
        keep = counted.length if counted else 0
        path = segments.path(number)
        if path.stat().st_size == keep and counted:
            continue
        for record in segments.records_from(number, keep):
            if record.commit > commits + 1:
                raise Damaged(
                    f"segment {path} contains object {record.key!r} of commit {record.commit}, but the"
                    f" catalogue ends at commit {commits}: it has lost writes (was"
                    " catalogue.db-wal removed or damaged?); restore it from a copy"
                )
        if counted:
            os.truncate(path, keep)
        else:
            segments.remove(number)
