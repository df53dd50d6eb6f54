WITH now AS MATERIALIZED (
    -- Another server may have taken this one's place since the report was made: then nothing here is what it was made of.
    SELECT era, timeline FROM store_identity WHERE era = $1
), lane AS MATERIALIZED (
    -- The lane's row first, as the statement takes it that lets the lane go on.
    SELECT l.lane_id, m.why
      FROM signer_lease l JOIN unnest($5::bigint[], $6::text[]) AS m(lane_id, why) ON m.lane_id = l.lane_id
     WHERE EXISTS (SELECT FROM now)
     ORDER BY l.lane_id
       FOR NO KEY UPDATE OF l
), noted AS (
    UPDATE failover_lane f SET lost = coalesce(f.lost, lane.why)
      FROM lane WHERE f.lane_id = lane.lane_id AND f.era = $1
), held AS (
    -- It may have gone on by another node's word, and is held again. Statements under way wait for this row.
    UPDATE signer_lease l SET held = true, updated_at = clock_timestamp()
      FROM lane WHERE l.lane_id = lane.lane_id
), reported AS (
    -- A row of another incarnation stands for a process whose memory is gone: nobody reports in its place.
    INSERT INTO failover_node AS n (node_id, incarnation, timeline, era, reported_at, forgot)
    SELECT $2, $3, now.timeline, now.era, CASE WHEN $7 THEN NULL ELSE clock_timestamp() END, $7 FROM now
    ON CONFLICT (node_id) DO UPDATE
       SET incarnation = excluded.incarnation, timeline = excluded.timeline, era = excluded.era,
           reported_at = excluded.reported_at, forgot = excluded.forgot
     WHERE n.era IS DISTINCT FROM excluded.era OR n.incarnation = excluded.incarnation
), feed AS (
    -- Readers of this node were told numbers that the server gives again. Once for each failover.
    UPDATE store_identity SET feed_seq = NULL, feed_waits = false WHERE era = $1 AND feed_seq < $4::bigint
    RETURNING 1
), epoch AS (
    UPDATE feed_head SET epoch = epoch + 1 WHERE EXISTS (SELECT FROM feed)
)
SELECT EXISTS (SELECT FROM now) AS is_current, EXISTS (SELECT FROM feed) AS feed_lost
