"""The store itself: objects, archives, locks and retention on a local disk. It knows no protocol.

`store` is its interface. The packages, from the bottom up: `rules` decides what is refused, `files` writes the bytes,
`tables` is the catalogue in SQLite, `changes` are the changes that a group commit makes. The modules of this folder
run them: `commits` is the one writer, `compaction` and `recovery` move and repair segments.
"""
