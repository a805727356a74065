-- One run: all measurements, and everything needed to judge them and to generate the run's objects again.
-- PRAGMA user_version is the version of this form. No other version is read.
-- Times are epoch seconds (REAL) where a column says so; intervals count interval_ns from a phase's start.
-- Secrets never enter this file.

CREATE TABLE run (
    id              TEXT PRIMARY KEY,
    started_at      REAL NOT NULL,           -- epoch seconds
    ended_at        REAL,                    -- NULL: the run has not ended, or was killed
    verdict         TEXT,                    -- pass, fail, void, none, interrupted; NULL: as ended_at
    command_line    TEXT NOT NULL,           -- JSON list; no option takes a secret
    scenario        TEXT NOT NULL,
    scenario_title  TEXT NOT NULL,
    scenario_json   TEXT NOT NULL,           -- the complete file with overrides applied
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
    content_seed    INTEGER NOT NULL,        -- generates an object again, together with the run's id
    content_kind    TEXT NOT NULL,           -- generator and layout of object content
    interval_ns     INTEGER NOT NULL,
    comparison      TEXT,                    -- id shared by runs whose cells were measured in turn; NULL: one run alone
    lock_verified   TEXT,                    -- 'verified', or the fault of the first wrong lock that the platform reported
    objects_from    TEXT,                    -- JSON: run whose objects it read, and when they were archived; NULL: its own objects
    request         TEXT                     -- JSON: the user's request, without secrets; NULL: a conformance run
);

-- Continuations of an interrupted run. Earlier instants on the run's clock were moved by shift_ns.
CREATE TABLE resumption (
    at              REAL NOT NULL,           -- epoch seconds
    after_position  INTEGER NOT NULL,        -- position of the last finished phase; 0: none
    shift_ns        INTEGER NOT NULL
);

-- Every phase that began. A phase that is not in table phase was interrupted.
CREATE TABLE begun (
    position        INTEGER NOT NULL,
    at              REAL NOT NULL,           -- epoch seconds
    server_now      REAL NOT NULL            -- the platform's clock when the phase's objects were chosen
);

CREATE TABLE phase (
    position        INTEGER PRIMARY KEY,     -- order in which phases ran, from 1
    name            TEXT NOT NULL,
    label           TEXT NOT NULL,
    repetition      INTEGER NOT NULL,
    drift_check     INTEGER NOT NULL,
    started_at      REAL NOT NULL,
    seconds         REAL NOT NULL,           -- from the start instant to the end of the last worker
    start_ns        INTEGER NOT NULL,        -- the same two instants on the run's clock
    end_ns          INTEGER NOT NULL,
    measured_from_ns INTEGER NOT NULL,       -- beginning of the measured time, on the run's clock
    measured_to_ns  INTEGER NOT NULL,
    gave_up         TEXT,                    -- reason of an early end; NULL: none
    prepared_ns     INTEGER NOT NULL         -- on the run's clock: instant before its probe objects were archived
);

-- Objects archived before a phase's clients began, to read their locks back. No rate includes them.
CREATE TABLE probe (
    position        INTEGER NOT NULL REFERENCES phase,
    lock            TEXT,                    -- way of locking; NULL: that of the run
    object_bytes    INTEGER NOT NULL,
    tries           INTEGER NOT NULL,        -- requests, failed ones included
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
    objects             INTEGER NOT NULL,    -- successful objects in the measured time
    errors              INTEGER NOT NULL,
    seconds             REAL NOT NULL,
    objects_per_second  REAL NOT NULL,
    document            TEXT NOT NULL,       -- JSON: the complete published document
    PRIMARY KEY (position, workload)
);

-- Successful and failed operations by the interval in which they ended. Intervals without operations have no row.
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
    response_total_ns INTEGER NOT NULL,      -- sum over the successful objects that ended in it, from their due times
    response_max_ns INTEGER NOT NULL,
    response_p50_ns INTEGER,                 -- NULL: no successful object ended in it, or a worker reported it 10 s late
    response_p99_ns INTEGER,
    PRIMARY KEY (position, interval, workload, part)
);

-- Object operations by kind, for workloads with several kinds: over the whole phase, warm-up and drain included.
CREATE TABLE part (
    position    INTEGER NOT NULL REFERENCES phase,
    workload    TEXT NOT NULL,
    name        TEXT NOT NULL,               -- name of the operation, or of the aside's objects: log
    operation   TEXT NOT NULL,
    objects     INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    errors      INTEGER NOT NULL,
    PRIMARY KEY (position, workload, name)
);

-- Work of each worker in the measured time of a phase, and its synchronisation with the other workers.
CREATE TABLE worker (
    position         INTEGER NOT NULL REFERENCES phase,
    worker           INTEGER NOT NULL,       -- from 0, within the phase
    name             TEXT NOT NULL,          -- name of its process; its address on other machines
    host             TEXT NOT NULL,
    objects          INTEGER NOT NULL,       -- successful objects of all workloads; those reported by a lost worker
    bytes            INTEGER NOT NULL,
    errors           INTEGER NOT NULL,
    cpu_seconds      REAL,                   -- NULL: the worker was lost
    prepared_seconds REAL,                   -- from its assignment until it was ready to start
    late_ns          INTEGER,                -- delay of its start after the agreed instant
    clock_offset_ns  INTEGER,                -- its clock minus the coordinator's; NULL: the same clock
    clock_error_ns   INTEGER,                -- possible error of this offset
    lost             TEXT,                   -- reason why it was lost; NULL: it was not
    PRIMARY KEY (position, worker)
);

-- Merged HDR histograms (nanoseconds, 3 significant digits) of the measured time; source of all percentiles.
CREATE TABLE histogram (
    position    INTEGER NOT NULL REFERENCES phase,
    workload    TEXT NOT NULL,
    quantity    TEXT NOT NULL,               -- object_service, session_open ...; for a part object_service:retrieve
    total_ns    INTEGER NOT NULL,
    max_ns      INTEGER NOT NULL,
    indices     BLOB NOT NULL,               -- little-endian int64: HdrHistogram counts indices, ascending
    counts      BLOB NOT NULL,               -- little-endian int64
    PRIMARY KEY (position, workload, quantity)
);

-- Objects that this run archived. Retrieve phases read them, and the seed can generate them again.
CREATE TABLE object_range (
    position     INTEGER NOT NULL REFERENCES phase,
    object_bytes INTEGER NOT NULL,
    first        INTEGER NOT NULL,
    last         INTEGER NOT NULL,
    data         TEXT NOT NULL,              -- their data set in the scenario; empty in sweeps
    workload     INTEGER NOT NULL            -- position of the workload in its phase, from 0
);

-- Changes of archived objects, in sequence: extended, held, released, deleted, hidden, copied, replaced.
CREATE TABLE object_change (
    position     INTEGER NOT NULL REFERENCES phase,
    operation    TEXT NOT NULL,
    object_bytes INTEGER NOT NULL,
    first        INTEGER NOT NULL,
    last         INTEGER NOT NULL
);

-- The first failure of each kind in each phase, and their number.
CREATE TABLE error (
    position    INTEGER NOT NULL REFERENCES phase,
    operation   TEXT NOT NULL,
    reason      TEXT NOT NULL,
    count       INTEGER NOT NULL,
    message     TEXT NOT NULL,
    request_id  TEXT NOT NULL,
    object_name TEXT NOT NULL
);

-- Server resource usage as reported by each source, about once a second and at the edges of each phase.
CREATE TABLE sample (
    source          TEXT NOT NULL,           -- local, pid:123, minio, prometheus:http://...
    at              REAL NOT NULL,           -- epoch seconds
    monotonic_ns    INTEGER NOT NULL,        -- the run's clock
    reading         TEXT NOT NULL            -- JSON: quantity -> item -> value, names of results.recorded.resources
);

-- Sources with a failed read, with the reason of the first failure.
CREATE TABLE source_problem (
    source          TEXT PRIMARY KEY,
    at              REAL NOT NULL,           -- epoch seconds
    problem         TEXT NOT NULL
);

-- Pass criteria of the scenario, judged at the end of the phases that they apply to; a document is a results.recorded.model.CriterionResult.
CREATE TABLE criterion (
    position    INTEGER NOT NULL REFERENCES phase,
    document    TEXT NOT NULL                -- JSON
);

-- Result of a search for the largest scale; a document is a results.recorded.model.SearchOutcome.
CREATE TABLE search (
    document    TEXT NOT NULL                -- JSON
);

-- Result of each conformance check (archiver worm); a document is a results.recorded.model.CheckRecord.
CREATE TABLE worm_check (
    id              TEXT NOT NULL,           -- DEL-02
    round           TEXT NOT NULL,           -- alone, under load, after restart
    verdict         TEXT NOT NULL,
    document        TEXT NOT NULL,
    PRIMARY KEY (id, round)
);

-- Evidence of a check: every request and answer in sequence, without secrets.
CREATE TABLE worm_exchange (
    check_id        TEXT NOT NULL,
    round           TEXT NOT NULL,
    position        INTEGER NOT NULL,        -- from 1
    document        TEXT NOT NULL,
    PRIMARY KEY (check_id, round, position),
    FOREIGN KEY (check_id, round) REFERENCES worm_check (id, round)
);

-- Rounds of checks, and the load during each; a document is a results.recorded.model.RoundRecord.
CREATE TABLE worm_round (
    round           TEXT PRIMARY KEY,
    document        TEXT NOT NULL
);

-- Result of reading all objects, or a sample, again (archiver audit); a document is an AuditRecord of the audit.
CREATE TABLE audit (
    started_at      REAL NOT NULL,           -- epoch seconds
    document        TEXT NOT NULL            -- JSON
);
