WITH lane AS (
    -- Fence, cursor and renewal at once: a takeover waits for this row, or we find none.
    UPDATE signer_lease l
       SET next_nonce = i.next_nonce,
           lane_seq   = l.lane_seq + i.n,
           expires_at = clock_timestamp() + $8::bigint * interval '1 microsecond',
           updated_at = clock_timestamp()
      FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $24::boolean[])
           AS i(lane_id, token, expected, next_nonce, n, passes_queue)
     WHERE l.lane_id = i.lane_id
       AND l.owner_node = $6 AND l.owner_incarnation = $7 AND l.fencing_token = i.token
       AND l.expires_at > clock_timestamp()
       AND l.paused IS NULL AND NOT l.held
       AND l.next_nonce = i.expected
       AND (i.passes_queue OR NOT EXISTS (SELECT FROM lane_queue q WHERE q.lane_id = l.lane_id))
    RETURNING l.lane_id, l.lane_seq - i.n AS before_seq
), led AS MATERIALIZED (
    -- The lanes that passed, as sorted arrays: a row finds its lane by binary search. A join would
    -- be a nested loop in a generic plan, and its cost rows times lanes.
    SELECT array_agg(lane_id ORDER BY lane_id) AS ids, array_agg(before_seq ORDER BY lane_id) AS seqs
      FROM lane
), taken AS (
    -- Free nonces that are used; those that must be there are counted below.
    DELETE FROM free_nonce f
     USING unnest($9::bigint[], $10::bigint[], $11::boolean[]) AS u(lane_id, nonce, needed), led
     WHERE u.lane_id = led.ids[width_bucket(u.lane_id, led.ids)]
       AND f.lane_id = u.lane_id AND f.nonce = u.nonce
    RETURNING u.needed
), stored AS (
    -- In one order for everybody, so that two creators of the same ids wait and do not deadlock.
    INSERT INTO managed_tx (tx_id, lane_id, kind, request_id, payload, payload_hash, nonce, state,
                            not_after, meta, lock_token, reserve_expires_at, fencing_token,
                            created_at, updated_at)
    SELECT i.tx_id, i.lane_id, i.kind, i.request_id, i.payload, i.payload_hash, i.nonce,
           CASE i.kind WHEN 'reserved' THEN 'RESERVED' ELSE 'ALLOCATED' END,
           i.not_after, i.meta, i.lock_token,
           statement_timestamp() + i.ttl * interval '1 microsecond', i.token,
           statement_timestamp(), statement_timestamp()
      FROM unnest($12::bigint[], $13::uuid[], $14::text[], $15::text[], $16::bytea[], $17::bytea[],
                  $18::bigint[], $19::timestamptz[], $20::text[], $21::uuid[], $22::bigint[], $26::bigint[])
           AS i(lane_id, tx_id, kind, request_id, payload, payload_hash, nonce, not_after, meta,
                lock_token, ttl, token)
      JOIN led ON i.lane_id = led.ids[width_bucket(i.lane_id, led.ids)]
     ORDER BY i.lane_id, i.request_id, i.tx_id
), told AS (
    INSERT INTO tx_event (lane_id, lane_seq, tx_id, kind, to_state, node, fencing_token, at)
    SELECT i.lane_id, led.seqs[width_bucket(i.lane_id, led.ids)] + i.ord, i.tx_id, 'accepted',
           CASE i.kind WHEN 'reserved' THEN 'RESERVED' ELSE 'ALLOCATED' END, $6, i.token,
           statement_timestamp()
      FROM unnest($12::bigint[], $13::uuid[], $14::text[], $23::bigint[], $26::bigint[])
           AS i(lane_id, tx_id, kind, ord, token)
      JOIN led ON i.lane_id = led.ids[width_bucket(i.lane_id, led.ids)]
), due AS (
    INSERT INTO due_work (tx_id, lane_id, due_at)
    SELECT i.tx_id, i.lane_id, statement_timestamp() + i.due * interval '1 microsecond'
      FROM unnest($12::bigint[], $13::uuid[], $25::bigint[]) AS i(lane_id, tx_id, due)
      JOIN led ON i.lane_id = led.ids[width_bucket(i.lane_id, led.ids)]
)
-- A free nonce that is gone aborts the statement here, inside it: afterwards would be too late.
SELECT lane.lane_id, statement_timestamp() AS at,
       EXISTS (SELECT FROM free_nonce f
                WHERE f.lane_id = lane.lane_id
                  AND NOT EXISTS (SELECT FROM unnest($9::bigint[], $10::bigint[]) AS u(lane_id, nonce)
                                   WHERE u.lane_id = f.lane_id AND u.nonce = f.nonce)) AS more_free,
       1 / ((SELECT count(*) FROM taken WHERE needed)
            = (SELECT count(*) FROM unnest($9::bigint[], $11::boolean[]) AS u(lane_id, needed), led
                WHERE u.needed AND u.lane_id = led.ids[width_bucket(u.lane_id, led.ids)]))::int AS whole
  FROM lane
