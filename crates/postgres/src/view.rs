//! Lanes as an operator sees them.

use std::collections::HashMap;

use fencepost_app::ports::{Backlog, LaneView, PausedLanes, READ_LIMIT_MAX, Record, StoreError};
use fencepost_domain::ids::{ChainId, Lane, LaneId, LaneSeq, Nonce, Token, TxId};
use fencepost_domain::state::Why;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::lease::leader;
use crate::operate::pause_reason;
use crate::row::{RECORD, column, corrupt, lane, record};
use crate::{PostgresStore, rows};

/// Counts come from the narrow tables of unfinished work, so a lane's past costs nothing.
const VIEW: &str = "
SELECT l.lane_id, l.chain_id, l.signer, l.owner_node, l.owner_incarnation, l.owner_url,
       l.fencing_token, l.expires_at, l.expires_at > clock_timestamp() AS alive, l.next_nonce,
       l.lane_seq, l.paused, l.held, w.in_flight, w.stuck, q.queued,
       least(w.oldest_at, q.oldest_at) AS oldest_at,
       ARRAY(SELECT nonce FROM free_nonce f WHERE f.lane_id = l.lane_id ORDER BY nonce LIMIT $3) AS free
  FROM signer_lease l
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE m.block_number IS NULL) AS in_flight,
              count(*) FILTER (WHERE m.state = 'STUCK') AS stuck,
              min(m.created_at) AS oldest_at
         FROM due_work d JOIN managed_tx m ON m.tx_id = d.tx_id
        WHERE d.lane_id = l.lane_id) w
 CROSS JOIN LATERAL (
       SELECT count(*) AS queued, min(m.created_at) AS oldest_at
         FROM lane_queue q JOIN managed_tx m ON m.tx_id = q.tx_id
        WHERE q.lane_id = l.lane_id) q
 WHERE /*which*/
 ORDER BY l.lane_id
 LIMIT $4";

/// A page of the narrow tables, each along its index of ids. As text, because there is no lowest uuid before PostgreSQL
/// 18. What else is needed is looked up by its id: joins would be planned without knowing how large tables have become.
const BACKLOG: &str = "
WITH open AS MATERIALIZED (
    SELECT lane_id, stuck, count(*) AS n,
           min(tx_id::text COLLATE \"C\") AS first, max(tx_id::text COLLATE \"C\") AS last
      FROM ((SELECT d.tx_id, d.lane_id,
                    (SELECT m.sub_state FROM managed_tx m WHERE m.tx_id = d.tx_id AND m.state = 'STUCK') AS stuck
               FROM due_work d WHERE d.tx_id > $1 ORDER BY d.tx_id LIMIT $2)
            UNION ALL
            (SELECT tx_id, lane_id, NULL FROM lane_queue WHERE tx_id > $1 ORDER BY tx_id LIMIT $2)
            ORDER BY tx_id LIMIT $2) AS page
     GROUP BY lane_id, stuck
), chain AS MATERIALIZED (
    SELECT (SELECT l.chain_id FROM signer_lease l WHERE l.lane_id = o.lane_id) AS chain_id, stuck,
           sum(n)::bigint AS n, min(first)::uuid AS first, max(last)::uuid AS last
      FROM open o GROUP BY 1, 2
)
SELECT c.chain_id, c.stuck, c.n, c.last,
       (SELECT m.created_at FROM managed_tx m WHERE m.tx_id = c.first) AS oldest_at
  FROM chain c
 ORDER BY c.chain_id, c.stuck COLLATE \"C\" NULLS FIRST";

const PAUSED: &str = "
SELECT chain_id, paused, held, count(*) AS n
  FROM signer_lease
 WHERE paused IS NOT NULL OR held
 GROUP BY chain_id, paused, held
 ORDER BY chain_id";

impl PostgresStore {
    pub(crate) async fn paused_by_chain(&self) -> Result<Vec<PausedLanes>, StoreError> {
        let mut counted: Vec<PausedLanes> = Vec::new();
        for row in self.connections.read(PAUSED, &[]).await? {
            let reason = pause_reason(column(&row, "paused")?, column(&row, "held")?)?;
            let Some(reason) = reason else {
                continue;
            };
            let chain = ChainId::from_column(column(&row, "chain_id")?)?;
            let n: i64 = column(&row, "n")?;
            let count = u64::try_from(n).map_err(|_| corrupt("n"))?;
            // Lanes that are held have one reason, whatever they were paused for before.
            let is_it = |each: &&mut PausedLanes| each.chain == chain && each.reason == reason;
            match counted.iter_mut().find(is_it) {
                Some(known) => known.count += count,
                None => counted.push(PausedLanes {
                    chain,
                    reason,
                    count,
                }),
            }
        }
        Ok(counted)
    }

    pub(crate) async fn backlog_by_chain(
        &self,
        after: Option<TxId>,
        limit: usize,
    ) -> Result<Vec<Backlog>, StoreError> {
        let after = after.map_or(Uuid::nil(), |tx| tx.0);
        let page = [&after as &(dyn ToSql + Sync), &rows(limit)];
        let found = self.connections.read(BACKLOG, &page).await?;
        let backlog = |row: &Row| {
            let count: i64 = column(row, "n")?;
            let stuck: Option<String> = column(row, "stuck")?;
            let stuck = stuck.map(|word| Why::from_word(&word));
            Ok(Backlog {
                chain: ChainId::from_column(column(row, "chain_id")?)?,
                stuck: stuck.transpose()?,
                count: u64::try_from(count).map_err(|_| corrupt("n"))?,
                oldest_at: column(row, "oldest_at")?,
                last: TxId(column(row, "last")?),
            })
        };
        found.iter().map(backlog).collect()
    }

    pub(crate) async fn view_one(&self, lane: Lane) -> Result<Option<LaneView>, StoreError> {
        let sql = VIEW.replace("/*which*/", "l.chain_id = $1 AND l.signer = $2");
        let (chain, signer) = (lane.chain.column(), lane.signer.as_slice());
        let free = rows(READ_LIMIT_MAX);
        let found = self
            .connections
            .read(&sql, &[&chain, &signer, &free, &1_i64])
            .await?;
        Ok(self.views(&found).await?.pop())
    }

    pub(crate) async fn view_many(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<LaneView>, StoreError> {
        let sql = VIEW.replace("/*which*/", "l.lane_id > $1 AND $2");
        let after = after.map_or(0, |lane| lane.0);
        let (free, limit) = (rows(READ_LIMIT_MAX), rows(limit));
        let found = self
            .connections
            .read(&sql, &[&after, &true, &free, &limit])
            .await?;
        self.views(&found).await
    }

    async fn views(&self, found: &[Row]) -> Result<Vec<LaneView>, StoreError> {
        let ids: Vec<i64> = found
            .iter()
            .map(|row| column(row, "lane_id"))
            .collect::<Result<_, _>>()?;
        let mut heads = self.heads(&ids).await?;
        found.iter().map(|row| view(row, &mut heads)).collect()
    }

    /// The lowest unfinished nonce of each lane.
    async fn heads(&self, lanes: &[i64]) -> Result<HashMap<LaneId, Record>, StoreError> {
        let sql = format!(
            "SELECT {RECORD}
               FROM unnest($1::bigint[]) AS i(lane_id)
              CROSS JOIN LATERAL (
                    SELECT t.* FROM due_work d JOIN managed_tx t ON t.tx_id = d.tx_id
                     WHERE d.lane_id = i.lane_id ORDER BY t.nonce LIMIT 1) m
               JOIN signer_lease l ON l.lane_id = m.lane_id"
        );
        let found = self.connections.read(&sql, &[&lanes]).await?;
        found
            .iter()
            .map(|row| record(row).map(|head| (head.lane_id, head)))
            .collect()
    }
}

fn view(row: &Row, heads: &mut HashMap<LaneId, Record>) -> Result<LaneView, StoreError> {
    let id = LaneId(column(row, "lane_id")?);
    let alive: bool = column(row, "alive")?;
    let free: Vec<i64> = column(row, "free")?;
    let count = |name: &'static str| -> Result<u64, StoreError> {
        u64::try_from(column::<i64>(row, name)?).map_err(|_| corrupt(name))
    };
    Ok(LaneView {
        id,
        lane: lane(row)?,
        leader: if alive { leader(row)? } else { None },
        token: Token::from_column(column(row, "fencing_token")?)?,
        next_nonce: Nonce::from_column(column(row, "next_nonce")?)?,
        lane_seq: LaneSeq::from_column(column(row, "lane_seq")?)?,
        paused: pause_reason(column(row, "paused")?, column(row, "held")?)?,
        in_flight: count("in_flight")?,
        queued: count("queued")?,
        stuck: count("stuck")?,
        oldest_at: column(row, "oldest_at")?,
        head: heads.remove(&id).map(Box::new),
        free: free
            .into_iter()
            .map(Nonce::from_column)
            .collect::<Result<_, _>>()?,
    })
}
