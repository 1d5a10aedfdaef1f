-- The rest of a run ends at its deadline, too, so that a sweep finds it by its index. A row that was written before has
-- this with its next write. Never edited once released.

CREATE OR REPLACE FUNCTION goldseam.rest_of(
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
    RETURN ARRAY[(s->>'version')::bigint, CASE WHEN rests THEN coalesce(least(due, (s->>'deadline')::bigint), 9223372036854775807) END,
        2 * tasks + children::int];
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;
