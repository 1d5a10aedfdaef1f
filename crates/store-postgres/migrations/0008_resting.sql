-- What a sweep may skip: a column that repeats what `summary` says about a run that rests. It is computed from the row
-- itself, so a row of any release has it, and a row that is edited or damaged is no longer proven. Never edited once
-- released.

-- The version that an active run needs, when its rest ends if nothing else happens (the largest number: never; null:
-- it does not rest), and twice the number of remote tasks that it waits for, plus 1 if it waits for children. Null if
-- the summary is unreadable or contradicts the columns.
CREATE FUNCTION goldseam.rest_of(
    p_summary text, p_id text, p_status text, p_as_of bigint, p_workflow text, p_owner text
) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    s        jsonb;
    rests    boolean;
    open     bigint;
    due      bigint;
    tasks    bigint;
    children boolean;
    awaits   boolean;
BEGIN
    IF p_summary IS NULL OR p_status NOT IN ('queued', 'running', 'waiting', 'sleeping', 'compensating') THEN
        RETURN NULL;
    END IF;
    s := p_summary::jsonb;
    IF s->>'run' IS DISTINCT FROM p_id OR s->>'status' IS DISTINCT FROM p_status
        OR s->>'workflow' IS DISTINCT FROM p_workflow OR s->>'owner' IS DISTINCT FROM p_owner
        OR (s->>'as_of')::bigint IS DISTINCT FROM p_as_of OR s->>'version' IS NULL
    THEN
        RETURN NULL;
    END IF;
    SELECT count(*), min((w->>'due')::bigint), coalesce(sum(jsonb_array_length(w->'tasks')), 0),
        coalesce(bool_or(w ? 'children'), false),
        coalesce(bool_or(w ?| ARRAY['signals', 'inputs', 'children', 'tasks']), false)
    INTO open, due, tasks, children, awaits FROM jsonb_array_elements(coalesce(s->'waits', '[]')) AS w;
    IF s->>'finished_at' IS NOT NULL OR coalesce((s->>'paused')::boolean, false)
        OR coalesce((s->>'parked')::boolean, false)
        OR p_status <> (CASE WHEN coalesce((s->>'compensating')::boolean, false) THEN 'compensating'
            WHEN awaits THEN 'waiting' WHEN open > 0 THEN 'sleeping' WHEN p_owner IS NOT NULL THEN 'running'
            ELSE 'queued' END)
    THEN
        RETURN NULL;
    END IF;
    rests := p_status IN ('waiting', 'sleeping') AND p_owner IS NULL
        AND coalesce((s->>'mail_unread')::bigint, 0) = 0 AND s->>'cancel' IS NULL AND s->>'jump' IS NULL;
    RETURN ARRAY[(s->>'version')::bigint, CASE WHEN rests THEN coalesce(due, 9223372036854775807) END,
        2 * tasks + children::int];
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

ALTER TABLE goldseam.runs ADD COLUMN rest bigint[]
    GENERATED ALWAYS AS (goldseam.rest_of(summary, id, status, as_of, workflow, owner)) STORED;

-- Active runs in order of id.
CREATE INDEX runs_active ON goldseam.runs (id)
    WHERE status IN ('queued', 'running', 'waiting', 'sleeping', 'compensating');
-- Active runs that every sweep looks at.
CREATE INDEX runs_watched ON goldseam.runs (id)
    WHERE status IN ('queued', 'running', 'waiting', 'sleeping', 'compensating')
        AND (rest[2] IS NULL OR task IS NULL OR rest[3] > 1);
-- Resting runs by the end of their rest.
CREATE INDEX runs_rest_ends ON goldseam.runs ((rest[2])) WHERE rest[2] < 9223372036854775807;
-- Tasks that are not provably readable by their columns; dormant advance tasks are.
CREATE INDEX tasks_unproven ON goldseam.tasks (id)
    WHERE NOT (state = 'ready' AND kind >= 'advance:' AND kind < 'advance;' AND payload = 'null'
        AND left(id, 2) = 't-' AND length(id) = 34 AND coalesce(owner, result, failure, step, lane, audit) IS NULL);
