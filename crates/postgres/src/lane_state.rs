//! Why a statement left a lane out: its row, read afterwards. What is read here decides an answer,
//! never a write.

use std::collections::{HashMap, HashSet};

use fencepost_app::ports::{Holder, LaneRefusal, PauseReason, StoreError};
use fencepost_domain::ids::{LaneId, Nonce, Token};
use fencepost_domain::nonce::Plan;
use jiff::Timestamp;

use crate::operate::pause_reason;
use crate::row::column;
use crate::{PostgresStore, rows};

/// A lane's row as it is now.
pub(crate) struct LaneState {
    /// Its owner is this holder, and the lease lives.
    owned: bool,
    token: Token,
    pub(crate) paused: Option<PauseReason>,
    waiting: bool,
    /// When it was read.
    now: Timestamp,
    pub(crate) next_nonce: Nonce,
    pub(crate) more_free: bool,
}

impl LaneState {
    pub(crate) fn is_led(&self, token: Token) -> bool {
        self.owned && self.token == token
    }

    /// The lane has changed hands since: nothing sent under the older token can still apply.
    pub(crate) fn is_past(&self, token: Token) -> bool {
        self.token > token
    }

    /// Why no nonce was given under this token, for rows that were to get one until then.
    pub(crate) fn refusal(
        &self,
        token: Token,
        queue_first: bool,
        until: Option<Timestamp>,
    ) -> LaneRefusal {
        match self.paused {
            _ if !self.is_led(token) => LaneRefusal::Fenced,
            Some(reason) => LaneRefusal::Paused(reason),
            None if queue_first && self.waiting => LaneRefusal::QueueFirst,
            None if until.is_some_and(|until| until < self.now) => LaneRefusal::Late(self.now),
            None => LaneRefusal::CursorMoved(self.next_nonce),
        }
    }
}

const STATES: &str = "
SELECT l.lane_id, l.fencing_token, l.paused, l.held, l.next_nonce, clock_timestamp() AS now,
       coalesce(l.owner_node = $2 AND l.owner_incarnation = $3, false)
       AND l.expires_at > clock_timestamp() AS owned,
       EXISTS (SELECT FROM lane_queue q WHERE q.lane_id = l.lane_id) AS waiting,
       EXISTS (SELECT FROM free_nonce f WHERE f.lane_id = l.lane_id) AS more_free
  FROM signer_lease l WHERE l.lane_id = ANY($1)";

impl PostgresStore {
    /// The rows of these lanes; unknown ones are missing.
    pub(crate) async fn lane_states(
        &self,
        holder: &Holder,
        lanes: &[i64],
    ) -> Result<HashMap<i64, LaneState>, StoreError> {
        if lanes.is_empty() {
            return Ok(HashMap::new());
        }
        let (node, incarnation) = (holder.node.as_str(), holder.incarnation.column());
        let rows = self
            .connections
            .read(STATES, &[&lanes, &node, &incarnation])
            .await?;
        let mut states = HashMap::with_capacity(rows.len());
        for row in &rows {
            let state = LaneState {
                owned: column(row, "owned")?,
                token: Token::from_column(column(row, "fencing_token")?)?,
                paused: pause_reason(column(row, "paused")?, column(row, "held")?)?,
                waiting: column(row, "waiting")?,
                now: column(row, "now")?,
                next_nonce: Nonce::from_column(column(row, "next_nonce")?)?,
                more_free: column(row, "more_free")?,
            };
            states.insert(column(row, "lane_id")?, state);
        }
        Ok(states)
    }

    /// Whether a free nonce that the plan uses is free no longer.
    pub(crate) async fn free_gone(&self, lane: LaneId, plan: &Plan) -> Result<bool, StoreError> {
        let used: Vec<i64> = plan.nonces[..plan.from_free]
            .iter()
            .map(|n| n.column())
            .collect();
        let sql = "SELECT count(*) AS n FROM free_nonce WHERE lane_id = $1 AND nonce = ANY($2)";
        let found = self.connections.read(sql, &[&lane.0, &used]).await?;
        let there: i64 = found.first().map_or(Ok(0), |row| column(row, "n"))?;
        Ok(there < rows(used.len()))
    }

    /// Why the index over nonces refused: a free one was given to another, or one of these, in
    /// their order, is held already or named twice.
    pub(crate) async fn nonce_refusal(
        &self,
        lane: LaneId,
        plan: &Plan,
        nonces: &[i64],
    ) -> Result<LaneRefusal, StoreError> {
        if self.free_gone(lane, plan).await? {
            return Ok(LaneRefusal::FreeMoved);
        }
        // One that was given back while a placeholder waited for it is both free and held: the
        // holder stands, and the free row must not be offered again.
        let both = "DELETE FROM free_nonce f USING managed_tx m
                     WHERE f.lane_id = $1 AND f.nonce = ANY($2)
                       AND m.lane_id = f.lane_id AND m.nonce = f.nonce
                    RETURNING f.nonce";
        let mended = self
            .connections
            .write_plain(both, &[&lane.0, &nonces])
            .await?;
        if !mended.is_empty() {
            return Ok(LaneRefusal::FreeMoved);
        }
        let sql = "SELECT nonce FROM managed_tx WHERE lane_id = $1 AND nonce = ANY($2)";
        let rows = self.connections.read(sql, &[&lane.0, &nonces]).await?;
        let mut held: HashSet<i64> = rows
            .iter()
            .map(|row| column(row, "nonce"))
            .collect::<Result<_, _>>()?;
        match nonces.iter().find(|nonce| !held.insert(**nonce)) {
            Some(nonce) => Ok(LaneRefusal::NonceHeld(Nonce::from_column(*nonce)?)),
            // Whoever held it has let it go since.
            None => Ok(LaneRefusal::Stale),
        }
    }
}
