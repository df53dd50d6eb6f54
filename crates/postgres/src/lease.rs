//! Leases: whose a lane is, and until when. Only the database's clock decides, and one row is the
//! judge. How a lane is won is in `bid`.

use std::collections::HashMap;
use std::time::Duration;

use fencepost_app::ports::{Held, Holder, Leader, Orphan, Renewed, StoreError};
use fencepost_domain::ids::{Incarnation, Lane, LaneId, NodeId, Token};
use tokio_postgres::Row;

use crate::row::{column, corrupt, lane};
use crate::{PostgresStore, micros, rows};

const OPEN: &str = "
WITH given AS (
    SELECT * FROM unnest($1::bigint[], $2::bytea[]) WITH ORDINALITY AS g(chain_id, signer, ord)
), made AS (
    INSERT INTO signer_lease (chain_id, signer)
    SELECT DISTINCT chain_id, signer FROM given g
     WHERE NOT EXISTS (SELECT FROM signer_lease l WHERE l.chain_id = g.chain_id AND l.signer = g.signer)
     ORDER BY chain_id, signer
    ON CONFLICT (chain_id, signer) DO NOTHING
    RETURNING lane_id, chain_id, signer
)
SELECT g.ord, coalesce(m.lane_id, l.lane_id) AS lane_id
  FROM given g
  LEFT JOIN made m ON m.chain_id = g.chain_id AND m.signer = g.signer
  LEFT JOIN signer_lease l ON l.chain_id = g.chain_id AND l.signer = g.signer
 ORDER BY g.ord";

const RENEW: &str = "
WITH given AS (
    SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS g(lane_id, token)
), mine AS MATERIALIZED (
    SELECT l.lane_id
      FROM signer_lease l JOIN given g ON g.lane_id = l.lane_id
     WHERE l.owner_node = $3 AND l.owner_incarnation = $4 AND l.fencing_token = g.token
       AND l.expires_at > clock_timestamp()
     ORDER BY l.lane_id
       FOR NO KEY UPDATE OF l SKIP LOCKED
), kept AS (
    UPDATE signer_lease l
       SET expires_at = clock_timestamp() + $5::bigint * interval '1 microsecond',
           updated_at = clock_timestamp()
      FROM mine WHERE l.lane_id = mine.lane_id
    RETURNING l.lane_id
)
SELECT g.lane_id, kept.lane_id IS NOT NULL AS kept,
       kept.lane_id AS ack_lane, CASE WHEN kept.lane_id IS NOT NULL THEN g.token END AS ack_token,
       coalesce(l.owner_node = $3 AND l.owner_incarnation = $4 AND l.fencing_token = g.token
                AND l.expires_at > clock_timestamp(), false) AS ours
  FROM given g
  LEFT JOIN kept ON kept.lane_id = g.lane_id
  LEFT JOIN signer_lease l ON l.lane_id = g.lane_id";

const RELEASE: &str = "
WITH mine AS MATERIALIZED (
    SELECT l.lane_id
      FROM signer_lease l
      JOIN unnest($1::bigint[], $2::bigint[]) AS g(lane_id, token) ON g.lane_id = l.lane_id
     WHERE l.owner_node = $3 AND l.owner_incarnation = $4 AND l.fencing_token = g.token
     ORDER BY l.lane_id
       FOR NO KEY UPDATE OF l
), released AS (
    UPDATE signer_lease l
       SET owner_node = NULL, owner_incarnation = NULL, owner_url = NULL,
           expires_at = clock_timestamp(), updated_at = clock_timestamp()
      FROM mine WHERE l.lane_id = mine.lane_id
    RETURNING l.lane_id
)
SELECT lane_id FROM released ORDER BY lane_id";

/// Walks from lane to lane through each index, so its cost grows with lanes that have work, not
/// with work.
const ORPHANS: &str = "
WITH RECURSIVE due AS (
    SELECT (SELECT min(lane_id) FROM due_work WHERE lane_id > $1) AS lane_id
    UNION ALL
    SELECT (SELECT min(d.lane_id) FROM due_work d WHERE d.lane_id > due.lane_id) FROM due
     WHERE due.lane_id IS NOT NULL
), queue AS (
    SELECT (SELECT min(lane_id) FROM lane_queue WHERE lane_id > $1) AS lane_id
    UNION ALL
    SELECT (SELECT min(q.lane_id) FROM lane_queue q WHERE q.lane_id > queue.lane_id) FROM queue
     WHERE queue.lane_id IS NOT NULL
), busy AS (
    SELECT lane_id FROM due UNION SELECT lane_id FROM queue
    UNION SELECT lane_id FROM remedy WHERE closed_at IS NULL AND lane_id > $1
)
SELECT l.lane_id, l.chain_id, l.signer
  FROM busy JOIN signer_lease l ON l.lane_id = busy.lane_id
 WHERE l.owner_node IS NULL
    OR l.expires_at <= clock_timestamp() - $2::bigint * interval '1 microsecond'
    OR l.expires_at > clock_timestamp() + $3::bigint * interval '1 microsecond'
 ORDER BY l.lane_id
 LIMIT $4";

/// Reads all lanes, but seldom: an index that it could use would have to be written with every write of a lane.
const UNWATCHED: &str = "
SELECT lane_id, chain_id, signer
  FROM signer_lease
 WHERE lane_id > $1 AND next_nonce > 0
   AND expires_at > clock_timestamp() - $5::bigint * interval '1 microsecond'
   AND (owner_node IS NULL
        OR expires_at <= clock_timestamp() - $2::bigint * interval '1 microsecond'
        OR expires_at > clock_timestamp() + $3::bigint * interval '1 microsecond')
 ORDER BY lane_id
 LIMIT $4";

impl PostgresStore {
    pub(crate) async fn open_many(&self, lanes: &[Lane]) -> Result<Vec<LaneId>, StoreError> {
        if lanes.is_empty() {
            return Ok(vec![]);
        }
        let chains: Vec<i64> = lanes.iter().map(|lane| lane.chain.column()).collect();
        let signers: Vec<&[u8]> = lanes.iter().map(|lane| lane.signer.as_slice()).collect();
        // A row that another node made after our statement began is seen the second time.
        for _ in 0..3 {
            let rows = self
                .connections
                .write_plain(OPEN, &[&chains, &signers])
                .await?;
            let ids: Vec<Option<i64>> = rows
                .iter()
                .map(|row| column(row, "lane_id"))
                .collect::<Result<_, _>>()?;
            let ids: Option<Vec<LaneId>> = ids.into_iter().map(|id| id.map(LaneId)).collect();
            if let Some(ids) = ids {
                return Ok(ids);
            }
        }
        Err(corrupt("lane_id"))
    }

    pub(crate) async fn renew_many(
        &self,
        holder: &Holder,
        held: &[Held],
    ) -> Result<Vec<Renewed>, StoreError> {
        if held.is_empty() {
            return Ok(vec![]);
        }
        let (lanes, tokens) = columns(held);
        let me = holder.node.as_str();
        let incarnation = holder.incarnation.column();
        let lease = self.lease_micros();
        let rows = self
            .connections
            .write_plain(RENEW, &[&lanes, &tokens, &me, &incarnation, &lease])
            .await?;
        let mut answers = HashMap::new();
        for row in &rows {
            let lane: i64 = column(row, "lane_id")?;
            let answer = match (column(row, "kept")?, column(row, "ours")?) {
                (true, _) => Renewed::Kept,
                (false, true) => Renewed::Busy,
                (false, false) => Renewed::Fenced,
            };
            answers.insert(lane, answer);
        }
        let answer = |lane: &i64| answers.get(lane).copied().ok_or_else(|| corrupt("lane_id"));
        lanes.iter().map(answer).collect()
    }

    pub(crate) async fn release_many(
        &self,
        holder: &Holder,
        held: &[Held],
    ) -> Result<Vec<LaneId>, StoreError> {
        if held.is_empty() {
            return Ok(vec![]);
        }
        let (lanes, tokens) = columns(held);
        // Before it is sent: from then on others may take them.
        self.connections.memory.gives_up(&lanes);
        let me = holder.node.as_str();
        let incarnation = holder.incarnation.column();
        let rows = self
            .connections
            .write_plain(RELEASE, &[&lanes, &tokens, &me, &incarnation])
            .await?;
        rows.iter()
            .map(|row| Ok(LaneId(column(row, "lane_id")?)))
            .collect()
    }

    pub(crate) async fn orphans_after(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<Orphan>, StoreError> {
        let after = after.map_or(0, |lane| lane.0);
        let (skew, absurd) = (micros(self.terms().skew), micros(self.terms().absurd()));
        let found = self
            .connections
            .read(ORPHANS, &[&after, &skew, &absurd, &rows(limit)])
            .await?;
        found.iter().map(orphan).collect()
    }

    pub(crate) async fn unwatched_after(
        &self,
        within: Duration,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<Orphan>, StoreError> {
        let after = after.map_or(0, |lane| lane.0);
        let (skew, absurd) = (micros(self.terms().skew), micros(self.terms().absurd()));
        let found = self
            .connections
            .read(
                UNWATCHED,
                &[&after, &skew, &absurd, &rows(limit), &micros(within)],
            )
            .await?;
        found.iter().map(orphan).collect()
    }
}

fn orphan(row: &Row) -> Result<Orphan, StoreError> {
    Ok(Orphan {
        id: LaneId(column(row, "lane_id")?),
        lane: lane(row)?,
    })
}

/// Lanes and tokens as two arrays.
pub(crate) fn columns(held: &[Held]) -> (Vec<i64>, Vec<i64>) {
    held.iter()
        .map(|held| (held.lane.0, held.token.column()))
        .unzip()
}

/// Who a lane's row names as its owner, living or not.
pub(crate) fn leader(row: &Row) -> Result<Option<Leader>, StoreError> {
    let node: Option<String> = column(row, "owner_node")?;
    let Some(node) = node else {
        return Ok(None);
    };
    Ok(Some(Leader {
        node: NodeId::new(node).map_err(|_| corrupt("owner_node"))?,
        incarnation: Incarnation::from_column(column(row, "owner_incarnation")?)?,
        url: column(row, "owner_url")?,
        token: Token::from_column(column(row, "fencing_token")?)?,
        expires_at: column(row, "expires_at")?,
    }))
}
