"""The catalogue's place: in the data folder, or in a folder of its own on another disk.

One idea: the data folder records the place, and the store's id in the catalogue proves that it is the right one. The
store refuses a catalogue that is missing or has another store's id: starting with an empty catalogue would lose
acknowledged objects. A catalogue cannot be moved later.

    data folder:       catalogue.json   the catalogue's folder, the store's id, whether the catalogue was ever ready
    catalogue folder:  store.json       the store that the catalogue belongs to

The data folder records the place before the catalogue exists, and records that the catalogue is ready before the store
acknowledges anything. A crash between the two loses nothing: the next start creates the catalogue, or takes the one
with the store's id.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

import msgspec

from archiver.values.errors import StoreError, UsageError

from .files.owner_file import read_document, write_for_owner
from .files.segments import sync_folder
from .tables import catalogue

_MEMORY_NAME = "catalogue.json"
_OWNER_NAME = "store.json"
_NO_DOCUMENT = "does not say where a catalogue belongs; restore it from a copy"


class _Memory(msgspec.Struct, frozen=True):
    """The record in a data folder about a catalogue in another folder."""

    catalogue_dir: str
    store_id: str
    ready: bool


class _Owner(msgspec.Struct, frozen=True):
    """The record in a catalogue folder. The data folder is informative only: it may be mounted elsewhere now."""

    data: str
    store_id: str


@dataclass(frozen=True, slots=True)
class Place:
    """A folder for a catalogue. `store_id`: the store it must belong to; None if the folder is the data folder."""

    data: Path
    folder: Path
    store_id: str | None = None
    was_ready: bool = False

    def made(self) -> Path:
        """Return the folder; create it for a new store."""
        if not self.was_ready:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(self.folder.parent)
        return self.folder

    def take(self) -> None:
        """Claim the folder for this store; both folders must be locked. Raises UsageError if another store has it."""
        if self.store_id is None or self.was_ready:
            return
        owner = read_document(self.folder / _OWNER_NAME, _Owner, _NO_DOCUMENT)
        if owner is not None and owner.store_id != self.store_id:
            raise UsageError(f"--catalogue-dir {self.folder}: it is the catalogue of the store in {owner.data}")
        if owner is None and _is_data_folder(self.folder):
            raise UsageError(f"--catalogue-dir {self.folder}: it is the data folder of another store")
        self._remember(ready=False)
        write_for_owner(self.folder / _OWNER_NAME, _Owner(str(self.data.absolute()), self.store_id))

    def confirm(self) -> None:
        """Record that the catalogue exists: from now on the store refuses a missing one."""
        if self.store_id is not None and not self.was_ready:
            self._remember(ready=True)

    def _remember(self, *, ready: bool) -> None:
        assert self.store_id is not None
        write_for_owner(self.data / _MEMORY_NAME, _Memory(str(self.folder), self.store_id, ready))


def find(data: Path, wanted: Path | None) -> Place:
    """Return the place of the catalogue of the store in `data`; for a new store, the place that `wanted` names.

    Raises UsageError if the catalogue is not in the wanted folder, StoreError if it is missing.
    """
    owner = read_document(data / _OWNER_NAME, _Owner, _NO_DOCUMENT)
    if owner is not None:
        raise UsageError(f"{data} is only the catalogue of a store; its data folder was {owner.data}: name that one")
    memory = read_document(data / _MEMORY_NAME, _Memory, _NO_DOCUMENT)
    if memory is not None:
        folder = Path(memory.catalogue_dir)
        if wanted is not None and not _is_same(wanted, folder):
            raise UsageError(
                f"--catalogue-dir {wanted}: the catalogue of the store in {data} is in {folder} and cannot be moved;"
                " leave the option out"
            )
        if memory.ready and not (folder / catalogue.FILE_NAME).exists():
            raise StoreError(
                f"the catalogue of the store in {data} is missing: {folder / catalogue.FILE_NAME} is not there;"
                " attach its disk, or restore it from a copy"
            )
        return Place(data, folder, memory.store_id, memory.ready)
    if wanted is None or _is_same(wanted, data):
        return Place(data, data)
    if _is_data_folder(data):
        raise UsageError(
            f"--catalogue-dir {wanted}: the store in {data} was made with its catalogue in that folder, and it cannot"
            " be moved; leave the option out, or make a new store"
        )
    return Place(data, wanted.absolute(), secrets.token_hex(8))


def catalogue_folder(data: Path) -> Path:
    """Return the catalogue's folder of an existing store."""
    memory = read_document(data / _MEMORY_NAME, _Memory, _NO_DOCUMENT)
    return data if memory is None else Path(memory.catalogue_dir)


def _is_data_folder(folder: Path) -> bool:
    return any((folder / name).exists() for name in (catalogue.FILE_NAME, _MEMORY_NAME, "segments"))


def _is_same(a: Path, b: Path) -> bool:
    return a.resolve() == b.resolve()
