WITH given AS (
    SELECT * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
             AS g(lane_id, token, next_nonce, lane_seq)
), lane AS MATERIALIZED (
    -- The witness is compared in here, with what the server had at the failover: rows of now may have moved on.
    SELECT l.lane_id
      FROM signer_lease l
      JOIN failover_lane f ON f.lane_id = l.lane_id
      JOIN given g ON g.lane_id = l.lane_id
     WHERE l.held AND f.era = $1 AND NOT f.held_before AND f.lost IS NULL
       AND f.token = g.token AND f.next_nonce >= g.next_nonce AND f.lane_seq >= g.lane_seq
       AND EXISTS (SELECT FROM store_identity WHERE era = $1)
       -- What was decided without these nodes holds for no others.
       AND NOT EXISTS (
            SELECT FROM failover_node n
             WHERE n.era = $1 AND n.reported_at IS NULL AND (n.forgot OR n.node_id <> ALL ($6::text[])))
     ORDER BY l.lane_id
       FOR NO KEY UPDATE OF l, f
), lifted AS (
    UPDATE signer_lease l SET held = false, updated_at = clock_timestamp()
      FROM lane WHERE l.lane_id = lane.lane_id
    RETURNING l.lane_id
)
SELECT lane_id FROM lifted ORDER BY lane_id
