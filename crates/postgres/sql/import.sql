WITH lane AS (
    -- The leader loses the lane: what it remembers was read before. The row is locked and seen to be paused. The new token
    -- tells a later failover that the lane has moved on since the leader's last acknowledgement.
    UPDATE signer_lease
       SET next_nonce = $2, lane_seq = lane_seq + $3, fencing_token = fencing_token + 1,
           owner_node = NULL, owner_incarnation = NULL, owner_url = NULL,
           expires_at = clock_timestamp(), updated_at = clock_timestamp()
     WHERE lane_id = $1
    RETURNING lane_id, chain_id, fencing_token - 1 AS token, lane_seq - $3 AS before_seq, updated_at AS at
), item AS MATERIALIZED (
    SELECT *
      FROM unnest($4::uuid[], $5::text[], $6::text[], $7::bytea[], $8::bytea[], $9::bigint[], $10::text[],
                  $11::text[], $12::bytea[], $13::uuid[], $14::bigint[], $15::bigint[], $16::text[],
                  $17::bytea[], $18::text[], $19::text[], $20::boolean[], $26::bytea[])
           WITH ORDINALITY
           AS i(tx_id, kind, request_id, payload, payload_hash, nonce, state, sub_state, tx_hash,
                lock_token, ttl, due, attempt_kind, raw, max_fee, max_priority_fee, tried, seal, k)
), stored AS (
    INSERT INTO managed_tx (tx_id, lane_id, kind, request_id, payload, payload_hash, seal, nonce, state, sub_state,
                            tx_hash, attempts, submit_attempts, first_submit_at, last_submit_at,
                            lock_token, reserve_expires_at, fencing_token, created_at, updated_at)
    SELECT i.tx_id, lane.lane_id, i.kind, i.request_id, i.payload, i.payload_hash, i.seal, i.nonce, i.state,
           i.sub_state,
           i.tx_hash, (i.attempt_kind IS NOT NULL)::integer, i.tried::integer,
           CASE WHEN i.tried THEN lane.at END, CASE WHEN i.tried THEN lane.at END,
           i.lock_token, lane.at + i.ttl * interval '1 microsecond', lane.token, lane.at, lane.at
      FROM item i, lane
     -- By bytes, as every insert into this table sorts its rows: two that meet wait for each other in one order.
     ORDER BY i.request_id COLLATE "C" NULLS FIRST, i.tx_id
), attempts AS (
    INSERT INTO tx_attempt (tx_id, n, chain_id, kind, tx_hash, raw, max_fee, max_priority_fee,
                            fencing_token, created_at)
    SELECT i.tx_id, 1, lane.chain_id, i.attempt_kind, i.tx_hash, i.raw, i.max_fee::numeric,
           i.max_priority_fee::numeric, lane.token, lane.at
      FROM item i, lane WHERE i.attempt_kind IS NOT NULL
), told AS (
    INSERT INTO tx_event (lane_id, lane_seq, tx_id, kind, to_state, to_sub, tx_hash, note, fencing_token, at)
    SELECT lane.lane_id, lane.before_seq + i.k, i.tx_id, 'accepted', i.state, i.sub_state, i.tx_hash,
           'imported', lane.token, lane.at
      FROM item i, lane
), due AS (
    INSERT INTO due_work (tx_id, lane_id, due_at)
    SELECT i.tx_id, lane.lane_id, lane.at + i.due * interval '1 microsecond' FROM item i, lane
), taken AS (
    -- What was given back and is open elsewhere is free no longer; above the cursor nothing is.
    DELETE FROM free_nonce f USING lane
     WHERE f.lane_id = lane.lane_id AND (f.nonce >= $2 OR f.nonce = ANY ($9::bigint[]))
)
INSERT INTO remedy (lane_id, action, asked_by, reason, details, before_after, state, asked_at, closed_at, act,
                    node, token)
SELECT lane_id, 'IMPORT', $21, $22, $23, $24, 'DONE', at, at, $25, $27, token + 1 FROM lane
