WITH here AS MATERIALIZED (
    SELECT swept_tx FROM retention WHERE one FOR NO KEY UPDATE SKIP LOCKED
), passed AS MATERIALIZED (
    -- Ids grow with time. Of rows this old nearly all are deleted already, so the walk meets little else.
    SELECT c.tx_id, c.n
      FROM here CROSS JOIN LATERAL (
           SELECT m.tx_id, row_number() OVER (ORDER BY m.tx_id) AS n
             FROM managed_tx m
            WHERE m.tx_id > here.swept_tx
              AND m.tx_id < (lpad(to_hex(floor(extract(epoch FROM /*by*/) * 1000)::bigint), 12, '0')
                             || repeat('0', 20))::uuid
            ORDER BY m.tx_id LIMIT $1) c
), gone AS MATERIALIZED (
    SELECT m.tx_id
      FROM managed_tx m JOIN signer_lease l ON l.lane_id = m.lane_id
     WHERE m.tx_id = ANY (ARRAY(SELECT tx_id FROM passed))
       AND m.state = 'RECYCLABLE' AND /*ripe*/
       AND (SELECT true FROM remedy r WHERE r.tx_id = m.tx_id LIMIT 1) IS NULL
       FOR UPDATE OF m SKIP LOCKED
), attempts AS (
    DELETE FROM tx_attempt WHERE tx_id = ANY (ARRAY(SELECT tx_id FROM gone))
), events AS (
    DELETE FROM tx_event WHERE tx_id = ANY (ARRAY(SELECT tx_id FROM gone))
), deleted AS (
    DELETE FROM managed_tx WHERE tx_id = ANY (ARRAY(SELECT tx_id FROM gone))
    RETURNING tx_id
), moved AS (
    -- Having come to the end it begins again.
    UPDATE retention
       SET swept_tx = coalesce((SELECT tx_id FROM passed WHERE n = $1),
                               '00000000-0000-0000-0000-000000000000'::uuid)
     WHERE one AND EXISTS (SELECT FROM here)
)
SELECT (SELECT count(*) FROM passed) AS passed, (SELECT count(*) FROM deleted) AS retired
