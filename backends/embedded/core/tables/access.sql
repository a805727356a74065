-- Layout 4: who may read what other nodes and owners have archived through the TSM door.
--
-- A rule opens archives, those of today and those to come; it never lets anybody change one.

CREATE TABLE access_rules (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: clients name a rule by it
    space          INTEGER NOT NULL REFERENCES spaces (id),
    hl             BLOB NOT NULL,          -- patterns of the names that it opens
    ll             BLOB NOT NULL,
    giver          BLOB NOT NULL,          -- the owner who made it, whose objects alone it opens; empty: the whole node
    node           BLOB NOT NULL,          -- patterns of who may read, the node in upper case
    owner          BLOB NOT NULL,
    UNIQUE (space, hl, ll, giver, node, owner)
) STRICT;
