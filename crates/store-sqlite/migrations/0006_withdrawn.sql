-- A jump that was withdrawn ends no step: the view of steps, once more, with that.

-- The steps that the lineage of the active branch knows; what was done on a branch that was left is not there.
-- Whether one runs is in the log where a node does it itself, and in its task where a worker does.
-- Each run's log is read by itself, and only if the run is asked for: `json_each` is what makes SQLite do so. First
-- comes the lineage, each branch with the last position that is seen of it, then the steps.
DROP VIEW workflow_run_steps;
CREATE VIEW workflow_run_steps AS
SELECT r.id || '/' || (s.value ->> 'path') AS id,
       r.id AS workflow_run_id,
       s.value ->> 'path' AS step_id,
       s.value ->> 'status' AS status,
       strftime('%Y-%m-%dT%H:%M:%fZ', (s.value ->> 'started_at') / 1000.0, 'unixepoch') AS started_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', (s.value ->> 'ended_at') / 1000.0, 'unixepoch') AS completed_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', (s.value ->> 'heartbeat_at') / 1000.0, 'unixepoch') AS last_heartbeat_at,
       s.value ->> 'attempts' AS attempt,
       s.value ->> 'retries' AS retry_count,
       s.value ->> 'reason' AS failure_reason,
       s.value ->> 'message' AS error_message,
       s.value ->> 'task' AS job_run_id,
       s.value ->> 'owner' AS owner
FROM runs AS r JOIN json_each(json_array((
    WITH RECURSIVE opened AS (
        SELECT 0 AS seq, 1 AS branch, NULL AS parent, 0 AS cutoff
        UNION ALL
        SELECT e.seq, e.body ->> '$.event.data.branch', e.body ->> '$.event.data.parent',
               e.body ->> '$.event.data.cutoff'
        FROM events AS e
        WHERE e.rid = r.rid AND instr(e.body, '"branch.opened"')
            AND CASE WHEN json_valid(e.body) THEN e.body ->> '$.event.type' = 'branch.opened'
                AND json_type(e.body, '$.event.data.branch') = 'integer'
                AND json_type(e.body, '$.event.data.cutoff') = 'integer' END
    ), lineage AS (
        SELECT * FROM (
            SELECT o.branch AS branch, 9223372036854775807 AS until, o.parent AS parent, o.cutoff AS cutoff
            FROM opened AS o ORDER BY o.seq DESC LIMIT 1)
        UNION ALL
        SELECT o.branch, min(b.until, b.cutoff), o.parent, o.cutoff
        FROM lineage AS b JOIN opened AS o ON o.branch = b.parent AND o.branch < b.branch
    )
    SELECT json_group_array(json_array(branch, until)) FROM lineage
))) AS lineage JOIN json_each((
    WITH log AS MATERIALIZED (
        SELECT e.seq, e.body ->> '$.event.type' AS type,
               e.body ->> '$.event.data.path' AS path, e.body ->> '$.event.data.attempt' AS attempt,
               EXISTS (SELECT 1 FROM json_each(lineage.value) AS b
                   WHERE b.value ->> 0 = e.body ->> '$.branch' AND e.seq <= b.value ->> 1) AS ours,
               -- The run turns away from what is open.
               e.body ->> '$.event.type' IN ('run.completed', 'run.failed', 'run.cancelled', 'compensation.started') AS ends,
               e.body ->> '$.event.type' = 'jump.requested' AND e.body ->> '$.event.data.compensate' AS leaves,
               e.body ->> '$.event.type' = 'request.withdrawn' AND e.body ->> '$.event.data.what' = 'jump' AS stays,
               -- No node has it any more.
               e.body ->> '$.event.type' IN ('run.released', 'run.parked', 'run.completed', 'run.failed',
                   'run.cancelled', 'branch.opened') AS frees,
               e.body ->> '$.event.type' = 'branch.opened'
                   AND e.body ->> '$.event.data.why.kind' IN ('reset', 'jump', 'retry', 'continue') AS drops
        FROM (
            SELECT seq, CASE WHEN json_valid(body) THEN body ELSE '{}' END AS body FROM events
            WHERE rid = r.rid AND seq >= coalesce((
                -- Where it began again, nothing before counts.
                SELECT c.seq FROM events AS c
                WHERE c.rid = r.rid AND c.seq = CASE WHEN json_valid(r.summary) THEN r.summary ->> '$.base' END
                    AND instr(c.body, '"carried"')), 0)
        ) AS e
    ), steps AS (
        -- Events that are of no step come together under no path.
        SELECT CASE WHEN l.ours AND l.type IN ('step.started', 'step.completed', 'step.failed',
                   'step.retry_scheduled') THEN l.path END AS path,
               max(l.attempt) FILTER (WHERE l.type <> 'step.retry_scheduled') AS attempts,
               count(*) FILTER (WHERE l.type = 'step.failed') AS failures,
               max(l.seq) FILTER (WHERE l.type <> 'step.retry_scheduled') AS told,
               max(l.seq) FILTER (WHERE l.type = 'step.retry_scheduled') AS retried,
               max(l.seq) FILTER (WHERE l.type = 'step.started') AS sent,
               max(l.seq) FILTER (WHERE l.type = 'run.claimed') AS claimed,
               max(l.seq) FILTER (WHERE l.frees) AS freed,
               max(l.seq) FILTER (WHERE l.ends AND l.ours) AS over,
               max(l.seq) FILTER (WHERE l.leaves AND l.ours) AS leaving,
               max(l.seq) FILTER (WHERE l.stays) AS staying,
               max(l.seq) FILTER (WHERE l.ends OR l.leaves OR l.drops) AS turned
        FROM log AS l GROUP BY 1
    ), spread AS (
        SELECT path, attempts, failures, told, retried, sent,
               sent > coalesce(max(turned) OVER (), 0) AS awaited,
               max(over) OVER () IS NOT NULL
                   OR coalesce(max(leaving) OVER (), 0) > coalesce(max(staying) OVER (), 0) AS over,
               max(claimed) OVER () AS claimed, coalesce(max(freed) OVER (), 0) AS freed
        FROM steps
    ), read AS (
        SELECT s.path, s.attempts, s.failures, s.awaited, s.over,
               CASE WHEN s.retried > s.told THEN 'retry'
                   ELSE substr(told.body ->> '$.event.type', 6) END AS progress,
               told.body ->> '$.at' AS told_at,
               coalesce(told.body ->> '$.event.data.began', told.body ->> '$.at') AS started_at,
               told.body -> '$.event.data.failure' IS NOT NULL AS failed,
               told.body ->> '$.event.data.failure.code' AS code,
               told.body ->> '$.event.data.failure.message' AS message,
               sent.body ->> '$.event.data.remote.task' AS task,
               claimed.body ->> '$.event.data.node' AS node
        FROM spread AS s
        JOIN events AS told ON told.rid = r.rid AND told.seq = s.told
        LEFT JOIN events AS sent ON sent.rid = r.rid AND sent.seq = s.sent
        LEFT JOIN events AS claimed ON claimed.rid = r.rid AND claimed.seq = s.claimed AND s.claimed > s.freed
        WHERE s.path IS NOT NULL
    ), judged AS (
        SELECT s.*, t.owner AS worker, t.heartbeat_at AS worker_heartbeat_at,
               CASE WHEN s.progress IN ('completed', 'failed') THEN s.progress
                   WHEN s.over THEN 'cancelled'
                   WHEN s.progress = 'retry' THEN 'pending'
                   WHEN s.task IS NULL AND s.node IS NOT NULL THEN 'running'
                   WHEN s.awaited AND t.state = 'claimed' THEN 'running'
                   ELSE 'pending' END AS status,
               CASE WHEN NOT s.failed THEN NULL
                   WHEN s.code IN ('timeout', 'heartbeat-timeout') THEN s.code
                   WHEN s.code IN ('cancelled', 'task-cancelled') THEN 'canceled' ELSE 'error' END AS reason
        FROM read AS s LEFT JOIN tasks AS t ON t.id = s.task
    )
    SELECT json_group_array(json_object(
        'path', j.path, 'status', j.status, 'attempts', j.attempts, 'message', j.message,
        'retries', j.failures - (j.progress = 'failed'),
        'started_at', j.started_at,
        'ended_at', CASE WHEN j.status IN ('completed', 'failed') THEN j.told_at END,
        'reason', CASE WHEN j.status = 'cancelled' THEN 'canceled' ELSE j.reason END,
        'task', CASE WHEN j.status IN ('completed', 'failed') OR (j.progress = 'started' AND j.awaited) THEN j.task END,
        'owner', CASE WHEN j.status = 'running' THEN CASE WHEN j.task IS NULL THEN j.node ELSE j.worker END END,
        'heartbeat_at', CASE
            -- A result is a sign of life, a timeout is none.
            WHEN j.status = 'completed' OR (j.status = 'failed' AND j.reason IN ('error', 'canceled')) THEN j.told_at
            WHEN j.status <> 'running' THEN NULL
            WHEN j.task IS NOT NULL THEN j.worker_heartbeat_at
            -- A step that does not say itself that it lives does so for as long as its node.
            ELSE coalesce(
                (SELECT max(h.heartbeat_at) FROM tasks AS h
                    WHERE h.run = r.id AND h.queue = 'goldseam-heartbeat' AND h.kind = 'heartbeat:' || j.path
                        AND h.heartbeat_at >= j.told_at),
                (SELECT n.beat_at FROM nodes AS n WHERE n.id = j.node))
        END))
    FROM judged AS j
)) AS s;
