//! Due work: claimed under the fence, before anything is done about it.

use fencepost_app::ports::{Claimed, Held, Holder, StoreError};
use fencepost_domain::ids::LaneId;

use crate::lease::columns;
use crate::row::{RECORD, column, record};
use crate::{PostgresStore, rows};

/// Counts a try for what has bytes to send. Ownership of the lane is the claim; the due time only
/// keeps us from doing it again at once.
const CLAIM: &str = "
WITH lane AS MATERIALIZED (
    SELECT l.lane_id, l.chain_id, l.signer, l.fencing_token
      FROM signer_lease l
      JOIN unnest($1::bigint[], $2::bigint[]) AS i(lane_id, token) ON i.lane_id = l.lane_id
     WHERE l.owner_node = $3 AND l.owner_incarnation = $4 AND l.fencing_token = i.token
       AND l.expires_at > clock_timestamp()
     ORDER BY l.lane_id
       FOR NO KEY UPDATE OF l
), due AS MATERIALIZED (
    SELECT d.tx_id, m.version, lane.fencing_token,
           m.tx_hash IS NOT NULL AND m.block_number IS NULL
           AND m.state IN ('ALLOCATED', 'TRACKING', 'STUCK') AS sends
      FROM lane CROSS JOIN LATERAL (
           SELECT w.tx_id, w.due_at FROM due_work w
            WHERE w.lane_id = lane.lane_id AND w.due_at <= clock_timestamp()
            ORDER BY w.due_at LIMIT $7) d
      JOIN managed_tx m ON m.tx_id = d.tx_id
     ORDER BY d.due_at, d.tx_id
     LIMIT $7
), m AS (
    -- After a wait for its lane this has read the past: what moved since then may have ended, or
    -- be claimed, and is left alone.
    UPDATE managed_tx t
       SET submit_attempts = t.submit_attempts + due.sends::int,
           first_submit_at = CASE WHEN due.sends THEN coalesce(t.first_submit_at, statement_timestamp()) ELSE t.first_submit_at END,
           last_submit_at = CASE WHEN due.sends THEN statement_timestamp() ELSE t.last_submit_at END,
           fencing_token = due.fencing_token, version = t.version + 1, updated_at = clock_timestamp()
      FROM due
     WHERE t.tx_id = due.tx_id AND t.version = due.version
    RETURNING t.*
), put AS (
    UPDATE due_work d SET due_at = clock_timestamp() + $6::bigint * interval '1 microsecond'
      FROM m WHERE d.tx_id = m.tx_id
), renewed AS (
    UPDATE signer_lease l
       SET expires_at = clock_timestamp() + $5::bigint * interval '1 microsecond',
           updated_at = clock_timestamp()
      FROM lane WHERE l.lane_id = lane.lane_id
)
SELECT l.lane_id AS led, /*record*/
  FROM lane l LEFT JOIN m ON m.lane_id = l.lane_id
 ORDER BY l.lane_id, m.nonce";

impl PostgresStore {
    pub(crate) async fn claim_due_work(
        &self,
        holder: &Holder,
        held: &[Held],
        next_in_ms: u64,
        limit: usize,
    ) -> Result<Claimed, StoreError> {
        if held.is_empty() {
            return Ok(Claimed::default());
        }
        let (lanes, tokens) = columns(held);
        let (node, incarnation) = (holder.node.as_str(), holder.incarnation.column());
        let next = i64::try_from(next_in_ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let lease = self.lease_micros();
        let sql = CLAIM.replace("/*record*/", RECORD);
        let found = self
            .connections
            .write_plain(
                &sql,
                &[
                    &lanes,
                    &tokens,
                    &node,
                    &incarnation,
                    &lease,
                    &next,
                    &rows(limit),
                ],
            )
            .await?;
        let mut claimed = Claimed::default();
        let mut led = Vec::new();
        for row in &found {
            led.push(LaneId(column(row, "led")?));
            if column::<Option<uuid::Uuid>>(row, "tx_id")?.is_some() {
                claimed.records.push(record(row)?);
            }
        }
        claimed.fenced = held
            .iter()
            .map(|held| held.lane)
            .filter(|id| !led.contains(id))
            .collect();
        Ok(claimed)
    }
}
