//! The audit: remedies of a transaction, acts on a lane, and which lanes have remedies to see to.

use fencepost_app::ports::{Act, Acts, Audit, Progress, RemedyId, StoreError};
use fencepost_domain::ids::{LaneId, NodeId, Token, TxId};
use tokio_postgres::Row;

use crate::read::signed_fees;
use crate::row::{column, corrupt};
use crate::{PostgresStore, rows};

const ACTS: &str = "
SELECT remedy_id, tx_id, round, action, max_fee::text AS max_fee,
       max_priority_fee::text AS max_priority_fee, asked_by, reason, details, state, claimed_by,
       claimed_token, result, before_after, asked_at, closed_at
  FROM remedy
 WHERE /*whose*/ AND remedy_id < $2
 ORDER BY remedy_id DESC
 LIMIT $3";

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
        let found = match of {
            Acts::Tx(tx) => {
                let sql = ACTS.replace("/*whose*/", "tx_id = $1");
                self.connections.read(&sql, &[&tx.0, &before, &limit]).await
            }
            Acts::Lane(lane) => {
                let sql = ACTS.replace("/*whose*/", "lane_id = $1 AND tx_id IS NULL");
                let params: crate::statement::Params<'_> = &[&lane.0, &before, &limit];
                self.connections.read(&sql, params).await
            }
        };
        found?.iter().map(act).collect()
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
    Ok(Act {
        id: RemedyId(column(row, "remedy_id")?),
        tx: tx.map(TxId),
        round: round
            .map(|round| u32::try_from(round).map_err(|_| corrupt("round")))
            .transpose()?,
        action: column(row, "action")?,
        fees: signed_fees(row)?,
        audit: Audit {
            by: column(row, "asked_by")?,
            reason: column(row, "reason")?,
            details: column(row, "details")?,
        },
        progress: Progress::from_word(column(row, "state")?).ok_or_else(|| corrupt("state"))?,
        claimed: claimed(row)?,
        result: column(row, "result")?,
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
