-- Calls that are more than one statement, each a function: one round trip, one transaction, and no session
-- that a pooler could not share. They compare and write; what an event means they do not know.
-- Their plans are made once and use indexes, always: a table that is nearly empty now can be full in a minute.
-- Never edited once released; a call that must change gets a new name, because nodes of two releases may run.

-- The database's clock, in milliseconds.
CREATE FUNCTION goldseam.clock() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- Puts a task there, unless its id, its live key or its busy lane is taken. Whether it did.
CREATE FUNCTION goldseam.create_task(p_task jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO goldseam.tasks SELECT * FROM jsonb_populate_record(NULL::goldseam.tasks, p_task)
        ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;

-- Changes a task that has this version. Whether it did.
CREATE FUNCTION goldseam.change_task(p_task jsonb, p_version bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE goldseam.tasks AS t SET pool = n.pool, kind = n.kind, queue = n.queue, lane = n.lane,
        priority = n.priority, key = n.key, state = n.state, ripe = n.ripe, run_at = n.run_at, run = n.run,
        owner = n.owner, poked = n.poked, version = n.version, fence = n.fence, deliveries = n.deliveries,
        attempts = n.attempts, attempts_max = n.attempts_max, started_at = n.started_at,
        heartbeat_at = n.heartbeat_at, silence_max_ms = n.silence_max_ms, created_at = n.created_at,
        changed_at = n.changed_at, payload = n.payload, result = n.result, failure = n.failure,
        audit = n.audit, step = n.step
    FROM jsonb_populate_record(NULL::goldseam.tasks, p_task) AS n
    WHERE t.id = n.id AND t.version = p_version;
    RETURN FOUND;
END $$;

-- Writes tasks by compare-and-set: for each, null if it was written, '' if there is no such task, else the task
-- that is in its way. A null version expects no task.
CREATE FUNCTION goldseam.put_tasks(
    p_now bigint, p_self text[], p_channel text, p_tasks jsonb[], p_versions bigint[],
    OUT lost text[], OUT clock bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    a     record;
    done  boolean;
    rival text;
    stirs boolean := false;
BEGIN
    lost := '{}';
    FOR a IN SELECT * FROM unnest(p_tasks, p_versions) AS i (task, version) LOOP
        IF a.version IS NULL THEN
            done := goldseam.create_task(a.task);
        ELSIF a.task->>'state' IN ('ready', 'claimed') AND coalesce(a.task->>'key', a.task->>'lane') IS NOT NULL THEN
            BEGIN
                done := goldseam.change_task(a.task, a.version);
            EXCEPTION WHEN unique_violation THEN
                done := false;
            END;
        ELSE
            done := goldseam.change_task(a.task, a.version);
        END IF;
        rival := NULL;
        IF done THEN
            stirs := stirs OR (a.task->>'state' = 'ready' AND (a.task->>'run_at')::bigint <= p_now + 1000);
        ELSE
            SELECT row_to_json(t)::text INTO rival FROM goldseam.tasks AS t WHERE t.id = a.task->>'id';
            -- Its own record is as expected, so another one is in its way: who has its key, or else its lane.
            IF (a.version IS NULL AND rival IS NULL) OR (rival::json->>'version')::bigint = a.version THEN
                SELECT row_to_json(t)::text INTO rival FROM goldseam.tasks AS t
                    WHERE t.key = a.task->>'key' AND t.state IN ('ready', 'claimed') AND t.key IS NOT NULL
                    AND t.id <> a.task->>'id';
                IF rival IS NULL THEN
                    SELECT row_to_json(t)::text INTO rival FROM goldseam.tasks AS t
                        WHERE t.lane = a.task->>'lane' AND t.state = 'claimed' AND t.lane IS NOT NULL;
                END IF;
            END IF;
            rival := coalesce(rival, '');
        END IF;
        lost := lost || rival;
    END LOOP;
    IF stirs THEN
        PERFORM pg_notify(p_channel, p_self[1]);
    END IF;
    clock := goldseam.clock();
END $$;

-- Changes that ride with an append, in their order. Returns the advance task that became the run's own, if
-- `p_owns` allows it, and whether another node has something to look at.
CREATE FUNCTION goldseam.apply_changes(
    p_rid bigint, p_owns boolean, p_changes jsonb, p_now bigint, p_self text[],
    OUT adopted text, OUT stirs boolean
) LANGUAGE plpgsql AS $$
DECLARE
    c     jsonb;
    at    bigint;
    woken record;
BEGIN
    stirs := false;
    FOR c IN SELECT * FROM jsonb_array_elements(p_changes) LOOP
        at := (c->>'at')::bigint;
        CASE c->>'do'
        WHEN 'create' THEN
            IF goldseam.create_task(c->'task') THEN
                stirs := stirs OR (c->'task'->>'state' = 'ready' AND (c->'task'->>'run_at')::bigint <= p_now + 1000);
                IF p_owns AND (c->>'advance')::boolean THEN
                    adopted := c->'task'->>'id';
                END IF;
            ELSIF p_owns AND (c->>'advance')::boolean
                AND EXISTS (SELECT 1 FROM goldseam.tasks AS t WHERE t.id = c->'task'->>'id')
            THEN
                adopted := c->'task'->>'id';
            END IF;
        WHEN 'rest' THEN
            UPDATE goldseam.tasks AS t SET state = 'ready', run_at = at, ripe = (at <= p_now), owner = NULL,
                started_at = NULL, heartbeat_at = NULL, poked = false,
                changed_at = greatest(t.changed_at, p_now), version = t.version + 1
            WHERE t.id = c->>'id' AND t.state IN ('ready', 'claimed');
            -- Who puts its own run to rest takes it up again itself.
            stirs := stirs OR (FOUND AND at <= p_now + 1000 AND p_self = '{}');
        WHEN 'wake' THEN
            UPDATE goldseam.tasks AS t SET
                run_at = CASE t.state WHEN 'ready' THEN at ELSE t.run_at END,
                ripe = CASE t.state WHEN 'ready' THEN at <= p_now ELSE t.ripe END,
                poked = (t.state = 'claimed'),
                changed_at = greatest(t.changed_at, p_now), version = t.version + 1
            WHERE t.id = coalesce(adopted, (SELECT r.task FROM goldseam.runs AS r WHERE r.rid = p_rid))
                AND ((t.state = 'ready' AND t.run_at > at) OR (t.state = 'claimed' AND NOT t.poked))
            RETURNING t.state, t.owner INTO woken;
            stirs := stirs OR (FOUND AND (woken.state = 'ready' OR woken.owner <> ALL (p_self)));
        WHEN 'cancel' THEN
            UPDATE goldseam.tasks AS t SET state = 'cancelled', owner = NULL, started_at = NULL,
                heartbeat_at = NULL, poked = false, changed_at = greatest(t.changed_at, p_now),
                version = t.version + 1
            WHERE t.id = c->>'id' AND t.state IN ('ready', 'claimed');
        WHEN 'remove' THEN
            DELETE FROM goldseam.tasks AS t WHERE t.id = c->>'id';
        END CASE;
    END LOOP;
END $$;

-- The tags of a run, as its row says them.
CREATE FUNCTION goldseam.tag(p_rid bigint, p_created_at bigint, p_tags jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO goldseam.run_tags (tag, value, created_at, rid)
    SELECT key, value, p_created_at, p_rid FROM jsonb_each_text(p_tags) ON CONFLICT DO NOTHING
$$;

-- What an append that went in brings beside its events: changes of tasks, then the row, then its tags. A run that was
-- made just now has its row. Whether another node has something to look at.
CREATE FUNCTION goldseam.follow_up(
    p_now bigint, p_self text[], p_rids bigint[], p_made bigint[], p_born jsonb[], p_changes jsonb[],
    p_summaries text[], p_workflows text[], p_statuses text[], p_owners text[], p_parents text[],
    p_causes text[], p_created bigint[], p_as_ofs bigint[], p_recovered bigint[], p_tags jsonb[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    a       record;
    had_row boolean;
    own     text;
    stir    boolean;
    stirs   boolean := false;
BEGIN
    FOR a IN
        SELECT i.*, i.rid = ANY (p_made) AS is_new
        FROM unnest(p_rids, p_born, p_changes, p_summaries, p_workflows, p_statuses, p_owners, p_parents, p_causes,
            p_created, p_as_ofs, p_recovered, p_tags) WITH ORDINALITY
            AS i (rid, born, changes, summary, workflow, status, owner, parent, cause, created_at, as_of, recovered_at,
                  tags, n)
        WHERE i.rid IS NOT NULL AND (i.changes IS NOT NULL OR i.tags IS NOT NULL
            OR (i.summary IS NOT NULL AND i.rid <> ALL (p_made)))
        ORDER BY i.n
    LOOP
        SELECT r.summary IS NOT NULL INTO had_row FROM goldseam.runs AS r WHERE r.rid = a.rid;
        own := NULL;
        IF a.changes IS NOT NULL THEN
            SELECT c.adopted, c.stirs INTO own, stir
            FROM goldseam.apply_changes(a.rid, a.summary IS NOT NULL OR had_row, a.changes, p_now, p_self) AS c;
            stirs := stirs OR stir;
        ELSIF a.born IS NOT NULL AND NOT a.is_new THEN
            SELECT t.id INTO own FROM goldseam.tasks AS t WHERE t.id = a.born->>'id';
        END IF;
        IF a.is_new THEN
            IF own IS NOT NULL THEN
                UPDATE goldseam.runs AS r SET task = own WHERE r.rid = a.rid AND r.summary IS NOT NULL;
            END IF;
        ELSIF a.summary IS NULL THEN
            IF own IS NOT NULL THEN
                UPDATE goldseam.runs AS r SET task = own, updated_at = greatest(r.updated_at + 1, p_now)
                WHERE r.rid = a.rid AND r.summary IS NOT NULL;
            END IF;
        ELSIF had_row THEN
            -- What never changes in a life is left out.
            UPDATE goldseam.runs AS r SET status = a.status, owner = a.owner, cause = a.cause,
                updated_at = greatest(r.updated_at + 1, p_now), as_of = a.as_of,
                task = coalesce(own, r.task), summary = a.summary, recovered_at = a.recovered_at
            WHERE r.rid = a.rid;
        ELSE
            UPDATE goldseam.runs AS r SET workflow = a.workflow, status = a.status, owner = a.owner,
                parent = a.parent, cause = a.cause, created_at = a.created_at,
                updated_at = greatest(r.updated_at + 1, p_now), as_of = a.as_of, task = own,
                summary = a.summary, recovered_at = a.recovered_at
            WHERE r.rid = a.rid;
        END IF;
        IF a.tags IS NOT NULL AND (a.is_new OR NOT had_row) THEN
            PERFORM goldseam.tag(a.rid, a.created_at, a.tags);
        END IF;
    END LOOP;
    RETURN stirs;
END $$;

-- Compare-and-append for many runs at once. The arrays have one element per append, in order of run, and no run
-- twice; an array of which no append has anything is empty. What follows an append's first event is in `p_rest`, with
-- the number of the append and its position. `ends` is null if all went in, else it has null for each that did, and the
-- log's end for one that came to another log than it expected: one conflict does not fail the others.
--
-- Most appends are one event and nothing else: they cost one statement, however many they are. Lookups are written so
-- that only an index can serve them: a plan may be made while a table is empty and kept when it no longer is.
CREATE FUNCTION goldseam.append(
    p_now bigint, p_self text[], p_channel text,
    p_runs text[], p_afters bigint[], p_firsts text[], p_rest_of int[], p_rest_seqs bigint[], p_rest text[],
    p_born jsonb[], p_gone text[], p_changes jsonb[],
    p_summaries text[], p_workflows text[], p_statuses text[], p_owners text[], p_parents text[],
    p_causes text[], p_created bigint[], p_as_ofs bigint[], p_recovered bigint[], p_tags jsonb[],
    OUT ends bigint[], OUT clock bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    -- Runs that were made here; runs whose first event went in; the same for each append, null where it did not.
    made   bigint[] := '{}';
    went   bigint[];
    rids   bigint[];
    unique_runs boolean;
    born   bigint;
    stirs  boolean := false;
BEGIN
    IF 0 = ANY (p_afters) THEN
        -- If somebody makes the run in this very moment, its first event finds that out.
        WITH m AS (
            INSERT INTO goldseam.runs AS r (id, workflow, status, owner, parent, cause, created_at, updated_at, as_of,
                recovered_at, task, summary)
            SELECT i.id, i.workflow, i.status, i.owner, i.parent, i.cause, i.created_at,
                CASE WHEN i.summary IS NULL THEN 0 ELSE greatest(p_now, 1) END, coalesce(i.as_of, 0),
                i.recovered_at, i.born->>'id', i.summary
            FROM unnest(p_runs, p_afters, p_born, p_summaries, p_workflows, p_statuses, p_owners, p_parents,
                p_causes, p_created, p_as_ofs, p_recovered) WITH ORDINALITY
                AS i (id, after, born, summary, workflow, status, owner, parent, cause, created_at, as_of,
                      recovered_at, n)
            WHERE i.after = 0 ORDER BY i.n
            ON CONFLICT (id) DO NOTHING RETURNING r.rid)
        SELECT coalesce(array_agg(m.rid), '{}') INTO made FROM m;
    END IF;
    -- The first event goes in only if the log ends where it must, gaps or not; nothing else is written unless it went
    -- in. A rival's uncommitted event is waited for.
    WITH w AS (
        INSERT INTO goldseam.events AS e (rid, seq, body)
        SELECT r.rid, i.after + 1, i.body
        FROM unnest(p_runs, p_afters, p_firsts) WITH ORDINALITY AS i (id, after, body, n)
        CROSS JOIN LATERAL (SELECT s.rid FROM goldseam.runs AS s WHERE s.id = i.id LIMIT 1) AS r
        WHERE coalesce((SELECT max(l.seq) FROM goldseam.events AS l WHERE l.rid = r.rid), 0) = i.after
        ORDER BY i.n
        ON CONFLICT DO NOTHING RETURNING e.rid)
    SELECT coalesce(array_agg(w.rid), '{}') INTO went FROM w;
    IF cardinality(went) < cardinality(p_runs) OR cardinality(p_rest) + cardinality(p_born) + cardinality(p_gone)
        + cardinality(p_changes) + cardinality(p_summaries) > 0
    THEN
        SELECT array_agg(r.rid ORDER BY i.n), count(*) = count(DISTINCT i.id) INTO rids, unique_runs
        FROM unnest(p_runs) WITH ORDINALITY AS i (id, n) LEFT JOIN LATERAL (
            SELECT s.rid FROM goldseam.runs AS s WHERE s.id = i.id AND s.rid = ANY (went) LIMIT 1) AS r ON true;
        IF NOT unique_runs THEN
            RAISE EXCEPTION 'a run is named twice in one call' USING ERRCODE = 'cardinality_violation';
        END IF;
    END IF;
    IF cardinality(went) < cardinality(p_runs) THEN
        SELECT array_agg(CASE WHEN i.rid IS NULL THEN coalesce((
            SELECT max(l.seq) FROM goldseam.events AS l
            WHERE l.rid = (SELECT s.rid FROM goldseam.runs AS s WHERE s.id = i.id)), 0) END ORDER BY i.n)
        INTO ends FROM unnest(p_runs, rids) WITH ORDINALITY AS i (id, rid, n);
    END IF;
    IF cardinality(p_rest) > 0 THEN
        INSERT INTO goldseam.events (rid, seq, body)
        SELECT rids[i.n], i.seq, i.body FROM unnest(p_rest_of, p_rest_seqs, p_rest) AS i (n, seq, body)
        WHERE rids[i.n] IS NOT NULL;
    END IF;
    IF cardinality(p_born) > 0 THEN
        WITH b AS (
            INSERT INTO goldseam.tasks AS t SELECT n.* FROM unnest(rids, p_born) AS i (rid, task)
                CROSS JOIN LATERAL jsonb_populate_record(NULL::goldseam.tasks, i.task) AS n
            WHERE i.rid IS NOT NULL AND i.task IS NOT NULL
            ON CONFLICT DO NOTHING RETURNING t.state = 'ready' AND t.run_at <= p_now + 1000 AS is_due)
        SELECT count(*), coalesce(bool_or(b.is_due), false) INTO born, stirs FROM b;
        IF born < cardinality(array_remove(p_born, NULL)) THEN
            -- One that another task was in the way of is nobody's.
            UPDATE goldseam.runs AS r SET task = NULL WHERE r.rid = ANY (made) AND r.task IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM goldseam.tasks AS t WHERE t.id = r.task);
        END IF;
    END IF;
    IF cardinality(p_gone) > 0 THEN
        DELETE FROM goldseam.tasks AS t WHERE t.id = ANY (ARRAY(
            SELECT i.id FROM unnest(rids, p_gone) AS i (rid, id) WHERE i.rid IS NOT NULL AND i.id IS NOT NULL));
    END IF;
    IF cardinality(p_changes) + cardinality(p_summaries) > 0 THEN
        stirs := goldseam.follow_up(p_now, p_self, rids, made, p_born, p_changes, p_summaries, p_workflows,
            p_statuses, p_owners, p_parents, p_causes, p_created, p_as_ofs, p_recovered, p_tags) OR stirs;
    END IF;
    IF stirs THEN
        PERFORM pg_notify(p_channel, p_self[1]);
    END IF;
    clock := goldseam.clock();
END $$;

-- Writes a row by compare-and-set on `updated_at`; a null version expects none. `found` is what is there instead.
CREATE FUNCTION goldseam.put_row(
    p_now bigint, p_version bigint, p_run text, p_task text, p_summary text, p_workflow text, p_status text,
    p_owner text, p_parent text, p_cause text, p_created_at bigint, p_as_of bigint, p_recovered_at bigint,
    p_tags jsonb, OUT done boolean, OUT summary text, OUT task text, OUT updated_at bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    old goldseam.runs;
BEGIN
    SELECT * INTO old FROM goldseam.runs AS r WHERE r.id = p_run FOR UPDATE;
    done := FOUND AND CASE WHEN p_version IS NULL THEN old.summary IS NULL
        ELSE old.summary IS NOT NULL AND old.updated_at = p_version END;
    IF NOT done THEN
        summary := old.summary;
        task := old.task;
        updated_at := old.updated_at;
        RETURN;
    END IF;
    DELETE FROM goldseam.run_tags AS t USING jsonb_each_text(coalesce(goldseam.read_json(old.summary)->'tags', '{}')) AS k
        WHERE t.tag = k.key AND t.value = k.value AND t.created_at = old.created_at AND t.rid = old.rid;
    UPDATE goldseam.runs AS r SET workflow = p_workflow, status = p_status, owner = p_owner, parent = p_parent,
        cause = p_cause, created_at = p_created_at, updated_at = greatest(r.updated_at + 1, p_now),
        as_of = p_as_of, task = p_task, summary = p_summary, recovered_at = p_recovered_at
    WHERE r.rid = old.rid;
    IF p_tags IS NOT NULL THEN
        PERFORM goldseam.tag(old.rid, p_created_at, p_tags);
    END IF;
END $$;

-- Writes a lock by compare-and-set: null if it was written, '' if there is no such lock, else the lock.
CREATE FUNCTION goldseam.put_lock(p_lock jsonb, p_version bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    n goldseam.locks := jsonb_populate_record(NULL::goldseam.locks, p_lock);
BEGIN
    IF p_version IS NULL THEN
        INSERT INTO goldseam.locks SELECT n.* ON CONFLICT DO NOTHING;
    ELSE
        UPDATE goldseam.locks AS l SET holder = n.holder, fence = n.fence, expires_at = n.expires_at,
            acquired_at = n.acquired_at, node = n.node, version = n.version, audit = n.audit
        WHERE l.name = n.name AND l.version = p_version;
    END IF;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    RETURN coalesce((SELECT row_to_json(l)::text FROM goldseam.locks AS l WHERE l.name = n.name), '');
END $$;

-- Whether no task of the lane is claimed.
CREATE FUNCTION goldseam.is_free(p_lane text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT NOT EXISTS (
        SELECT 1 FROM goldseam.tasks AS b WHERE b.lane = p_lane AND b.state = 'claimed' AND b.lane IS NOT NULL)
$$;

-- Takes a ready task that nobody else is busy with; a null one if it could not.
CREATE FUNCTION goldseam.take(p_id text, p_owner text, p_now bigint) RETURNS goldseam.tasks LANGUAGE plpgsql AS $$
DECLARE
    taken goldseam.tasks;
BEGIN
    UPDATE goldseam.tasks AS t SET state = 'claimed', owner = p_owner, fence = t.fence + 1, started_at = p_now,
        heartbeat_at = p_now, changed_at = greatest(p_now, t.changed_at), version = t.version + 1
    WHERE t.id = (SELECT s.id FROM goldseam.tasks AS s
        WHERE s.id = p_id AND s.state = 'ready' AND s.ripe FOR UPDATE SKIP LOCKED)
    RETURNING t.* INTO taken;
    RETURN taken;
END $$;

-- When the earliest ripe task of these pools that no busy lane holds back was due. Within a priority the first free one
-- is the earliest, so the look leaps from priority to priority.
CREATE FUNCTION goldseam.next_ripe(p_pools text[], p_kind text, OUT due bigint) LANGUAGE plpgsql AS $$
DECLARE
    of_pool text;
    c       record;
    below   bigint;
BEGIN
    FOREACH of_pool IN ARRAY p_pools LOOP
        below := 9223372036854775807;
        FOR n IN 1 .. 64 LOOP
            SELECT t.priority, t.run_at INTO c FROM goldseam.tasks AS t
            WHERE t.pool = of_pool AND t.state = 'ready' AND t.ripe AND (p_kind IS NULL OR t.kind = p_kind)
                AND t.priority < below AND (t.lane IS NULL OR goldseam.is_free(t.lane))
            ORDER BY t.priority DESC, t.run_at LIMIT 1;
            EXIT WHEN NOT FOUND;
            below := c.priority;
            due := least(due, c.run_at);
        END LOOP;
    END LOOP;
END $$;

-- Claims due tasks, highest priority first, at most one claimed task per lane. Never waits for another claimer.
CREATE FUNCTION goldseam.claim(
    p_owner text, p_pools text[], p_kind text, p_limit int, p_now bigint,
    OUT claimed text[], OUT next_due bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    c      record;
    taken  goldseam.tasks;
    before int;
BEGIN
    claimed := '{}';
    -- A dormant task costs a claim nothing: what is due is first made ripe.
    UPDATE goldseam.tasks AS t SET ripe = true WHERE t.id = ANY (ARRAY(
        SELECT d.id FROM goldseam.tasks AS d
        WHERE d.pool = ANY (p_pools) AND d.state = 'ready' AND NOT d.ripe AND d.run_at <= p_now
        ORDER BY d.run_at FOR UPDATE SKIP LOCKED));
    WHILE cardinality(claimed) < p_limit LOOP
        before := cardinality(claimed);
        FOR c IN
            SELECT f.id, f.lane FROM unnest(p_pools) AS p (pool) CROSS JOIN LATERAL (
                SELECT t.id, t.lane, t.priority, t.run_at FROM goldseam.tasks AS t
                WHERE t.pool = p.pool AND t.state = 'ready' AND t.ripe AND t.run_at <= p_now
                    AND (p_kind IS NULL OR t.kind = p_kind) AND (t.lane IS NULL OR goldseam.is_free(t.lane))
                ORDER BY t.priority DESC, t.run_at, t.id LIMIT p_limit - before) AS f
            ORDER BY f.priority DESC, f.run_at, f.id
        LOOP
            EXIT WHEN cardinality(claimed) >= p_limit;
            -- Whoever else claims from this lane just now has it; who only looks must not wait for him.
            CONTINUE WHEN c.lane IS NOT NULL AND (
                NOT pg_try_advisory_xact_lock(hashtextextended('goldseam.' || c.lane, 0)) OR NOT goldseam.is_free(c.lane));
            IF c.lane IS NULL THEN
                taken := goldseam.take(c.id, p_owner, p_now);
            ELSE
                BEGIN
                    taken := goldseam.take(c.id, p_owner, p_now);
                EXCEPTION WHEN unique_violation THEN
                    -- The lane was taken by other means than a claim.
                    CONTINUE;
                END;
            END IF;
            IF taken.id IS NOT NULL THEN
                claimed := claimed || row_to_json(taken)::text;
            END IF;
        END LOOP;
        EXIT WHEN cardinality(claimed) = before;
    END LOOP;
    IF EXISTS (SELECT 1 FROM goldseam.tasks AS t WHERE t.pool = ANY (p_pools) AND t.state = 'ready' AND t.ripe) THEN
        next_due := goldseam.next_ripe(p_pools, p_kind);
    END IF;
    next_due := least(next_due, (
        SELECT min(f.run_at) FROM unnest(p_pools) AS p (pool) CROSS JOIN LATERAL (
            SELECT t.run_at FROM goldseam.tasks AS t
            WHERE t.pool = p.pool AND t.state = 'ready' AND NOT t.ripe AND (p_kind IS NULL OR t.kind = p_kind)
                AND (t.lane IS NULL OR goldseam.is_free(t.lane))
            ORDER BY t.run_at LIMIT 1) AS f));
END $$;

-- A node's beat, on its liveness session: with `p_pulse` the session lock is taken, or let go of if the node is
-- over. Returns the store's clock.
CREATE FUNCTION goldseam.beat(
    p_now bigint, p_pulse bigint, p_over boolean, p_id text, p_name text, p_started_at bigint, p_workflows text,
    p_slots bigint, p_state text
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    at bigint := coalesce(p_now, goldseam.clock());
BEGIN
    IF p_pulse IS NOT NULL AND NOT p_over THEN
        -- A node that reconnects may find its own old session, which the server has not missed yet.
        PERFORM pg_try_advisory_lock(p_pulse) WHERE NOT EXISTS (
            SELECT 1 FROM pg_locks AS l WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory'
                AND l.objsubid = 1 AND ((l.classid::bigint << 32) | l.objid::bigint) = p_pulse);
    END IF;
    INSERT INTO goldseam.nodes AS n (id, name, started_at, workflows, slots, state, beats, beat_at, pulse)
    VALUES (p_id, p_name, p_started_at, p_workflows, p_slots, p_state, 1, at, p_pulse)
    ON CONFLICT (id) DO UPDATE SET name = excluded.name, started_at = excluded.started_at,
        workflows = excluded.workflows, slots = excluded.slots, state = excluded.state, beats = n.beats + 1,
        beat_at = excluded.beat_at, pulse = excluded.pulse;
    IF p_over AND p_pulse IS NOT NULL THEN
        PERFORM pg_advisory_unlock(p_pulse) FROM pg_locks AS l WHERE l.pid = pg_backend_pid()
            AND l.locktype = 'advisory' AND l.objsubid = 1
            AND ((l.classid::bigint << 32) | l.objid::bigint) = p_pulse;
    END IF;
    RETURN at;
END $$;
