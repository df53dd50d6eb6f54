WITH lane AS (
    -- Fence, cursor and renewal at once. What was read about the queue before decides no nonce:
    -- a promotion that waited here behind another finds the cursor moved, and does nothing.
    UPDATE signer_lease l
       SET next_nonce = i.next_nonce,
           lane_seq   = l.lane_seq + i.n,
           expires_at = clock_timestamp() + $8::bigint * interval '1 microsecond',
           updated_at = clock_timestamp()
      FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
           AS i(lane_id, token, expected, next_nonce, n)
     WHERE l.lane_id = i.lane_id
       AND l.owner_node = $6 AND l.owner_incarnation = $7 AND l.fencing_token = i.token
       AND l.expires_at > clock_timestamp()
       AND l.paused IS NULL AND NOT l.held
       AND l.next_nonce = i.expected
    RETURNING l.lane_id, l.lane_seq - i.n AS before_seq, l.fencing_token AS token, i.n,
              l.next_nonce, l.lane_seq, l.updated_at AS at
), taken AS (
    DELETE FROM free_nonce f
     USING unnest($9::bigint[], $10::bigint[]) AS u(lane_id, nonce), lane
     WHERE lane.lane_id = u.lane_id AND f.lane_id = u.lane_id AND f.nonce = u.nonce
    RETURNING f.nonce
), item AS MATERIALIZED (
    SELECT i.*, lane.before_seq, lane.token, lane.at
      FROM unnest($11::bigint[], $12::uuid[], $13::bigint[], $14::bigint[]) AS i(lane_id, tx_id, nonce, ord)
      JOIN lane ON lane.lane_id = i.lane_id
), gone AS (
    DELETE FROM lane_queue q USING item
     WHERE q.tx_id = item.tx_id AND q.lane_id = item.lane_id
    RETURNING q.lane_id, q.queue_seq, q.tx_id, item.ord
), moved AS (
    UPDATE managed_tx m
       SET nonce = item.nonce, state = 'ALLOCATED', sub_state = NULL, fencing_token = item.token,
           version = m.version + 1, updated_at = item.at
      FROM item, managed_tx before
     WHERE m.tx_id = item.tx_id AND m.lane_id = item.lane_id AND m.state = 'QUEUED'
       AND before.tx_id = m.tx_id
       -- One whose time has passed is missed below, and nothing happens.
       AND (m.not_after IS NULL OR m.not_after >= clock_timestamp())
    RETURNING m.tx_id, m.lane_id, item.at, item.ord, item.before_seq, item.token,
              before.sub_state AS from_sub
), told AS (
    INSERT INTO tx_event (lane_id, lane_seq, tx_id, kind, from_state, from_sub, to_state, node, fencing_token, at)
    SELECT lane_id, before_seq + ord, tx_id, 'accepted', 'QUEUED', from_sub, 'ALLOCATED', $6, token, at
      FROM moved
), due AS (
    INSERT INTO due_work (tx_id, lane_id, due_at)
    SELECT tx_id, lane_id, at FROM moved
), whole AS (
    -- Everything sent was there, in the order of arrival, and nothing waits in front of it.
    SELECT (SELECT count(*) FROM moved) = (SELECT sum(n) FROM lane)
       AND (SELECT count(*) FROM gone) = (SELECT sum(n) FROM lane)
       AND (SELECT coalesce(bool_and(g.ord = g.place), true)
              FROM (SELECT ord, row_number() OVER (PARTITION BY lane_id ORDER BY queue_seq) AS place
                      FROM gone) g)
       AND NOT EXISTS (
            SELECT FROM (SELECT lane_id, max(queue_seq) AS last FROM gone GROUP BY lane_id) g
              JOIN lane_queue q ON q.lane_id = g.lane_id AND q.queue_seq < g.last
             WHERE q.tx_id NOT IN (SELECT tx_id FROM gone)) AS queue,
           (SELECT count(*) FROM taken)
            = (SELECT count(*) FROM unnest($9::bigint[]) AS u(lane_id)
                 JOIN lane ON lane.lane_id = u.lane_id) AS free
)
SELECT lane.lane_id, lane.at, lane.lane_id AS ack_lane, lane.token AS ack_token,
       lane.next_nonce AS ack_nonce, lane.lane_seq AS ack_seq,
       EXISTS (SELECT FROM free_nonce f
                WHERE f.lane_id = lane.lane_id
                  AND NOT EXISTS (SELECT FROM unnest($9::bigint[], $10::bigint[]) AS u(lane_id, nonce)
                                   WHERE u.lane_id = f.lane_id AND u.nonce = f.nonce)) AS more_free,
       1 / (whole.queue AND whole.free)::int AS whole
  FROM lane, whole
