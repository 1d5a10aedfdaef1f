-- Rows and claims are written by one statement for a whole group, instead of one for each run: Postgres prepares the
-- generated column, the conditions of the indexes and those of the triggers again for every statement. The calls of
-- earlier releases stay, because their nodes may still run. Never edited once released.

-- As `follow_up`, but the rows that only replace a row are written together. `p_rids` names no run twice.
CREATE FUNCTION goldseam.follow_up_group(
    p_now bigint, p_self text[], p_rids bigint[], p_made bigint[], p_born jsonb[], p_changes jsonb[],
    p_summaries text[], p_workflows text[], p_statuses text[], p_owners text[], p_parents text[],
    p_causes text[], p_created bigint[], p_as_ofs bigint[], p_recovered bigint[], p_tags jsonb[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    -- Appends with a row and no change of a task; runs of which the row was replaced; whatever is left.
    plain    bigint[];
    replaced bigint[] := '{}';
    left_of  bigint[];
BEGIN
    SELECT array_agg(i.rid) INTO plain FROM unnest(p_rids, p_born, p_changes, p_summaries) AS i (rid, born, changes, summary)
    WHERE i.rid IS NOT NULL AND i.summary IS NOT NULL AND i.born IS NULL AND i.changes IS NULL
        AND i.rid <> ALL (p_made);
    IF plain IS NOT NULL THEN
        -- The first condition repeats the join, so that the server reads these runs by their numbers, whatever it
        -- knows about the size of the table.
        WITH w AS (
            UPDATE goldseam.runs AS r SET status = i.status, owner = i.owner, cause = i.cause,
                updated_at = greatest(r.updated_at + 1, p_now), as_of = i.as_of, summary = i.summary,
                recovered_at = i.recovered_at
            FROM unnest(p_rids, p_summaries, p_statuses, p_owners, p_causes, p_as_ofs, p_recovered)
                AS i (rid, summary, status, owner, cause, as_of, recovered_at)
            WHERE r.rid = ANY (plain) AND r.rid = i.rid AND r.summary IS NOT NULL
            RETURNING r.rid)
        SELECT coalesce(array_agg(w.rid), '{}') INTO replaced FROM w;
    END IF;
    SELECT array_agg(CASE WHEN i.rid <> ALL (replaced) AND (i.changes IS NOT NULL OR i.tags IS NOT NULL
        OR (i.summary IS NOT NULL AND i.rid <> ALL (p_made))) THEN i.rid END ORDER BY i.n)
    INTO left_of FROM unnest(p_rids, p_changes, p_summaries, p_tags) WITH ORDINALITY
        AS i (rid, changes, summary, tags, n);
    IF array_remove(left_of, NULL) = '{}' THEN
        RETURN false;
    END IF;
    RETURN goldseam.follow_up(p_now, p_self, left_of, p_made, p_born, p_changes, p_summaries, p_workflows,
        p_statuses, p_owners, p_parents, p_causes, p_created, p_as_ofs, p_recovered, p_tags);
END $$;

-- As `append`, with `follow_up_group`.
CREATE FUNCTION goldseam.append_group(
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
        -- If another makes the run in this very moment, its first event finds that out.
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
            -- A task that another task kept out belongs to no run.
            UPDATE goldseam.runs AS r SET task = NULL WHERE r.rid = ANY (made) AND r.task IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM goldseam.tasks AS t WHERE t.id = r.task);
        END IF;
    END IF;
    IF cardinality(p_gone) > 0 THEN
        DELETE FROM goldseam.tasks AS t WHERE t.id = ANY (ARRAY(
            SELECT i.id FROM unnest(rids, p_gone) AS i (rid, id) WHERE i.rid IS NOT NULL AND i.id IS NOT NULL));
    END IF;
    IF cardinality(p_changes) + cardinality(p_summaries) > 0 THEN
        stirs := goldseam.follow_up_group(p_now, p_self, rids, made, p_born, p_changes, p_summaries, p_workflows,
            p_statuses, p_owners, p_parents, p_causes, p_created, p_as_ofs, p_recovered, p_tags) OR stirs;
    END IF;
    IF stirs THEN
        PERFORM pg_notify(p_channel, p_self[1]);
    END IF;
    clock := goldseam.clock();
END $$;

-- As `claim`, but due tasks without a lane are taken together, unless one with a lane is among them.
CREATE FUNCTION goldseam.claim_group(
    p_owner text, p_pools text[], p_kind text, p_limit int, p_now bigint,
    OUT claimed text[], OUT next_due bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    ids    text[];
    lanes  text[];
    got    text[];
    taken  goldseam.tasks;
    before int;
BEGIN
    claimed := '{}';
    -- A dormant task costs a claim nothing: a due one is made ripe first.
    UPDATE goldseam.tasks AS t SET ripe = true WHERE t.id = ANY (ARRAY(
        SELECT d.id FROM goldseam.tasks AS d
        WHERE d.pool = ANY (p_pools) AND d.state = 'ready' AND NOT d.ripe AND d.run_at <= p_now
        ORDER BY d.run_at FOR UPDATE SKIP LOCKED));
    WHILE cardinality(claimed) < p_limit LOOP
        before := cardinality(claimed);
        SELECT coalesce(array_agg(g.id ORDER BY g.priority DESC, g.run_at, g.id), '{}'),
            array_agg(g.lane ORDER BY g.priority DESC, g.run_at, g.id)
        INTO ids, lanes FROM (
            SELECT f.* FROM unnest(p_pools) AS p (pool) CROSS JOIN LATERAL (
                SELECT t.id, t.lane, t.priority, t.run_at FROM goldseam.tasks AS t
                WHERE t.pool = p.pool AND t.state = 'ready' AND t.ripe AND t.run_at <= p_now
                    AND (p_kind IS NULL OR t.kind = p_kind) AND (t.lane IS NULL OR goldseam.is_free(t.lane))
                ORDER BY t.priority DESC, t.run_at, t.id LIMIT p_limit - before) AS f
            ORDER BY f.priority DESC, f.run_at, f.id LIMIT p_limit - before) AS g;
        IF array_remove(lanes, NULL) = '{}' THEN
            -- The state is compared in a way that no partial index serves: only the ids select the rows.
            WITH w AS (
                UPDATE goldseam.tasks AS t SET state = 'claimed', owner = p_owner, fence = t.fence + 1,
                    started_at = p_now, heartbeat_at = p_now, changed_at = greatest(p_now, t.changed_at),
                    version = t.version + 1
                WHERE t.id = ANY (ARRAY(
                    SELECT s.id FROM goldseam.tasks AS s
                    WHERE s.id = ANY (ids) AND s.state || '' = 'ready' AND s.ripe IS NOT FALSE
                    FOR UPDATE SKIP LOCKED))
                RETURNING t.*)
            SELECT coalesce(array_agg(row_to_json(w)::text ORDER BY w.priority DESC, w.run_at, w.id), '{}')
            INTO got FROM w;
            claimed := claimed || got;
        ELSE
            FOR i IN 1 .. cardinality(ids) LOOP
                -- Another claim from this lane goes first; this one does not wait for it.
                CONTINUE WHEN lanes[i] IS NOT NULL AND (
                    NOT pg_try_advisory_xact_lock(hashtextextended('goldseam.' || lanes[i], 0))
                    OR NOT goldseam.is_free(lanes[i]));
                IF lanes[i] IS NULL THEN
                    taken := goldseam.take(ids[i], p_owner, p_now);
                ELSE
                    BEGIN
                        taken := goldseam.take(ids[i], p_owner, p_now);
                    EXCEPTION WHEN unique_violation THEN
                        -- The lane was taken by other means than a claim.
                        CONTINUE;
                    END;
                END IF;
                IF taken.id IS NOT NULL THEN
                    claimed := claimed || row_to_json(taken)::text;
                END IF;
            END LOOP;
        END IF;
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
