-- Views for runbooks and dashboards. They are the one place where SQL knows what events mean; tests hold them
-- against `derive`. They only read: whoever may SELECT from them needs no right on the tables.
-- Never edited once released; what must change gets a new view in a new file.

-- A moment, given in milliseconds.
CREATE FUNCTION goldseam.moment(p_ms bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_ms BETWEEN -62135596800000 AND 253402300799999
        THEN timestamptz 'epoch' + p_ms * interval '1 millisecond' END
$$;

-- A whole number, null if it is none.
CREATE FUNCTION goldseam.whole(p_text text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_text ~ '^-?[0-9]{1,18}$' THEN p_text::bigint END
$$;

-- JSON text, null if it is none. What jsonb alone refuses stands in somebody's payload, and is replaced there: a
-- null character, half of a surrogate pair, a number beyond its bounds.
CREATE FUNCTION goldseam.read_json(p_text text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN p_text::jsonb;
EXCEPTION WHEN OTHERS THEN
    BEGIN
        PERFORM p_text::json;
        RETURN regexp_replace(
            regexp_replace(p_text, '(?<!\\)((\\\\)*)\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\1\\ufffd', 'g'),
            '([0-9])[eE][+-]?[0-9]{4,}', '\1', 'g')::jsonb;
    EXCEPTION WHEN OTHERS THEN
        RETURN NULL;
    END;
END $$;

-- What the views ask of an event. `opened`, `parent` and `cutoff` are those of `branch.opened`.
CREATE TYPE goldseam.told AS (
    type text, at bigint, branch bigint, data jsonb, path text, attempt bigint, began bigint,
    opened bigint, parent bigint, cutoff bigint
);

-- The event of this text; all of it is null if the text is damaged.
CREATE FUNCTION goldseam.read_event(p_body text) RETURNS goldseam.told LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    body jsonb := goldseam.read_json(p_body);
    it   goldseam.told;
BEGIN
    it.type := body->'event'->>'type';
    it.at := body->>'at';
    it.branch := body->>'branch';
    it.data := body->'event'->'data';
    it.path := it.data->>'path';
    it.attempt := it.data->>'attempt';
    it.began := it.data->>'began';
    IF it.type = 'branch.opened' THEN
        it.opened := it.data->>'branch';
        it.parent := it.data->>'parent';
        it.cutoff := it.data->>'cutoff';
    END IF;
    RETURN it;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

-- Why something failed, in the four words of the runbook.
CREATE FUNCTION goldseam.failure_reason(p_code text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_code IN ('timeout', 'heartbeat-timeout') THEN p_code
        WHEN p_code IN ('cancelled', 'task-cancelled') THEN 'canceled' ELSE 'error' END
$$;

-- Every event, of every branch. `id` is its position. A damaged one has no type; its payload is its text.
CREATE VIEW goldseam.workflow_execution_history AS
SELECT e.seq AS id,
       r.id AS workflow_run_id,
       (e.it).type AS event_type,
       CASE WHEN (e.it).type IS NULL THEN to_jsonb(e.body) ELSE coalesce((e.it).data, '{}') END AS event_payload,
       goldseam.moment((e.it).at) AS created_at,
       (e.it).branch AS branch,
       (e.it).path AS step_id,
       (e.it).attempt AS attempt
FROM goldseam.runs AS r CROSS JOIN LATERAL (
    SELECT l.seq, l.body, goldseam.read_event(l.body) AS it FROM goldseam.events AS l WHERE l.rid = r.rid OFFSET 0
) AS e;

-- The steps that the lineage of the active branch knows; what was done on a branch that was left is not there.
-- Whether one runs is in the log where a node does it itself, and in its task where somebody else does.
CREATE VIEW goldseam.workflow_run_steps AS
SELECT r.id || '/' || s.path AS id,
       r.id AS workflow_run_id,
       s.path AS step_id,
       s.status,
       goldseam.moment(s.started_at) AS started_at,
       goldseam.moment(s.ended_at) AS completed_at,
       goldseam.moment(s.heartbeat_at) AS last_heartbeat_at,
       s.attempts AS attempt,
       s.retries AS retry_count,
       s.reason AS failure_reason,
       s.failure->>'message' AS error_message,
       s.task AS job_run_id,
       s.owner
FROM goldseam.runs AS r CROSS JOIN LATERAL (
    WITH RECURSIVE log AS MATERIALIZED (
        SELECT e.seq, goldseam.read_event(e.body) AS it FROM goldseam.events AS e
        WHERE e.rid = r.rid AND e.seq >= coalesce((
            -- Where it began anew, nothing before counts.
            SELECT c.seq FROM goldseam.events AS c
            WHERE c.rid = r.rid AND c.seq = goldseam.whole(goldseam.read_json(r.summary)->>'base')
                AND strpos(c.body, '"carried"') > 0), 0)
    ), opened AS (
        SELECT 0::bigint AS seq, 1::bigint AS branch, NULL::bigint AS parent, 0::bigint AS cutoff
        UNION ALL
        SELECT l.seq, (l.it).opened, (l.it).parent, (l.it).cutoff FROM log AS l WHERE (l.it).type = 'branch.opened'
    ), lineage AS (
        (SELECT o.branch, 9223372036854775807 AS until, o.parent, o.cutoff FROM opened AS o
            ORDER BY o.seq DESC LIMIT 1)
        UNION ALL
        SELECT o.branch, least(b.until, b.cutoff), o.parent, o.cutoff
        FROM lineage AS b JOIN opened AS o ON o.branch = b.parent AND o.branch < b.branch
    ), seen AS (
        SELECT l.seq, l.it, (l.it).type AS type,
               EXISTS (SELECT 1 FROM lineage AS b WHERE b.branch = (l.it).branch AND l.seq <= b.until) AS ours,
               -- The run turns away from what is open.
               (l.it).type IN ('run.completed', 'run.failed', 'run.cancelled', 'compensation.started')
                   OR ((l.it).type = 'jump.requested' AND (l.it).data->'compensate' = 'true') AS ends,
               -- Nobody has it any more.
               (l.it).type IN ('run.released', 'run.parked', 'run.completed', 'run.failed', 'run.cancelled',
                   'branch.opened') AS frees
        FROM log AS l
    ), steps AS (
        -- Events that are of no step come together under no path.
        SELECT CASE WHEN l.ours AND l.type IN ('step.started', 'step.completed', 'step.failed',
                   'step.retry_scheduled') THEN (l.it).path END AS path,
               max((l.it).attempt) FILTER (WHERE l.type <> 'step.retry_scheduled') AS attempts,
               count(*) FILTER (WHERE l.type = 'step.failed') AS failures,
               max(l.seq) FILTER (WHERE l.type <> 'step.retry_scheduled') AS told_seq,
               (array_agg(l.it ORDER BY l.seq DESC) FILTER (WHERE l.type LIKE 'step.%'
                   AND l.type <> 'step.retry_scheduled'))[1] AS told,
               max(l.seq) FILTER (WHERE l.type = 'step.retry_scheduled') AS retried_seq,
               max(l.seq) FILTER (WHERE l.type = 'step.started') AS sent_seq,
               (array_agg((l.it).data->'remote'->>'task' ORDER BY l.seq DESC)
                   FILTER (WHERE l.type = 'step.started'))[1] AS task,
               max(l.seq) FILTER (WHERE l.type = 'run.claimed') AS claimed_seq,
               (array_agg((l.it).data->>'node' ORDER BY l.seq DESC) FILTER (WHERE l.type = 'run.claimed'))[1] AS node,
               max(l.seq) FILTER (WHERE l.frees) AS freed_seq,
               bool_or(l.ours AND l.ends) AS over,
               max(l.seq) FILTER (WHERE l.ends OR (l.type = 'branch.opened'
                   AND (l.it).data->'why'->>'kind' IN ('reset', 'jump', 'retry', 'continue'))) AS turned_seq
        FROM seen AS l GROUP BY 1
    ), spread AS (
        SELECT s.path, s.attempts, s.failures, s.told, s.task,
               CASE WHEN s.retried_seq > s.told_seq THEN 'retry' ELSE substr((s.told).type, 6) END AS progress,
               s.sent_seq > coalesce(max(s.turned_seq) OVER (), 0) AS awaited,
               coalesce(bool_or(s.over) OVER (), false) AS over,
               CASE WHEN max(s.claimed_seq) OVER () > coalesce(max(s.freed_seq) OVER (), 0)
                   THEN max(s.node) OVER () END AS node
        FROM steps AS s
    ), judged AS (
        SELECT s.*, t.owner AS worker, t.heartbeat_at AS worker_heartbeat_at,
               CASE WHEN s.progress IN ('completed', 'failed') THEN s.progress
                   WHEN s.over THEN 'cancelled'
                   WHEN s.progress = 'retry' THEN 'pending'
                   WHEN s.task IS NULL AND s.node IS NOT NULL THEN 'running'
                   WHEN s.awaited AND t.state = 'claimed' THEN 'running'
                   ELSE 'pending' END AS status
        FROM spread AS s LEFT JOIN LATERAL (
            SELECT w.owner, w.heartbeat_at, w.state FROM goldseam.tasks AS w WHERE w.id = s.task OFFSET 0) AS t ON true
        WHERE s.path IS NOT NULL AND s.progress IS NOT NULL
    )
    SELECT j.path, j.status, j.attempts,
           (j.told).data->'failure' AS failure,
           j.failures - CASE j.progress WHEN 'failed' THEN 1 ELSE 0 END AS retries,
           coalesce((j.told).began, (j.told).at) AS started_at,
           CASE WHEN j.status IN ('completed', 'failed') THEN (j.told).at END AS ended_at,
           CASE WHEN j.status = 'cancelled' THEN 'canceled'
               WHEN (j.told).data->'failure' IS NOT NULL
                   THEN goldseam.failure_reason((j.told).data->'failure'->>'code') END AS reason,
           CASE WHEN j.status IN ('completed', 'failed') OR (j.progress = 'started' AND j.awaited) THEN j.task END AS task,
           CASE WHEN j.status = 'running' THEN CASE WHEN j.task IS NULL THEN j.node ELSE j.worker END END AS owner,
           CASE
               -- A result is a sign of life, a timeout is none.
               WHEN j.status = 'completed' THEN (j.told).at
               WHEN j.status = 'failed' THEN CASE WHEN goldseam.failure_reason((j.told).data->'failure'->>'code')
                   IN ('error', 'canceled') THEN (j.told).at END
               WHEN j.status <> 'running' THEN NULL
               WHEN j.task IS NOT NULL THEN j.worker_heartbeat_at
               -- A step that does not say itself that it lives does so for as long as its node.
               ELSE coalesce(
                   (SELECT max(h.heartbeat_at) FROM goldseam.tasks AS h
                       WHERE h.run = r.id AND h.queue = 'goldseam-heartbeat' AND h.kind = 'heartbeat:' || j.path
                           AND h.heartbeat_at >= (j.told).at),
                   (SELECT n.beat_at FROM goldseam.nodes AS n WHERE n.id = j.node))
           END AS heartbeat_at
    FROM judged AS j
) AS s;

-- Runs. One that waits or sleeps in one arm while a step of it is being worked on is running here.
CREATE VIEW goldseam.workflow_runs AS
SELECT r.id,
       r.workflow AS workflow_name,
       a.status,
       r.status AS goldseam_status,
       r.parent AS parent_run_id,
       goldseam.read_json(r.summary)->>'step' AS current_step_id,
       r.owner,
       goldseam.moment(n.beat_at) AS owner_beat_at,
       goldseam.moment(r.created_at) AS created_at,
       goldseam.moment(r.updated_at) AS updated_at,
       CASE WHEN r.status IN ('completed', 'failed', 'cancelled')
           THEN goldseam.moment(goldseam.whole(goldseam.read_json(r.summary)->>'finished_at')) END AS completed_at,
       goldseam.moment(r.recovered_at) AS recovered_at,
       CASE r.status WHEN 'cancelled' THEN 'canceled' WHEN 'failed'
           THEN goldseam.failure_reason(goldseam.read_json(r.summary)->'trouble'->>'code') END AS failure_reason,
       goldseam.read_json(r.summary)->'trouble'->>'message' AS error_message
FROM (
    SELECT i.rid, i.status FROM goldseam.runs AS i
    WHERE i.status IS NULL OR i.status NOT IN ('waiting', 'sleeping')
    UNION ALL
    -- Few are in memory or with a worker, however many rest; only the logs of those are read.
    SELECT i.rid, 'running' FROM (
        SELECT h.rid, h.id FROM goldseam.runs AS h
        WHERE h.owner IS NOT NULL AND h.status IN ('waiting', 'sleeping')
        UNION
        SELECT h.rid, h.id FROM goldseam.tasks AS t JOIN goldseam.runs AS h ON h.id = t.run
        WHERE t.state = 'claimed' AND t.step IS NOT NULL AND h.status IN ('waiting', 'sleeping')
    ) AS i
    WHERE (SELECT true FROM goldseam.workflow_run_steps AS s
        WHERE s.workflow_run_id = i.id AND s.status = 'running' LIMIT 1)
    UNION ALL
    SELECT i.rid, i.status FROM goldseam.runs AS i
    WHERE i.status IN ('waiting', 'sleeping')
        AND NOT ((i.owner IS NOT NULL OR EXISTS (
                SELECT 1 FROM goldseam.tasks AS t
                WHERE t.run = i.id AND t.state = 'claimed' AND t.step IS NOT NULL))
            AND coalesce((SELECT true FROM goldseam.workflow_run_steps AS s
                WHERE s.workflow_run_id = i.id AND s.status = 'running' LIMIT 1), false))
) AS a
JOIN goldseam.runs AS r ON r.rid = a.rid
LEFT JOIN goldseam.nodes AS n ON n.id = r.owner;

-- Jobs: users' own tasks, and those of remote steps. What the engine puts into queues for itself is none.
CREATE VIEW goldseam.job_runs AS
SELECT t.id,
       t.kind AS job_name,
       t.queue,
       a.status,
       t.run AS workflow_run_id,
       goldseam.read_json(t.step)->>'path' AS step_id,
       t.owner,
       goldseam.moment(t.created_at) AS created_at,
       goldseam.moment(t.started_at) AS started_at,
       goldseam.moment(t.changed_at) AS updated_at,
       CASE WHEN t.state NOT IN ('ready', 'claimed') THEN goldseam.moment(t.changed_at) END AS completed_at,
       goldseam.moment(CASE WHEN t.state IN ('completed', 'failed') THEN t.changed_at ELSE t.heartbeat_at END)
           AS last_heartbeat_at,
       CASE WHEN t.step IS NOT NULL THEN goldseam.whole(goldseam.read_json(t.step)->>'attempt') - 1
           WHEN t.state = 'failed' THEN greatest(t.attempts - 1, 0) ELSE t.attempts END AS retry_count,
       t.deliveries AS delivery_count,
       CASE t.state
           -- Nobody wants it any more: perhaps because whoever had it was silent, which its run's log knows.
           WHEN 'cancelled' THEN CASE WHEN t.step IS NULL THEN 'canceled' ELSE coalesce(
               (SELECT o.event_payload->>'reason'
                FROM goldseam.workflow_execution_history AS s JOIN goldseam.workflow_execution_history AS o
                    ON o.workflow_run_id = s.workflow_run_id AND o.branch = s.branch AND o.step_id = s.step_id
                    AND o.attempt = s.attempt AND o.id > s.id
                WHERE s.workflow_run_id = t.run AND s.event_type = 'step.started'
                    AND s.event_payload->'remote'->>'task' = t.id AND o.event_type = 'step.timeout'
                LIMIT 1), 'canceled') END
           WHEN 'dead' THEN 'error'
           WHEN 'failed' THEN goldseam.failure_reason(goldseam.read_json(t.failure)->>'code')
           WHEN 'ready' THEN CASE WHEN t.failure IS NOT NULL
               THEN goldseam.failure_reason(goldseam.read_json(t.failure)->>'code') END
       END AS failure_reason,
       CASE WHEN t.state IN ('ready', 'failed', 'dead') THEN goldseam.read_json(t.failure)->>'message' END
           AS error_message
FROM (
    SELECT i.id, 'pending' AS status FROM goldseam.tasks AS i WHERE i.state = 'ready'
    UNION ALL
    SELECT i.id, 'running' FROM goldseam.tasks AS i WHERE i.state = 'claimed'
    UNION ALL
    SELECT i.id, 'completed' FROM goldseam.tasks AS i WHERE i.state = 'completed'
    UNION ALL
    SELECT i.id, 'failed' FROM goldseam.tasks AS i WHERE i.state = 'failed'
    UNION ALL
    SELECT i.id, 'cancelled' FROM goldseam.tasks AS i WHERE i.state = 'cancelled'
    UNION ALL
    SELECT i.id, 'dead' FROM goldseam.tasks AS i WHERE i.state = 'dead'
) AS a JOIN goldseam.tasks AS t ON t.id = a.id
WHERE NOT (t.kind >= 'advance:' AND t.kind < 'advance;')
    AND t.queue NOT IN ('goldseam-mail', 'goldseam-heartbeat');

-- What happened to runs, for dashboards. Each type is a part of its own, so that who asks for one reads no other;
-- recoveries are in the logs of runs that had one. A text without the event's name need not be read as JSON.
CREATE VIEW goldseam.workflow_events AS
SELECT e.id AS workflowId,
       e.workflow AS workflowName,
       e.type,
       (x.it).attempt,
       coalesce((x.it).data->>'reason', (x.it).data->'failure'->>'message') AS reason,
       goldseam.moment((x.it).at) AS timestamp
FROM (
    SELECT r.id, r.workflow, 'workflow.recovery' AS type, 'run.recovered' AS name, l.body
    FROM goldseam.runs AS r JOIN goldseam.events AS l ON l.rid = r.rid
    WHERE (r.recovered_at IS NOT NULL OR r.summary IS NULL) AND strpos(l.body, '"run.recovered"') > 0
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.queued', 'run.queued', l.body
    FROM goldseam.runs AS r JOIN goldseam.events AS l ON l.rid = r.rid WHERE strpos(l.body, '"run.queued"') > 0
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.started', 'run.started', l.body
    FROM goldseam.runs AS r JOIN goldseam.events AS l ON l.rid = r.rid WHERE strpos(l.body, '"run.started"') > 0
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.claimed', 'run.claimed', l.body
    FROM goldseam.runs AS r JOIN goldseam.events AS l ON l.rid = r.rid WHERE strpos(l.body, '"run.claimed"') > 0
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.released', 'run.released', l.body
    FROM goldseam.runs AS r JOIN goldseam.events AS l ON l.rid = r.rid WHERE strpos(l.body, '"run.released"') > 0
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.paused', 'run.paused', l.body
    FROM goldseam.runs AS r JOIN goldseam.events AS l ON l.rid = r.rid WHERE strpos(l.body, '"run.paused"') > 0
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.resumed', 'run.resumed', l.body
    FROM goldseam.runs AS r JOIN goldseam.events AS l ON l.rid = r.rid WHERE strpos(l.body, '"run.resumed"') > 0
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.parked', 'run.parked', l.body
    FROM goldseam.runs AS r JOIN goldseam.events AS l ON l.rid = r.rid WHERE strpos(l.body, '"run.parked"') > 0
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.completed', 'run.completed', l.body
    FROM goldseam.runs AS r JOIN goldseam.events AS l ON l.rid = r.rid WHERE strpos(l.body, '"run.completed"') > 0
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.failed', 'run.failed', l.body
    FROM goldseam.runs AS r JOIN goldseam.events AS l ON l.rid = r.rid WHERE strpos(l.body, '"run.failed"') > 0
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.cancelled', 'run.cancelled', l.body
    FROM goldseam.runs AS r JOIN goldseam.events AS l ON l.rid = r.rid WHERE strpos(l.body, '"run.cancelled"') > 0
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.cancel_requested', 'run.cancel_requested', l.body
    FROM goldseam.runs AS r JOIN goldseam.events AS l ON l.rid = r.rid WHERE strpos(l.body, '"run.cancel_requested"') > 0
) AS e
CROSS JOIN LATERAL (SELECT goldseam.read_event(e.body) AS it OFFSET 0) AS x
WHERE (x.it).type = e.name;
