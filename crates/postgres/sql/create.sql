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
    RETURNING l.lane_id, l.lane_seq - i.n AS before_seq, l.fencing_token AS token,
              l.updated_at AS at
), taken AS (
    -- Free nonces that are used; those that must be there are counted below.
    DELETE FROM free_nonce f
     USING unnest($9::bigint[], $10::bigint[], $11::boolean[]) AS u(lane_id, nonce, needed), lane
     WHERE lane.lane_id = u.lane_id AND f.lane_id = u.lane_id AND f.nonce = u.nonce
    RETURNING u.needed
), stored AS (
    -- In one order for everybody, so that two creators of the same ids wait and do not deadlock.
    INSERT INTO managed_tx (tx_id, lane_id, kind, request_id, payload, payload_hash, nonce, state,
                            not_after, meta, lock_token, reserve_expires_at, fencing_token,
                            created_at, updated_at)
    SELECT i.tx_id, i.lane_id, i.kind, i.request_id, i.payload, i.payload_hash, i.nonce,
           CASE i.kind WHEN 'reserved' THEN 'RESERVED' ELSE 'ALLOCATED' END,
           i.not_after, i.meta, i.lock_token,
           lane.at + i.ttl * interval '1 microsecond', lane.token, lane.at, lane.at
      FROM unnest($12::bigint[], $13::uuid[], $14::text[], $15::text[], $16::bytea[], $17::bytea[],
                  $18::bigint[], $19::timestamptz[], $20::text[], $21::uuid[], $22::bigint[])
           AS i(lane_id, tx_id, kind, request_id, payload, payload_hash, nonce, not_after, meta,
                lock_token, ttl)
      JOIN lane ON lane.lane_id = i.lane_id
     ORDER BY i.lane_id, i.request_id, i.tx_id
), told AS (
    INSERT INTO tx_event (lane_id, lane_seq, tx_id, kind, to_state, node, fencing_token, at)
    SELECT i.lane_id, lane.before_seq + i.ord, i.tx_id, 'accepted',
           CASE i.kind WHEN 'reserved' THEN 'RESERVED' ELSE 'ALLOCATED' END, $6, lane.token, lane.at
      FROM unnest($12::bigint[], $13::uuid[], $14::text[], $23::bigint[]) AS i(lane_id, tx_id, kind, ord)
      JOIN lane ON lane.lane_id = i.lane_id
), due AS (
    INSERT INTO due_work (tx_id, lane_id, due_at)
    SELECT i.tx_id, i.lane_id, lane.at + i.due * interval '1 microsecond'
      FROM unnest($12::bigint[], $13::uuid[], $25::bigint[]) AS i(lane_id, tx_id, due)
      JOIN lane ON lane.lane_id = i.lane_id
)
-- A free nonce that is gone aborts the statement here, inside it: afterwards would be too late.
SELECT lane.lane_id, lane.at,
       EXISTS (SELECT FROM free_nonce f
                WHERE f.lane_id = lane.lane_id
                  AND NOT EXISTS (SELECT FROM unnest($9::bigint[], $10::bigint[]) AS u(lane_id, nonce)
                                   WHERE u.lane_id = f.lane_id AND u.nonce = f.nonce)) AS more_free,
       1 / ((SELECT count(*) FROM taken WHERE needed)
            = (SELECT count(*) FROM unnest($9::bigint[], $11::boolean[]) AS u(lane_id, needed)
                 JOIN lane t ON t.lane_id = u.lane_id WHERE u.needed))::int AS whole
  FROM lane
