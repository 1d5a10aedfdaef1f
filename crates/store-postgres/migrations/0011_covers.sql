-- The walk over resting runs reads two indexes and no table: rows in order of id are scattered over the pages of their
-- table. A run that does not rest, and a task that is due or claimed, is in neither. Never edited once released.

DROP INDEX goldseam.runs_resting;
-- Resting runs in order of id, with everything that the walk compares.
CREATE INDEX runs_resting ON goldseam.runs (id) INCLUDE (rid, as_of, task, workflow, rest)
    WHERE status IN ('waiting', 'sleeping') AND rest[2] IS NOT NULL AND task IS NOT NULL AND rest[3] <= 1;
-- Dormant advance tasks in order of run, with everything that the walk compares.
CREATE INDEX tasks_resting ON goldseam.tasks (run) INCLUDE (id, kind, run_at)
    WHERE state = 'ready' AND NOT ripe AND kind >= 'advance:' AND kind < 'advance;' AND payload = 'null'
        AND coalesce(owner, result, failure, step, lane, audit) IS NULL;
