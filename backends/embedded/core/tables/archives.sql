-- What TSM sessions archive.
--
-- Names and other texts are bytes, as clients send them. An unsigned 64-bit number of a client is stored as the signed
-- number with the same bits. Expiry is not a column: it follows from the current class, which only becomes stricter.

CREATE TABLE management_classes (
    id              INTEGER PRIMARY KEY,
    name            TEXT NOT NULL UNIQUE,   -- upper case
    retinit         TEXT NOT NULL CHECK (retinit IN ('creation', 'event')),
    retver_seconds  INTEGER,                -- after creation or event; NULL: no limit
    retmin_seconds  INTEGER NOT NULL        -- event only: the minimum after creation
) STRICT;

CREATE TABLE spaces (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: sessions keep it
    node           TEXT NOT NULL,
    name           BLOB NOT NULL,
    type           BLOB NOT NULL,
    occupancy      INTEGER NOT NULL,
    capacity       INTEGER NOT NULL,
    info           BLOB NOT NULL,
    archived_ms    INTEGER NOT NULL,       -- the time of the last archive operation; 0: none yet
    UNIQUE (node, name)
) STRICT;

CREATE TABLE archives (
    id             INTEGER PRIMARY KEY,    -- from the same sequence as versions
    space          INTEGER NOT NULL REFERENCES spaces (id),
    hl             BLOB NOT NULL,
    ll             BLOB NOT NULL,
    type           INTEGER NOT NULL,       -- 1 file, 2 directory
    attributes     INTEGER NOT NULL,       -- bit 0: compressed by the application
    owner          BLOB NOT NULL,
    class          INTEGER NOT NULL REFERENCES management_classes (id),
    archived_ms    INTEGER NOT NULL,
    event_ms       INTEGER,                -- the time of the retention event; NULL: none yet
    held           INTEGER NOT NULL,
    estimate       INTEGER NOT NULL,       -- the client's size estimate before it sent the object
    size           INTEGER NOT NULL,
    segment        INTEGER NOT NULL,
    offset         INTEGER NOT NULL,       -- of the first content byte in the segment
    block_crcs     BLOB NOT NULL,          -- CRC32C of each MiB of the content, 4 bytes each, little-endian
    description    BLOB NOT NULL,
    info           BLOB NOT NULL
) STRICT;

-- Several objects of one name are several archives; the newest has the highest id.
CREATE INDEX archives_by_name ON archives (space, hl, ll);
