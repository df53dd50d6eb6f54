WITH waiting AS MATERIALIZED (
    SELECT s.changed_at <= clock_timestamp() - $1::bigint * interval '1 microsecond' AS is_over,
           EXISTS (SELECT FROM failover_node n WHERE n.era = s.era AND n.reported_at IS NULL) AS unsaid
      FROM store_identity s WHERE s.feed_waits
       FOR UPDATE
), decided AS (
    -- A node that reports later than all that lived may still find that the epoch must change: `feed_seq` stays for it.
    UPDATE store_identity s
       SET feed_waits = false, feed_seq = CASE WHEN waiting.unsaid THEN NULL ELSE s.feed_seq END
      FROM waiting WHERE NOT waiting.unsaid OR waiting.is_over
    RETURNING waiting.unsaid
), epoch AS (
    -- What a silent node told its readers, no node knows.
    UPDATE feed_head SET epoch = epoch + 1 WHERE EXISTS (SELECT FROM decided WHERE unsaid)
)
SELECT EXISTS (SELECT FROM waiting) AND NOT EXISTS (SELECT FROM decided) AS waits,
       EXISTS (SELECT FROM decided WHERE unsaid) AS feed_lost
