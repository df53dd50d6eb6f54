//! The audit: remedies of a transaction, acts on a lane, refused calls, and which lanes have remedies to see to.

use std::time::Duration;

use fencepost_app::ports::{
    Act, Acts, Audit, Progress, REFUSED_CALL, RemedyId, StoreError, settled,
};
use fencepost_domain::ids::{LaneId, NodeId, Token, TxId};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::fault::{Fault, Unique, refused};
use crate::read::signed_fees;
use crate::remedy::{after, severity};
use crate::row::{column, corrupt, lane};
use crate::statement::{Params, Written};
use crate::{PostgresStore, rows};

const ACTS: &str = "
SELECT remedy_id, tx_id, round, action, max_fee::text AS max_fee,
       max_priority_fee::text AS max_priority_fee, asked_by, reason, details, severity, then_state, state, claimed_by,
       claimed_token, result, before_after, asked_at, closed_at, node, token, l.chain_id, l.signer, clock_timestamp() AS now
  FROM remedy r
  LEFT JOIN signer_lease l ON l.lane_id = r.lane_id
 WHERE /*which*/
 LIMIT $1";

const OF_TX: &str = "tx_id = $2 AND remedy_id < $3 ORDER BY remedy_id DESC";
const ON_LANE: &str = "r.lane_id = $2 AND tx_id IS NULL AND remedy_id < $3 ORDER BY remedy_id DESC";
const AFTER: &str = "remedy_id > $2 ORDER BY remedy_id";

/// Nodes may have longer statement timeouts than ours, though hardly this long.
const GAP_WAIT: Duration = Duration::from_secs(60);

/// It happens once: the statement is sent again where its reply was lost.
const REFUSAL: &str = "
INSERT INTO remedy (action, asked_by, reason, details, node, result, state, asked_at, closed_at, act)
SELECT $1, $2, $3, $4, $5, $6, 'REFUSED', now.at, now.at, $7 FROM (SELECT clock_timestamp() AS at) now";

/// Walks from lane to lane through the index of open remedies, however many a lane has.
const LANES: &str = "
WITH RECURSIVE lane AS (
    (SELECT lane_id FROM remedy WHERE closed_at IS NULL AND lane_id > $1 ORDER BY lane_id LIMIT 1)
    UNION ALL
    SELECT (SELECT r.lane_id FROM remedy r WHERE r.closed_at IS NULL AND r.lane_id > lane.lane_id
             ORDER BY r.lane_id LIMIT 1)
      FROM lane WHERE lane.lane_id IS NOT NULL
)
SELECT lane_id FROM lane WHERE lane_id IS NOT NULL LIMIT $2";

impl PostgresStore {
    pub(crate) async fn acts_before(
        &self,
        of: Acts,
        before: Option<RemedyId>,
        limit: usize,
    ) -> Result<Vec<Act>, StoreError> {
        let before = before.map_or(i64::MAX, |remedy| remedy.0);
        let limit = rows(limit);
        let sql = |which: &str| ACTS.replace("/*which*/", which);
        let found = match of {
            Acts::Tx(tx) => {
                let params: Params<'_> = &[&limit, &tx.0, &before];
                self.connections.read(&sql(OF_TX), params).await
            }
            Acts::Lane(lane) => {
                let params: Params<'_> = &[&limit, &lane.0, &before];
                self.connections.read(&sql(ON_LANE), params).await
            }
            Acts::After(after) => {
                let params: Params<'_> = &[&limit, &after.0];
                let found = self.connections.read(&sql(AFTER), params).await?;
                let Some(now) = found.first().map(|row| column(row, "now")) else {
                    return Ok(vec![]);
                };
                let acts = found.iter().map(act).collect::<Result<_, _>>()?;
                let wait = GAP_WAIT.max(self.settings.statement_timeout * 2);
                return Ok(settled(acts, after, now?, wait));
            }
        };
        found?.iter().map(act).collect()
    }

    pub(crate) async fn add_refusal(&self, audit: &Audit, answer: &str) -> Result<(), StoreError> {
        let (by, why, details) = (&audit.by, &audit.reason, &audit.details);
        let node = audit.node.as_ref().map(NodeId::as_str);
        let once = Uuid::now_v7();
        let params: Params<'_> = &[&REFUSED_CALL, by, why, details, &node, &answer, &once];
        match self.connections.write(REFUSAL, params).await? {
            Written::Rows { .. }
            | Written::Refused {
                fault: Fault::Taken(Unique::Act),
                ..
            } => Ok(()),
            Written::Refused {
                error, again: true, ..
            } => Err(StoreError::OutcomeUnknown(error.into())),
            Written::Refused { error, .. } => Err(refused(error)),
        }
    }

    pub(crate) async fn lanes_to_remedy(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<LaneId>, StoreError> {
        let after = after.map_or(i64::MIN, |lane| lane.0);
        let found = self
            .connections
            .read(LANES, &[&after, &rows(limit)])
            .await?;
        let lane = |row| Ok(LaneId(column(row, "lane_id")?));
        found.iter().map(lane).collect()
    }
}

fn act(row: &Row) -> Result<Act, StoreError> {
    let tx: Option<uuid::Uuid> = column(row, "tx_id")?;
    let round: Option<i32> = column(row, "round")?;
    let node: Option<String> = column(row, "node")?;
    let token: Option<i64> = column(row, "token")?;
    let chain: Option<i64> = column(row, "chain_id")?;
    Ok(Act {
        id: RemedyId(column(row, "remedy_id")?),
        lane: chain.map(|_| lane(row)).transpose()?,
        tx: tx.map(TxId),
        round: round
            .map(|round| u32::try_from(round).map_err(|_| corrupt("round")))
            .transpose()?,
        action: column(row, "action")?,
        fees: signed_fees(row)?,
        severity: severity(row)?,
        after: after(row)?,
        audit: Audit {
            by: column(row, "asked_by")?,
            reason: column(row, "reason")?,
            details: column(row, "details")?,
            node: node
                .map(|node| NodeId::new(node).map_err(|_| corrupt("node")))
                .transpose()?,
        },
        progress: Progress::from_word(column(row, "state")?).ok_or_else(|| corrupt("state"))?,
        claimed: claimed(row)?,
        result: column(row, "result")?,
        token: token.map(Token::from_column).transpose()?,
        before_after: column(row, "before_after")?,
        asked_at: column(row, "asked_at")?,
        closed_at: column(row, "closed_at")?,
    })
}

fn claimed(row: &Row) -> Result<Option<(NodeId, Token)>, StoreError> {
    let by: Option<String> = column(row, "claimed_by")?;
    let token: Option<i64> = column(row, "claimed_token")?;
    match (by, token) {
        (Some(by), Some(token)) => {
            let node = NodeId::new(by).map_err(|_| corrupt("claimed_by"))?;
            Ok(Some((node, Token::from_column(token)?)))
        }
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => Err(corrupt("claimed_token")),
    }
}
