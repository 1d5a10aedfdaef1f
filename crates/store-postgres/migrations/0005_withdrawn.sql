-- A jump that was withdrawn ends no step: the view of steps, once more, with that.

-- The steps that the lineage of the active branch knows; what was done on a branch that was left is not there.
-- Whether one runs is in the log where a node does it itself, and in its task where a worker does.
CREATE OR REPLACE VIEW goldseam.workflow_run_steps AS
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
            -- Where it began again, nothing before counts.
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
               (l.it).type IN ('run.completed', 'run.failed', 'run.cancelled', 'compensation.started') AS ends,
               (l.it).type = 'jump.requested' AND (l.it).data->'compensate' = 'true' AS leaves,
               (l.it).type = 'request.withdrawn' AND (l.it).data->>'what' = 'jump' AS stays,
               -- No node has it any more.
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
               max(l.seq) FILTER (WHERE l.ours AND l.leaves) AS leaving_seq,
               max(l.seq) FILTER (WHERE l.stays) AS staying_seq,
               max(l.seq) FILTER (WHERE l.ends OR l.leaves OR (l.type = 'branch.opened'
                   AND (l.it).data->'why'->>'kind' IN ('reset', 'jump', 'retry', 'continue'))) AS turned_seq
        FROM seen AS l GROUP BY 1
    ), spread AS (
        SELECT s.path, s.attempts, s.failures, s.told, s.task,
               CASE WHEN s.retried_seq > s.told_seq THEN 'retry' ELSE substr((s.told).type, 6) END AS progress,
               s.sent_seq > coalesce(max(s.turned_seq) OVER (), 0) AS awaited,
               coalesce(bool_or(s.over) OVER (), false)
                   OR coalesce(max(s.leaving_seq) OVER (), 0) > coalesce(max(s.staying_seq) OVER (), 0) AS over,
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
