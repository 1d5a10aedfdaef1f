-- Fewer entries for each write: a run that starts, works and ends without a rest pays for no index of dormant runs.
-- Never edited once released.

DROP INDEX runs_active;
DROP INDEX runs_watched;
DROP INDEX tasks_advance;

-- The active runs are of three kinds. Those that are queued, running or compensating are in `runs_status`. Resting runs
-- are here, in order of id, with everything that the walk compares.
CREATE INDEX runs_resting ON runs (id, needs, task, as_of, rests_until, rests_on, owner, status)
    WHERE status IN ('waiting', 'sleeping') AND rests_until IS NOT NULL AND owner IS NULL AND task IS NOT NULL
        AND rests_on <= 1;
-- Waiting and sleeping runs that do not rest: every sweep looks at them.
CREATE INDEX runs_awake ON runs (rid)
    WHERE status IN ('waiting', 'sleeping')
        AND (rests_until IS NULL OR owner IS NOT NULL OR task IS NULL OR rests_on IS NULL OR rests_on > 1);
-- Dormant advance tasks in order of run, with everything that the walk compares.
CREATE INDEX tasks_resting ON tasks (run, id, kind, run_at, state, ripe)
    WHERE state = 'ready' AND ripe = 0 AND kind >= 'advance:' AND kind < 'advance;';

-- The store writes the entries of attributes itself, if a run has attributes. A trigger costs every run.
DROP TRIGGER run_attributes_insert;
DROP TRIGGER run_attributes_update;

-- A task that is inserted with a heal gets its audit by an update, which has a trigger.
DROP TRIGGER tasks_audit_insert;
