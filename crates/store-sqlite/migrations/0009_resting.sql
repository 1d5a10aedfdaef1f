-- What a sweep may skip: columns that repeat what `summary` says about an active run. The writer of the row sets them;
-- null proves nothing. Never edited once released.

-- The kind of advance task that the run needs.
ALTER TABLE runs ADD COLUMN needs TEXT;
-- Twice the number of remote tasks that the run waits for, plus 1 if it waits for children.
ALTER TABLE runs ADD COLUMN rests_on INTEGER;
-- When the rest of the run ends if nothing else happens (the largest number: never); null if it does not rest.
ALTER TABLE runs ADD COLUMN rests_until INTEGER;

UPDATE runs SET
    needs = 'advance:' || workflow || CASE summary ->> '$.version' WHEN 0 THEN ''
        ELSE '@' || (summary ->> '$.version') END,
    rests_on = (SELECT 2 * coalesce(sum(json_array_length(w.value, '$.tasks')), 0)
        + coalesce(max(w.value -> '$.children' IS NOT NULL), 0) FROM json_each(summary, '$.waits') AS w)
WHERE status IN ('queued', 'running', 'waiting', 'sleeping', 'compensating')
    AND typeof(summary) = 'text'
    AND CASE WHEN json_valid(summary) THEN summary ->> '$.run' = id AND summary ->> '$.status' = status
        AND summary ->> '$.as_of' = as_of AND summary ->> '$.workflow' = workflow AND summary ->> '$.owner' IS owner END;
UPDATE runs SET
    rests_until = (SELECT min(coalesce(w.value ->> '$.due', 9223372036854775807))
        FROM json_each(summary, '$.waits') AS w)
WHERE needs IS NOT NULL AND status IN ('waiting', 'sleeping') AND owner IS NULL
    AND coalesce(summary ->> '$.mail_unread', 0) = 0 AND summary ->> '$.cancel' IS NULL
    AND summary ->> '$.jump' IS NULL AND summary ->> '$.finished_at' IS NULL
    AND NOT coalesce(summary ->> '$.paused', 0) AND NOT coalesce(summary ->> '$.parked', 0)
    AND NOT coalesce(summary ->> '$.compensating', 0)
    AND (status = 'waiting') = (SELECT coalesce(max(coalesce(w.value -> '$.signals', w.value -> '$.inputs',
        w.value -> '$.children', w.value -> '$.tasks') IS NOT NULL), 0) FROM json_each(summary, '$.waits') AS w);

-- A store changes `updated_at` with every row. An edit without it removes the proof.
CREATE TRIGGER runs_edited AFTER UPDATE OF id, workflow, status, owner, as_of, summary ON runs
WHEN new.updated_at = old.updated_at AND new.needs IS NOT NULL
BEGIN
    UPDATE runs SET needs = NULL, rests_on = NULL, rests_until = NULL WHERE rid = new.rid;
END;

-- Active runs in order of id, with everything that the walk compares.
CREATE INDEX runs_active ON runs (id, needs, owner, task, as_of, rests_until, rests_on, status)
    WHERE status IN ('queued', 'running', 'waiting', 'sleeping', 'compensating');
-- Active runs that every sweep looks at.
CREATE INDEX runs_watched ON runs (id)
    WHERE status IN ('queued', 'running', 'waiting', 'sleeping', 'compensating')
        AND (rests_until IS NULL OR task IS NULL OR rests_on > 1);
-- Resting runs by the end of their rest.
CREATE INDEX runs_rest_ends ON runs (rests_until)
    WHERE rests_until IS NOT NULL AND rests_until < 9223372036854775807;
-- Live advance tasks in order of run, with everything that the walk compares.
CREATE INDEX tasks_advance ON tasks (run, id, kind, state, run_at, owner)
    WHERE state IN ('ready', 'claimed') AND kind >= 'advance:' AND kind < 'advance;';
-- Tasks that are not provably readable by their columns; dormant advance tasks are.
CREATE INDEX tasks_unproven ON tasks (tid)
    WHERE NOT (state = 'ready' AND kind >= 'advance:' AND kind < 'advance;' AND payload = 'null'
        AND owner IS NULL AND result IS NULL AND failure IS NULL AND step IS NULL AND lane IS NULL
        AND started_at IS NULL AND heartbeat_at IS NULL AND silence_max_ms IS NULL
        AND substr(id, 1, 2) = 't-' AND (audit IS NULL OR json_valid(audit))
        AND typeof(id) || typeof(run) || typeof(priority) || typeof(run_at) || typeof(poked) ||
        typeof(version) || typeof(fence) || typeof(deliveries) || typeof(attempts) || typeof(attempts_max) ||
        typeof(created_at) || typeof(changed_at)
        = 'texttextintegerintegerintegerintegerintegerintegerintegerintegerintegerinteger');
