WITH here AS MATERIALIZED (
    SELECT deleted_seq FROM retention WHERE one FOR NO KEY UPDATE SKIP LOCKED
), next AS MATERIALIZED (
    SELECT c.seq, c.tx_id, c.state, c.at
      FROM here CROSS JOIN LATERAL (
           SELECT seq, tx_id, state, at FROM tx_completion
            WHERE seq > here.deleted_seq ORDER BY seq LIMIT $1) c
), old AS MATERIALIZED (
    -- Up to the first that is too young.
    SELECT seq, tx_id, state FROM next
     WHERE seq < coalesce((SELECT min(seq) FROM next WHERE at > /*by*/), 9223372036854775807)
), fact AS MATERIALIZED (
    SELECT m.tx_id, m.state IN (/*final*/) AS final, /*ripe*/ AS ripe,
           -- With limits: without them the planner may read all of a table to look these few up in it.
           (SELECT true FROM remedy r WHERE r.tx_id = m.tx_id LIMIT 1) IS NOT NULL AS audited,
           -- What was told again since is looked at when its last telling is.
           (SELECT true FROM tx_completion c
             WHERE c.tx_id = m.tx_id AND c.seq > (SELECT max(seq) FROM old) LIMIT 1) IS NOT NULL AS again
      FROM managed_tx m JOIN signer_lease l ON l.lane_id = m.lane_id
     WHERE m.tx_id = ANY (ARRAY(SELECT tx_id FROM old))
), held AS MATERIALIZED (
    -- Looked at again under its lock: a reorg may have brought it back.
    SELECT m.tx_id, m.lane_id, m.nonce
      FROM managed_tx m JOIN signer_lease l ON l.lane_id = m.lane_id
     WHERE m.tx_id = ANY (ARRAY(SELECT tx_id FROM fact WHERE ripe AND NOT audited AND NOT again)) AND /*ripe*/
       FOR UPDATE OF m SKIP LOCKED
), passed AS MATERIALIZED (
    -- The feed loses its oldest rows alone, up to the first whose transaction cannot go and must not stay without
    -- them: one that is held or too young, or whose end was undone, for the next end says which it corrects.
    SELECT seq FROM old
     WHERE seq < coalesce((
           SELECT min(o.seq) FROM old o JOIN fact USING (tx_id) LEFT JOIN held h USING (tx_id)
            WHERE CASE WHEN fact.final
                       THEN NOT (fact.again OR (fact.ripe AND fact.audited) OR h.tx_id IS NOT NULL)
                       ELSE o.state <> 'STUCK' END), 9223372036854775807)
), gone AS MATERIALIZED (
    SELECT tx_id, lane_id, nonce FROM held
     WHERE tx_id <> ALL (ARRAY(SELECT tx_id FROM old WHERE seq NOT IN (SELECT seq FROM passed)))
), attempts AS (
    DELETE FROM tx_attempt WHERE tx_id = ANY (ARRAY(SELECT tx_id FROM gone))
), events AS (
    DELETE FROM tx_event WHERE tx_id = ANY (ARRAY(SELECT tx_id FROM gone))
), completions AS (
    DELETE FROM tx_completion WHERE seq = ANY (ARRAY(SELECT seq FROM passed))
), deleted AS (
    DELETE FROM managed_tx WHERE tx_id = ANY (ARRAY(SELECT tx_id FROM gone))
    RETURNING tx_id
), used AS (
    -- On chain all below a used nonce is used.
    INSERT INTO lane_floor AS f (lane_id, nonce)
    SELECT lane_id, max(nonce) + 1 FROM gone WHERE nonce IS NOT NULL GROUP BY lane_id ORDER BY lane_id
    ON CONFLICT (lane_id) DO UPDATE SET nonce = greatest(f.nonce, excluded.nonce)
), moved AS (
    UPDATE retention SET deleted_seq = (SELECT max(seq) FROM passed)
     WHERE one AND EXISTS (SELECT FROM passed)
)
SELECT (SELECT count(*) FROM passed) AS passed, (SELECT count(*) FROM deleted) AS retired
