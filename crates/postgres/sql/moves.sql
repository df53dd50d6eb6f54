WITH lane AS MATERIALIZED (
--? locked
    -- The lane rows, taken first and in one order: a takeover waits for us, or we find no row.
    SELECT i.k, l.lane_id, l.lane_seq, l.fencing_token AS token, i.n
      FROM signer_lease l
      JOIN unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[]) WITH ORDINALITY
           AS i(lane_id, token, n, signs, k) ON i.lane_id = l.lane_id
     WHERE /*fence*/
     ORDER BY l.lane_id
       FOR NO KEY UPDATE OF l /*skip*/
--.
--? counted
    -- The same for the lanes of one worker, which no other statement of the node meets: the update is
    -- the lock. The guard below makes n the actual count, or there is no commit.
    UPDATE signer_lease l
       SET lane_seq = l.lane_seq + i.n /*renew*/, updated_at = clock_timestamp()
      FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[]) WITH ORDINALITY
           AS i(lane_id, token, n, signs, k)
     WHERE i.lane_id = l.lane_id AND /*fence*/
    RETURNING i.k, l.lane_id, l.lane_seq - i.n AS lane_seq, l.fencing_token AS token, i.n
--.
), led AS MATERIALIZED (
    -- The lanes in the order of the call, null for one that did not pass: a row finds its lane by
    -- number. A join would be a nested loop in a generic plan, and its cost rows times lanes.
    SELECT array_agg(lane_id ORDER BY k) AS ids, array_agg(token ORDER BY k) AS tokens,
           array_agg(lane_seq ORDER BY k) AS seqs
      FROM (SELECT k, max(lane_id) AS lane_id, max(token) AS token, max(lane_seq) AS lane_seq
              FROM (SELECT k, lane_id, token, lane_seq FROM lane
                    UNION ALL SELECT generate_subscripts($1::bigint[], 1), NULL, NULL, NULL) AS every
             GROUP BY k) AS numbered
), moved AS (
    UPDATE managed_tx m
       SET state            = i.state,
           sub_state        = i.sub_state,
           nonce            = i.nonce,
           nonce_given_back = i.nonce_given_back,
           tx_hash          = i.tx_hash,
           block_number     = i.block_number,
           block_hash       = i.block_hash,
           mined_hash       = i.mined_hash,
           mined_by         = i.mined_by,
           mined_status     = i.mined_status,
           foreign_hash     = i.foreign_hash,
           last_error       = coalesce(i.error, m.last_error),
           receipt          = CASE WHEN i.block_number IS NULL THEN NULL ELSE coalesce(i.receipt, m.receipt) END,
           -- Of what has ended already the end stays.
           confirmed_at     = CASE WHEN i.final AND i.block_number IS NOT NULL
                                   THEN coalesce(m.confirmed_at, clock_timestamp()) END,
--? signs
           attempts         = m.attempts + (i.signs IS TRUE)::int,
           -- Storing bytes counts as the first try to send them.
           submit_attempts  = m.submit_attempts + (/*tries*/)::int,
           first_submit_at  = CASE WHEN /*tries*/ THEN coalesce(m.first_submit_at, statement_timestamp()) ELSE m.first_submit_at END,
           last_submit_at   = CASE WHEN /*tries*/ THEN statement_timestamp() ELSE m.last_submit_at END,
--.
           fencing_token    = /*token*/,
           version          = m.version + 1,
           updated_at       = clock_timestamp()
      FROM unnest($8::integer[], $9::uuid[], $10::bigint[], $11::text[], $12::text[], $13::bigint[],
                  $14::bigint[], $15::bytea[], $16::bigint[], $17::bytea[], $18::bytea[], $19::text[],
                  $20::text[], $21::bytea[], $22::boolean[], $23::text[], $24::text[], $25::boolean[],
                  $26::bigint[], $27::boolean[], $28::boolean[], $29::boolean[], $39::text[], $40::bytea[],
                  $41::bytea[], $42::text[], $43::text[], $44::integer[], $45::text[], $46::bigint[],
                  $47::text[])
           AS i(k, tx_id, version, state, sub_state, nonce, nonce_given_back, tx_hash,
                block_number, block_hash, mined_hash, mined_by, mined_status, foreign_hash, final,
                error, receipt, signs, due, redue, frees, queued, attempt_kind, attempt_hash, raw,
                max_fee, max_priority_fee, sent_n, outcome, remedy_id, refused)
     WHERE m.tx_id = i.tx_id AND m.lane_id = (SELECT ids FROM led)[i.k] AND m.version = i.version
    RETURNING m.tx_id
--? signs
              , m.attempts, (SELECT tokens FROM led)[i.k] AS token, i.attempt_kind, i.attempt_hash,
              i.raw, i.max_fee, i.max_priority_fee
--.
--? signs closes
              , i.signs
--.
--? sends
              , i.sent_n, i.outcome
--.
--? closes
              , m.attempts AS attempt_n, i.remedy_id, i.refused
--.
--? dues
              , i.final, i.due, i.redue
--.
--? gives
              , m.nonce_given_back, i.frees, i.queued
--.
--? signs dues gives
              , m.lane_id
--.
), told AS (
    INSERT INTO tx_event (lane_id, lane_seq, tx_id, kind, from_state, from_sub, to_state, to_sub,
                          tx_hash, block_number, block_hash, new_fork, note, node, fencing_token,
                          confirmations)
    SELECT (SELECT ids FROM led)[i.k], (SELECT seqs FROM led)[i.k] + i.ord, i.tx_id, i.kind,
           i.from_state, i.from_sub, i.state, i.sub_state, i.hash, i.block_number, i.block_hash,
           i.new_fork IS TRUE, i.note, $5, (SELECT tokens FROM led)[i.k], i.confirmations
      FROM unnest($8::integer[], $9::uuid[], $11::text[], $12::text[], $30::integer[], $31::text[],
                  $32::text[], $33::text[], $34::bytea[], $35::bigint[], $36::bytea[], $37::boolean[],
                  $38::text[], $48::bytea[])
           AS i(k, tx_id, state, sub_state, ord, kind, from_state, from_sub, hash, block_number,
                block_hash, new_fork, note, confirmations)
     WHERE (SELECT ids FROM led)[i.k] IS NOT NULL
--? signs
), attempted AS (
    INSERT INTO tx_attempt (tx_id, n, chain_id, kind, tx_hash, raw, max_fee, max_priority_fee, fencing_token)
    SELECT m.tx_id, m.attempts, l.chain_id, m.attempt_kind, m.attempt_hash, m.raw, m.max_fee::numeric,
           m.max_priority_fee::numeric, m.token
      FROM moved m JOIN signer_lease l ON l.lane_id = m.lane_id
     WHERE m.signs
--.
--? sends
), sent AS (
    -- An acceptance is never unlearned.
    UPDATE tx_attempt a
       SET outcome = CASE WHEN a.outcome = 'ACCEPTED' THEN a.outcome ELSE m.outcome END
      FROM moved m
     WHERE m.sent_n IS NOT NULL AND a.tx_id = m.tx_id AND a.n = m.sent_n
    RETURNING a.tx_id
--.
--? closes
), closed AS (
    UPDATE remedy r
       SET state = CASE WHEN m.refused IS NULL THEN 'DONE' ELSE 'REFUSED' END,
           result = m.refused, closed_at = clock_timestamp(),
           attempt_n = CASE WHEN m.signs THEN m.attempt_n END
      FROM moved m
     WHERE m.remedy_id IS NOT NULL
       AND r.remedy_id = m.remedy_id AND r.tx_id = m.tx_id AND r.closed_at IS NULL
    RETURNING r.tx_id
--.
--? dues
), undue AS (
    DELETE FROM due_work d USING moved m WHERE d.tx_id = m.tx_id AND m.final
), redue AS (
    INSERT INTO due_work (tx_id, lane_id, due_at)
    SELECT tx_id, lane_id, clock_timestamp() + coalesce(due, 0) * interval '1 microsecond'
      FROM moved WHERE final IS NOT TRUE AND (redue OR due IS NOT NULL)
    ON CONFLICT (tx_id) DO UPDATE SET due_at = excluded.due_at
--.
--? gives
), freed AS (
    INSERT INTO free_nonce (lane_id, nonce)
    SELECT lane_id, nonce_given_back FROM moved WHERE frees
), dequeued AS (
    DELETE FROM lane_queue q USING moved m WHERE q.tx_id = m.tx_id AND m.queued
--.
--? locked
), counted AS (
    -- The guard below makes n the actual count, or there is no commit.
    UPDATE signer_lease l
       SET lane_seq = l.lane_seq + lane.n /*renew*/, updated_at = clock_timestamp()
      FROM lane
     WHERE l.lane_id = lane.lane_id
--.
/*feed*/)
-- Fewer moved than sent, for lanes that passed the fence, aborts the statement here, inside it.
SELECT lane.lane_id,
       1 / ((SELECT count(*) FROM moved) = (SELECT sum(n) FROM lane)
--? sends
            AND (SELECT count(*) FROM sent) = (SELECT count(sent_n) FROM moved)
--.
--? closes
            AND (SELECT count(*) FROM closed) = (SELECT count(remedy_id) FROM moved)
--.
           )::int AS whole,
       /*seqs*/ AS seqs,
       lane.lane_id AS ack_lane, /*ack*/ AS ack_token, lane.lane_seq + lane.n AS ack_seq
  FROM lane
