WITH lane AS (
    -- Fence, cursor and renewal at once: a takeover waits for this row, or we find none.
    UPDATE signer_lease l
       SET next_nonce = i.next_nonce,
           lane_seq   = l.lane_seq + i.n,
           expires_at = clock_timestamp() + $8::bigint * interval '1 microsecond',
           updated_at = clock_timestamp()
      FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $9::boolean[],
                  $25::timestamptz[])
           WITH ORDINALITY AS i(lane_id, token, expected, next_nonce, n, passes_queue, until, k)
     WHERE l.lane_id = i.lane_id
       AND l.owner_node = $6 AND l.owner_incarnation = $7 AND l.fencing_token = i.token
       AND l.expires_at > clock_timestamp()
       AND l.paused IS NULL AND NOT l.held
       AND l.next_nonce = i.expected
       -- No row of the lane is to be given a nonce after its own time.
       AND (i.until IS NULL OR i.until >= clock_timestamp())
       AND (i.passes_queue IS TRUE OR NOT EXISTS (SELECT FROM lane_queue q WHERE q.lane_id = l.lane_id))
    RETURNING i.k, l.lane_id, l.fencing_token AS token, l.lane_seq - i.n AS before_seq,
              l.next_nonce, l.lane_seq
), led AS MATERIALIZED (
    -- The lanes in the order of the call, null for one that did not pass: a row finds its lane by
    -- number. A join would be a nested loop in a generic plan, and its cost rows times lanes.
    SELECT array_agg(lane_id ORDER BY k) AS ids, array_agg(token ORDER BY k) AS tokens,
           array_agg(before_seq ORDER BY k) AS seqs
      FROM (SELECT k, max(lane_id) AS lane_id, max(token) AS token, max(before_seq) AS before_seq
              FROM (SELECT k, lane_id, token, before_seq FROM lane
                    UNION ALL SELECT generate_subscripts($1::bigint[], 1), NULL, NULL, NULL) AS every
             GROUP BY k) AS numbered
--? free
), taken AS (
    -- Free nonces that are used; those that must be there are counted below.
    DELETE FROM free_nonce f
     USING unnest($26::integer[], $27::bigint[], $28::boolean[]) AS u(k, nonce, needed)
     WHERE f.lane_id = (SELECT ids FROM led)[u.k] AND f.nonce = u.nonce
    RETURNING u.needed
--.
), stored AS (
    -- The rows come ordered by lane, request and id, the same for everybody, so that two creators of
    -- the same ids wait and do not deadlock; a scan of the arrays keeps that order.
    INSERT INTO managed_tx (tx_id, lane_id, kind, request_id, payload, payload_hash, seal, nonce, state,
                            not_after, meta, created_by, lock_token, reserve_expires_at,
                            fencing_token, created_at, updated_at)
    SELECT i.tx_id, (SELECT ids FROM led)[i.k], coalesce(i.kind, 'managed'), i.request_id, i.payload,
           i.payload_hash, i.seal, i.nonce,
           CASE i.kind WHEN 'reserved' THEN 'RESERVED' ELSE 'ALLOCATED' END,
           i.not_after, i.meta, i.created_by, i.lock_token,
           statement_timestamp() + i.ttl * interval '1 microsecond', (SELECT tokens FROM led)[i.k],
           statement_timestamp(), statement_timestamp()
      FROM unnest($10::integer[], $11::uuid[], $12::text[], $13::text[], $14::bytea[], $15::bytea[],
                  $16::bigint[], $17::timestamptz[], $18::text[], $19::uuid[], $20::bigint[],
                  $23::text[], $24::bytea[])
           AS i(k, tx_id, kind, request_id, payload, payload_hash, nonce, not_after, meta,
                lock_token, ttl, created_by, seal)
     WHERE (SELECT ids FROM led)[i.k] IS NOT NULL
), told AS (
    INSERT INTO tx_event (lane_id, lane_seq, tx_id, kind, to_state, node, fencing_token, at)
    SELECT (SELECT ids FROM led)[i.k], (SELECT seqs FROM led)[i.k] + i.ord, i.tx_id, 'accepted',
           CASE i.kind WHEN 'reserved' THEN 'RESERVED' ELSE 'ALLOCATED' END, $6,
           (SELECT tokens FROM led)[i.k], statement_timestamp()
      FROM unnest($10::integer[], $11::uuid[], $12::text[], $21::integer[]) AS i(k, tx_id, kind, ord)
     WHERE (SELECT ids FROM led)[i.k] IS NOT NULL
), due AS (
    INSERT INTO due_work (tx_id, lane_id, due_at)
    SELECT i.tx_id, (SELECT ids FROM led)[i.k],
           CASE WHEN i.due IS NULL THEN statement_timestamp()
                ELSE statement_timestamp() + i.due * interval '1 microsecond' END
      FROM unnest($10::integer[], $11::uuid[], $22::bigint[]) AS i(k, tx_id, due)
     WHERE (SELECT ids FROM led)[i.k] IS NOT NULL
)
SELECT lane.lane_id, statement_timestamp() AS at, lane.lane_id AS ack_lane, lane.token AS ack_token,
       lane.next_nonce AS ack_nonce, lane.lane_seq AS ack_seq,
--? plain
       EXISTS (SELECT FROM free_nonce f WHERE f.lane_id = lane.lane_id) AS more_free
--? free
       EXISTS (SELECT FROM free_nonce f
                WHERE f.lane_id = lane.lane_id
                  AND NOT EXISTS (SELECT FROM unnest($26::integer[], $27::bigint[]) AS u(k, nonce)
                                   WHERE u.k = lane.k AND u.nonce = f.nonce)) AS more_free,
       -- A free nonce that is gone aborts the statement here, inside it: afterwards would be too late.
       1 / ((SELECT count(*) FROM taken WHERE needed)
            = (SELECT count(*) FROM unnest($26::integer[], $28::boolean[]) AS u(k, needed)
                WHERE u.needed AND (SELECT ids FROM led)[u.k] IS NOT NULL))::int AS whole
--.
  FROM lane
