-- Less work for each write: a run that starts, works and ends without a rest pays for no proof and no index of dormant
-- runs. Never edited once released.

DROP INDEX goldseam.runs_active;
-- This also drops the indexes that name the column.
ALTER TABLE goldseam.runs DROP COLUMN rest;
-- As before, but only of runs that may rest. A sweep computes it for the others, which it reads in any case.
ALTER TABLE goldseam.runs ADD COLUMN rest bigint[] GENERATED ALWAYS AS (
    CASE WHEN status IN ('waiting', 'sleeping') AND owner IS NULL
        THEN goldseam.rest_of(summary, id, status, as_of, workflow, owner) END) STORED;

-- The active runs are of three kinds. Those that are queued, running or compensating are in `runs_status`. Resting runs
-- are here, in order of id.
CREATE INDEX runs_resting ON goldseam.runs (id)
    WHERE status IN ('waiting', 'sleeping') AND rest[2] IS NOT NULL AND task IS NOT NULL AND rest[3] <= 1;
-- Waiting and sleeping runs that do not rest, and runs without a time: every sweep looks at them.
CREATE INDEX runs_awake ON goldseam.runs (id)
    WHERE (status IN ('waiting', 'sleeping')
        AND (rest[2] IS NULL OR task IS NULL OR rest[3] IS NULL OR rest[3] > 1))
        OR (created_at IS NULL AND status IN ('queued', 'running', 'compensating'));
-- Resting runs by the end of their rest.
CREATE INDEX runs_rest_ends ON goldseam.runs ((rest[2]), id) WHERE rest[2] < 9223372036854775807;
