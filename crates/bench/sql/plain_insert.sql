-- The limit: a batch of new transactions on our tables and indexes, without fence, cursor or guard.
WITH t AS (
    INSERT INTO managed_tx (tx_id, lane_id, kind, request_id, payload, payload_hash, nonce, state, fencing_token)
    SELECT tx_id, lane_id, 'managed', request_id, payload, payload_hash, nonce, 'ALLOCATED', 1
      FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::bytea[], $5::bytea[], $6::bigint[])
           AS i(lane_id, tx_id, request_id, payload, payload_hash, nonce)
), e AS (
    INSERT INTO tx_event (lane_id, lane_seq, tx_id, kind, to_state, node, fencing_token)
    SELECT lane_id, nonce + 1, tx_id, 'accepted', 'ALLOCATED', 'bench', 1
      FROM unnest($1::bigint[], $2::uuid[], $6::bigint[]) AS i(lane_id, tx_id, nonce)
)
INSERT INTO due_work (tx_id, lane_id, due_at)
SELECT tx_id, lane_id, clock_timestamp() FROM unnest($1::bigint[], $2::uuid[]) AS i(lane_id, tx_id)
