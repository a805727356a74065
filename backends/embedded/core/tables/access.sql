-- Access rules. A rule lets other nodes and owners read archives of a node, existing and future ones. It
-- never lets them change one.

CREATE TABLE access_rules (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: clients name a rule by it
    space          INTEGER NOT NULL REFERENCES spaces (id),
    hl             BLOB NOT NULL,          -- patterns of the object names that it opens
    ll             BLOB NOT NULL,
    giver          BLOB NOT NULL,          -- it opens this owner's objects only; empty: all of the node
    node           BLOB NOT NULL,          -- patterns of the readers, the node in upper case
    owner          BLOB NOT NULL,
    UNIQUE (space, hl, ll, giver, node, owner)
) STRICT;
