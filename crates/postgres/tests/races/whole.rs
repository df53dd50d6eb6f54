//! What makes a store whole, whatever has happened to it, as statements that must count nothing.

/// What must not be there, each counted by one statement.
pub(crate) const WHOLE: [(&str, &str); 10] = [
    (
        "events without a hole",
        "SELECT abs(max(l.lane_seq) - count(*)) + abs(max(l.lane_seq) - max(e.lane_seq))
           FROM tx_event e JOIN signer_lease l ON l.lane_id = e.lane_id",
    ),
    (
        "the cursor stands above the highest nonce ever held",
        "SELECT abs(max(l.next_nonce) - 1 - max(greatest(m.nonce, m.nonce_given_back)))
           FROM managed_tx m JOIN signer_lease l ON l.lane_id = m.lane_id",
    ),
    (
        "every nonce is held or free, and not both",
        "SELECT count(*) FROM signer_lease l, generate_series(0, l.next_nonce - 1) AS n(nonce)
          WHERE (SELECT count(*) FROM managed_tx m WHERE m.lane_id = l.lane_id AND m.nonce = n.nonce)
              + (SELECT count(*) FROM free_nonce f WHERE f.lane_id = l.lane_id AND f.nonce = n.nonce) <> 1",
    ),
    (
        "tokens never go back in a lane's history",
        "SELECT count(*) FROM (SELECT fencing_token, lag(fencing_token) OVER (ORDER BY lane_seq) AS before
                                 FROM tx_event) e WHERE fencing_token < before",
    ),
    (
        "the last event tells the state",
        "SELECT count(*) FROM managed_tx m
           JOIN LATERAL (SELECT * FROM tx_event e WHERE e.tx_id = m.tx_id ORDER BY lane_seq DESC LIMIT 1) e ON true
          WHERE (e.to_state, e.to_sub) IS DISTINCT FROM (m.state, m.sub_state)",
    ),
    (
        "each event begins where the one before it ended",
        "SELECT count(*) FROM (SELECT from_state, from_sub, lane_seq,
                    lag(to_state) OVER w AS state, lag(to_sub) OVER w AS sub, lag(lane_seq) OVER w AS before
               FROM tx_event WINDOW w AS (PARTITION BY tx_id ORDER BY lane_seq)) e
          WHERE before IS NOT NULL AND (from_state, from_sub) IS DISTINCT FROM (state, sub)",
    ),
    (
        "due is what holds a nonce and has not ended",
        "SELECT count(*) FROM managed_tx m FULL JOIN due_work d ON d.tx_id = m.tx_id
          WHERE (d.tx_id IS NOT NULL) IS DISTINCT FROM
                (m.state IN ('ALLOCATED', 'TRACKING', 'STUCK', 'RESERVED', 'SUBMITTED'))",
    ),
    (
        "queued is what waits",
        "SELECT count(*) FROM managed_tx m FULL JOIN lane_queue q ON q.tx_id = m.tx_id
          WHERE (q.tx_id IS NOT NULL) IS DISTINCT FROM (m.state = 'QUEUED')",
    ),
    (
        "attempts are counted",
        "SELECT count(*) FROM managed_tx m
          WHERE m.attempts <> (SELECT count(*) FROM tx_attempt a WHERE a.tx_id = m.tx_id)",
    ),
    (
        "the feed without a hole",
        "SELECT abs(h.last_seq - (SELECT count(*) FROM tx_completion))
              + abs(h.last_seq - (SELECT coalesce(max(seq), 0) FROM tx_completion)) FROM feed_head h",
    ),
];
