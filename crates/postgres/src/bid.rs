//! Bidding for lanes. A bid that many lanes share passes over rows that are held; a bid for one lane
//! waits for its row, and ends whoever holds it for longer than any statement may take.

use std::collections::HashMap;

use fencepost_app::ports::{Acquired, Bid, Holder, Lead, Leader, StoreError};
use fencepost_domain::ids::{Incarnation, LaneId, Nonce, Token};
use tokio::time::timeout_at;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::fault::{Fault, fault, refused};
use crate::lease::leader;
use crate::operate::pause_reason;
use crate::row::{column, corrupt};
use crate::statement::Written;
use crate::{PostgresStore, micros};

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

/// Another node, whose lease lives as long as [`ACQUIRE`] takes it to.
const LED: &str = "
SELECT l.owner_node, l.owner_incarnation, l.owner_url, l.fencing_token, l.expires_at
  FROM signer_lease l
 WHERE l.lane_id = $1 AND l.owner_node <> $2
   AND l.expires_at > clock_timestamp() - $3::bigint * interval '1 microsecond'
   AND l.expires_at <= clock_timestamp() + $4::bigint * interval '1 microsecond'";

/// How the sessions of takeovers begin their names.
const TAKEOVER: &str = "takeover ";

/// Other nodes may wait for the same lane, and the first of them stands between us and whoever holds
/// it: takeovers are looked through, never ended.
const TERMINATE: &str = "
WITH RECURSIVE blocker AS (
    SELECT unnest(pg_blocking_pids($1)) AS pid
    UNION
    SELECT unnest(pg_blocking_pids(b.pid)) FROM blocker b JOIN pg_stat_activity a ON a.pid = b.pid
     WHERE starts_with(a.application_name, $2)
)
SELECT b.pid, pg_terminate_backend(b.pid) AS done
  FROM blocker b JOIN pg_stat_activity a ON a.pid = b.pid
 WHERE NOT starts_with(coalesce(a.application_name, ''), $2)";

impl PostgresStore {
    pub(crate) async fn bid(
        &self,
        holder: &Holder,
        url: &str,
        bids: &[Bid],
    ) -> Result<Vec<Acquired>, StoreError> {
        let params = BidParams::new(self, holder, url, bids);
        let (rows, again) = match bids {
            [] => return Ok(vec![]),
            [bid] => return Ok(vec![self.bid_alone(holder, &params, bid.lane).await?]),
            _ => self.bid_around(&params).await?,
        };
        let mut answers = HashMap::new();
        for row in &rows {
            let id: i64 = column(row, "lane_id")?;
            answers.insert(LaneId(id), acquired(row, holder, again)?);
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

    /// Passes over lanes whose rows are held. With the rows comes whether an earlier reply was lost.
    async fn bid_around(&self, params: &BidParams<'_>) -> Result<(Vec<Row>, bool), StoreError> {
        let sql = ACQUIRE.replace("/*skip*/", "SKIP LOCKED");
        match self.connections.write(&sql, &params.list()).await? {
            Written::Rows { rows, again } => Ok((rows, again)),
            Written::Refused {
                error, again: true, ..
            } => Err(StoreError::OutcomeUnknown(error.into())),
            Written::Refused { error, .. } => Err(refused(error)),
        }
    }

    /// One lane, whose row is waited for. A half-sent statement can hold it without end, and no
    /// timeout of the server reaches that: whoever blocks a takeover for longer than a statement
    /// may take is terminated.
    async fn bid_alone(
        &self,
        holder: &Holder,
        params: &BidParams<'_>,
        lane: LaneId,
    ) -> Result<Acquired, StoreError> {
        let (rows, again) = self.bid_around(params).await?;
        let answer = acquired(only(&rows)?, holder, again)?;
        if answer != Acquired::Busy {
            return Ok(answer);
        }
        let deadline = self.connections.call_deadline();
        let waiting = self.bid_and_wait(params, lane);
        let rows = match timeout_at(deadline, waiting).await {
            Ok(rows) => rows?,
            // Bidding again renews what the lost try took.
            Err(silence) => return Err(StoreError::OutcomeUnknown(silence.into())),
        };
        let answer = acquired(only(&rows)?, holder, again)?;
        if answer != Acquired::Busy {
            return Ok(answer);
        }
        // Whoever held the row has taken the lane or renewed its lease, and a statement that has waited still
        // sees the others' rows as they were before. That nothing was taken is certain without this look.
        match timeout_at(deadline, self.other_leader(params, lane)).await {
            Ok(Ok(Some(leader))) => Ok(Acquired::Led(leader)),
            Ok(Ok(None)) => Ok(Acquired::Busy),
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(lane = lane.0, error, "who leads a lane could not be read");
                Ok(Acquired::Busy)
            }
            Err(_) => Ok(Acquired::Busy),
        }
    }

    async fn other_leader(
        &self,
        params: &BidParams<'_>,
        lane: LaneId,
    ) -> Result<Option<Leader>, StoreError> {
        let of: [&(dyn ToSql + Sync); 4] = [&lane.0, &params.node, &params.skew, &params.absurd];
        let rows = self.connections.read(LED, &of).await?;
        rows.first().map_or(Ok(None), leader)
    }

    async fn bid_and_wait(
        &self,
        params: &BidParams<'_>,
        lane: LaneId,
    ) -> Result<Vec<Row>, StoreError> {
        let patience = self.settings.statement_timeout;
        let ms = (patience * 3).as_millis();
        let mut config = self
            .settings
            .config(&format!("-c statement_timeout={ms} -c lock_timeout={ms}"))?;
        config.application_name(format!("{TAKEOVER}{}", self.settings.application_name));
        let (client, _wire) = self.connections.session(&config).await?;
        let pid: i32 = client
            .query_one("SELECT pg_backend_pid()", &[])
            .await
            .map_err(|error| StoreError::Unavailable(error.into()))?
            .get(0);
        let sql = ACQUIRE.replace("/*skip*/", "");
        let list = params.list();
        let waiting = client.query(&sql, &list);
        tokio::pin!(waiting);
        let answer = tokio::select! {
            answer = &mut waiting => answer,
            () = tokio::time::sleep(patience) => {
                if let Err(error) = self.terminate_blockers(pid, lane).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(lane = lane.0, error, "a takeover is blocked by what cannot be ended");
                }
                waiting.await
            }
        };
        answer.map_err(|error| match fault(&error) {
            Fault::Lost => StoreError::OutcomeUnknown(error.into()),
            Fault::Contended | Fault::Held | Fault::Partial | Fault::Taken(_) | Fault::Refused => {
                refused(error)
            }
        })
    }

    async fn terminate_blockers(&self, pid: i32, lane: LaneId) -> Result<(), StoreError> {
        for row in self.connections.read(TERMINATE, &[&pid, &TAKEOVER]).await? {
            let blocker: i32 = column(&row, "pid")?;
            let done: bool = column(&row, "done")?;
            tracing::error!(
                lane = lane.0,
                blocker,
                done,
                "terminated a backend that blocked a takeover"
            );
        }
        Ok(())
    }
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

    fn list(&self) -> [&(dyn ToSql + Sync); 8] {
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

fn only(rows: &[Row]) -> Result<&Row, StoreError> {
    rows.first().ok_or_else(|| corrupt("lane_id"))
}

/// After a lost reply a lease that we find to be ours may have been taken by the lost try: the
/// caller must not go on with what it remembers.
fn acquired(row: &Row, holder: &Holder, again: bool) -> Result<Acquired, StoreError> {
    let token: Option<i64> = column(row, "token")?;
    if let Some(token) = token {
        let kept: bool = column(row, "kept")?;
        return Ok(Acquired::Leading(Lead {
            token: Token::from_column(token)?,
            changed: !kept || again,
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
