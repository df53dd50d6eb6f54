//! What operators do to a lane: pause, resume, reconcile, move its cursor, look for gaps.
//! Each takes the lane's row, so that it waits for what is in flight and nothing slips past it.

use std::cmp::Ordering;

use deadpool_postgres::Transaction;
use fencepost_app::ports::{
    Audit, CursorMoved, Held, Holder, PauseChange, PauseReason, Paused, StoreError,
};
use fencepost_domain::ids::{LaneId, NodeId, Nonce};
use tokio::time::error::Elapsed;
use tokio::time::timeout_at;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::fault::{Fault, Unique, after_write, refused};
use crate::row::{column, corrupt};
use crate::statement::{Params, Written};
use crate::witness::{Generation, Said};
use crate::{PostgresStore, rows};

/// Waits for every statement that holds the lane; whoever comes after sees the pause. It happens
/// once: a lost try that arrives late must not undo what an operator said after it.
const PAUSE: &str = "
WITH old AS MATERIALIZED (
    SELECT lane_id, paused, held, next_nonce, fencing_token FROM signer_lease WHERE lane_id = $1 FOR NO KEY UPDATE
), new AS (
    UPDATE signer_lease l
       SET paused = CASE $2 WHEN 'PAUSE' THEN $3 WHEN 'RESUME' THEN NULL ELSE l.paused END,
           held = l.held AND $2 <> 'RECONCILE',
           next_nonce = greatest(l.next_nonce, $4),
           updated_at = clock_timestamp()
      FROM old WHERE l.lane_id = old.lane_id
    RETURNING l.lane_id, l.paused, l.held, l.next_nonce, l.updated_at AS at
), dropped AS (
    DELETE FROM free_nonce f USING new WHERE f.lane_id = new.lane_id AND f.nonce < $4
    RETURNING f.nonce
), /*told*/, audited AS (
    INSERT INTO remedy (lane_id, action, asked_by, reason, details, before_after, state, asked_at, closed_at, act, node, token)
    SELECT new.lane_id, $2, $5, $6, $7,
           format('paused=%s next_nonce=%s -> paused=%s next_nonce=%s%s',
                  CASE WHEN old.held THEN 'FAILOVER' ELSE coalesce(old.paused, 'none') END, old.next_nonce,
                  CASE WHEN new.held THEN 'FAILOVER' ELSE coalesce(new.paused, 'none') END, new.next_nonce,
                  told.words),
           'DONE', new.at, new.at, $8, $9, old.fencing_token
      FROM new, old, told
)
SELECT paused, held, lane_id AS ack_lane, $8 AS ack_act FROM new";

/// What the audit tells of nonces that are free no longer: how many, and the lowest hundred. A list
/// of all could be longer than any row should be.
const TOLD: &str = "told AS (
    SELECT count(*) AS n,
           CASE WHEN count(*) > 0 THEN
               format(' dropped=%s (%s%s)', count(*),
                      array_to_string((array_agg(nonce ORDER BY nonce))[1:100], ' '),
                      CASE WHEN count(*) > 100 THEN ' ...' END)
           END AS words
      FROM dropped
)";

const PAUSED: &str = "SELECT paused, held FROM signer_lease WHERE lane_id = $1";

/// Raises the cursor to `$5`, where it is below; or drops what is free below `$10`.
const RAISE: &str = "
WITH old AS MATERIALIZED (
    SELECT lane_id, next_nonce FROM signer_lease
     WHERE lane_id = $1 AND owner_node = $2 AND owner_incarnation = $3 AND fencing_token = $4
       AND expires_at > clock_timestamp()
       FOR NO KEY UPDATE
), new AS (
    UPDATE signer_lease l
       SET next_nonce = greatest(l.next_nonce, $5),
           expires_at = clock_timestamp() + $6::bigint * interval '1 microsecond',
           updated_at = clock_timestamp()
      FROM old WHERE l.lane_id = old.lane_id
    RETURNING l.lane_id, l.next_nonce, l.updated_at AS at
), dropped AS (
    DELETE FROM free_nonce f USING new WHERE f.lane_id = new.lane_id AND f.nonce < $10
    RETURNING f.nonce
), /*told*/, audited AS (
    INSERT INTO remedy (lane_id, action, asked_by, reason, details, before_after, state, asked_at, closed_at, node, token)
    SELECT new.lane_id, 'RAISE_CURSOR', $7, $8, $9,
           format('next_nonce=%s -> next_nonce=%s%s', old.next_nonce, new.next_nonce, told.words),
           'DONE', new.at, new.at, $11, $4
      FROM new, old, told WHERE new.next_nonce > old.next_nonce OR told.n > 0
)
SELECT old.next_nonce AS before, new.next_nonce AS after, (SELECT true) AS found,
       new.lane_id AS ack_lane, $4 AS ack_token, new.next_nonce AS ack_nonce
  FROM new, old";

/// The lane's row is locked first; that nobody holds a nonce above is then read by a second
/// statement's snapshot, which is why this one runs as a transaction of two.
pub(crate) const LANE_LOCK: &str =
    "SELECT next_nonce, paused FROM signer_lease WHERE lane_id = $1 FOR NO KEY UPDATE";
pub(crate) const HELD_FROM: &str = "
SELECT nonce FROM managed_tx WHERE lane_id = $1 AND nonce >= $2
 UNION ALL SELECT nonce - 1 FROM lane_floor WHERE lane_id = $1 AND nonce > $2
 ORDER BY nonce LIMIT 1";
/// The leader loses the lane: what it remembers was read before. The new token tells a later failover that the lane has
/// moved on since the leader's last acknowledgement: a lowered cursor is no loss.
const SET: &str = "
WITH new AS (
    UPDATE signer_lease
       SET next_nonce = $2, fencing_token = fencing_token + 1, owner_node = NULL, owner_incarnation = NULL, owner_url = NULL,
           expires_at = clock_timestamp(), updated_at = clock_timestamp()
     WHERE lane_id = $1
    RETURNING lane_id, updated_at AS at, fencing_token
), dropped AS (
    DELETE FROM free_nonce f USING new WHERE f.lane_id = new.lane_id AND f.nonce >= $2
)
INSERT INTO remedy (lane_id, action, asked_by, reason, details, before_after, state, asked_at, closed_at, act, node, token)
SELECT lane_id, $3, $4, $5, $6, $7, 'DONE', at, at, $8, $9, fencing_token FROM new";

const GAPS: &str = "
SELECT n.nonce
  FROM signer_lease l,
       LATERAL (SELECT greatest($2, (SELECT f.nonce FROM lane_floor f WHERE f.lane_id = $1))::bigint AS lowest) o,
       generate_series(o.lowest, least(l.next_nonce, o.lowest + 100000) - 1) AS n(nonce)
 WHERE l.lane_id = $1
   AND NOT EXISTS (SELECT FROM managed_tx m WHERE m.lane_id = $1 AND m.nonce = n.nonce)
 ORDER BY n.nonce
 LIMIT $3";

impl PostgresStore {
    pub(crate) async fn change_pause(
        &self,
        lane: LaneId,
        change: PauseChange,
        audit: &Audit,
    ) -> Result<Paused, StoreError> {
        let (act, reason, at_least) = match change {
            PauseChange::Pause(reason) => ("PAUSE", Some(reason.word()), Nonce::ZERO),
            PauseChange::Resume => ("RESUME", None, Nonce::ZERO),
            PauseChange::Reconcile { at_least } => ("RECONCILE", None, at_least),
        };
        let (by, why, details) = (&audit.by, &audit.reason, &audit.details);
        let at_least = at_least.column();
        let once = Uuid::now_v7();
        let node = audit.node.as_ref().map(NodeId::as_str);
        let params: Params<'_> = &[
            &lane.0, &act, &reason, &at_least, by, why, details, &once, &node,
        ];
        let sql = PAUSE.replace("/*told*/", TOLD);
        let written = self.connections.write(&sql, params).await?;
        let rows = match written {
            Written::Rows { rows, .. } => rows,
            // The lost try has done it.
            Written::Refused {
                fault: Fault::Taken(Unique::Act),
                ..
            } => {
                let now = self.connections.read_from(PAUSED, &[&lane.0]).await;
                let (now, server) = now.map_err(after_write)?;
                let said = self
                    .connections
                    .memory
                    .says(server, lane.0, Said::Act(once));
                said.map_err(after_write)?;
                now
            }
            Written::Refused {
                error, again: true, ..
            } => return Err(StoreError::OutcomeUnknown(error.into())),
            Written::Refused { error, .. } => return Err(refused(error)),
        };
        match rows.first() {
            None => Ok(Paused::UnknownLane),
            Some(row) => Ok(Paused::Now(pause_reason(
                column(row, "paused")?,
                column(row, "held")?,
            )?)),
        }
    }

    pub(crate) async fn raise_cursor(
        &self,
        holder: &Holder,
        held: Held,
        (to, used_below): (Nonce, Nonce),
        audit: &Audit,
    ) -> Result<CursorMoved, StoreError> {
        let (node, incarnation) = (holder.node.as_str(), holder.incarnation.column());
        let (token, to) = (held.token.column(), to.column());
        let used_below = used_below.column();
        let lease = self.lease_micros();
        let (by, why, details) = (&audit.by, &audit.reason, &audit.details);
        let rows = self
            .connections
            .write_plain(
                &RAISE.replace("/*told*/", TOLD),
                &[
                    &held.lane.0,
                    &node,
                    &incarnation,
                    &token,
                    &to,
                    &lease,
                    by,
                    why,
                    details,
                    &used_below,
                    &audit.node.as_ref().map(NodeId::as_str),
                ],
            )
            .await?;
        if let Some(row) = rows.first() {
            return Ok(CursorMoved::Now {
                from: Nonce::from_column(column(row, "before")?)?,
                to: Nonce::from_column(column(row, "after")?)?,
            });
        }
        let known = "SELECT FROM signer_lease WHERE lane_id = $1";
        let known = self.connections.read(known, &[&held.lane.0]).await?;
        Ok(if known.is_empty() {
            CursorMoved::UnknownLane
        } else {
            CursorMoved::Fenced
        })
    }

    /// Rare, on a paused lane, by a person: a write that is a transaction of several statements.
    /// Before its commit nothing has happened; if the reply to that is lost, the answer is
    /// `outcome_unknown`, and the cursor can be read.
    pub(crate) async fn set_cursor(
        &self,
        lane: LaneId,
        to: Nonce,
        audit: &Audit,
    ) -> Result<CursorMoved, StoreError> {
        let deadline = self.connections.call_deadline();
        let silent = |silence: Elapsed| StoreError::Unavailable(silence.into());
        let mut client = self.connections.writer().await?;
        let server = client.server;
        // The act frees the lane for others.
        self.connections.memory.gives_up(&[lane.0]);
        let begun = timeout_at(deadline, client.transaction()).await;
        let transaction = begun.map_err(silent)?.map_err(refused)?;
        let act = Uuid::now_v7();
        let setting = set(&transaction, lane, to, (audit, act));
        let set = timeout_at(deadline, setting).await.map_err(silent)??;
        let is_written = matches!(set, CursorMoved::Now { from, to } if from != to);
        if !is_written {
            return Ok(set);
        }
        let committed = timeout_at(deadline, transaction.commit()).await;
        self.operated(committed, server, lane, act)?;
        Ok(set)
    }

    /// What the commit of an operator's act came to. Where it is done, it is remembered as acknowledged; where another
    /// server has taken this one's place meanwhile, it may be lost.
    pub(crate) fn operated(
        &self,
        committed: Result<Result<(), Error>, Elapsed>,
        server: Generation,
        lane: LaneId,
        act: Uuid,
    ) -> Result<(), StoreError> {
        match committed {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(StoreError::OutcomeUnknown(error.into())),
            Err(silence) => return Err(StoreError::OutcomeUnknown(silence.into())),
        }
        let said = self.connections.memory.says(server, lane.0, Said::Act(act));
        said.map_err(after_write)
    }

    pub(crate) async fn gaps_from(
        &self,
        lane: LaneId,
        from: Nonce,
        limit: usize,
    ) -> Result<Vec<Nonce>, StoreError> {
        let found = self
            .connections
            .read(GAPS, &[&lane.0, &from.column(), &rows(limit)])
            .await?;
        found
            .iter()
            .map(|row| Ok(Nonce::from_column(column(row, "nonce")?)?))
            .collect()
    }
}

/// Sets the cursor in an open transaction, or says why not.
async fn set(
    transaction: &Transaction<'_>,
    lane: LaneId,
    to: Nonce,
    (audit, act): (&Audit, Uuid),
) -> Result<CursorMoved, StoreError> {
    let row = transaction
        .query_opt(LANE_LOCK, &[&lane.0])
        .await
        .map_err(refused)?;
    let Some(row) = row else {
        return Ok(CursorMoved::UnknownLane);
    };
    if !is_paused(&row)? {
        return Ok(CursorMoved::NotPaused);
    }
    let from = Nonce::from_column(column(&row, "next_nonce")?)?;
    let above = transaction
        .query_opt(HELD_FROM, &[&lane.0, &to.column()])
        .await
        .map_err(refused)?;
    if let Some(above) = above {
        let nonce = Nonce::from_column(column(&above, "nonce")?)?;
        return Ok(CursorMoved::Holds(nonce));
    }
    let action = match to.cmp(&from) {
        Ordering::Less => "LOWER_CURSOR",
        Ordering::Equal => return Ok(CursorMoved::Now { from, to }),
        Ordering::Greater => "RAISE_CURSOR",
    };
    let change = format!("next_nonce={from} -> next_nonce={to}");
    let (by, why, details) = (&audit.by, &audit.reason, &audit.details);
    let (to_column, node) = (to.column(), audit.node.as_ref().map(NodeId::as_str));
    transaction
        .execute(
            SET,
            &[
                &lane.0, &to_column, &action, by, why, details, &change, &act, &node,
            ],
        )
        .await
        .map_err(refused)?;
    Ok(CursorMoved::Now { from, to })
}

/// Whether an operator may move a lane's cursor. A failover's hold is not enough: the lane may be about to go on.
pub(crate) fn is_paused(row: &Row) -> Result<bool, StoreError> {
    Ok(column::<Option<&str>>(row, "paused")?.is_some())
}

/// What holds a lane: a hold after a failover outranks every other reason.
pub(crate) fn pause_reason(
    paused: Option<&str>,
    held: bool,
) -> Result<Option<PauseReason>, StoreError> {
    if held {
        return Ok(Some(PauseReason::Failover));
    }
    paused
        .map(|word| PauseReason::from_word(word).ok_or_else(|| corrupt("paused")))
        .transpose()
}
