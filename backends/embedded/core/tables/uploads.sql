-- Multipart uploads.
--
-- A part is a record in a segment, like a whole object. It stays there when the upload is completed: the version names
-- the upload, and its content is the upload's parts in the order of their numbers. So completing an upload writes rows
-- only, for an object of any size.

-- One row for each upload that was neither completed nor aborted, with the attributes of its later version.
CREATE TABLE uploads (
    id             INTEGER PRIMARY KEY,  -- a sequence number; the first half of the upload id
    bucket         INTEGER NOT NULL REFERENCES buckets (id),
    key            TEXT NOT NULL,
    started_ms     INTEGER NOT NULL,
    checksum_kind  TEXT,                 -- required of every part; NULL: any
    checksum_type  TEXT CHECK (checksum_type IN ('COMPOSITE', 'FULL_OBJECT')),
    content_type   TEXT,
    metadata       TEXT,
    tags           TEXT,
    mode           TEXT CHECK (mode IN ('GOVERNANCE', 'COMPLIANCE')),
    until_ms       INTEGER,
    legal_hold     INTEGER,
    event_hold     TEXT                  -- as in versions
) STRICT;

-- The order of every listing.
CREATE UNIQUE INDEX uploads_by_key ON uploads (bucket, key, id);

-- Parts of unfinished uploads and of versions.
CREATE TABLE parts (
    id             INTEGER PRIMARY KEY,  -- a sequence number, as in its record in the segment
    upload         INTEGER NOT NULL,
    number         INTEGER NOT NULL,
    written_ms     INTEGER NOT NULL,
    size           INTEGER NOT NULL,
    segment        INTEGER NOT NULL,
    offset         INTEGER NOT NULL,     -- of the first content byte in the segment
    block_crcs     BLOB NOT NULL,        -- as in versions
    etag           TEXT NOT NULL,
    checksum       TEXT,
    UNIQUE (upload, number)
) STRICT;
