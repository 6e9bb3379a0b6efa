-- The flows of this database. The row of a flow is what fences: whoever writes
-- to a flow locks it first, in the same transaction (rule 65). It is updated in
-- place by each commit, so that its page has room for that.
CREATE TABLE workpull.flows (
    flow      text COLLATE "C" PRIMARY KEY,
    -- number stands for the flow in the other tables.
    number    integer GENERATED ALWAYS AS IDENTITY,
    epoch     bigint NOT NULL DEFAULT 0,
    -- cursor is the last sequence that was given.
    cursor    bigint NOT NULL DEFAULT 0,
    -- completed counts the jobs that were both accepted and confirmed, forgotten
    -- those of them that are no longer known.
    completed bigint NOT NULL DEFAULT 0,
    forgotten bigint NOT NULL DEFAULT 0,
    -- kept is for how long a completed job stays known, in microseconds (B9).
    kept      bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

-- The jobs that are known. No column is ever null, which saves eight bytes of
-- each row. A job is updated twice or thrice and then deleted: the room in its
-- page lets the updates leave the index alone, which is the only one.
CREATE TABLE workpull.jobs (
    sequence     bigint NOT NULL,
    confirmed_at timestamptz NOT NULL DEFAULT '-infinity',
    flow         integer NOT NULL,
    -- state: 1 accepted, 2 confirmed, 4 given up as a dead letter; their sum.
    state        smallint NOT NULL DEFAULT 0,
    -- key is the MessageID, where that has less than 64 bytes, and else its
    -- SHA-512, which has 64: an index entry has to be short.
    key          bytea NOT NULL,
    -- message_id is empty where key is it.
    message_id   bytea NOT NULL,
    -- Both are empty once the job is accepted and confirmed.
    type_url     bytea NOT NULL,
    payload      bytea NOT NULL,
    -- progress is the JSON of the job's attempts, empty for none (B3).
    progress     bytea NOT NULL DEFAULT '',
    PRIMARY KEY (flow, key)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_threshold = 100000, autovacuum_analyze_scale_factor = 0.2,
    toast.autovacuum_vacuum_threshold = 10000, toast.autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_cost_delay = 0
);
-- A job is read once or never: to compress it costs more than it saves.
ALTER TABLE workpull.jobs ALTER payload SET STORAGE EXTERNAL;
ALTER TABLE workpull.jobs ALTER message_id SET STORAGE EXTERNAL;

-- What was completed, in order, so that it can be forgotten in order: a row for
-- each commit that completed anything.
CREATE TABLE workpull.completed (
    flow integer NOT NULL,
    -- last is the count of completed jobs after this row's.
    last bigint NOT NULL,
    at   timestamptz NOT NULL,
    keys bytea[] NOT NULL,
    PRIMARY KEY (flow, last)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE workpull.completed ALTER keys SET STORAGE EXTERNAL;
