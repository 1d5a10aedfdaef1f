-- Views for runbooks and dashboards. They are the one place where SQL knows what events mean; tests hold them
-- against `derive`. Moments are text, as in 2026-01-31T12:00:00.000Z. Never edited once released.

-- Every event, of every branch. `id` is its position. A damaged one has no type; its payload is its text.
CREATE VIEW workflow_execution_history AS
SELECT e.seq AS id,
       r.id AS workflow_run_id,
       CASE WHEN json_valid(e.body) THEN e.body ->> '$.event.type' END AS event_type,
       CASE WHEN NOT json_valid(e.body) THEN json_quote(e.body)
           ELSE coalesce(e.body -> '$.event.data', '{}') END AS event_payload,
       CASE WHEN json_valid(e.body)
           THEN strftime('%Y-%m-%dT%H:%M:%fZ', (e.body ->> '$.at') / 1000.0, 'unixepoch') END AS created_at,
       CASE WHEN json_valid(e.body) THEN e.body ->> '$.branch' END AS branch,
       CASE WHEN json_valid(e.body) THEN e.body ->> '$.event.data.path' END AS step_id,
       CASE WHEN json_valid(e.body) THEN e.body ->> '$.event.data.attempt' END AS attempt
FROM runs AS r JOIN events AS e ON e.rid = r.rid;

-- The steps that the lineage of the active branch knows; what was done on a branch that was left is not there.
-- Whether one runs is in the log where a node does it itself, and in its task where somebody else does.
-- `json_each` is what lets each run's log be read by itself, and only if the run is asked for.
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
FROM runs AS r JOIN json_each((
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
    ), log AS MATERIALIZED (
        SELECT e.seq, e.body ->> '$.branch' AS branch, e.body ->> '$.event.type' AS type,
               e.body ->> '$.event.data.path' AS path, e.body ->> '$.event.data.attempt' AS attempt,
               -- The run turns away from what is open.
               e.body ->> '$.event.type' IN ('run.completed', 'run.failed', 'run.cancelled', 'compensation.started')
                   OR (e.body ->> '$.event.type' = 'jump.requested' AND e.body ->> '$.event.data.compensate') AS ends,
               -- Nobody has it any more.
               e.body ->> '$.event.type' IN ('run.released', 'run.parked', 'run.completed', 'run.failed',
                   'run.cancelled', 'branch.opened') AS frees,
               e.body ->> '$.event.type' = 'branch.opened'
                   AND e.body ->> '$.event.data.why.kind' IN ('reset', 'jump', 'retry', 'continue') AS drops
        FROM (
            SELECT seq, CASE WHEN json_valid(body) THEN body ELSE '{}' END AS body FROM events
            WHERE rid = r.rid AND seq >= coalesce((
                -- Where it began anew, nothing before counts.
                SELECT c.seq FROM events AS c
                WHERE c.rid = r.rid AND c.seq = CASE WHEN json_valid(r.summary) THEN r.summary ->> '$.base' END
                    AND instr(c.body, '"carried"')), 0)
        ) AS e
    ), steps AS (
        -- Events that are of no step come together under no path.
        SELECT CASE WHEN b.branch IS NOT NULL AND l.type IN ('step.started', 'step.completed', 'step.failed',
                   'step.retry_scheduled') THEN l.path END AS path,
               max(l.attempt) FILTER (WHERE l.type <> 'step.retry_scheduled') AS attempts,
               count(*) FILTER (WHERE l.type = 'step.failed') AS failures,
               max(l.seq) FILTER (WHERE l.type <> 'step.retry_scheduled') AS told,
               max(l.seq) FILTER (WHERE l.type = 'step.retry_scheduled') AS retried,
               max(l.seq) FILTER (WHERE l.type = 'step.started') AS sent,
               max(l.seq) FILTER (WHERE l.type = 'run.claimed') AS claimed,
               max(l.seq) FILTER (WHERE l.frees) AS freed,
               max(l.seq) FILTER (WHERE l.ends AND b.branch IS NOT NULL) AS over,
               max(l.seq) FILTER (WHERE l.ends OR l.drops) AS turned
        FROM log AS l LEFT JOIN lineage AS b ON b.branch = l.branch AND l.seq <= b.until
        GROUP BY 1
    ), spread AS (
        SELECT path, attempts, failures, told, retried, sent,
               sent > coalesce(max(turned) OVER (), 0) AS awaited,
               max(over) OVER () IS NOT NULL AS over,
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

-- Runs. One that waits or sleeps in one arm while a step of it is being worked on is running here.
-- Each part says what the index on the status says, or SQLite would not use it.
CREATE VIEW workflow_runs AS
SELECT r.id,
       r.workflow AS workflow_name,
       a.status,
       r.status AS goldseam_status,
       r.parent AS parent_run_id,
       CASE WHEN json_valid(r.summary) THEN r.summary ->> '$.step' END AS current_step_id,
       r.owner,
       (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', n.beat_at / 1000.0, 'unixepoch') FROM nodes AS n
           WHERE n.id = r.owner) AS owner_beat_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', r.created_at / 1000.0, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', r.updated_at / 1000.0, 'unixepoch') AS updated_at,
       CASE WHEN r.status IN ('completed', 'failed', 'cancelled') AND json_valid(r.summary)
           THEN strftime('%Y-%m-%dT%H:%M:%fZ', (r.summary ->> '$.finished_at') / 1000.0, 'unixepoch') END
           AS completed_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', r.recovered_at / 1000.0, 'unixepoch') AS recovered_at,
       CASE WHEN r.status = 'cancelled' THEN 'canceled'
           WHEN r.status <> 'failed' OR NOT json_valid(r.summary) THEN NULL
           WHEN r.summary ->> '$.trouble.code' IN ('timeout', 'heartbeat-timeout') THEN r.summary ->> '$.trouble.code'
           WHEN r.summary ->> '$.trouble.code' IN ('cancelled', 'task-cancelled') THEN 'canceled'
           ELSE 'error' END AS failure_reason,
       CASE WHEN json_valid(r.summary) THEN r.summary ->> '$.trouble.message' END AS error_message
FROM (
    SELECT i.rid, 'completed' AS status FROM runs AS i WHERE i.status = 'completed'
    UNION ALL
    SELECT i.rid, NULL FROM runs AS i WHERE i.summary IS NULL AND i.status IS NULL
    UNION ALL
    SELECT i.rid, i.status FROM runs AS i WHERE i.status <> 'completed' AND i.status NOT IN ('waiting', 'sleeping')
    UNION ALL
    SELECT i.rid, 'running' FROM runs AS i
    WHERE i.rid IN (
            SELECT h.rid FROM runs AS h WHERE h.owner IS NOT NULL
            UNION ALL
            SELECT h.rid FROM tasks AS t INDEXED BY tasks_claimed JOIN runs AS h ON h.id = t.run
            WHERE t.state = 'claimed' AND t.step IS NOT NULL)
        AND i.status IN ('waiting', 'sleeping')
        AND EXISTS (SELECT 1 FROM workflow_run_steps AS s WHERE s.workflow_run_id = i.id AND s.status = 'running')
    UNION ALL
    SELECT i.rid, i.status FROM runs AS i
    WHERE i.status <> 'completed' AND i.status IN ('waiting', 'sleeping')
        AND NOT ((i.owner IS NOT NULL OR EXISTS (
                SELECT 1 FROM tasks AS t WHERE t.run = i.id AND t.state = 'claimed' AND t.step IS NOT NULL))
            AND EXISTS (SELECT 1 FROM workflow_run_steps AS s
                WHERE s.workflow_run_id = i.id AND s.status = 'running'))
) AS a JOIN runs AS r ON r.rid = a.rid;

-- Jobs: users' own tasks, and those of remote steps. What the engine puts into queues for itself is none.
CREATE VIEW job_runs AS
SELECT t.id,
       t.kind AS job_name,
       t.queue,
       a.status,
       t.run AS workflow_run_id,
       CASE WHEN json_valid(t.step) THEN t.step ->> '$.path' END AS step_id,
       t.owner,
       strftime('%Y-%m-%dT%H:%M:%fZ', t.created_at / 1000.0, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', t.started_at / 1000.0, 'unixepoch') AS started_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', t.changed_at / 1000.0, 'unixepoch') AS updated_at,
       CASE WHEN t.state NOT IN ('ready', 'claimed')
           THEN strftime('%Y-%m-%dT%H:%M:%fZ', t.changed_at / 1000.0, 'unixepoch') END AS completed_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', CASE WHEN t.state IN ('completed', 'failed') THEN t.changed_at
           ELSE t.heartbeat_at END / 1000.0, 'unixepoch') AS last_heartbeat_at,
       CASE WHEN json_valid(t.step) THEN (t.step ->> '$.attempt') - 1
           WHEN t.state = 'failed' THEN max(t.attempts - 1, 0) ELSE t.attempts END AS retry_count,
       t.deliveries AS delivery_count,
       CASE
           -- Nobody wants it any more: perhaps because whoever had it was silent, which its run's log knows.
           WHEN t.state = 'cancelled' THEN CASE WHEN t.step IS NULL THEN 'canceled' ELSE coalesce(
               (SELECT o.event_payload ->> '$.reason'
                FROM workflow_execution_history AS s JOIN workflow_execution_history AS o
                    ON o.workflow_run_id = s.workflow_run_id AND o.branch = s.branch AND o.step_id = s.step_id
                    AND o.attempt = s.attempt AND o.id > s.id
                WHERE s.workflow_run_id = t.run AND s.event_type = 'step.started'
                    AND s.event_payload ->> '$.remote.task' = t.id AND o.event_type = 'step.timeout'
                LIMIT 1), 'canceled') END
           WHEN t.state = 'dead' THEN 'error'
           WHEN t.state NOT IN ('failed', 'ready') OR t.failure IS NULL THEN NULL
           WHEN NOT json_valid(t.failure) THEN 'error'
           WHEN t.failure ->> '$.code' IN ('timeout', 'heartbeat-timeout') THEN t.failure ->> '$.code'
           WHEN t.failure ->> '$.code' IN ('cancelled', 'task-cancelled') THEN 'canceled'
           ELSE 'error' END AS failure_reason,
       CASE WHEN t.state IN ('ready', 'failed', 'dead') AND json_valid(t.failure)
           THEN t.failure ->> '$.message' END AS error_message
FROM (
    SELECT i.tid, 'pending' AS status FROM tasks AS i WHERE i.state = 'ready'
    UNION ALL
    SELECT i.tid, 'running' FROM tasks AS i WHERE i.state = 'claimed'
    UNION ALL
    SELECT i.tid, 'completed' FROM tasks AS i WHERE i.state = 'completed'
    UNION ALL
    SELECT i.tid, 'failed' FROM tasks AS i WHERE i.state = 'failed'
    UNION ALL
    SELECT i.tid, 'cancelled' FROM tasks AS i WHERE i.state = 'cancelled'
    UNION ALL
    SELECT i.tid, 'dead' FROM tasks AS i WHERE i.state = 'dead'
) AS a JOIN tasks AS t ON t.tid = a.tid
WHERE NOT (t.kind >= 'advance:' AND t.kind < 'advance;')
    AND t.queue NOT IN ('goldseam-mail', 'goldseam-heartbeat');

-- What happened to runs, for dashboards. Each type is a part of its own, so that who asks for one reads no other;
-- recoveries are in the logs of runs that had one. A text without the event's name need not be read as JSON.
CREATE VIEW workflow_events AS
SELECT e.id AS workflowId,
       e.workflow AS workflowName,
       e.type AS type,
       e.body ->> '$.event.data.attempt' AS attempt,
       coalesce(e.body ->> '$.event.data.reason', e.body ->> '$.event.data.failure.message') AS reason,
       strftime('%Y-%m-%dT%H:%M:%fZ', (e.body ->> '$.at') / 1000.0, 'unixepoch') AS timestamp
FROM (
    SELECT r.id, r.workflow, 'workflow.recovery' AS type, 'run.recovered' AS name, l.body
    FROM runs AS r CROSS JOIN events AS l ON l.rid = r.rid
    WHERE instr(l.body, '"run.recovered"') AND r.rid IN (
        SELECT rid FROM runs WHERE recovered_at IS NOT NULL UNION ALL SELECT rid FROM runs WHERE summary IS NULL)
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.queued', 'run.queued', l.body
    FROM runs AS r JOIN events AS l ON l.rid = r.rid WHERE instr(l.body, '"run.queued"')
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.started', 'run.started', l.body
    FROM runs AS r JOIN events AS l ON l.rid = r.rid WHERE instr(l.body, '"run.started"')
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.claimed', 'run.claimed', l.body
    FROM runs AS r JOIN events AS l ON l.rid = r.rid WHERE instr(l.body, '"run.claimed"')
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.released', 'run.released', l.body
    FROM runs AS r JOIN events AS l ON l.rid = r.rid WHERE instr(l.body, '"run.released"')
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.paused', 'run.paused', l.body
    FROM runs AS r JOIN events AS l ON l.rid = r.rid WHERE instr(l.body, '"run.paused"')
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.resumed', 'run.resumed', l.body
    FROM runs AS r JOIN events AS l ON l.rid = r.rid WHERE instr(l.body, '"run.resumed"')
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.parked', 'run.parked', l.body
    FROM runs AS r JOIN events AS l ON l.rid = r.rid WHERE instr(l.body, '"run.parked"')
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.completed', 'run.completed', l.body
    FROM runs AS r JOIN events AS l ON l.rid = r.rid WHERE instr(l.body, '"run.completed"')
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.failed', 'run.failed', l.body
    FROM runs AS r JOIN events AS l ON l.rid = r.rid WHERE instr(l.body, '"run.failed"')
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.cancelled', 'run.cancelled', l.body
    FROM runs AS r JOIN events AS l ON l.rid = r.rid WHERE instr(l.body, '"run.cancelled"')
    UNION ALL
    SELECT r.id, r.workflow, 'workflow.cancel_requested', 'run.cancel_requested', l.body
    FROM runs AS r JOIN events AS l ON l.rid = r.rid WHERE instr(l.body, '"run.cancel_requested"')
) AS e
WHERE CASE WHEN json_valid(e.body) THEN e.body ->> '$.event.type' = e.name END;
