-- The limit: a batch of moves on our tables and indexes, with an event for each.
WITH t AS (
    UPDATE managed_tx m
       SET state = 'TRACKING', sub_state = 'BROADCAST', tx_hash = i.tx_hash, fencing_token = 1,
           version = m.version + 1, updated_at = clock_timestamp()
      FROM unnest($2::uuid[], $4::bytea[]) AS i(tx_id, tx_hash)
     WHERE m.tx_id = i.tx_id
)
INSERT INTO tx_event (lane_id, lane_seq, tx_id, kind, from_state, from_sub, to_state, to_sub, tx_hash,
                      note, node, fencing_token)
SELECT lane_id, lane_seq, tx_id, 'submitted', 'TRACKING', 'BROADCAST', 'TRACKING', 'BROADCAST', tx_hash,
       'AMBIGUOUS', 'bench', 1
  FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::bytea[]) AS i(lane_id, tx_id, lane_seq, tx_hash)
