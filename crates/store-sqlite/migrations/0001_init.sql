-- Goldseam's first schema. Never edited once released: its hash is kept in goldseam_migrations.

-- One row per run: what its log says, cached. `summary` is the truth of this row; the other
-- columns repeat what lists filter by. `summary` is null when the cache is lost.
CREATE TABLE runs (
    rid        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    workflow   TEXT,
    status     TEXT,
    owner      TEXT,
    parent     TEXT,
    cause      TEXT,
    created_at INTEGER,
    updated_at INTEGER NOT NULL DEFAULT 0,
    as_of      INTEGER NOT NULL DEFAULT 0,
    task       TEXT,
    summary    TEXT
);
CREATE INDEX runs_created ON runs (created_at);
-- Finished well is the mass; everything else is found by its status.
CREATE INDEX runs_status ON runs (status, created_at) WHERE status <> 'completed';
CREATE INDEX runs_owner  ON runs (owner)              WHERE owner  IS NOT NULL;
CREATE INDEX runs_parent ON runs (parent)             WHERE parent IS NOT NULL;
CREATE INDEX runs_cause  ON runs (cause, created_at)  WHERE cause  IS NOT NULL;

CREATE TABLE run_tags (
    tag        TEXT NOT NULL,
    value      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    rid        INTEGER NOT NULL,
    PRIMARY KEY (tag, value, created_at, rid)
) WITHOUT ROWID;

-- The log of every run, in order of writing. Append only.
CREATE TABLE events (
    gseq INTEGER PRIMARY KEY,
    rid  INTEGER NOT NULL,
    seq  INTEGER NOT NULL,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX events_log ON events (rid, seq);

-- `ripe` is 0 until `run_at` has come: dormant tasks stay out of the way of claims.
CREATE TABLE tasks (
    tid          INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    pool         TEXT NOT NULL,
    kind         TEXT NOT NULL,
    queue        TEXT NOT NULL,
    lane         TEXT,
    priority     INTEGER NOT NULL,
    key          TEXT,
    state        TEXT NOT NULL,
    ripe         INTEGER NOT NULL,
    run_at       INTEGER NOT NULL,
    run          TEXT,
    owner        TEXT,
    poked        INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    fence        INTEGER NOT NULL,
    deliveries   INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    attempts_max INTEGER NOT NULL,
    started_at   INTEGER,
    heartbeat_at INTEGER,
    silence_max_ms INTEGER,
    created_at   INTEGER NOT NULL,
    changed_at   INTEGER NOT NULL,
    payload      TEXT NOT NULL,
    result       TEXT,
    failure      TEXT,
    audit        TEXT
);
CREATE INDEX tasks_ready   ON tasks (pool, priority DESC, run_at) WHERE state = 'ready' AND ripe = 1;
CREATE INDEX tasks_dormant ON tasks (pool, run_at)                WHERE state = 'ready' AND ripe = 0;
CREATE INDEX tasks_claimed ON tasks (owner)                       WHERE state = 'claimed';
CREATE INDEX tasks_poked   ON tasks (owner)                       WHERE poked = 1;
CREATE INDEX tasks_run     ON tasks (run)                         WHERE run IS NOT NULL;
CREATE UNIQUE INDEX tasks_lane ON tasks (lane) WHERE state = 'claimed' AND lane IS NOT NULL;
CREATE UNIQUE INDEX tasks_key  ON tasks (key)  WHERE state IN ('ready', 'claimed') AND key IS NOT NULL;

CREATE TABLE locks (
    name        TEXT PRIMARY KEY,
    holder      TEXT,
    fence       INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    acquired_at INTEGER NOT NULL,
    node        TEXT,
    version     INTEGER NOT NULL,
    audit       TEXT
) WITHOUT ROWID;
CREATE INDEX locks_held ON locks (expires_at) WHERE holder IS NOT NULL;

CREATE TABLE nodes (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    workflows  TEXT NOT NULL,
    slots      INTEGER NOT NULL,
    state      TEXT NOT NULL,
    beats      INTEGER NOT NULL,
    beat_at    INTEGER NOT NULL
) WITHOUT ROWID;

-- For people: SELECT * FROM history WHERE run = '…' ORDER BY seq;
CREATE VIEW history AS
SELECT r.id AS run,
       e.seq AS seq,
       CASE WHEN json_valid(e.body)
            THEN strftime('%Y-%m-%dT%H:%M:%fZ', json_extract(e.body, '$.at') / 1000.0, 'unixepoch') END AS at,
       CASE WHEN json_valid(e.body) THEN json_extract(e.body, '$.branch') END AS branch,
       CASE WHEN json_valid(e.body) THEN json_extract(e.body, '$.event.type') END AS type,
       CASE WHEN json_valid(e.body) THEN json_extract(e.body, '$.event.data') ELSE e.body END AS data
FROM events AS e JOIN runs AS r ON r.rid = e.rid;
