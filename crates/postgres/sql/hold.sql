WITH old AS MATERIALIZED (
    SELECT system_identifier, timeline, era, feed_waits FROM store_identity
     WHERE (system_identifier, timeline) IS DISTINCT FROM ($1::bigint::text, $2::bigint)
       FOR UPDATE
), new AS MATERIALIZED (
    SELECT -- Another cluster, or a timeline that is older, is no promoted standby: nothing of it can be vouched for.
           CASE WHEN system_identifier = $1::text AND timeline < $2 THEN $3::text ELSE 'hold' END AS how,
           -- A node was still to say what its readers were told before the failover before this one.
           feed_waits AS unsaid,
           era AS old_era, timeline AS old_timeline, gen_random_uuid() AS era
      FROM old
), leap AS MATERIALIZED (
    -- No token that the lost commits gave may be given again, and none that another server, promoted from the same
    -- primary, gives: the leap is at least a million, and random.
    SELECT new.*, 1000000 + ('x' || left(replace(new.era::text, '-', ''), 8))::bit(32)::bigint AS leap FROM new
), changed AS (
    UPDATE store_identity s
       SET system_identifier = $1::text, timeline = $2, era = leap.era, leap = leap.leap, changed_at = clock_timestamp(),
           feed_seq = CASE WHEN leap.how = 'witness' AND NOT leap.unsaid THEN (SELECT last_seq FROM feed_head) END,
           feed_waits = leap.how = 'witness' AND NOT leap.unsaid
      FROM leap
    RETURNING leap.how, leap.unsaid, leap.era, leap.leap, leap.old_era, leap.old_timeline
), eras AS (
    INSERT INTO store_era (era, follows, timeline)
    SELECT old_era, NULL, old_timeline FROM changed
     UNION ALL SELECT era, old_era, $2 FROM changed
    ON CONFLICT (era) DO NOTHING
), lane AS (
    UPDATE signer_lease l
       SET held = l.held OR changed.how <> 'lossless',
           owner_node = NULL, owner_incarnation = NULL, owner_url = NULL,
           expires_at = clock_timestamp(), fencing_token = l.fencing_token + changed.leap,
           updated_at = clock_timestamp()
      FROM changed, signer_lease before
     WHERE before.lane_id = l.lane_id
    RETURNING l.lane_id, l.fencing_token - changed.leap AS token, l.next_nonce, l.lane_seq,
              before.held AS held_before, changed.how, changed.era
), found AS (
    INSERT INTO failover_lane (lane_id, timeline, era, token, next_nonce, lane_seq, held_before)
    SELECT lane_id, $2, era, token, next_nonce, lane_seq, held_before FROM lane WHERE how = 'witness'
    ON CONFLICT (lane_id) DO UPDATE
       SET timeline = excluded.timeline, era = excluded.era, token = excluded.token,
           next_nonce = excluded.next_nonce, lane_seq = excluded.lane_seq,
           held_before = excluded.held_before, lost = NULL
), living AS (
    -- Those that beat last, whenever that was: the outage may have lasted.
    INSERT INTO failover_node (node_id, incarnation, timeline, era)
    SELECT n.node_id, n.incarnation, $2, changed.era
      FROM node n, changed
     WHERE changed.how = 'witness'
       AND n.heartbeat_at > (SELECT max(heartbeat_at) FROM node) - $4::bigint * interval '1 microsecond'
    ON CONFLICT (node_id) DO UPDATE
       SET incarnation = excluded.incarnation, timeline = excluded.timeline, era = excluded.era,
           reported_at = NULL, forgot = false
), epoch AS (
    UPDATE feed_head SET epoch = epoch + 1
     WHERE EXISTS (SELECT FROM changed WHERE how = 'hold' OR (how = 'witness' AND unsaid))
)
SELECT (SELECT count(*) FROM lane) AS lanes, how FROM changed
