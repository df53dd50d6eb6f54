WITH lane AS MATERIALIZED (
    -- The lane's row, taken first: a takeover waits for us, or we find no row.
    SELECT l.lane_id, l.fencing_token
      FROM signer_lease l
     WHERE l.lane_id = $1 AND l.owner_node = $2 AND l.owner_incarnation = $3
       AND l.fencing_token = $4 AND l.expires_at > clock_timestamp()
       FOR NO KEY UPDATE OF l
), decided AS (
    -- Only a question that we have claimed. Once answered it is none, so that a statement which comes
    -- twice, or late, answers it once.
    UPDATE remedy r
       SET action = $7, max_fee = $8::text::numeric, max_priority_fee = $9::text::numeric,
           asked_by = $10, reason = $11, details = $12,
           raw = $13, severity = $14, then_state = $15,
           state = CASE $7 WHEN 'NOOP' THEN 'DONE' ELSE r.state END,
           result = CASE $7 WHEN 'NOOP' THEN 'NOOP' END,
           closed_at = CASE $7 WHEN 'NOOP' THEN clock_timestamp() END
      FROM lane
     WHERE r.remedy_id = $6 AND r.lane_id = lane.lane_id AND r.tx_id IS NOT NULL
       AND r.action = 'DECIDE' AND r.state = 'CLAIMED' AND r.claimed_token = lane.fencing_token
    RETURNING r.lane_id
), renewed AS (
    UPDATE signer_lease l
       SET expires_at = clock_timestamp() + $5::bigint * interval '1 microsecond',
           updated_at = clock_timestamp()
      FROM decided WHERE l.lane_id = decided.lane_id
)
SELECT EXISTS (SELECT FROM decided) AS written FROM lane
