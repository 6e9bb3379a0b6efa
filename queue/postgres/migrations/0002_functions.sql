-- What a writer does is a function, so that it is one round trip and its own
-- transaction. Their errors have codes of their own: WP001 fenced, WP002 a
-- conflict, whose detail is the position of the job in the request.
--
-- The settings keep the plans what they should be whatever the statistics say:
-- a plan that was made while the table was empty must not scan it when it holds
-- a million jobs.

-- forget_1 deletes what was completed and is due, the earliest first, at most
-- that many rows of completed, and returns up to which count.
CREATE FUNCTION workpull.forget_1(which integer, done bigint, up_to bigint, before timestamptz, steps integer)
RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    due record;
BEGIN
    FOR due IN
        SELECT c.last, c.keys FROM workpull.completed c
        WHERE c.flow = which AND c.last > done AND c.last <= up_to AND c.at <= before
        ORDER BY c.last LIMIT steps
    LOOP
        DELETE FROM workpull.jobs j USING unnest(due.keys) AS k (key) WHERE j.flow = which AND j.key = k.key;
        DELETE FROM workpull.completed c WHERE c.flow = which AND c.last = due.last;
        done := due.last;
    END LOOP;
    RETURN done;
END $$;

-- commit_1 stores new jobs, and accepts and confirms known ones (rules 68-71).
-- No key comes twice among the new or among the marks. Proposed is the sequence
-- that the only new job proposes, null where the queue gives it. Of jobs that
-- were known it returns what is stored, and the cursor as it was before.
CREATE FUNCTION workpull.commit_1(
    flow_name text, writer bigint, proposed bigint,
    new_keys bytea[], new_ids bytea[], new_types bytea[], new_payloads bytea[],
    mark_keys bytea[], mark_bits smallint[],
    OUT before bigint, OUT known integer[], OUT sequences bigint[], OUT states smallint[], OUT types bytea[], OUT payloads bytea[])
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    -- The latest completed jobs stay known for the epoch: more than one commit
    -- holds (rule 70).
    remembered CONSTANT bigint := 8192;
    -- At most that many rows of completed are forgotten by one commit, which
    -- adds one at most.
    steps CONSTANT integer := 4;
    f record;
    moment timestamptz := clock_timestamp();
    added bigint := 0;
    looked boolean;
    touched bigint;
    finished bytea[];
    gone bigint;
    missing bigint;
BEGIN
    SELECT * INTO f FROM workpull.flows w WHERE w.flow = flow_name FOR NO KEY UPDATE;
    IF NOT FOUND OR f.epoch <> writer THEN
        RAISE EXCEPTION USING ERRCODE = 'WP001', MESSAGE = format('epoch %s, the queue''s is %s', writer, coalesce(f.epoch, 0));
    END IF;
    before := f.cursor;
    gone := f.forgotten;
    IF f.completed - remembered > gone THEN
        gone := workpull.forget_1(f.number, gone, f.completed - remembered, moment - f.kept * interval '1 microsecond', steps);
    END IF;

    looked := proposed IS NOT NULL OR cardinality(new_keys) = 0;
    IF NOT looked THEN
        BEGIN
            INSERT INTO workpull.jobs (sequence, flow, key, message_id, type_url, payload)
            SELECT f.cursor + n.place, f.number, n.key, n.id, n.type_url, n.payload
            FROM unnest(new_keys, new_ids, new_types, new_payloads) WITH ORDINALITY AS n (key, id, type_url, payload, place);
            added := cardinality(new_keys);
        EXCEPTION WHEN unique_violation THEN
            looked := true;
        END;
    END IF;
    IF looked AND cardinality(new_keys) > 0 THEN
        SELECT array_agg(n.place::integer), array_agg(j.sequence), array_agg(j.state), array_agg(j.type_url), array_agg(j.payload)
        INTO known, sequences, states, types, payloads
        FROM unnest(new_keys) WITH ORDINALITY AS n (key, place)
        JOIN workpull.jobs j ON j.flow = f.number AND j.key = n.key;
        IF known IS NULL AND proposed <> f.cursor + 1 THEN
            RAISE EXCEPTION USING ERRCODE = 'WP002', DETAIL = '1',
                MESSAGE = format('proposes sequence %s, the cursor is %s', proposed, f.cursor);
        END IF;
        INSERT INTO workpull.jobs (sequence, flow, key, message_id, type_url, payload)
        SELECT f.cursor + row_number() OVER (ORDER BY n.place), f.number, n.key, n.id, n.type_url, n.payload
        FROM unnest(new_keys, new_ids, new_types, new_payloads) WITH ORDINALITY AS n (key, id, type_url, payload, place)
        WHERE n.place <> ALL (coalesce(known, '{}'));
        added := cardinality(new_keys) - coalesce(cardinality(known), 0);
    END IF;

    IF cardinality(mark_keys) > 0 THEN
        WITH marked AS (
            UPDATE workpull.jobs j SET
                state = j.state | m.bits,
                confirmed_at = CASE WHEN m.bits & 2 <> 0 AND j.state & 2 = 0 THEN moment ELSE j.confirmed_at END,
                type_url = CASE WHEN (j.state | m.bits) & 3 = 3 THEN '' ELSE j.type_url END,
                payload = CASE WHEN (j.state | m.bits) & 3 = 3 THEN '' ELSE j.payload END
            FROM unnest(mark_keys, mark_bits) AS m (key, bits)
            WHERE j.flow = f.number AND j.key = m.key AND j.state & 3 <> 3
            RETURNING j.key, j.state)
        SELECT count(*), array_agg(d.key) FILTER (WHERE d.state & 3 = 3) INTO touched, finished FROM marked d;
        IF touched < cardinality(mark_keys) THEN
            SELECT min(m.place) INTO missing
            FROM unnest(mark_keys) WITH ORDINALITY AS m (key, place)
            WHERE NOT EXISTS (SELECT FROM workpull.jobs j WHERE j.flow = f.number AND j.key = m.key);
            IF missing IS NOT NULL THEN
                RAISE EXCEPTION USING ERRCODE = 'WP002', DETAIL = (cardinality(new_keys) + missing)::text, MESSAGE = 'was never stored';
            END IF;
        END IF;
        IF finished IS NOT NULL THEN
            INSERT INTO workpull.completed (flow, last, at, keys)
            VALUES (f.number, f.completed + cardinality(finished), moment, finished);
        END IF;
    END IF;

    IF added > 0 OR finished IS NOT NULL OR gone > f.forgotten THEN
        UPDATE workpull.flows w SET
            cursor = f.cursor + added,
            completed = f.completed + coalesce(cardinality(finished), 0),
            forgotten = gone
        WHERE w.flow = flow_name;
    END IF;
END $$;

-- load_1 begins an epoch (rule 65), that of the writer where it is given (B16),
-- and forgets what no window keeps. It belongs to a transaction that goes on to
-- read the jobs, which nobody changes while the flow is locked.
CREATE FUNCTION workpull.load_1(flow_name text, writer bigint, OUT which integer, OUT begun bigint, OUT at_cursor bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    f record;
BEGIN
    LOOP
        SELECT * INTO f FROM workpull.flows w WHERE w.flow = flow_name FOR NO KEY UPDATE;
        EXIT WHEN FOUND OR writer IS NOT NULL;
        INSERT INTO workpull.flows (flow) VALUES (flow_name) ON CONFLICT DO NOTHING;
    END LOOP;
    IF f.epoch IS DISTINCT FROM coalesce(writer, f.epoch) THEN
        RAISE EXCEPTION USING ERRCODE = 'WP001', MESSAGE = format('epoch %s, the queue''s is %s', writer, coalesce(f.epoch, 0));
    END IF;
    UPDATE workpull.flows w SET
        epoch = f.epoch + 1,
        forgotten = workpull.forget_1(f.number, f.forgotten, f.completed, clock_timestamp() - f.kept * interval '1 microsecond', 2147483647)
    WHERE w.flow = flow_name;
    which := f.number;
    begun := f.epoch + 1;
    at_cursor := f.cursor;
END $$;

-- page_1 returns what is stored of these jobs, in their order, but for those
-- that are accepted and confirmed.
CREATE FUNCTION workpull.page_1(which integer, keys bytea[])
RETURNS TABLE (place bigint, type_url bytea, payload bytea) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
    SELECT k.place, j.type_url, j.payload
    FROM unnest(keys) WITH ORDINALITY AS k (key, place)
    JOIN workpull.jobs j ON j.flow = which AND j.key = k.key
    WHERE j.state & 3 <> 3
    ORDER BY k.place
$$;

-- payloads_1 is page_1 for the writer of that epoch (B11).
CREATE FUNCTION workpull.payloads_1(flow_name text, writer bigint, keys bytea[])
RETURNS TABLE (place bigint, type_url bytea, payload bytea) LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    f record;
BEGIN
    SELECT * INTO f FROM workpull.flows w WHERE w.flow = flow_name;
    IF NOT FOUND OR f.epoch <> writer THEN
        RAISE EXCEPTION USING ERRCODE = 'WP001', MESSAGE = format('epoch %s, the queue''s is %s', writer, coalesce(f.epoch, 0));
    END IF;
    RETURN QUERY SELECT * FROM workpull.page_1(f.number, keys);
END $$;

-- progress_1 keeps the progress of jobs (B3), and nothing of those that are
-- accepted and confirmed. No key comes twice.
CREATE FUNCTION workpull.progress_1(flow_name text, writer bigint, of_keys bytea[], of_progress bytea[], of_dropped boolean[])
RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    f record;
    missing bigint;
BEGIN
    SELECT * INTO f FROM workpull.flows w WHERE w.flow = flow_name FOR NO KEY UPDATE;
    IF NOT FOUND OR f.epoch <> writer THEN
        RAISE EXCEPTION USING ERRCODE = 'WP001', MESSAGE = format('epoch %s, the queue''s is %s', writer, coalesce(f.epoch, 0));
    END IF;
    SELECT min(p.place) INTO missing
    FROM unnest(of_keys) WITH ORDINALITY AS p (key, place)
    WHERE NOT EXISTS (SELECT FROM workpull.jobs j WHERE j.flow = f.number AND j.key = p.key);
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'WP002', DETAIL = missing::text, MESSAGE = 'was never stored';
    END IF;
    UPDATE workpull.jobs j SET
        progress = p.progress,
        state = CASE WHEN p.dropped THEN j.state | 4 ELSE j.state & 3 END
    FROM unnest(of_keys, of_progress, of_dropped) AS p (key, progress, dropped)
    WHERE j.flow = f.number AND j.key = p.key AND j.state & 3 <> 3;
END $$;

-- keep_1 sets for how long completed jobs stay known, in microseconds (B9).
CREATE FUNCTION workpull.keep_1(flow_name text, writer bigint, kept_for bigint)
RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    f record;
BEGIN
    SELECT * INTO f FROM workpull.flows w WHERE w.flow = flow_name FOR NO KEY UPDATE;
    IF NOT FOUND OR f.epoch <> writer THEN
        RAISE EXCEPTION USING ERRCODE = 'WP001', MESSAGE = format('epoch %s, the queue''s is %s', writer, coalesce(f.epoch, 0));
    END IF;
    IF f.kept <> kept_for THEN
        UPDATE workpull.flows w SET kept = kept_for WHERE w.flow = flow_name;
    END IF;
END $$;

-- completed_1 tells of a job that is confirmed and known (B10).
CREATE FUNCTION workpull.completed_1(flow_name text, of_key bytea)
RETURNS TABLE (sequence bigint, state smallint, confirmed_at timestamptz) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
    SELECT j.sequence, j.state, j.confirmed_at
    FROM workpull.flows w JOIN workpull.jobs j ON j.flow = w.number
    WHERE w.flow = flow_name AND j.key = of_key AND j.state & 2 <> 0
$$;
