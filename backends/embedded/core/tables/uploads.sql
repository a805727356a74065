-- Layout 3: uploads in parts, and tags.
--
-- A part is a record in a segment, like an object that was sent whole, and stays it when the upload is completed:
-- the version that it then belongs to names the upload, and the upload's parts in the order of their numbers are its
-- content. So completing writes rows only, however large the object is.

ALTER TABLE versions ADD COLUMN upload INTEGER;  -- the content is its parts; segment, offset, block_crcs mean nothing
ALTER TABLE versions ADD COLUMN tags TEXT;       -- JSON object

CREATE UNIQUE INDEX versions_by_upload ON versions (upload) WHERE upload IS NOT NULL;

-- One row for each upload that was neither completed nor aborted: what the version is to be.
CREATE TABLE uploads (
    id             INTEGER PRIMARY KEY,  -- a sequence number; the first half of the upload id
    bucket         INTEGER NOT NULL REFERENCES buckets (id),
    key            TEXT NOT NULL,
    started_ms     INTEGER NOT NULL,
    checksum_kind  TEXT,                 -- that every part has to bring; NULL: each as it likes
    checksum_type  TEXT CHECK (checksum_type IN ('COMPOSITE', 'FULL_OBJECT')),
    content_type   TEXT,
    metadata       TEXT,
    tags           TEXT,
    mode           TEXT CHECK (mode IN ('GOVERNANCE', 'COMPLIANCE')),
    until_ms       INTEGER,
    legal_hold     INTEGER
) STRICT;

-- The order of every listing.
CREATE UNIQUE INDEX uploads_by_key ON uploads (bucket, key, id);

-- Parts of unfinished uploads and of versions; nobody else's.
CREATE TABLE parts (
    id             INTEGER PRIMARY KEY,  -- a sequence number, by which its record in the segment knows it
    upload         INTEGER NOT NULL,
    number         INTEGER NOT NULL,
    written_ms     INTEGER NOT NULL,
    size           INTEGER NOT NULL,
    segment        INTEGER NOT NULL,
    offset         INTEGER NOT NULL,     -- of the first content byte in the segment
    block_crcs     BLOB NOT NULL,        -- as of a version
    etag           TEXT NOT NULL,
    checksum       TEXT,
    UNIQUE (upload, number)
) STRICT;
