//! Bidding for lanes. A bid that many lanes share passes over rows that are held; a bid for one lane
//! waits for its row, and terminates the session that holds it for longer than any statement may take. Where that is not allowed
//! the lane is passed over for a while, so that the worker's other lanes go on.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fencepost_app::ports::{Acquired, Bid, Holder, Lead, Leader, StoreError, Taken};
use fencepost_domain::ids::{Incarnation, LaneId, Nonce, Token};
use tokio::time::timeout_at;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::blockers::{Patience, TAKEOVER};
use crate::fault::{Fault, fault, refused};
use crate::lease::leader;
use crate::operate::pause_reason;
use crate::reach::Wanted;
use crate::row::{column, corrupt};
use crate::session::Purpose;
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
           CASE WHEN l.owner_node IS NULL THEN 'inserted'
                WHEN l.owner_node <> $3 THEN 'stolen'
                WHEN l.owner_incarnation = $4 AND l.expires_at > clock_timestamp()
                     AND NOT b.fresh THEN 'kept'
                ELSE 'retaken' END AS taken
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
           fencing_token = free.fencing_token + CASE WHEN free.taken = 'kept' THEN 0 ELSE 1 END,
           expires_at = clock_timestamp() + $6::bigint * interval '1 microsecond',
           updated_at = clock_timestamp()
      FROM free
     WHERE l.lane_id = free.lane_id
    RETURNING l.lane_id, l.fencing_token, free.taken, l.next_nonce, l.lane_seq, l.paused, l.held
)
SELECT b.lane_id, mine.fencing_token AS token, mine.taken, mine.next_nonce, mine.paused, mine.held,
       mine.lane_id AS ack_lane, mine.fencing_token AS ack_token, mine.next_nonce AS ack_nonce,
       mine.lane_seq AS ack_seq,
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
    /// may take is terminated, if our role may do that.
    async fn bid_alone(
        &self,
        holder: &Holder,
        params: &BidParams<'_>,
        lane: LaneId,
    ) -> Result<Acquired, StoreError> {
        let (rows, again) = self.bid_around(params).await?;
        let answer = acquired(only(&rows)?, holder, again)?;
        if answer != Acquired::Busy {
            self.blocked.forget(lane);
            return Ok(answer);
        }
        let patience = self.settings.statement_timeout;
        let patience = match self.blocked.patience(lane, patience) {
            Patience::None => return Ok(Acquired::Busy),
            Patience::For(patience) => patience,
        };
        let deadline = self.connections.call_deadline();
        let waiting = self.bid_and_wait(params, lane, patience);
        let rows = match timeout_at(deadline, waiting).await {
            Ok(rows) => rows?,
            // Bidding again renews what the lost try took.
            Err(silence) => return Err(StoreError::OutcomeUnknown(silence.into())),
        };
        let Some(rows) = rows else {
            self.blocked.note(lane);
            return Ok(Acquired::Busy);
        };
        self.blocked.forget(lane);
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

    /// Nothing, and nothing was taken, when a session holds the row that may not be terminated.
    async fn bid_and_wait(
        &self,
        params: &BidParams<'_>,
        lane: LaneId,
        patience: Duration,
    ) -> Result<Option<Vec<Row>>, StoreError> {
        let wanted = Wanted {
            settings: &self.settings,
            purpose: Purpose::Takeover,
            prefix: TAKEOVER,
            heard: None,
        };
        let sent = Instant::now();
        let client = self.connections.session(&wanted).await?;
        let pid: i32 = client
            .query_one("SELECT pg_backend_pid()", &[])
            .await
            .map_err(|error| StoreError::Unavailable(error.into()))?
            .get(0);
        let sql = ACQUIRE.replace("/*skip*/", "");
        let list = params.list();
        let waiting = client.query(&sql, &list);
        tokio::pin!(waiting);
        let mut given_up = false;
        let answer = tokio::select! {
            answer = &mut waiting => answer,
            () = tokio::time::sleep(patience) => {
                if !self.end_blockers(pid, lane).await {
                    // Our own session: by its end it is known that the bid took nothing.
                    let cancel = "SELECT pg_cancel_backend($1)";
                    given_up = self.connections.read(cancel, &[&pid]).await.is_ok();
                }
                waiting.await
            }
        };
        if let Err(error) = &answer
            && given_up
            && error.code() == Some(&SqlState::QUERY_CANCELED)
        {
            return Ok(None);
        }
        let memory = &self.connections.memory;
        if let Ok(rows) = &answer
            && !memory.acknowledge(client.server, sent, rows)
        {
            let meanwhile = "the database was failed over meanwhile";
            return Err(StoreError::OutcomeUnknown(meanwhile.into()));
        }
        answer.map(Some).map_err(|error| match fault(&error) {
            Fault::Lost => StoreError::OutcomeUnknown(error.into()),
            Fault::Contended | Fault::Held | Fault::Partial | Fault::Taken(_) | Fault::Refused => {
                refused(error)
            }
        })
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
        let taken: &str = column(row, "taken")?;
        let taken = match Taken::from_word(taken).ok_or_else(|| corrupt("taken"))? {
            Taken::Kept if again => Taken::Retaken,
            taken @ (Taken::Kept | Taken::Inserted | Taken::Stolen | Taken::Retaken) => taken,
        };
        return Ok(Acquired::Leading(Lead {
            token: Token::from_column(token)?,
            taken,
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
