-- The catalogue: the objects of the store, their places and their locks. It decides; segments are only bytes.
--
-- It has this file's tables and those of archives.sql, uploads.sql and access.sql.
--
-- Instants are milliseconds since the epoch by the compliance clock.

-- One row. It changes in every commit, so it costs one page for each group of writes.
CREATE TABLE state (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    store_id       TEXT NOT NULL,      -- 16 hexadecimal digits, the second half of every version id
    commits        INTEGER NOT NULL,   -- number of the last commit; a record in a segment has the number of its commit
    next_sequence  INTEGER NOT NULL,   -- never reused, not even after a delete
    clock_ms       INTEGER NOT NULL    -- the highest time ever committed; the clock never starts below it
) STRICT;

CREATE TABLE buckets (
    id             INTEGER PRIMARY KEY,
    name           TEXT NOT NULL UNIQUE,
    created_ms     INTEGER NOT NULL,
    versioning     TEXT NOT NULL CHECK (versioning IN ('Off', 'Enabled', 'Suspended')),
    object_lock    INTEGER NOT NULL,   -- 1: enabled permanently; then versioning is Enabled
    default_mode   TEXT,               -- the default retention of new versions
    default_days   INTEGER,
    default_years  INTEGER,
    default_event_hold TEXT,           -- the period of the hold of new versions
    CHECK (object_lock = 0 OR versioning = 'Enabled')
) STRICT;

-- One row for each version and delete marker. The primary key is the order of every listing: keys by their UTF-8
-- bytes, and the newest version of a key first. So the newest version of a key is one seek, and a page of a listing is
-- one scan.
CREATE TABLE versions (
    bucket         INTEGER NOT NULL REFERENCES buckets (id),
    key            TEXT NOT NULL,
    sequence       INTEGER NOT NULL,   -- order of creation in the whole store; the first half of the version id
    is_null        INTEGER NOT NULL,   -- 1: created without versioning, with the id "null"; at most one per key
    is_marker      INTEGER NOT NULL,   -- 1: a delete marker; the columns down to metadata are then unused
    created_ms     INTEGER NOT NULL,
    size           INTEGER NOT NULL,
    segment        INTEGER NOT NULL,
    offset         INTEGER NOT NULL,   -- of the first content byte in the segment
    block_crcs     BLOB NOT NULL,      -- CRC32C of each MiB of the content, 4 bytes each, little-endian
    etag           TEXT NOT NULL,      -- MD5 of the content, hexadecimal
    checksum       TEXT,               -- the client's checksum, verified by the store, as kind:base64
    content_type   TEXT,
    metadata       TEXT,               -- JSON object of the client's own entries
    mode           TEXT CHECK (mode IN ('GOVERNANCE', 'COMPLIANCE')),
    until_ms       INTEGER,            -- retained while now < until_ms; set exactly when mode is
    legal_hold     INTEGER,            -- 0 off, 1 on, NULL never set
    upload         INTEGER,            -- the content is its parts; segment, offset, block_crcs are unused
    tags           TEXT,               -- JSON object
    event_hold     TEXT,               -- an event hold that is on: the ISO 8601 period that its release starts, in days
                                       -- or in years (P30D, P7Y); until_ms is then the earliest date, 0: the period
                                       -- alone decides. OFF: it was released, and until_ms is the date that the
                                       -- release set. NULL: there never was one
    PRIMARY KEY (bucket, key, sequence DESC)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX versions_by_upload ON versions (upload) WHERE upload IS NOT NULL;

-- One row for each segment with live objects.
CREATE TABLE segments (
    number         INTEGER PRIMARY KEY,
    length         INTEGER NOT NULL,   -- durable bytes; bytes beyond this length were never acknowledged
    live_objects   INTEGER NOT NULL,   -- at 0 a segment that is no longer appended to is deleted
    live_bytes     INTEGER NOT NULL,   -- of content
    live_record_bytes  INTEGER NOT NULL  -- live_bytes with headers and names; length minus this is what a rewrite frees
) STRICT;
