WITH here AS MATERIALIZED (
    -- Whoever finds it taken leaves it to the other.
    SELECT thinned_seq FROM retention WHERE one FOR NO KEY UPDATE SKIP LOCKED
), next AS MATERIALIZED (
    -- The feed is the queue of endings: in commit order, with their times.
    SELECT c.seq, c.tx_id, c.at
      FROM here CROSS JOIN LATERAL (
           SELECT seq, tx_id, at FROM tx_completion
            WHERE seq > here.thinned_seq ORDER BY seq LIMIT $1) c
), old AS MATERIALIZED (
    -- Up to the first that is too young.
    SELECT seq, tx_id FROM next
     WHERE seq < coalesce((SELECT min(seq) FROM next WHERE at > /*by*/), 9223372036854775807)
), fact AS MATERIALIZED (
    SELECT m.tx_id, m.state IN (/*final*/) AS final,
           -- What was told again since is looked at when its last telling is. With a limit: without it the planner may
           -- read all of a table to look these few up in it.
           (SELECT true FROM tx_completion c
             WHERE c.tx_id = m.tx_id AND c.seq > (SELECT max(seq) FROM old) LIMIT 1) IS NOT NULL AS again
      FROM managed_tx m
     WHERE m.tx_id = ANY (ARRAY(SELECT tx_id FROM old))
), held AS MATERIALIZED (
    -- Looked at again under its lock: a reorg may have brought it back. What is held is left alone.
    SELECT m.tx_id
      FROM managed_tx m JOIN signer_lease l ON l.lane_id = m.lane_id
     WHERE m.tx_id = ANY (ARRAY(SELECT tx_id FROM fact WHERE NOT again)) AND /*ripe*/
       FOR NO KEY UPDATE OF m SKIP LOCKED
), passed AS MATERIALIZED (
    -- Up to the first that has ended and cannot be made small yet: it is not met again.
    SELECT seq FROM old
     WHERE seq < coalesce((
           SELECT min(o.seq) FROM old o JOIN fact USING (tx_id) LEFT JOIN held h USING (tx_id)
            WHERE fact.final AND NOT fact.again AND h.tx_id IS NULL), 9223372036854775807)
), ended AS MATERIALIZED (
    SELECT tx_id FROM held
     WHERE tx_id <> ALL (ARRAY(SELECT tx_id FROM old WHERE seq NOT IN (SELECT seq FROM passed)))
), attempts AS (
    DELETE FROM tx_attempt WHERE tx_id = ANY (ARRAY(SELECT tx_id FROM ended))
), events AS (
    DELETE FROM tx_event WHERE tx_id = ANY (ARRAY(SELECT tx_id FROM ended))
), thinned AS (
    UPDATE managed_tx m
       SET payload = CASE WHEN m.payload IS NOT NULL THEN ''::bytea END,
           receipt = NULL, meta = NULL, version = m.version + 1
     WHERE m.tx_id = ANY (ARRAY(SELECT tx_id FROM ended))
    RETURNING m.tx_id
), moved AS (
    UPDATE retention SET thinned_seq = (SELECT max(seq) FROM passed)
     WHERE one AND EXISTS (SELECT FROM passed)
)
SELECT (SELECT count(*) FROM passed) AS passed, (SELECT count(*) FROM thinned) AS retired
