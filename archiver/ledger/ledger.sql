-- The ledger: what runs archived, where, and until when it cannot be deleted. One file over all runs, so that
-- losing a run's folder never loses the record of what is locked.
-- PRAGMA user_version is the version of this form. No other version is read.

-- Runs, so that nothing is removed while one is in progress.
CREATE TABLE IF NOT EXISTS run (
    run      TEXT PRIMARY KEY,
    database TEXT NOT NULL,              -- absolute path of its results; its folder has the lock of the writer
    machine  TEXT NOT NULL,              -- name of the machine that it runs on
    reads    TEXT,                       -- another run, whose objects it reads; NULL: none
    begun_at REAL NOT NULL,              -- epoch seconds
    ended_at REAL                        -- epoch seconds; NULL: in progress, or killed
);

CREATE TABLE IF NOT EXISTS placement (
    id                INTEGER PRIMARY KEY,
    run               TEXT NOT NULL,
    phase             TEXT NOT NULL,
    backend           TEXT NOT NULL,
    platform          TEXT,              -- name, if Archiver starts it; NULL: another owner's, at the endpoint
    endpoint          TEXT NOT NULL,
    region            TEXT NOT NULL,
    bucket            TEXT NOT NULL,
    bucket_created    INTEGER NOT NULL,  -- 1: made by this run, so cleanup may remove it
    prefix            TEXT NOT NULL,
    retention_mode    TEXT NOT NULL,     -- GOVERNANCE, COMPLIANCE, CLASS, none
    latest_retain_until REAL,            -- epoch seconds; NULL: no date
    legal_hold        INTEGER NOT NULL,
    objects_max       INTEGER NOT NULL,  -- bound written before the first byte was sent
    bytes_max         INTEGER NOT NULL,
    objects           INTEGER,           -- exact, after the phase ended; NULL: it never ended, list the prefix
    bytes             INTEGER,
    written_at        REAL NOT NULL,     -- epoch seconds
    removed_at        REAL,              -- epoch seconds; NULL: not removed as far as is known
    content_seed      INTEGER,           -- generates the content; NULL: objects have no numbers
    first_number      INTEGER NOT NULL DEFAULT 0, -- lowest object number; all are below first_number + objects_max
    earliest_retain_until REAL,          -- epoch seconds: no object's lock ends before; NULL: no date
    seen_mode         TEXT,              -- strongest mode that the platform reported, if not the agreed one; NULL: none
    seen_until        REAL,              -- epoch seconds: latest date that it reported; NULL: none
    seen_hold         INTEGER NOT NULL DEFAULT 0, -- 1: it reported a hold
    event_hold_days   INTEGER,           -- days locked after the release of their event holds; NULL: none
    released_until    REAL               -- epoch seconds: latest date that a release can have set; NULL: no release
);
CREATE INDEX IF NOT EXISTS placement_run ON placement (run);

-- Acknowledged objects of a placement. A session's numbers are consecutive, so a million objects take kilobytes.
CREATE TABLE IF NOT EXISTS object_range (
    placement    INTEGER NOT NULL REFERENCES placement,
    object_bytes INTEGER NOT NULL,
    first        INTEGER NOT NULL,
    last         INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS object_range_placement ON object_range (placement);

-- Changes of event holds by operations of a run; of several rows about an object the last one counts.
CREATE TABLE IF NOT EXISTS event_hold (
    id       INTEGER PRIMARY KEY,
    run      TEXT NOT NULL,
    first    INTEGER NOT NULL,
    last     INTEGER NOT NULL,
    is_on    INTEGER,                    -- 1: placed; 0: released; NULL: unknown, written before the phase's requests
    earliest REAL,                       -- epoch seconds: no release has set an earlier date; NULL: no date is known
    latest   REAL                        -- epoch seconds: no release has set a later date
);
CREATE INDEX IF NOT EXISTS event_hold_run ON event_hold (run);
