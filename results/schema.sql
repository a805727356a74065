-- One run: everything measured, and everything needed to judge it and to make its objects again.
-- Versions (PRAGMA user_version): 1 first form; 2 samples by source, measured times of phases, comparisons;
--   3 conformance checks by round; 4 runs that go on after they broke off, and that read objects of another;
--   5 workloads that run together: response times by interval, data sets, criteria, searches;
--   6 what each worker did, on whichever host; 7 probe objects; 8 what the user asked for;
--   9 percentiles of response times by interval.
-- Times are epoch seconds (REAL) where a column says so; intervals count interval_ns from a phase's start.
-- Secrets never enter this file.

CREATE TABLE run (
    id              TEXT PRIMARY KEY,
    started_at      REAL NOT NULL,           -- epoch seconds
    ended_at        REAL,                    -- NULL: still running, or killed
    verdict         TEXT,                    -- pass, fail, void, none, interrupted; NULL as above
    command_line    TEXT NOT NULL,           -- JSON list; no option takes a secret
    scenario        TEXT NOT NULL,
    scenario_title  TEXT NOT NULL,
    scenario_json   TEXT NOT NULL,           -- the whole file with overrides applied
    sweep_order     TEXT NOT NULL,           -- shuffled, paper
    order_seed      INTEGER NOT NULL,
    repetitions     INTEGER NOT NULL,
    phases_planned  INTEGER NOT NULL,
    backend         TEXT NOT NULL,
    platform        TEXT NOT NULL,           -- JSON: PlatformProfile
    settings        TEXT NOT NULL,           -- JSON: retention, guards, checksum, session kind, verify ...
    host            TEXT NOT NULL,           -- JSON: processor, memory, kernel, package versions
    workers         INTEGER NOT NULL,
    worker_cores    TEXT NOT NULL,           -- JSON list; empty: not pinned
    shared_host     INTEGER NOT NULL,        -- 1: client and server share this machine
    location        TEXT NOT NULL,           -- JSON: endpoint, bucket, prefix
    content_seed    INTEGER NOT NULL,        -- with the run's id, all that is needed to make an object again
    content_kind    TEXT NOT NULL,           -- generator and layout of object content
    interval_ns     INTEGER NOT NULL,
    comparison      TEXT,                    -- common to the runs whose cells were measured in turn; NULL: alone
    lock_verified   TEXT,                    -- 'verified', or what was wrong with the first lock read back
    objects_from    TEXT,                    -- JSON: the run whose objects it read, and when they were archived; NULL: its own
    request         TEXT                     -- JSON: what the user asked for, without secrets; NULL: a conformance run
);

-- When the run went on after it had broken off. Instants on the run's clock that are older were moved by shift_ns.
CREATE TABLE resumption (
    at              REAL NOT NULL,           -- epoch seconds
    after_position  INTEGER NOT NULL,        -- of the last phase that had finished; 0: none
    shift_ns        INTEGER NOT NULL
);

-- Every phase that was begun: one that is not in table phase broke off.
CREATE TABLE begun (
    position        INTEGER NOT NULL,
    at              REAL NOT NULL,           -- epoch seconds
    server_now      REAL NOT NULL            -- the platform's clock, by which its objects were chosen
);

CREATE TABLE phase (
    position        INTEGER PRIMARY KEY,     -- order in which phases ran, from 1
    name            TEXT NOT NULL,
    label           TEXT NOT NULL,
    repetition      INTEGER NOT NULL,
    drift_check     INTEGER NOT NULL,
    started_at      REAL NOT NULL,
    seconds         REAL NOT NULL,           -- start instant to the last worker's end
    start_ns        INTEGER NOT NULL,        -- the same two instants on the run's clock
    end_ns          INTEGER NOT NULL,
    measured_from_ns INTEGER NOT NULL,       -- between these the rates were measured
    measured_to_ns  INTEGER NOT NULL,
    gave_up         TEXT,                    -- why it ended early; NULL: it did not
    prepared_ns     INTEGER NOT NULL         -- on the run's clock: before its probe objects were archived
);

-- Objects archived before a phase's clients began, so that their locks could be read back. They are in no rate.
CREATE TABLE probe (
    position        INTEGER NOT NULL REFERENCES phase,
    lock            TEXT,                    -- how they came by their lock; NULL: as the run says
    object_bytes    INTEGER NOT NULL,
    tries           INTEGER NOT NULL,        -- requests, those that failed included
    archived        INTEGER NOT NULL         -- one per endpoint
);

CREATE TABLE result (
    position            INTEGER NOT NULL REFERENCES phase,
    workload            TEXT NOT NULL,
    operation           TEXT NOT NULL,
    object_bytes        INTEGER NOT NULL,
    objects_per_session INTEGER NOT NULL,
    clients             INTEGER NOT NULL,
    repetition          INTEGER NOT NULL,
    objects             INTEGER NOT NULL,    -- good ones in the measured time
    errors              INTEGER NOT NULL,
    seconds             REAL NOT NULL,
    objects_per_second  REAL NOT NULL,
    document            TEXT NOT NULL,       -- JSON: the published contract, whole
    PRIMARY KEY (position, workload)
);

-- Good and failed work by the interval in which it ended; sparse.
CREATE TABLE interval (
    position    INTEGER NOT NULL REFERENCES phase,
    interval    INTEGER NOT NULL,
    workload    TEXT NOT NULL,
    part        TEXT NOT NULL,               -- warm-up, measured, drain
    sessions    INTEGER NOT NULL,
    objects     INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    errors      INTEGER NOT NULL,
    response_total_ns INTEGER NOT NULL,      -- of the good objects that ended in it, from when they were due
    response_max_ns INTEGER NOT NULL,
    response_p50_ns INTEGER,                 -- NULL: no good object ended in it, or a worker reported it 10 s late
    response_p99_ns INTEGER,
    PRIMARY KEY (position, interval, workload, part)
);

-- Object operations by kind, of workloads that do several: of the whole phase, warm-up and drain included.
CREATE TABLE part (
    position    INTEGER NOT NULL REFERENCES phase,
    workload    TEXT NOT NULL,
    name        TEXT NOT NULL,               -- the operation's, or that of the objects beside: log
    operation   TEXT NOT NULL,
    objects     INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    errors      INTEGER NOT NULL,
    PRIMARY KEY (position, workload, name)
);

-- What each worker did in the measured time of a phase, and how it was together with the others.
CREATE TABLE worker (
    position         INTEGER NOT NULL REFERENCES phase,
    worker           INTEGER NOT NULL,       -- from 0, within the phase
    name             TEXT NOT NULL,          -- of its process; on other machines its address
    host             TEXT NOT NULL,
    objects          INTEGER NOT NULL,       -- good ones, of all workloads; of a lost worker what it had reported
    bytes            INTEGER NOT NULL,
    errors           INTEGER NOT NULL,
    cpu_seconds      REAL,                   -- NULL: it was lost
    prepared_seconds REAL,                   -- from being told what to do until it was ready to start
    late_ns          INTEGER,                -- so long after the agreed instant it began
    clock_offset_ns  INTEGER,                -- its clock is so far ahead of the coordinator's; NULL: the same clock
    clock_error_ns   INTEGER,                -- by how much that may be wrong
    lost             TEXT,                   -- why it did not come to the end; NULL: it did
    PRIMARY KEY (position, worker)
);

-- Merged HDR histograms (nanoseconds, 3 significant digits) of the measured time; percentiles are taken from these.
CREATE TABLE histogram (
    position    INTEGER NOT NULL REFERENCES phase,
    workload    TEXT NOT NULL,
    quantity    TEXT NOT NULL,               -- object_service, session_open ...; of a part object_service:retrieve
    total_ns    INTEGER NOT NULL,
    max_ns      INTEGER NOT NULL,
    indices     BLOB NOT NULL,               -- little-endian int64: HdrHistogram counts indices, rising
    counts      BLOB NOT NULL,               -- little-endian int64
    PRIMARY KEY (position, workload, quantity)
);

-- Which objects this run archived: what retrieve phases read, and what can be made again from the seed.
CREATE TABLE object_range (
    position     INTEGER NOT NULL REFERENCES phase,
    object_bytes INTEGER NOT NULL,
    first        INTEGER NOT NULL,
    last         INTEGER NOT NULL,
    data         TEXT NOT NULL,              -- the data set that a scenario counts them to; empty in sweeps
    workload     INTEGER NOT NULL            -- place of the workload in its phase, from 0
);

-- What became of archived objects, in order: extended, held, released, deleted, hidden, copied, replaced.
CREATE TABLE object_change (
    position     INTEGER NOT NULL REFERENCES phase,
    operation    TEXT NOT NULL,
    object_bytes INTEGER NOT NULL,
    first        INTEGER NOT NULL,
    last         INTEGER NOT NULL
);

-- The first failure of each kind in each phase, and how many there were.
CREATE TABLE error (
    position    INTEGER NOT NULL REFERENCES phase,
    operation   TEXT NOT NULL,
    reason      TEXT NOT NULL,
    count       INTEGER NOT NULL,
    message     TEXT NOT NULL,
    request_id  TEXT NOT NULL,
    object_name TEXT NOT NULL
);

-- Server resource usage, about once a second and at every phase's edges, as each source told it.
CREATE TABLE sample (
    source          TEXT NOT NULL,           -- local, pid:123, minio, prometheus:http://...
    at              REAL NOT NULL,           -- epoch seconds
    monotonic_ns    INTEGER NOT NULL,        -- the run's clock
    reading         TEXT NOT NULL            -- JSON: quantity -> item -> value, names of results.resources
);

-- Sources that could not be read at some time: the first reason.
CREATE TABLE source_problem (
    source          TEXT PRIMARY KEY,
    at              REAL NOT NULL,           -- epoch seconds
    problem         TEXT NOT NULL
);

-- Pass criteria of the scenario, judged at the end of the phases that they speak of; a results.model.CriterionResult.
CREATE TABLE criterion (
    position    INTEGER NOT NULL REFERENCES phase,
    document    TEXT NOT NULL                -- JSON
);

-- What a search for the largest scale came to; a document is a results.model.SearchOutcome.
CREATE TABLE search (
    document    TEXT NOT NULL                -- JSON
);

-- What each conformance check came to (archiver worm); a document is a results.worm.CheckRecord.
CREATE TABLE worm_check (
    id              TEXT NOT NULL,           -- DEL-02
    round           TEXT NOT NULL,           -- alone, under load, after restart
    verdict         TEXT NOT NULL,
    document        TEXT NOT NULL,
    PRIMARY KEY (id, round)
);

-- Its evidence: every request and answer in order, without secrets.
CREATE TABLE worm_exchange (
    check_id        TEXT NOT NULL,
    round           TEXT NOT NULL,
    position        INTEGER NOT NULL,        -- from 1
    document        TEXT NOT NULL,
    PRIMARY KEY (check_id, round, position),
    FOREIGN KEY (check_id, round) REFERENCES worm_check (id, round)
);

-- The rounds in which checks were tried, and how much load there was; a document is a results.model.RoundRecord.
CREATE TABLE worm_round (
    round           TEXT PRIMARY KEY,
    document        TEXT NOT NULL
);

-- What reading everything again, or a sample of it, found (archiver audit); a document is an archiver.audit.AuditRecord.
CREATE TABLE audit (
    started_at      REAL NOT NULL,           -- epoch seconds
    document        TEXT NOT NULL            -- JSON
);
