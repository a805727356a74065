-- The ledger: what this tester has put where, and until when it cannot be deleted. One file over all runs, so that
-- losing a run's folder never loses the record of what is locked.
-- Versions: 1 (PRAGMA user_version) first form.

CREATE TABLE IF NOT EXISTS placement (
    id                INTEGER PRIMARY KEY,
    run               TEXT NOT NULL,
    phase             TEXT NOT NULL,
    backend           TEXT NOT NULL,
    platform          TEXT,              -- NULL: somebody else's, reached by its endpoint; else Archiver starts it
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
    objects           INTEGER,           -- exact, when the phase ended; NULL: it never did, list the prefix
    bytes             INTEGER,
    written_at        REAL NOT NULL,     -- epoch seconds
    removed_at        REAL               -- epoch seconds; NULL: still there as far as we know
);
CREATE INDEX IF NOT EXISTS placement_run ON placement (run);
