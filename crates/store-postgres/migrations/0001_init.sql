-- Goldseam's first schema for Postgres. Never edited once released: its hash is kept in goldseam.migrations.
-- The same tables and names as on SQLite. `goldseam.` stands for whatever schema is configured.
-- Text that is compared or ordered is in byte order, as everywhere in Goldseam.

-- One row per run: what its log says, cached. `summary` is the truth of this row; the other
-- columns repeat what lists filter by. `summary` is null when the cache is lost.
CREATE TABLE goldseam.runs (
    rid          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           text COLLATE "C" NOT NULL UNIQUE,
    workflow     text COLLATE "C",
    status       text COLLATE "C",
    owner        text COLLATE "C",
    parent       text COLLATE "C",
    cause        text COLLATE "C",
    created_at   bigint,
    updated_at   bigint NOT NULL DEFAULT 0,
    as_of        bigint NOT NULL DEFAULT 0,
    recovered_at bigint,
    task         text COLLATE "C",
    summary      text
) WITH (fillfactor = 80);
CREATE INDEX runs_created ON goldseam.runs (created_at, id);
-- Finished well is the mass; everything else is found by its status.
CREATE INDEX runs_status    ON goldseam.runs (status, created_at, id) WHERE status <> 'completed';
CREATE INDEX runs_owner     ON goldseam.runs (owner)                  WHERE owner IS NOT NULL;
CREATE INDEX runs_parent    ON goldseam.runs (parent)                 WHERE parent IS NOT NULL;
CREATE INDEX runs_cause     ON goldseam.runs (cause, created_at, id)  WHERE cause IS NOT NULL;
CREATE INDEX runs_recovered ON goldseam.runs (recovered_at, id)       WHERE recovered_at IS NOT NULL;
CREATE INDEX runs_rowless   ON goldseam.runs (id)                     WHERE summary IS NULL;

CREATE TABLE goldseam.run_tags (
    tag        text COLLATE "C" NOT NULL,
    value      text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    rid        bigint NOT NULL,
    PRIMARY KEY (tag, value, created_at, rid)
);

-- The log of every run. Append only.
CREATE TABLE goldseam.events (
    rid  bigint NOT NULL,
    seq  bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (rid, seq)
);

-- `ripe` is false until `run_at` has come: dormant tasks stay out of the way of claims.
CREATE TABLE goldseam.tasks (
    id             text COLLATE "C" PRIMARY KEY,
    pool           text COLLATE "C" NOT NULL,
    kind           text COLLATE "C" NOT NULL,
    queue          text COLLATE "C" NOT NULL,
    lane           text COLLATE "C",
    priority       bigint NOT NULL,
    key            text COLLATE "C",
    state          text COLLATE "C" NOT NULL,
    ripe           boolean NOT NULL,
    run_at         bigint NOT NULL,
    run            text COLLATE "C",
    owner          text COLLATE "C",
    poked          boolean NOT NULL,
    version        bigint NOT NULL,
    fence          bigint NOT NULL,
    deliveries     bigint NOT NULL,
    attempts       bigint NOT NULL,
    attempts_max   bigint NOT NULL,
    started_at     bigint,
    heartbeat_at   bigint,
    silence_max_ms bigint,
    created_at     bigint NOT NULL,
    changed_at     bigint NOT NULL,
    payload        text NOT NULL,
    result         text,
    failure        text,
    audit          text,
    step           text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX tasks_ready   ON goldseam.tasks (pool, priority DESC, run_at, id) WHERE state = 'ready' AND ripe;
CREATE INDEX tasks_dormant ON goldseam.tasks (pool, run_at)                    WHERE state = 'ready' AND NOT ripe;
CREATE INDEX tasks_claimed ON goldseam.tasks (owner, id)                       WHERE state = 'claimed';
CREATE INDEX tasks_poked   ON goldseam.tasks (owner)                           WHERE poked;
CREATE INDEX tasks_run     ON goldseam.tasks (run)                             WHERE run IS NOT NULL;
CREATE UNIQUE INDEX tasks_lane ON goldseam.tasks (lane) WHERE state = 'claimed' AND lane IS NOT NULL;
CREATE UNIQUE INDEX tasks_key  ON goldseam.tasks (key)  WHERE state IN ('ready', 'claimed') AND key IS NOT NULL;
-- What healing looks for: on a healthy store each of these looks finds nothing and reads next to nothing.
CREATE INDEX tasks_silent ON goldseam.tasks ((COALESCE(heartbeat_at, started_at, changed_at) + silence_max_ms))
    WHERE state = 'claimed' AND silence_max_ms IS NOT NULL;
CREATE INDEX tasks_quiet ON goldseam.tasks ((COALESCE(heartbeat_at, started_at, changed_at)), owner)
    WHERE state = 'claimed' AND silence_max_ms IS NULL AND NOT (kind >= 'advance:' AND kind < 'advance;');

CREATE TABLE goldseam.locks (
    name        text COLLATE "C" PRIMARY KEY,
    holder      text COLLATE "C",
    fence       bigint NOT NULL,
    expires_at  bigint NOT NULL,
    acquired_at bigint NOT NULL,
    node        text COLLATE "C",
    version     bigint NOT NULL,
    audit       text
);
CREATE INDEX locks_held ON goldseam.locks (expires_at) WHERE holder IS NOT NULL;
CREATE INDEX locks_node ON goldseam.locks (node)       WHERE holder IS NOT NULL AND node IS NOT NULL;

-- `pulse` is the key of the node's session lock; null if it can only beat.
CREATE TABLE goldseam.nodes (
    id         text COLLATE "C" PRIMARY KEY,
    name       text NOT NULL,
    started_at bigint NOT NULL,
    workflows  text NOT NULL,
    slots      bigint NOT NULL,
    state      text COLLATE "C" NOT NULL,
    beats      bigint NOT NULL,
    beat_at    bigint NOT NULL,
    pulse      bigint
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
