//! Remedies: stored as asked by anybody, claimed and closed under the fence.

use fencepost_app::ports::{
    Action, AskedRemedy, Audit, ClaimedRemedies, ClaimedRemedy, Held, Holder, NewRemedy, RemedyId,
    StoreError,
};
use fencepost_domain::Bytes;
use fencepost_domain::decision::{After, Severity};
use fencepost_domain::ids::{LaneId, NodeId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::fault::{Fault, Unique, after_write, refused};
use crate::lease::columns;
use crate::read::signed_fees;
use crate::row::{RECORD, column, corrupt, record, small};
use crate::statement::Written;
use crate::witness::Said;
use crate::{PostgresStore, rows};

/// The action of a round in which nothing is to be done. It is never claimed, so no action has it.
pub(crate) const NOOP: &str = "NOOP";

const FINAL: &str = "('CONFIRMED', 'FAILED_FINAL', 'USED', 'RECYCLABLE')";

const STANDING: &str = "
SELECT m.lane_id, m.state IN /*final*/ AS final,
       (SELECT remedy_id FROM remedy r WHERE r.tx_id = m.tx_id AND r.closed_at IS NULL) AS running,
       (SELECT coalesce(max(round), 0) + 1 FROM remedy r WHERE r.tx_id = m.tx_id) AS next
  FROM managed_tx m WHERE m.tx_id = $1";

/// One running remedy for each transaction, and one for each round: unique indexes say so.
const ASK: &str = "
INSERT INTO remedy (lane_id, tx_id, round, action, max_fee, max_priority_fee, asked_by, reason, details, state, node)
SELECT m.lane_id, m.tx_id, $2, $3, $4::text::numeric, $5::text::numeric, $6, $7, $8, 'ASKED', $9
  FROM managed_tx m WHERE m.tx_id = $1 AND m.state NOT IN /*final*/
RETURNING remedy_id, lane_id AS ack_lane, remedy_id AS ack_remedy, tx_id AS ack_tx";

/// The remedy of this round, if it is just what we asked for.
const OURS: &str = "
SELECT remedy_id, lane_id FROM remedy
 WHERE tx_id = $1 AND round = $2
   AND (action, max_fee, max_priority_fee, asked_by, reason, details)
       IS NOT DISTINCT FROM ($3, $4::text::numeric, $5::text::numeric, $6, $7, $8)";

const CLAIM: &str = "
WITH lane AS MATERIALIZED (
    SELECT l.lane_id, l.chain_id, l.signer, l.fencing_token
      FROM signer_lease l
      JOIN unnest($1::bigint[], $2::bigint[]) AS i(lane_id, token) ON i.lane_id = l.lane_id
     WHERE l.owner_node = $3 AND l.owner_incarnation = $4 AND l.fencing_token = i.token
       AND l.expires_at > clock_timestamp()
     ORDER BY l.lane_id
       FOR NO KEY UPDATE OF l
), open AS MATERIALIZED (
    SELECT r.remedy_id, lane.fencing_token, m.state IN /*final*/ AS final, r.state = 'ASKED' AS first
      FROM lane
      JOIN remedy r ON r.lane_id = lane.lane_id AND r.closed_at IS NULL
      JOIN managed_tx m ON m.tx_id = r.tx_id
     WHERE r.state = 'ASKED' OR r.claimed_token < lane.fencing_token
     ORDER BY r.remedy_id
     LIMIT $6
), claimed AS (
    -- What has ended meanwhile needs no remedy.
    UPDATE remedy r
       SET state = CASE WHEN open.final THEN 'REFUSED' ELSE 'CLAIMED' END,
           result = CASE WHEN open.final THEN 'already final' END,
           closed_at = CASE WHEN open.final THEN clock_timestamp() END,
           claimed_by = $3, claimed_token = open.fencing_token, claimed_at = clock_timestamp()
      FROM open WHERE r.remedy_id = open.remedy_id
       -- After a wait for its lane `open` is the past: it may be closed or claimed since then.
       AND r.closed_at IS NULL
       AND (r.state = 'ASKED' OR r.claimed_token < open.fencing_token)
    RETURNING r.*, open.final, open.first
), renewed AS (
    UPDATE signer_lease l
       SET expires_at = clock_timestamp() + $5::bigint * interval '1 microsecond',
           updated_at = clock_timestamp()
      FROM lane WHERE l.lane_id = lane.lane_id
)
SELECT l.lane_id AS led, r.remedy_id, r.round, r.action, r.max_fee::text AS max_fee,
       r.max_priority_fee::text AS max_priority_fee, r.asked_by, r.reason, r.details, r.raw AS decided_raw, r.severity,
       r.then_state, r.first, /*record*/
  FROM lane l
  LEFT JOIN claimed r ON r.lane_id = l.lane_id AND NOT r.final
  LEFT JOIN managed_tx m ON m.tx_id = r.tx_id
 ORDER BY r.remedy_id";

/// Rounds of reading and asking; more means that others ask at this very moment.
const ROUNDS: usize = 3;

impl PostgresStore {
    pub(crate) async fn ask(&self, remedy: &NewRemedy) -> Result<AskedRemedy, StoreError> {
        let round = i32::try_from(remedy.round)
            .ok()
            .filter(|round| *round > 0)
            .ok_or_else(|| StoreError::Invalid(format!("round {}", remedy.round)))?;
        let max_fee = remedy.fees.map(|fees| fees.max_fee.to_string());
        let tip = remedy
            .fees
            .and_then(|fees| fees.max_priority_fee)
            .map(|tip| tip.to_string());
        let audit = &remedy.audit;
        let standing = STANDING.replace("/*final*/", FINAL);
        let ask = ASK.replace("/*final*/", FINAL);
        let node = audit.node.as_ref().map(NodeId::as_str);
        let params: [&(dyn ToSql + Sync); 9] = [
            &remedy.tx.0,
            &round,
            &remedy.action.word(),
            &max_fee,
            &tip,
            &audit.by,
            &audit.reason,
            &audit.details,
            &node,
        ];
        for _ in 0..ROUNDS {
            let rows = self.connections.read(&standing, &[&remedy.tx.0]).await?;
            let Some(row) = rows.first() else {
                return Ok(AskedRemedy::NotFound);
            };
            if let Some(answer) = standing_answer(row, round)? {
                return Ok(answer);
            }
            let written = self.connections.write(&ask, &params).await?;
            match written {
                Written::Rows { rows, .. } => {
                    if let Some(row) = rows.first() {
                        return Ok(AskedRemedy::Asked(RemedyId(column(row, "remedy_id")?)));
                    }
                }
                // The lost try asked for this very round, or someone else did.
                Written::Refused {
                    fault: Fault::Taken(Unique::Remedy),
                    again: true,
                    ..
                } => {
                    let found = self.connections.read_from(OURS, &params[..8]).await;
                    let (found, server) = found.map_err(after_write)?;
                    if let Some(row) = found.first() {
                        let id: i64 = column(row, "remedy_id")?;
                        let said = Said::Remedy(id, remedy.tx.0);
                        let memory = &self.connections.memory;
                        let said = memory.says(server, column(row, "lane_id")?, said);
                        said.map_err(after_write)?;
                        return Ok(AskedRemedy::Asked(RemedyId(id)));
                    }
                }
                Written::Refused {
                    fault: Fault::Taken(Unique::Remedy),
                    ..
                } => {}
                Written::Refused {
                    error, again: true, ..
                } => return Err(StoreError::OutcomeUnknown(error.into())),
                Written::Refused { error, .. } => return Err(refused(error)),
            }
        }
        Err(StoreError::Busy(
            "others ask for the same transaction at this moment".into(),
        ))
    }

    pub(crate) async fn claim_open_remedies(
        &self,
        holder: &Holder,
        held: &[Held],
        limit: usize,
    ) -> Result<ClaimedRemedies, StoreError> {
        if held.is_empty() {
            return Ok(ClaimedRemedies::default());
        }
        let (lanes, tokens) = columns(held);
        let (node, incarnation) = (holder.node.as_str(), holder.incarnation.column());
        let lease = self.lease_micros();
        let sql = CLAIM
            .replace("/*record*/", RECORD)
            .replace("/*final*/", FINAL);
        let written = self
            .connections
            .write(
                &sql,
                &[&lanes, &tokens, &node, &incarnation, &lease, &rows(limit)],
            )
            .await?;
        let found = match written {
            Written::Rows { rows, again: false } => rows,
            // The lost try may have claimed some under this very token, and nothing would show them
            // again before the next one.
            Written::Rows { again: true, .. } => {
                return Err(StoreError::OutcomeUnknown(
                    "the lost try may have claimed some".into(),
                ));
            }
            Written::Refused {
                error, again: true, ..
            } => return Err(StoreError::OutcomeUnknown(error.into())),
            Written::Refused { error, .. } => return Err(refused(error)),
        };
        let mut claimed = ClaimedRemedies::default();
        let mut led = Vec::new();
        for row in &found {
            led.push(LaneId(column(row, "led")?));
            if column::<Option<i64>>(row, "remedy_id")?.is_some() {
                claimed.remedies.push(claimed_remedy(row)?);
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

fn standing_answer(row: &Row, round: i32) -> Result<Option<AskedRemedy>, StoreError> {
    let running: Option<i64> = column(row, "running")?;
    let next: i32 = column(row, "next")?;
    Ok(if column(row, "final")? {
        Some(AskedRemedy::AlreadyFinal)
    } else if let Some(running) = running {
        Some(AskedRemedy::Running(RemedyId(running)))
    } else if round < next {
        let next = u32::try_from(next).map_err(|_| corrupt("round"))?;
        Some(AskedRemedy::RoundTaken { next })
    } else {
        None
    })
}

/// How urgent a policy has called a remedy.
pub(crate) fn severity(row: &Row) -> Result<Option<Severity>, StoreError> {
    let word: Option<&str> = column(row, "severity")?;
    let severity = word.map(Severity::from_word).transpose();
    severity.map_err(|_| corrupt("severity"))
}

/// Where a policy wants the transaction to stand after a remedy.
pub(crate) fn after(row: &Row) -> Result<Option<After>, StoreError> {
    let word: Option<&str> = column(row, "then_state")?;
    let after = word.map(After::from_word).transpose();
    after.map_err(|_| corrupt("then_state"))
}

fn claimed_remedy(row: &Row) -> Result<ClaimedRemedy, StoreError> {
    Ok(ClaimedRemedy {
        id: RemedyId(column(row, "remedy_id")?),
        round: small(row, "round")?,
        action: Action::from_word(column(row, "action")?).ok_or_else(|| corrupt("action"))?,
        fees: signed_fees(row)?,
        raw: column::<Option<Vec<u8>>>(row, "decided_raw")?.map(Bytes::from),
        severity: severity(row)?,
        after: after(row)?,
        is_first_claim: column(row, "first")?,
        audit: Audit {
            by: column(row, "asked_by")?,
            reason: column(row, "reason")?,
            details: column(row, "details")?,
            node: None,
        },
        record: record(row)?,
    })
}
