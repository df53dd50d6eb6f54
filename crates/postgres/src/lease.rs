//! Leases: who leads a lane. Only the database's clock decides, and one row is the judge.

use std::collections::HashMap;

use fencepost_app::ports::{
    Acquired, Bid, Held, Holder, Lead, Leader, Orphan, Renewed, StoreError,
};
use fencepost_domain::ids::{Incarnation, Lane, LaneId, NodeId, Nonce, Token};
use tokio_postgres::{NoTls, Row};

use crate::fault::{Fault, fault, refused};
use crate::operate::pause_reason;
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

/// `/*skip*/` becomes SKIP LOCKED where many lanes are bid for: a lane whose row is held goes
/// alone next time, so that it delays no other.
const ACQUIRE: &str = "
WITH bid AS (
    SELECT * FROM unnest($1::bigint[], $2::boolean[]) AS b(lane_id, fresh)
), later AS (
    SELECT incarnation FROM node WHERE node_id = $3 AND incarnation > $4
), free AS MATERIALIZED (
    SELECT l.lane_id, l.fencing_token,
           l.owner_node = $3 AND l.owner_incarnation = $4 AND l.expires_at > clock_timestamp()
           AND NOT b.fresh AS kept
      FROM signer_lease l JOIN bid b ON b.lane_id = l.lane_id
     WHERE (l.owner_node IS NULL
            OR (l.owner_node = $3 AND l.owner_incarnation <= $4)
            OR (l.owner_node <> $3
                AND (l.expires_at <= clock_timestamp() - $7::bigint * interval '1 microsecond'
                     OR l.expires_at > clock_timestamp() + $8::bigint * interval '1 microsecond')))
       AND NOT EXISTS (SELECT FROM later)
     ORDER BY l.lane_id
       FOR NO KEY UPDATE OF l /*skip*/
), mine AS (
    UPDATE signer_lease l
       SET owner_node = $3, owner_incarnation = $4, owner_url = $5,
           fencing_token = free.fencing_token + CASE WHEN free.kept THEN 0 ELSE 1 END,
           expires_at = clock_timestamp() + $6::bigint * interval '1 microsecond',
           updated_at = clock_timestamp()
      FROM free
     WHERE l.lane_id = free.lane_id
    RETURNING l.lane_id, l.fencing_token, free.kept, l.next_nonce, l.paused, l.held
)
SELECT b.lane_id, mine.fencing_token AS token, mine.kept, mine.next_nonce, mine.paused, mine.held,
       l.owner_node, l.owner_incarnation, l.owner_url, l.fencing_token, l.expires_at,
       l.lane_id IS NOT NULL AS known, (SELECT incarnation FROM later) AS later,
       l.owner_node <> $3
       AND l.expires_at > clock_timestamp() - $7::bigint * interval '1 microsecond'
       AND l.expires_at <= clock_timestamp() + $8::bigint * interval '1 microsecond' AS led
  FROM bid b
  LEFT JOIN mine ON mine.lane_id = b.lane_id
  LEFT JOIN signer_lease l ON l.lane_id = b.lane_id";

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

    pub(crate) async fn bid(
        &self,
        holder: &Holder,
        url: &str,
        bids: &[Bid],
    ) -> Result<Vec<Acquired>, StoreError> {
        let rows = match bids {
            [] => return Ok(vec![]),
            [_] => self.bid_alone(holder, url, bids).await?,
            _ => {
                let sql = ACQUIRE.replace("/*skip*/", "SKIP LOCKED");
                let params = BidParams::new(self, holder, url, bids);
                self.connections.write_plain(&sql, &params.list()).await?
            }
        };
        let mut answers = HashMap::new();
        for row in &rows {
            let id: i64 = column(row, "lane_id")?;
            answers.insert(LaneId(id), acquired(row, holder)?);
        }
        bids.iter()
            .map(|bid| {
                answers
                    .get(&bid.lane)
                    .cloned()
                    .ok_or_else(|| corrupt("lane_id"))
            })
            .collect()
    }

    /// One lane, whose row is waited for. A half-sent statement can hold it without end, and no
    /// timeout of the server reaches that: whoever blocks a takeover for longer than a statement
    /// may take is terminated.
    async fn bid_alone(
        &self,
        holder: &Holder,
        url: &str,
        bids: &[Bid],
    ) -> Result<Vec<Row>, StoreError> {
        let unavailable = |error: tokio_postgres::Error| StoreError::Unavailable(error.into());
        let params = BidParams::new(self, holder, url, bids);
        let sql = ACQUIRE.replace("/*skip*/", "SKIP LOCKED");
        let rows = self.connections.write_plain(&sql, &params.list()).await?;
        let skipped = match rows.first() {
            Some(row) => acquired(row, holder)? == Acquired::Busy,
            None => false,
        };
        if !skipped {
            return Ok(rows);
        }
        let patience = self.settings.statement_timeout;
        let mut config = self.settings.config("")?;
        let ms = (patience * 3).as_millis();
        config.options(format!(
            "-c statement_timeout={ms} -c lock_timeout={ms} -c TimeZone=UTC"
        ));
        let (client, connection) = config.connect(NoTls).await.map_err(unavailable)?;
        let wire = tokio::spawn(connection);
        let pid: i32 = client
            .query_one("SELECT pg_backend_pid()", &[])
            .await
            .map_err(unavailable)?
            .get(0);
        let sql = ACQUIRE.replace("/*skip*/", "");
        let list = params.list();
        let waiting = client.query(&sql, &list);
        tokio::pin!(waiting);
        let answer = tokio::select! {
            answer = &mut waiting => answer,
            () = tokio::time::sleep(patience) => {
                self.terminate_blockers(pid, bids).await?;
                waiting.await
            }
        };
        wire.abort();
        match answer {
            Ok(rows) => Ok(rows),
            // Bidding again renews what the lost try took.
            Err(error) if fault(&error) == Fault::Lost => {
                Err(StoreError::OutcomeUnknown(error.into()))
            }
            Err(error) => Err(refused(error)),
        }
    }

    async fn terminate_blockers(&self, pid: i32, bids: &[Bid]) -> Result<(), StoreError> {
        let sql = "SELECT pid, pg_terminate_backend(pid) AS done FROM unnest(pg_blocking_pids($1)) AS pid";
        for row in self.connections.read(sql, &[&pid]).await? {
            let blocker: i32 = column(&row, "pid")?;
            let done: bool = column(&row, "done")?;
            let lane = bids.first().map(|bid| bid.lane.0);
            tracing::error!(
                lane,
                blocker,
                done,
                "terminated a backend that blocked a takeover"
            );
        }
        Ok(())
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
        found
            .iter()
            .map(|row| {
                Ok(Orphan {
                    id: LaneId(column(row, "lane_id")?),
                    lane: lane(row)?,
                })
            })
            .collect()
    }
}

/// Lanes and tokens as two arrays.
pub(crate) fn columns(held: &[Held]) -> (Vec<i64>, Vec<i64>) {
    held.iter()
        .map(|held| (held.lane.0, held.token.column()))
        .unzip()
}

struct BidParams<'a> {
    lanes: Vec<i64>,
    fresh: Vec<bool>,
    node: &'a str,
    incarnation: i64,
    url: &'a str,
    lease: i64,
    skew: i64,
    absurd: i64,
}

impl<'a> BidParams<'a> {
    fn new(store: &PostgresStore, holder: &'a Holder, url: &'a str, bids: &[Bid]) -> Self {
        Self {
            lanes: bids.iter().map(|bid| bid.lane.0).collect(),
            fresh: bids.iter().map(|bid| bid.fresh).collect(),
            node: holder.node.as_str(),
            incarnation: holder.incarnation.column(),
            url,
            lease: store.lease_micros(),
            skew: micros(store.terms().skew),
            absurd: micros(store.terms().absurd()),
        }
    }

    fn list(&self) -> [&(dyn tokio_postgres::types::ToSql + Sync); 8] {
        [
            &self.lanes,
            &self.fresh,
            &self.node,
            &self.incarnation,
            &self.url,
            &self.lease,
            &self.skew,
            &self.absurd,
        ]
    }
}

fn acquired(row: &Row, holder: &Holder) -> Result<Acquired, StoreError> {
    let token: Option<i64> = column(row, "token")?;
    if let Some(token) = token {
        let kept: bool = column(row, "kept")?;
        return Ok(Acquired::Leading(Lead {
            token: Token::from_column(token)?,
            changed: !kept,
            next_nonce: Nonce::from_column(column(row, "next_nonce")?)?,
            paused: pause_reason(column(row, "paused")?, column(row, "held")?)?,
        }));
    }
    let later: Option<i64> = column(row, "later")?;
    if let Some(later) = later {
        return Ok(Acquired::Ghost(Incarnation::from_column(later)?));
    }
    if !column::<bool>(row, "known")? {
        return Ok(Acquired::UnknownLane);
    }
    let Some(leader) = leader(row)? else {
        return Ok(Acquired::Busy);
    };
    if leader.node == holder.node && leader.incarnation > holder.incarnation {
        return Ok(Acquired::Ghost(leader.incarnation));
    }
    let led: Option<bool> = column(row, "led")?;
    Ok(if led == Some(true) {
        Acquired::Led(leader)
    } else {
        Acquired::Busy
    })
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
