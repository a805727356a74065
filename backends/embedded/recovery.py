"""What a store checks and mends when it opens: the segments against the catalogue.

One idea: the catalogue is the truth. A segment with less than the catalogue says is damage and is named; a
segment with more is what a crash left behind, bytes that nobody was promised, and is cut off. One exception
tells a crash from a catalogue that was damaged or put back: only one commit is ever under way, so leftovers
of a later one than the next were acknowledged once, and the store refuses to throw them away.
"""

from __future__ import annotations

import os

from archiver.errors import Damaged

from .catalogue import Catalogue
from .segments import Segments


def reconcile(catalogue: Catalogue, segments: Segments) -> None:
    """Raise Damaged, or leave exactly the segments and lengths that the catalogue knows."""
    existing = segments.numbers()
    if catalogue.created and existing:
        raise Damaged(
            f"{segments.folder} holds {len(existing)} segments but their catalogue is missing;"
            " restore catalogue.db (and catalogue.db-wal) from a copy"
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
            if record.commit > catalogue.state.commits + 1:
                raise Damaged(
                    f"segment {path} holds object {record.key!r} of commit {record.commit}, but the"
                    f" catalogue ends at commit {catalogue.state.commits}: it has lost writes (was"
                    " catalogue.db-wal removed or damaged?); restore it from a copy"
                )
        if known:
            os.truncate(path, keep)
        else:
            segments.remove(number)
