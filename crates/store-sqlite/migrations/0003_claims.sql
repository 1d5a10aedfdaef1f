-- What healing looks for, each by an index of its own: on a healthy store every one of these looks finds
-- nothing and reads next to nothing, however many tasks are claimed. Advance tasks stay out of them.

-- Claims whose task limits its claimant's silence, by the moment at which the limit is reached.
CREATE INDEX tasks_silent ON tasks (COALESCE(heartbeat_at, started_at, changed_at) + silence_max_ms)
    WHERE state = 'claimed' AND silence_max_ms IS NOT NULL;
-- Claims of a user's tasks without such a limit, by their last sign of life.
CREATE INDEX tasks_quiet ON tasks (COALESCE(heartbeat_at, started_at, changed_at), owner)
    WHERE state = 'claimed' AND silence_max_ms IS NULL AND NOT (kind >= 'advance:' AND kind < 'advance;');
-- Locks that are held through a node.
CREATE INDEX locks_node ON locks (node) WHERE holder IS NOT NULL AND node IS NOT NULL;
