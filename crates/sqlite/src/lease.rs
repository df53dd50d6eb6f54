//! Leases: the lane's row, the fence that every critical write reads first, and changing hands.

use std::time::Duration;

use fencepost_app::ports::{
    Acquired, Bid, Held, Holder, Lead, Leader, Orphan, PauseReason, Renewed, Taken,
};
use fencepost_domain::ids::{Corrupt, Incarnation, Lane, LaneId, LaneSeq, NodeId, Nonce, Token};
use fencepost_domain::mutant::Mutant;
use rusqlite::{Row, params};

use crate::db::{Db, Micros, span};
use crate::error::Answer;
use crate::nodes::incarnation;
use crate::row::{Cells, node, time};

/// One row of `signer_lease`: lease, fence and cursor.
pub(crate) struct LaneRow {
    pub(crate) id: LaneId,
    pub(crate) lane: Lane,
    owner: Option<Owner>,
    pub(crate) token: Token,
    expires_at: Micros,
    pub(crate) next_nonce: Nonce,
    pub(crate) lane_seq: LaneSeq,
    paused: Option<PauseReason>,
    held: bool,
}

struct Owner {
    node: NodeId,
    incarnation: Incarnation,
    url: String,
}

/// A query for lanes, read by [`LaneRow::of`].
macro_rules! select_lane {
    ($rest:literal) => {
        concat!(
            "SELECT lane_id, chain_id, signer, owner_node, owner_incarnation, owner_url, ",
            "fencing_token, expires_at, next_nonce, lane_seq, paused, held FROM signer_lease ",
            $rest
        )
    };
}
pub(crate) use select_lane;

impl LaneRow {
    pub(crate) fn of(row: &Row<'_>) -> Answer<Self> {
        let mut cells = Cells::of(row);
        Ok(Self {
            id: LaneId(cells.next()?),
            lane: cells.lane()?,
            owner: owner(&mut cells)?,
            token: Token::from_column(cells.next()?)?,
            expires_at: cells.next()?,
            next_nonce: Nonce::from_column(cells.next()?)?,
            lane_seq: LaneSeq::from_column(cells.next()?)?,
            paused: reason(cells.next()?)?,
            held: cells.next()?,
        })
    }

    pub(crate) fn find(db: &Db<'_>, id: LaneId) -> Answer<Option<Self>> {
        db.one(select_lane!("WHERE lane_id = ?1"), [id.0], Self::of)
    }

    /// The fence: this holder leads with this token, and its lease lives. Nothing else writes
    /// between this answer and the commit, because there is one writer.
    pub(crate) fn is_led(&self, db: &Db<'_>, holder: &Holder, token: Token) -> bool {
        (self.is_owned(holder) && self.token == token && self.expires_at > db.now)
            || Mutant::NoToken.is_on()
    }

    fn is_owned(&self, holder: &Holder) -> bool {
        self.owner.as_ref().is_some_and(|owner| {
            owner.node == holder.node && owner.incarnation == holder.incarnation
        })
    }

    /// Why no nonces are given and no attempts stored, if so.
    pub(crate) fn stopped(&self) -> Option<PauseReason> {
        if self.held {
            Some(PauseReason::Failover)
        } else {
            self.paused
        }
    }

    /// Whether an operator may move its cursor. A failover's hold is not enough: the lane may be about to go on.
    pub(crate) const fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Who leads it, while the lease lives.
    pub(crate) fn leader(&self, db: &Db<'_>) -> Answer<Option<Leader>> {
        if self.expires_at > db.now {
            self.last_leader()
        } else {
            Ok(None)
        }
    }

    fn last_leader(&self) -> Answer<Option<Leader>> {
        let Some(owner) = &self.owner else {
            return Ok(None);
        };
        Ok(Some(Leader {
            node: owner.node.clone(),
            incarnation: owner.incarnation,
            url: owner.url.clone(),
            token: self.token,
            expires_at: time(self.expires_at)?,
        }))
    }

    /// Another node may take it: long enough expired, or written before the clock went back.
    fn is_abandoned(&self, db: &Db<'_>, bidder: &NodeId) -> bool {
        if Mutant::LocalClock.is_on() {
            // Each node's clock is some seconds apart.
            let apart = bidder.as_str().bytes().map(Micros::from).sum::<Micros>() % 3 - 1;
            return self.expires_at <= db.abandoned() + apart * 10_000_000;
        }
        self.expires_at <= db.abandoned() || self.expires_at > db.absurd()
    }

    /// Renews the lease, as every fenced write does, and tells how many events the lane has told.
    pub(crate) fn wrote(&self, db: &Db<'_>, lane_seq: LaneSeq) -> Answer<()> {
        db.run_one(
            "UPDATE signer_lease SET lane_seq = ?2, expires_at = ?3, updated_at = ?4
             WHERE lane_id = ?1",
            params![self.id.0, lane_seq.column(), db.lease_end(), db.now],
        )
    }

    /// The same, with the cursor moved on.
    pub(crate) fn gave(&self, db: &Db<'_>, next: Nonce, lane_seq: LaneSeq) -> Answer<()> {
        self.wrote(db, lane_seq)?;
        db.run_one(
            "UPDATE signer_lease SET next_nonce = ?2 WHERE lane_id = ?1",
            params![self.id.0, next.column()],
        )
    }
}

impl LaneRow {
    /// Sets the cursor by an operator's word. The leader loses the lane: what it remembers was read before. The token moves on
    /// with the cursor, as in the other store.
    pub(crate) fn taken(&self, db: &Db<'_>, next: Nonce, lane_seq: LaneSeq) -> Answer<()> {
        db.run_one(
            "UPDATE signer_lease SET next_nonce = ?2, lane_seq = ?3,
                fencing_token = fencing_token + 1, owner_node = NULL,
                owner_incarnation = NULL, owner_url = NULL, expires_at = ?4, updated_at = ?4
             WHERE lane_id = ?1",
            params![self.id.0, next.column(), lane_seq.column(), db.now],
        )
    }
}

fn owner(cells: &mut Cells<'_>) -> Answer<Option<Owner>> {
    let id: Option<String> = cells.next()?;
    let start: Option<i64> = cells.next()?;
    let url: Option<String> = cells.next()?;
    Ok(match (id, start, url) {
        (Some(id), Some(start), Some(url)) => Some(Owner {
            node: node(id)?,
            incarnation: Incarnation::from_column(start)?,
            url,
        }),
        (None, None, None) => None,
        _ => {
            let column = "owner_node";
            return Err(Corrupt { column }.into());
        }
    })
}

fn reason(word: Option<String>) -> Result<Option<PauseReason>, Corrupt> {
    let corrupt = Corrupt { column: "paused" };
    word.map(|word| PauseReason::from_word(&word).ok_or(corrupt))
        .transpose()
}

pub(crate) fn acquire(
    db: &Db<'_>,
    holder: &Holder,
    url: &str,
    bids: &[Bid],
) -> Answer<Vec<Acquired>> {
    match incarnation(db, &holder.node)? {
        Some(newest) if newest > holder.incarnation => {
            return Ok(vec![Acquired::Ghost(newest); bids.len()]);
        }
        Some(_) | None => {}
    }
    bids.iter()
        .map(|bid| acquire_one(db, holder, url, *bid))
        .collect()
}

fn acquire_one(db: &Db<'_>, holder: &Holder, url: &str, bid: Bid) -> Answer<Acquired> {
    let Some(row) = LaneRow::find(db, bid.lane)? else {
        return Ok(Acquired::UnknownLane);
    };
    let taken = match &row.owner {
        None => Taken::Inserted,
        Some(owner) if owner.node == holder.node => {
            if owner.incarnation > holder.incarnation {
                return Ok(Acquired::Ghost(owner.incarnation));
            }
            // An earlier start of this node is dead: its id is the same, so it need not expire.
            if owner.incarnation < holder.incarnation || bid.fresh || row.expires_at <= db.now {
                Taken::Retaken
            } else {
                Taken::Kept
            }
        }
        Some(_) if row.is_abandoned(db, &holder.node) => Taken::Stolen,
        Some(_) => {
            return Ok(match row.last_leader()? {
                Some(leader) => Acquired::Led(leader),
                None => Acquired::Busy,
            });
        }
    };
    let token = match taken {
        Taken::Kept => row.token,
        Taken::Inserted | Taken::Stolen | Taken::Retaken => row.token.plus(1)?,
    };
    db.run_one(
        "UPDATE signer_lease SET owner_node = ?2, owner_incarnation = ?3, owner_url = ?4,
            fencing_token = ?5, expires_at = ?6, updated_at = ?7
         WHERE lane_id = ?1",
        params![
            row.id.0,
            holder.node.as_str(),
            holder.incarnation.column(),
            url,
            token.column(),
            db.lease_end(),
            db.now
        ],
    )?;
    Ok(Acquired::Leading(Lead {
        token,
        taken,
        next_nonce: row.next_nonce,
        paused: row.stopped(),
    }))
}

pub(crate) fn renew(db: &Db<'_>, holder: &Holder, held: &[Held]) -> Answer<Vec<Renewed>> {
    let (led, _) = led(db, holder, held)?;
    let answer = |held: &Held| match led.iter().any(|row| row.id == held.lane) {
        true => Renewed::Kept,
        false => Renewed::Fenced,
    };
    Ok(held.iter().map(answer).collect())
}

/// The lanes that pass the fence, renewed, and those that do not.
pub(crate) fn led(
    db: &Db<'_>,
    holder: &Holder,
    held: &[Held],
) -> Answer<(Vec<LaneRow>, Vec<LaneId>)> {
    let mut led = Vec::new();
    let mut fenced = Vec::new();
    for held in held {
        match LaneRow::find(db, held.lane)? {
            Some(row) if row.is_led(db, holder, held.token) => {
                row.wrote(db, row.lane_seq)?;
                led.push(row);
            }
            Some(_) | None => fenced.push(held.lane),
        }
    }
    Ok((led, fenced))
}

pub(crate) fn release(db: &Db<'_>, holder: &Holder, held: &[Held]) -> Answer<Vec<LaneId>> {
    let mut released = Vec::new();
    for held in held {
        let Some(row) = LaneRow::find(db, held.lane)? else {
            continue;
        };
        // An expired lease that nobody took is still ours to give up.
        if !row.is_owned(holder) || row.token != held.token {
            continue;
        }
        db.run_one(
            "UPDATE signer_lease SET owner_node = NULL, owner_incarnation = NULL,
                owner_url = NULL, expires_at = ?2, updated_at = ?2
             WHERE lane_id = ?1",
            params![row.id.0, db.now],
        )?;
        released.push(row.id);
    }
    released.sort_unstable();
    Ok(released)
}

pub(crate) fn orphans(db: &Db<'_>, after: Option<LaneId>, limit: usize) -> Answer<Vec<Orphan>> {
    let after = after.map_or(i64::MIN, |lane| lane.0);
    db.all(
        "SELECT lane_id, chain_id, signer FROM signer_lease l
         WHERE lane_id > ?1
            AND (owner_node IS NULL OR expires_at <= ?2 OR expires_at > ?3)
            AND (EXISTS (SELECT 1 FROM due_work d WHERE d.lane_id = l.lane_id)
                OR EXISTS (SELECT 1 FROM lane_queue q WHERE q.lane_id = l.lane_id)
                OR EXISTS (SELECT 1 FROM remedy r
                           WHERE r.lane_id = l.lane_id AND r.closed_at IS NULL))
         ORDER BY lane_id LIMIT ?4",
        params![after, db.abandoned(), db.absurd(), limit],
        orphan,
    )
}

/// Lanes that lost their leader not longer ago than this.
pub(crate) fn unwatched(
    db: &Db<'_>,
    within: Duration,
    after: Option<LaneId>,
    limit: usize,
) -> Answer<Vec<Orphan>> {
    let after = after.map_or(i64::MIN, |lane| lane.0);
    let since = db.now.saturating_sub(span(within));
    db.all(
        "SELECT lane_id, chain_id, signer FROM signer_lease
         WHERE lane_id > ?1 AND next_nonce > 0 AND expires_at > ?5
            AND (owner_node IS NULL OR expires_at <= ?2 OR expires_at > ?3)
         ORDER BY lane_id LIMIT ?4",
        params![after, db.abandoned(), db.absurd(), limit, since],
        orphan,
    )
}

fn orphan(row: &Row<'_>) -> Answer<Orphan> {
    let mut cells = Cells::of(row);
    Ok(Orphan {
        id: LaneId(cells.next()?),
        lane: cells.lane()?,
    })
}
