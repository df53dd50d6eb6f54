//! Lanes: who leads, until when, under which token; and what an operator sees and does.

use std::time::Duration;

use fencepost_domain::ids::{
    ChainId, Corrupt, Incarnation, Lane, LaneId, LaneSeq, NodeId, Nonce, Token, TxId,
};
use fencepost_domain::state::Why;
use jiff::Timestamp;

use super::Record;

/// How long a lease lasts, by the store's clock. All nodes of a cluster should use the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Too short: a pause of the node loses its lanes. Too long: failover waits that long.
    pub duration: Duration,
    /// How long after expiry another node waits before it takes over.
    pub skew: Duration,
}

impl Terms {
    /// A lease that claims to last longer than this was written before the clock went back.
    #[must_use]
    pub fn absurd(self) -> Duration {
        self.duration * 10
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(10),
            skew: Duration::from_secs(1),
        }
    }
}

/// A running node: its id and which start of it this is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The configured name.
    pub node: NodeId,
    /// From [`super::Store::join`].
    pub incarnation: Incarnation,
}

/// A lane and the token under which the caller believes to lead it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Held {
    /// The lane.
    pub lane: LaneId,
    /// The token.
    pub token: Token,
}

/// One bid for a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bid {
    /// The lane.
    pub lane: LaneId,
    /// Take a new token even if we lead already: behind it no older statement of ours can apply.
    pub fresh: bool,
}

/// The answer to a bid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// We lead.
    Leading(Lead),
    /// Someone else does.
    Led(Leader),
    /// A later start of our own node id leads or has joined: exit.
    Ghost(Incarnation),
    /// Another statement holds the lane's row, and its lease is alive.
    Busy,
    /// There is no such lane.
    UnknownLane,
}

/// What a leader learns when it begins or goes on to lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lead {
    /// The token to show with every write.
    pub token: Token,
    /// How the bidder came to lead.
    pub taken: Taken,
    /// The cursor.
    pub next_nonce: Nonce,
    /// Why no nonces are given, if so.
    pub paused: Option<PauseReason>,
}

impl Lead {
    /// The token is new: whatever the node remembered of the lane is void.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.taken != Taken::Kept
    }
}

/// How a bidder came to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Taken {
    /// It leads already, under the same token.
    Kept,
    /// Nobody led: the lane is new, or its last leader gave it up.
    Inserted,
    /// Another node's lease ran out.
    Stolen,
    /// It was this node's own: of an earlier start, run out, or taken again under a new token.
    Retaken,
}

impl Taken {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Kept, Self::Inserted, Self::Stolen, Self::Retaken];

    /// The word that metrics and logs show.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Inserted => "inserted",
            Self::Stolen => "stolen",
            Self::Retaken => "retaken",
        }
    }

    /// Reads the word back.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|taken| taken.word() == word)
    }
}

/// Who leads a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// Its node id.
    pub node: NodeId,
    /// Which start of it.
    pub incarnation: Incarnation,
    /// Where other nodes reach it.
    pub url: String,
    /// Its token.
    pub token: Token,
    /// Until when, by the store's clock.
    pub expires_at: Timestamp,
}

/// The answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// Renewed.
    Kept,
    /// Another statement holds the row; ask again.
    Busy,
    /// No longer ours.
    Fenced,
}

/// A lane with work and without a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orphan {
    /// Its id.
    pub id: LaneId,
    /// What it is.
    pub lane: Lane,
}

/// What has not ended on a chain, of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Which chain.
    pub chain: ChainId,
    /// Why these are STUCK; none of those that are not.
    pub stuck: Option<Why>,
    /// Transactions that hold a nonce or wait for one.
    pub count: u64,
    /// When the one with the lowest id was created: ids grow with time.
    pub oldest_at: Timestamp,
    /// The one with the highest id.
    pub last: TxId,
}

/// A chain that a node is configured with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// The chain.
    pub chain: ChainId,
    /// An endpoint of it answers that node now.
    pub usable: bool,
}

impl Reach {
    /// As a store's list of numbers holds it: the chain's id, and its complement (below zero) while no endpoint answers.
    #[must_use]
    pub fn column(self) -> i64 {
        let id = self.chain.column();
        if self.usable { id } else { !id }
    }

    /// Reads it back.
    pub fn from_column(value: i64) -> Result<Self, Corrupt> {
        let usable = value >= 0;
        let id = if usable { value } else { !value };
        let chain = ChainId::from_column(id)?;
        Ok(Self { chain, usable })
    }
}

/// A node that beat lately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its node id.
    pub node: NodeId,
    /// Which start of it.
    pub incarnation: Incarnation,
    /// Where it is reached.
    pub url: String,
    /// Chains it is configured with.
    pub chains: Vec<Reach>,
}

impl Peer {
    /// Whether it is configured with endpoints of this chain, however they are.
    #[must_use]
    pub fn has(&self, chain: ChainId) -> bool {
        self.chains.iter().any(|reach| reach.chain == chain)
    }

    /// Whether an endpoint of this chain answers it.
    #[must_use]
    pub fn reaches(&self, chain: ChainId) -> bool {
        let mut known = self.chains.iter().filter(|reach| reach.chain == chain);
        known.any(|reach| reach.usable)
    }
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beat {
    /// All nodes that beat within three leases, by id.
    Alive(Vec<Peer>),
    /// A later start of this node id has joined: exit.
    Ghost(Incarnation),
}

/// Why a lane gives no nonces. `Failover` stands apart: it is lifted only by reconciling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PauseReason {
    /// An operator said so.
    Operator,
    /// The chain's count ran away from the cursor.
    CursorJump,
    /// A nonce the cursor was about to give is held already.
    NonceClash,
    /// The database was failed over and may lack the newest writes.
    Failover,
}

impl PauseReason {
    /// Every reason.
    pub const ALL: [Self; 4] = [
        Self::Operator,
        Self::CursorJump,
        Self::NonceClash,
        Self::Failover,
    ];

    /// The word that SQL and the API show.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Operator => "OPERATOR",
            Self::CursorJump => "CURSOR_JUMP",
            Self::NonceClash => "NONCE_CLASH",
            Self::Failover => "FAILOVER",
        }
    }

    /// Reads the word back.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.word() == word)
    }
}

/// How many lanes of a chain give no nonces for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PausedLanes {
    /// Which chain.
    pub chain: ChainId,
    /// Why.
    pub reason: PauseReason,
    /// How many.
    pub count: u64,
}

/// What is to happen to a lane's pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseChange {
    /// Give no nonces and store no attempts. Never [`PauseReason::Failover`].
    Pause(PauseReason),
    /// Go on. A hold after a failover stays.
    Resume,
    /// The hold after a failover ends; the cursor is first raised to what the chain says, and given-back
    /// nonces below that are free no longer.
    Reconcile {
        /// The chain's count.
        at_least: Nonce,
    },
}

/// The answer to a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paused {
    /// Done; this is what holds the lane now.
    Now(Option<PauseReason>),
    /// There is no such lane.
    UnknownLane,
}

/// Who did something to a lane, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// The API key's name, or the node's.
    pub by: String,
    /// In a person's words.
    pub reason: String,
    /// JSON text of the caller: ticket and the like.
    pub details: Option<String>,
    /// The node that was called, or that acts by itself. A claim of a remedy does not read it back.
    pub node: Option<NodeId>,
}

/// How a cursor is moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CursorMove {
    /// Up, by the leader.
    Raise {
        /// Who.
        holder: Holder,
        /// Under which token.
        held: Held,
        /// To at least this.
        to: Nonce,
    },
    /// Nowhere, by the leader: given-back nonces that the chain has used are free no longer.
    Forget {
        /// Who.
        holder: Holder,
        /// Under which token.
        held: Held,
        /// The chain has used all below this.
        below: Nonce,
    },
    /// Up or down, by an operator, on a paused lane. Its leader loses the lease, so that whoever leads next
    /// reads the lane anew and compares it with the chain before it gives a nonce.
    Set {
        /// To this.
        to: Nonce,
    },
}

/// The answer to moving a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorMoved {
    /// It stood at `from` and stands at `to`; the same where nothing was to be done.
    Now {
        /// Before.
        from: Nonce,
        /// After.
        to: Nonce,
    },
    /// Not the leader's token.
    Fenced,
    /// An operator sets a cursor on a paused lane only.
    NotPaused,
    /// A transaction holds this nonce, at or above the new cursor.
    Holds(Nonce),
    /// There is no such lane.
    UnknownLane,
}

/// A lane as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneView {
    /// Its id.
    pub id: LaneId,
    /// What it is.
    pub lane: Lane,
    /// Who leads it, while the lease lives.
    pub leader: Option<Leader>,
    /// The newest token.
    pub token: Token,
    /// The cursor.
    pub next_nonce: Nonce,
    /// How many events the lane has told.
    pub lane_seq: LaneSeq,
    /// Why no nonces are given, if so.
    pub paused: Option<PauseReason>,
    /// Transactions that hold a nonce and are in no block, reservations among them.
    pub in_flight: u64,
    /// Transactions that wait for a nonce.
    pub queued: u64,
    /// Transactions that are STUCK.
    pub stuck: u64,
    /// When the oldest unfinished one was created.
    pub oldest_at: Option<Timestamp>,
    /// The lowest nonce that is held and not finished, and who holds it.
    pub head: Option<Box<Record>>,
    /// Nonces that were given back, lowest first, at most [`super::READ_LIMIT_MAX`].
    pub free: Vec<Nonce>,
}
